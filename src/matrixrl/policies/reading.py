"""Reading of policies that users give: tables of actions, tables of probabilities, functions, and `Policy` objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import distributions, fail, finite, function, shown
from matrixrl.coding import Codec, DiscreteCodec
from matrixrl.errors import InvalidInput
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
        states: Numbers of observations with several parts; None if they are whole numbers.
        actions: Numbers of actions, likewise.
    """

    horizon: int
    n_states: int
    n_observed: int
    n_actions: int
    first_state: int = 0
    first_action: int = 0
    states: Codec | None = None
    actions: Codec | None = None

    @classmethod
    def of(cls, horizon: int, n_states: int, states: Codec, actions: Codec) -> Numbering:
        """Return the sizes of a problem whose observations and actions have these numbers."""
        (first_state, combined), (first_action, both) = (
            (codec.first, None) if isinstance(codec, DiscreteCodec) else (0, codec) for codec in (states, actions)
        )
        return cls(horizon, n_states, states.size, actions.size, first_state, first_action, combined, both)

    @property
    def state_codec(self) -> Codec:
        """Numbers of the observations."""
        return DiscreteCodec(self.n_observed, self.first_state) if self.states is None else self.states

    @property
    def action_codec(self) -> Codec:
        """Numbers of the actions."""
        return DiscreteCodec(self.n_actions, self.first_action) if self.actions is None else self.actions

    def policy(self, table: IntArray, description: str, **proof: Any) -> Policy:
        """Return the policy of a table (H, S) of this problem, with its certificate and basis if there are any."""
        return Policy(
            table,
            n_actions=self.n_actions,
            description=description,
            first_state=self.first_state,
            first_action=self.first_action,
            states=self.states,
            actions=self.actions,
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
            action, again = (_action(name, given, sizes, state, stage) for _ in range(2))
            if action != again:
                first, second = (sizes.action_codec.decode(number) for number in (action, again))
                received = f"{first} and then {second} at {(sizes.state_codec.decode(state), stage)}"
                rule = "must return the same action when it is called again"
                fail(name, rule, received, "Give a random policy as probabilities (S, A) or (H, S, A).")
            table[stage, state] = action
    return table


def _action(name: str, given: Callable[..., Any], sizes: Numbering, state: int, stage: int) -> int:
    """Return the number of the action that a function returns at a state and a stage."""
    obs, codec = sizes.state_codec.decode(state), sizes.action_codec
    value = given(obs, stage)
    try:
        return codec.encode(name, value, "Choose from action_space.")
    except InvalidInput as error:
        where = f"observation {shown(sizes.state_codec.decode(state))}, stage {stage}"
        rule = f"must return actions of {codec}" if sizes.actions is not None else f"must return actions {_span(codec)}"
        detail = f" ({error})" if sizes.actions is not None else ""
        fail(name, rule, f"{shown(value)} at {where}{detail}", "Choose from action_space.")


def _span(codec: Codec) -> str:
    return f"{codec.firsts[0]} … {codec.firsts[0] + codec.size - 1}"


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
