"""Action masks: which actions are allowed in which state, as declared, or as an environment reports them.

A mask (A,) has one boolean for each action. A table (S, A) has one mask for each state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from matrixrl.checks import fail, function, index, shaped, shown
from matrixrl.errors import InvalidInput
from matrixrl.records import BoolArray, FloatArray, IntArray
from matrixrl.spaces import Codec, DiscreteCodec

__all__ = [
    "NOT_PLAYED",
    "REPORTED_MASKS",
    "TRIED",
    "ActionMasks",
    "action_list",
    "allowed_like",
    "as_mask",
    "chosen_actions",
    "filled_rewards",
    "filled_transitions",
    "read_allowed",
    "refuse_ambiguous",
    "refuse_forbidden",
]

REPORTED_MASKS = "told_masks"
"""Name of the array of a saved algorithm."""

TRIED = "tried_pairs"
"""Name of the array of a saved algorithm with the pairs that were learned from."""

NOT_PLAYED = (
    "the environment was not played yet, and it may report that some actions are not allowed; a proof needs them "
    "declared (allowed=…, or allowed='all')"
)
"""Why nothing is proven before the first episode in an environment that may report masks, in words."""

_UNKNOWN = -1  # entry of a saved table where no mask was reported


_TABLE = "Give a table of booleans of shape (S, A), or a function of the state that returns its allowed actions."


@dataclass(frozen=True)
class ActionMasks:
    """Allowed actions that an environment reports while it is played; all actions of the states not reported yet.

    Attributes:
        known: (S,) Whether the mask of a state was reported, or is not needed because the state is the end state.
        allowed: (S, A) Allowed actions.
    """

    known: BoolArray
    allowed: BoolArray

    @classmethod
    def none(cls, n_states: int, n_actions: int, end_state: int | None) -> ActionMasks:
        """Return masks of which none was reported."""
        known = np.arange(n_states) == (-1 if end_state is None else end_state)
        return cls(known, np.ones((n_states, n_actions), dtype=np.bool_))

    def with_mask(self, state: int, mask: BoolArray) -> ActionMasks:
        """Return the masks with that of one more state."""
        known, allowed = self.known.copy(), self.allowed.copy()
        known[state], allowed[state] = True, mask
        return ActionMasks(known, allowed)

    def regret_words(self) -> str:
        """Return why no regret bound is proven."""
        return "the environment reported allowed actions while it was played; a proof needs them declared (allowed=…)"

    def certificate_words(self, tried: BoolArray | None) -> str | None:
        """Return why a certificate is not proven, or None if it is.

        Args:
            tried: (S, A) Whether a pair was learned from; None if that is not known.
        """
        forbidden = ~self.allowed if tried is None else tried & ~self.allowed
        if forbidden.any():
            count = int(np.count_nonzero(forbidden))
            return (
                f"{count} pair{'s' * (count > 1)} of a state and an action may have been learned from that the "
                "environment reported as not allowed; report the mask at every visit, or declare it (allowed=…)"
            )
        missing = int(np.count_nonzero(~self.known))
        if not missing:
            return None
        plural = "s" * (missing > 1)
        return (
            f"the allowed actions of {missing} state{plural} were not reported yet; "
            "a proof needs them declared (allowed=…)"
        )

    def array(self) -> NDArray[np.int8]:
        """Return the masks as numbers (S, A), for saving: 1 and 0, or -1 where a mask was not reported."""
        return np.where(self.known[:, None], self.allowed, _UNKNOWN).astype(np.int8)

    @classmethod
    def from_array(cls, array: NDArray[np.int8], n_states: int, n_actions: int) -> ActionMasks:
        """Return the masks that `array` returned.

        Raises:
            InvalidInput: They are not masks of so many states and actions.
        """
        if array.shape != (n_states, n_actions) or array.dtype != np.int8:
            raise InvalidInput(f"{REPORTED_MASKS} must be whole numbers of one byte, of shape {(n_states, n_actions)}")
        known = array[:, 0] != _UNKNOWN
        return cls(known, np.where(known[:, None], array == 1, True))


def read_allowed(
    allowed: Any,
    n_states: int,
    n_actions: int,
    *,
    end_state: int | None = None,
    states: Codec | None = None,
    actions: Codec | None = None,
    name: str = "allowed",
) -> BoolArray:
    """Return which actions are allowed in each state as a table (S, A).

    Args:
        allowed: Table (S, A) of booleans (or of 0 and 1), or a function of a state that returns what `chosen_actions`
            reads. The row of the end state may be missing if it is the last one.
        n_states: Number of states S.
        n_actions: Number of actions A.
        end_state: State in which nothing is chosen, so that it may allow no action; None if there is none.
        states: Numbers of the states that the function takes; 0 … S − 1 stand for themselves by default.
        actions: Numbers of the actions that the function returns, likewise.
        name: Name of the table in messages.

    Raises:
        InvalidInput: The table has another shape, or a state without any allowed action.
    """
    codec = DiscreteCodec(n_states) if states is None else states
    if callable(allowed):
        called = function("allowed", allowed, of=1, remedy=_TABLE)
        table = np.ones((n_states, n_actions), dtype=np.bool_)
        own = {s: codec.decode(s) for s in range(n_states) if s != end_state}
        answers = {s: called(state) for s, state in own.items()}
        refuse_ambiguous("what allowed returns", list(answers.values()), n_actions)
        for s, answer in answers.items():
            table[s] = chosen_actions(f"allowed({shown(own[s])})", answer, n_actions, actions=actions)
        return table
    table = _booleans(name, allowed, _TABLE)
    if end_state == n_states - 1 and table.shape == (n_states - 1, n_actions):
        table = np.vstack([table, np.ones((1, n_actions), dtype=np.bool_)])
    if table.shape != (n_states, n_actions):
        remedy = f"{_TABLE} One for each stage needs stage_dependent=True." if table.ndim == 3 else _TABLE
        fail(name, f"must have shape (S, A) = {(n_states, n_actions)}", f"shape {table.shape}", remedy)
    nothing: BoolArray = ~np.any(table, axis=1)
    if end_state is not None:
        nothing[end_state] = False
    if nothing.any():
        places = np.flatnonzero(nothing)
        others = f" and {len(places) - 1} more" if len(places) > 1 else ""
        rule = "must allow at least one action in every state"
        fail(name, rule, f"none in state {shown(codec.decode(int(places[0])))}{others}", "Allow one there.")
    return table


def allowed_like(reward: Any, allowed: Any, end_state: Any) -> BoolArray:
    """Return the table of allowed actions (S, A) of the states and actions that rewards (S, A) have."""
    try:
        shape: tuple[int, ...] = np.shape(reward)
    except ValueError:
        shape = ()
    if len(shape) != 2:
        shape = shaped("reward", reward, (None, None), remedy="Give reward[s, a], shape (S, A).").shape
    end = None if end_state is None else index("end_state", end_state, size=shape[0], remedy="Give a state.")
    return read_allowed(allowed, shape[0], shape[1], end_state=end)


def refuse_ambiguous(name: str, values: list[Any], n_actions: int) -> None:
    """Refuse ``[0, 1]`` and ``[1, 0]`` of two actions, unless another list, such as ``[0]``, cannot be a mask.

    Args:
        name: What was given, in messages.
        values: What `chosen_actions` is to read: one value, or all answers of a function of the state.
        n_actions: Number of actions A. If it is not 2, no list can be read in both ways.
    """
    doubtful = [value for value in values if _is_doubtful(value)] if n_actions == 2 else []
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    lists = [value for value in values if isinstance(value, (list, tuple))]
    if doubtful and 1 not in {*(array.size for array in arrays), *map(len, lists)}:
        rule = "must not be readable both as a mask and as the numbers of two actions"
        remedy = "For a mask give 2 booleans; to allow both actions in every state leave allowed out."
        fail(name, rule, shown(doubtful[0]), remedy)


def _is_doubtful(value: Any) -> bool:
    """Return whether a list holds the numbers 0 and 1; an array of type int8 is a mask of Gymnasium, without doubt."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iu" and value.dtype != np.int8 and value.tolist() in ([0, 1], [1, 0])
    numbers = (int, np.integer)
    is_list = isinstance(value, (list, tuple)) and all(
        isinstance(a, numbers) and not isinstance(a, bool) for a in value
    )
    return is_list and sorted(value) == [0, 1]


