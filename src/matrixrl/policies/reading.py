"""Reading of policies that users give: tables of actions, tables of probabilities, functions, and `Policy` objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import distributions, fail, finite, function, shown
from matrixrl.policies.policy import Policy
from matrixrl.records import FloatArray, IntArray

__all__ = ["Numbering", "read_actions"]


class Numbering(NamedTuple):
    """Sizes of a problem with numbered states, and the environment's numbers.

    Attributes:
        horizon: Number of stages H.
        n_states: Number of states S, those that are never observed included; these are the last ones.
        n_observed: Number of states that can be observed.
        n_actions: Number of actions A.
        first_state: Number of the environment's first state.
        first_action: Number of the environment's first action.
    """

    horizon: int
    n_states: int
    n_observed: int
    n_actions: int
    first_state: int = 0
    first_action: int = 0

    def policy(self, table: IntArray, description: str, **proof: Any) -> Policy:
        """Return the policy of a table (H, S) of this problem, with its certificate and basis if there are any."""
        return Policy(
            table,
            n_actions=self.n_actions,
            description=description,
            first_state=self.first_state,
            first_action=self.first_action,
            n_unobserved=self.n_states - self.n_observed,
            **proof,
        )


def read_actions(name: str, given: Any, sizes: Numbering) -> IntArray | FloatArray:
    """Return a policy that a user gives as actions (H, S) or as probabilities of actions (H, A, S).

    Arrays of whole numbers hold actions, counted from 0: (S,) or (H, S). Arrays of other numbers hold probabilities:
    (S, A) or (H, S, A). States that are never observed may be left out. A function takes an observation and a stage and
    returns an action, both in the environment's numbers; it is called twice for each of them.

    Args:
        name: Name of the argument.
        given: A `Policy`, an array or a function.
        sizes: Sizes and numbers of the problem.

    Raises:
        InvalidInput: It is no policy of this problem.
    """
    if isinstance(given, Policy):
        return _of_policy(name, given, sizes)
    if callable(given):
        return _of_function(name, given, sizes)
    try:
        array: NDArray[Any] = np.asarray(given)
    except (TypeError, ValueError, OverflowError):
        _refuse(name, shown(given), sizes)
    if array.dtype.kind not in "iuf" or np.ma.is_masked(given):
        _refuse(name, f"{array.dtype} of shape {array.shape}", sizes)
    is_actions = array.dtype.kind in "iu" and array.ndim < 3
    return _of_actions(name, array, sizes) if is_actions else _of_probabilities(name, array, sizes)


def _refuse(name: str, received: str, sizes: Numbering) -> NoReturn:
    h, s, a = sizes.horizon, sizes.n_observed, sizes.n_actions
    rule = (
        f"must be a Policy, a function of observation and stage, whole numbers of shape ({s},) or ({h}, {s}), or "
        f"probabilities of shape ({s}, {a}) or ({h}, {s}, {a})"
    )
    fail(name, rule, received, "Actions in tables count from 0.")


def _of_policy(name: str, given: Policy, sizes: Numbering) -> IntArray:
    for what in sizes._fields:
        mine, theirs = getattr(sizes, what), getattr(given, what)
        if mine != theirs:
            rule = f"must be a policy of this problem, whose {what} is {mine}"
            fail(name, rule, f"a policy whose {what} is {theirs}", "Compare policies of the same problem.")
    return given.table


def _of_function(name: str, given: Callable[..., Any], sizes: Numbering) -> IntArray:
    remedy = "Give a function of observation and stage that returns an action of action_space."
    function(name, given, of=2, remedy=remedy)
    table = np.zeros((sizes.horizon, sizes.n_states), dtype=np.int64)
    for stage in range(sizes.horizon):
        for state in range(sizes.n_observed):
            obs = state + sizes.first_state
            action, again = (_action(name, given(obs, stage), sizes, (obs, stage)) for _ in range(2))
            if action != again:
                received = f"{action + sizes.first_action} and then {again + sizes.first_action} at {(obs, stage)}"
                rule = "must return the same action when it is called again"
                fail(name, rule, received, "Give a random policy as probabilities (S, A) or (H, S, A).")
            table[stage, state] = action
    return table


def _action(name: str, value: Any, sizes: Numbering, where: tuple[int, int]) -> int:
    """Return what a function returned as an action counted from 0."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not 0 <= int(value) - sizes.first_action < sizes.n_actions:
        last = sizes.first_action + sizes.n_actions - 1
        rule = f"must return actions {sizes.first_action} … {last}"
        fail(name, rule, f"{shown(value)} at observation {where[0]}, stage {where[1]}", "Choose from action_space.")
    return int(value) - sizes.first_action


def _of_actions(name: str, array: NDArray[Any], sizes: Numbering) -> IntArray:
    h, s = sizes.horizon, array.shape[-1] if array.ndim else 0
    if s not in (sizes.n_observed, sizes.n_states) or array.shape not in ((s,), (h, s)):
        _refuse(name, f"whole numbers of shape {array.shape}", sizes)
    if array.min() < 0 or array.max() >= sizes.n_actions:
        received = f"{array.min()} … {array.max()}"
        fail(name, f"must hold actions 0 … {sizes.n_actions - 1}", received, "Actions in tables count from 0.")
    table = np.zeros((h, sizes.n_states), dtype=np.int64)
    table[:, :s] = array
    return table


def _of_probabilities(name: str, array: NDArray[Any], sizes: Numbering) -> FloatArray:
    h, a, s = sizes.horizon, sizes.n_actions, array.shape[-2] if array.ndim > 1 else 0
    if s not in (sizes.n_observed, sizes.n_states) or array.shape not in ((s, a), (h, s, a)):
        _refuse(name, f"{array.dtype} of shape {array.shape}", sizes)
    given = distributions(name, finite(name, array.astype(np.float64)))
    law = np.maximum(given, 0.0)
    law /= law.sum(axis=-1, keepdims=True)
    weights = np.zeros((h, a, sizes.n_states))
    weights[:, 0, s:] = 1.0  # of states that are never observed, in which nothing depends on the action
    weights[:, :, :s] = np.swapaxes(np.broadcast_to(law, (h, s, a)), 1, 2)
    return weights
