"""Policies as users give them: tables of actions, tables of probabilities, functions, and `Policy` objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import distributions, fail, finite, function, shown
from matrixrl.errors import InvalidInput
from matrixrl.policies.policy import Policy
from matrixrl.records import FloatArray, IntArray
from matrixrl.spaces import Codec, DiscreteCodec

__all__ = ["PolicySpace", "read_actions"]


@dataclass(frozen=True)
class PolicySpace:
    """Sizes and numbers that the policies of a problem with numbered states have.

    Attributes:
        horizon: Number of stages H.
        n_states: Number of states S, those that are never observed included; these are the last ones.
        states: Numbers of the observations.
        actions: Numbers of the actions.
    """

    horizon: int
    n_states: int
    states: Codec
    actions: Codec

    def policy(self, table: IntArray, description: str, **proof: Any) -> Policy:
        """Return the policy of a table (H, S) of this problem, with its certificate and basis if there are any."""
        parts: dict[str, Any] = {}
        for part, codec in (("state", self.states), ("action", self.actions)):
            parts |= {f"first_{part}": codec.first} if isinstance(codec, DiscreteCodec) else {f"{part}s": codec}
        unobserved = self.n_states - self.states.size
        size = self.actions.size
        return Policy(table, n_actions=size, description=description, n_unobserved=unobserved, **parts, **proof)


def read_actions(name: str, given: Any, space: PolicySpace) -> IntArray | FloatArray:
    """Return a policy that a user gives as actions (H, S) or as probabilities of actions (H, A, S).

    Arrays of whole numbers hold actions, counted from 0: (S,) or (H, S). Arrays of other numbers hold probabilities:
    (S, A) or (H, S, A). States that are never observed may be left out. A function takes an observation and a stage and
    returns an action, both in the environment's numbers; it is called twice for each of them.

    Raises:
        InvalidInput: It is no policy of this problem.
    """
    if isinstance(given, Policy):
        return _of_policy(name, given, space)
    if callable(given):
        return _of_function(name, given, space)
    try:
        array: NDArray[Any] = np.asarray(given)
    except (TypeError, ValueError, OverflowError):
        _refuse(name, shown(given), space)
    if array.dtype.kind not in "iuf" or np.ma.is_masked(given):
        _refuse(name, f"{array.dtype} of shape {array.shape}", space)
    is_actions = array.dtype.kind in "iu" and array.ndim < 3
    return _of_actions(name, array, space) if is_actions else _of_probabilities(name, array, space)


def _refuse(name: str, received: str, space: PolicySpace) -> NoReturn:
    h, s, a = space.horizon, space.states.size, space.actions.size
    rule = (
        f"must be a Policy, a function of observation and stage, whole numbers of shape ({s},) or ({h}, {s}), or "
        f"probabilities of shape ({s}, {a}) or ({h}, {s}, {a})"
    )
    fail(name, rule, received, "Actions in tables count from 0.")


def _of_policy(name: str, given: Policy, space: PolicySpace) -> IntArray:
    for what, mine, theirs in (
        ("shape", (space.horizon, space.n_states), given.table.shape),
        ("observation space", space.states, given.state_codec),
        ("action space", space.actions, given.action_codec),
    ):
        if mine != theirs:
            rule = f"must be a policy of this problem, whose {what} is {mine}"
            fail(name, rule, f"a policy whose {what} is {theirs}", "Compare policies of the same problem.")
    return given.table


def _of_function(name: str, given: Callable[..., Any], space: PolicySpace) -> IntArray:
    remedy = "Give a function of observation and stage that returns an action of action_space."
    function(name, given, of=2, remedy=remedy)
    table = np.zeros((space.horizon, space.n_states), dtype=np.int64)
    for stage in range(space.horizon):
        for state in range(space.states.size):
            action, again = (_action(name, given, space, state, stage) for _ in range(2))
            if action != again:
                first, second = (space.actions.decode(number) for number in (action, again))
                received = f"{first} and then {second} at {(space.states.decode(state), stage)}"
                rule = "must return the same action when it is called again"
                fail(name, rule, received, "Give a random policy as probabilities (S, A) or (H, S, A).")
            table[stage, state] = action
    return table


def _action(name: str, given: Callable[..., Any], space: PolicySpace, state: int, stage: int) -> int:
    """Return the number of the action that a function returns at a state and a stage."""
    value = given(space.states.decode(state), stage)
    try:
        return space.actions.encode(name, value, "Choose from action_space.")
    except InvalidInput:
        where = f"observation {shown(space.states.decode(state))}, stage {stage}"
        rule = f"must return actions of {space.actions}"
        fail(name, rule, f"{shown(value)} at {where}", "Choose from action_space.")


def _of_actions(name: str, array: NDArray[Any], space: PolicySpace) -> IntArray:
    h, s = space.horizon, array.shape[-1] if array.ndim else 0
    if s not in (space.states.size, space.n_states) or array.shape not in ((s,), (h, s)):
        _refuse(name, f"whole numbers of shape {array.shape}", space)
    if array.min() < 0 or array.max() >= space.actions.size:
        received = f"{array.min()} … {array.max()}"
        fail(name, f"must hold actions 0 … {space.actions.size - 1}", received, "Actions in tables count from 0.")
    table = np.zeros((h, space.n_states), dtype=np.int64)
    table[:, :s] = array
    return table


def _of_probabilities(name: str, array: NDArray[Any], space: PolicySpace) -> FloatArray:
    h, a, s = space.horizon, space.actions.size, array.shape[-2] if array.ndim > 1 else 0
    if s not in (space.states.size, space.n_states) or array.shape not in ((s, a), (h, s, a)):
        _refuse(name, f"{array.dtype} of shape {array.shape}", space)
    given = distributions(name, finite(name, array.astype(np.float64)))
    law = np.maximum(given, 0.0)
    law /= law.sum(axis=-1, keepdims=True)
    weights = np.zeros((h, a, space.n_states))
    weights[:, 0, s:] = 1.0  # of states that are never observed, in which nothing depends on the action
    weights[:, :, :s] = np.swapaxes(np.broadcast_to(law, (h, s, a)), 1, 2)
    return weights