def chosen_actions(name: str, value: Any, n_actions: int, *, actions: Codec | None = None) -> BoolArray:
    """Return some actions of one state as a mask (A,), at least one of them.

    Args:
        name: What was given, in messages.
        value: A booleans (or an array of A numbers of type int8 that are 0 or 1, as Gymnasium writes masks), or a
            sequence of actions.
        n_actions: Number of actions A.
        actions: Numbers of the actions; 0 … A − 1 stand for themselves by default.
    """
    codec = DiscreteCodec(n_actions) if actions is None else actions
    what = "the numbers of the actions" if isinstance(codec, DiscreteCodec) else f"a list of actions of {codec}"
    remedy = f"Give {what}, or {n_actions} booleans."
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray, set, frozenset, range)):
        fail(name, "must be some actions", shown(value), remedy)
    items = sorted(value) if isinstance(value, (set, frozenset)) else value
    try:
        array = np.asarray(items)
    except ValueError:  # actions with parts of different shapes
        array = np.empty((0, 0))
    is_mask = array.dtype == np.bool_ or (isinstance(value, np.ndarray) and array.dtype == np.int8)
    if is_mask and array.ndim == 1:
        return as_mask(name, array, n_actions)
    mask = np.zeros(n_actions, dtype=np.bool_)
    for action in items:
        number = codec.encode(name, action, remedy)
        if mask[number]:  # such as [1, 0, 1], a mask that would be read as the actions 0 and 1
            fail(name, "must name each action once", shown(value), f"{remedy} Numbers 0 and 1 are actions.")
        mask[number] = True
    if not mask.any():
        fail(name, "must hold at least one action", "none", remedy)
    return mask


def as_mask(name: str, value: Any, n_actions: int) -> BoolArray:
    """Return a mask (A,) of booleans or of 0 and 1, as an environment gives it, with at least one allowed action."""
    remedy = f"Give {n_actions} numbers, 1 for an action that is allowed and 0 for another one."
    mask = _booleans(name, value, remedy)
    if mask.shape != (n_actions,):
        fail(name, f"must have one entry for each of {n_actions} actions", f"shape {mask.shape}", remedy)
    if not mask.any():
        fail(name, "must allow at least one action", shown(value), "A state without actions ends the episode.")
    return mask


def _booleans(name: str, value: Any, remedy: str) -> BoolArray:
    """Return an array of booleans or of 0 and 1 as booleans of its own."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        fail(name, "must be booleans", shown(value), remedy)
    is_plain = array.dtype.kind in "biuf" and not np.ma.is_masked(value)
    if not is_plain or not np.isin(array, (0, 1)).all():
        fail(name, "must be booleans", shown(value), remedy)
    return array.astype(np.bool_)


def action_list(mask: BoolArray, actions: Codec | None = None) -> list[Any]:
    """Return the actions of a mask (A,), counted from 0 or as a codec decodes them, for messages."""
    numbers = [int(action) for action in np.flatnonzero(mask)]
    return numbers if actions is None else [actions.decode(number) for number in numbers]


def refuse_forbidden(
    name: str,
    allowed: BoolArray,
    states: IntArray,
    actions: IntArray,
    *,
    state_codec: Codec | None = None,
    action_codec: Codec | None = None,
    stage: int | None = None,
) -> None:
    """Refuse actions that are not allowed in their states.

    Args:
        name: Name of the actions in the message.
        allowed: (S, A) Allowed actions.
        states: States, counted from 0.
        actions: Actions, counted from 0, of the same shape.
        state_codec: Numbers of the states, which the message shows; 0 … S − 1 stand for themselves by default.
        action_codec: Numbers of the actions, likewise.
        stage: Stage of the actions, which the message shows if what is allowed depends on it.
    """
    wrong = ~allowed[states, actions]
    if wrong.any():
        state, action = int(states[wrong][0]), int(actions[wrong][0])
        place = shown(state if state_codec is None or state >= state_codec.size else state_codec.decode(state))
        when = "" if stage is None else f" at stage {stage}"
        rule = f"must be one of {action_list(allowed[state], action_codec)}, allowed in state {place}{when}"
        received = action if action_codec is None else action_codec.decode(action)
        fail(name, rule, received, "Choose one of them.")


def filled_rewards(reward: Any, allowed: BoolArray, low: float, end_state: int | None) -> Any:
    """Return rewards (S, A) with the smallest one, `low`, at pairs that are not allowed, and 0 at the end state.

    What is not an array of numbers of that shape is returned as it is, for the check of rewards to refuse.
    """
    table = _numbers(reward, allowed.shape)
    if table is None:
        return reward
    table[~allowed] = low
    if end_state is not None:
        table[end_state, ~allowed[end_state]] = 0.0
    return table


def filled_transitions(transitions: Any, allowed: BoolArray) -> Any:
    """Return a table of P in which a pair that is not allowed stays in its state.

    Args:
        transitions: Array (S, A, S) or scipy.sparse matrix (S·A, S); anything else is returned as it is.
        allowed: (S, A) Allowed actions.
    """
    n_states, n_actions = allowed.shape
    states, actions = np.nonzero(~allowed)
    if sparse.issparse(transitions):
        if transitions.shape != (n_states * n_actions, n_states) or transitions.dtype.kind not in "fiub":
            return transitions
        entries = sparse.coo_array(transitions)
        kept = allowed.ravel()[entries.row]
        rows = np.concatenate([entries.row[kept], states * n_actions + actions])
        columns = np.concatenate([entries.col[kept], states])
        data = np.concatenate([entries.data[kept].astype(np.float64), np.ones(len(states))])
        return sparse.csr_array(sparse.coo_array((data, (rows, columns)), shape=transitions.shape))
    table = _numbers(transitions, (n_states, n_actions, n_states))
    if table is None:
        return transitions
    table[~allowed] = 0.0
    table[states, actions, states] = 1.0
    return table


def _numbers(value: Any, shape: tuple[int, ...]) -> FloatArray | None:
    """Return a copy of an array of numbers of some shape, or None for anything else."""
    if np.ma.is_masked(value):
        return None
    try:
        array = np.asarray(value)
        fits = array.dtype.kind in "fiub" and array.shape == shape
        return np.array(array, dtype=np.float64, order="C") if fits else None
    except (TypeError, ValueError, OverflowError):
        return None
