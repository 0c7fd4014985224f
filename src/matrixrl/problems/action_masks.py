"""Action masks: which actions are allowed in which state, as declared, or as an environment reports them.

A mask (A,) has one boolean for each action. A table (S, A) has one mask for each state. `read_masks` reads what is
declared, and `KnownMasks` is the object that knows what is allowed now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, function, real_numbers, shown
from matrixrl.errors import InvalidInput
from matrixrl.problems.stages import Stages
from matrixrl.records import BoolArray, FloatArray, IntArray, Steps
from matrixrl.spaces import Codec, DiscreteCodec

if TYPE_CHECKING:
    from matrixrl.problems.problem import Problem

__all__ = [
    "REPORTED_MASKS",
    "TRIED",
    "KnownMasks",
    "ReportedMasks",
    "action_list",
    "as_mask",
    "chosen_actions",
    "read_masks",
    "refuse_ambiguous",
    "refuse_forbidden",
]

REPORTED_MASKS = "told_masks"
"""Name of the array of a saved algorithm."""

TRIED = "tried_pairs"
"""Name of the array of a saved algorithm with the pairs that were learned from."""

_NOT_PLAYED = (
    "the environment was not played yet, and it may report that some actions are not allowed; a proof needs them "
    "declared (allowed=…, or allowed='all')"
)
_REPORTED = "the environment reported allowed actions while it was played; a proof needs them declared (allowed=…)"
_UNKNOWN = -1  # entry of a saved table where no mask was reported
_INFO = "action_mask"
_TABLE = "Give a table of booleans of shape (S, A), or a function of the state that returns its allowed actions."


def read_masks(
    allowed: Any,
    n_states: int,
    stages: Stages,
    *,
    end_state: int | None = None,
    states: Codec | None = None,
    actions: Codec | None = None,
) -> BoolArray:
    """Return which actions, of all classes of stages, are allowed in each state as a table (S, C·A).

    Args:
        allowed: Table (S, A) of booleans (or of 0 and 1), a function of a state that returns what `chosen_actions`
            reads, tables (C, S, A) or (H, S, A), or a table (S, C·A) that this function returned. The row of the end
            state may be missing if it is the last one.
        n_states: Number of states S.
        stages: Classes of stages, with the number of actions A.
        end_state: State in which nothing is chosen, so that it may allow no action; None if there is none.
        states: Numbers of the states that the function takes; 0 … S − 1 stand for themselves by default.
        actions: Numbers of the actions that the function returns, likewise.

    Raises:
        InvalidInput: The table has another shape, or a state without any allowed action.
    """
    codec = DiscreteCodec(n_states) if states is None else states
    count, width = stages.n_classes, stages.n_own
    if callable(allowed):
        called = function("allowed", allowed, of=1, remedy=_TABLE)
        table = np.ones((n_states, width), dtype=np.bool_)
        own = {s: codec.decode(s) for s in range(n_states) if s != end_state}
        answers = {s: called(state) for s, state in own.items()}
        refuse_ambiguous("what allowed returns", list(answers.values()), width)
        for s, answer in answers.items():
            table[s] = chosen_actions(f"allowed({shown(own[s])})", answer, width, actions=actions)
        return np.tile(table, (1, count))
    given, names = real_numbers(allowed), ["allowed"] * count
    if count > 1 and given.ndim == 3:
        tables = stages.by_class("allowed", list(given), "(S, A)")
        names = [name for name, _ in stages.named_blocks("allowed")]
    elif count > 1 and given.ndim == 2 and given.shape[1] == stages.n_inner:
        tables = np.split(given, count, axis=1)
    else:
        tables = [allowed] * count
    shape = (n_states, width)
    return np.concatenate([_table(*one, shape, end_state, codec) for one in zip(names, tables, strict=True)], axis=1)


def _table(name: str, given: Any, shape: tuple[int, int], end_state: int | None, states: Codec) -> BoolArray:
    """Return a table of booleans (S, A) in which every state but the end state allows an action."""
    table = _booleans(name, given, _TABLE)
    if end_state == shape[0] - 1 and table.shape == (shape[0] - 1, shape[1]):
        table = np.vstack([table, np.ones((1, shape[1]), dtype=np.bool_)])
    if table.shape != shape:
        remedy = f"{_TABLE} One for each stage needs stage_dependent=True." if table.ndim == 3 else _TABLE
        fail(name, f"must have shape (S, A) = {shape}", f"shape {table.shape}", remedy)
    nothing: BoolArray = ~np.any(table, axis=1)
    if end_state is not None:
        nothing[end_state] = False
    if nothing.any():
        places = np.flatnonzero(nothing)
        others = f" and {len(places) - 1} more" if len(places) > 1 else ""
        rule = "must allow at least one action in every state"
        fail(name, rule, f"none in state {shown(states.decode(int(places[0])))}{others}", "Allow one there.")
    return table


def refuse_ambiguous(name: str, values: list[Any], n_actions: int) -> None:
    """Refuse ``[0, 1]`` and ``[1, 0]`` of two actions, unless another list, such as ``[0]``, cannot be a mask.

    Values are what `chosen_actions` is to read: one value, or all answers of a function of the state.
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

    They are given as A booleans (or an array of type int8, as Gymnasium writes masks), or as a sequence of actions.
    """
    codec = DiscreteCodec(n_actions) if actions is None else actions
    what = "the numbers of the actions" if isinstance(codec, DiscreteCodec) else f"a list of actions of {codec}"
    remedy = f"Give {what}, or {n_actions} booleans."
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray, set, frozenset, range)):
        fail(name, "must be some actions", shown(value), remedy)
    items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
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


def action_list(mask: BoolArray) -> list[int]:
    """Return the numbers of the actions of a mask (A,)."""
    numbers: list[int] = np.flatnonzero(mask).tolist()
    return numbers


def refuse_forbidden(
    name: str,
    allowed: BoolArray,
    states: IntArray,
    actions: IntArray,
    *,
    problem: Problem | None = None,
    when: str = "",
) -> None:
    """Refuse actions that are not allowed (S, A) in their states; the other arguments are for the message."""
    wrong = ~allowed[states, actions]
    if wrong.any():
        state, action = int(states[wrong][0]), int(actions[wrong][0])
        listed = action_list(allowed[state]) if problem is None else problem.env_actions(allowed[state])
        place = state if problem is None else problem.shown_state(state)
        rule = f"must be one of {listed}, allowed in state {place}{when}"
        fail(name, rule, action if problem is None else problem.env_action(action), "Choose one of them.")


@dataclass(frozen=True)
class ReportedMasks:
    """Allowed actions that an environment reported while it was played; all actions of the states not reported yet.

    Attributes:
        known: (S,) Whether the mask of a state was reported, or is not needed because the state is the end state.
        allowed: (S, A) Allowed actions.
    """

    known: BoolArray
    allowed: BoolArray


class KnownMasks:
    """The allowed actions of a problem as far as they are known now: declared, or reported by the environment.

    An environment reports the mask of its current state in ``info["action_mask"]``, or a method ``action_masks()``
    returns it.

    Args:
        problem: The problem.
        on_change: Called after a mask was reported; None for an algorithm that cannot learn masks while it plays.

    Attributes:
        reported: Masks that the environment reported so far, another object after each new one; None without any.
        may_be_reported: Whether allowed actions are not declared, so that an environment may report them.
    """

    def __init__(self, problem: Problem, on_change: Callable[[], None] | None) -> None:
        self._problem, self._on_change = problem, on_change
        self.reported: ReportedMasks | None = None
        self._is_finite = problem.kind == "finite"
        self._is_known = self._is_finite and (problem.task.allowed is not None or problem.mdp is not None)
        self.may_be_reported = (
            self._is_finite and on_change is not None and not self._is_known and not problem.ignores_masks
        )
        self._tried: BoolArray | None = None  # (S, A) pairs that were learned from, where masks may be reported
        if self.may_be_reported:
            self._tried = np.zeros(self._shape, dtype=np.bool_)

    @property
    def _shape(self) -> tuple[int, int]:
        task = self._problem.finite_task
        return task.n_states, task.n_actions

    @property
    def by_action(self) -> BoolArray | None:
        """(A, S) allowed actions; None if all are."""
        table = self._table
        return None if table is None or table.all() else np.ascontiguousarray(table.T)

    @property
    def _table(self) -> BoolArray | None:
        """(S, A) allowed actions, declared or reported; None if neither was."""
        return self._problem.task.allowed if self.reported is None else self.reported.allowed

    def at(self, state: Any, stage: int) -> BoolArray | None:
        """Return which actions (A,) a state allows at a stage; None for all that the stage has."""
        table = self._table
        if table is None:
            return None
        stages = self._problem.task.stages
        return stages.mask(table[state, stages.block(stage)], stage)

    def among(
        self, state: Any, stage: int, info: Any, current_mask: Callable[[], Any] | None = None
    ) -> BoolArray | None:
        """Return the actions (A,) to choose from at the current state; None for those that are allowed anyway.

        A mask that contradicts another one of the same state, or what was declared, is refused.

        Args:
            state: Current state.
            stage: Current stage.
            info: What `reset` or `step` returned with it.
            current_mask: Method that returns the mask of the current state, for infos without one.
        """
        if self._problem.ignores_masks:
            return None
        given, name = info.get(_INFO) if isinstance(info, dict) else None, f"info['{_INFO}']"
        if given is None and current_mask is not None and not self._is_known:
            given, name = current_mask(), "the action mask of the environment"
        if given is None:
            return None
        problem = self._problem
        own = as_mask(name, given, problem.actions.size)
        mask = problem.task.stages.mask(own, stage)
        if self._is_known:
            declared = self.at(state, stage)
            known = problem.task.stages.mask(np.ones_like(own), stage) if declared is None else declared
            if (known & ~mask).any():
                rule = f"must allow the declared actions {problem.env_actions(known)} of {problem.place(state, stage)}"
                fail(name, rule, problem.env_actions(mask), "Declare them with allowed=…, or pass allowed='all'.")
            return None
        if self._is_finite:
            self.tell(state, own)
        return None if own.all() else mask

    def note_last(self, state: Any, info: Any) -> None:
        """Take note of the mask of the state after the last step, in which nothing is chosen any more."""
        given = info.get(_INFO) if isinstance(info, dict) else None
        # A mask without any action is one of an episode that is over.
        if given is None or not self.may_be_reported or not np.any(given):
            return
        if self.reported is None or not self.reported.known[int(state)]:
            self.tell(state, as_mask(f"info['{_INFO}']", given, self._problem.actions.size))

    def narrower(self, state: Any, stage: int, allowed: Any) -> BoolArray | None:
        """Return the actions (A,) of a request if they are fewer than those that are allowed in a state, else None."""
        problem, n_own = self._problem, self._problem.actions.size
        if isinstance(allowed, np.ndarray):
            refuse_ambiguous("allowed", [allowed], n_own)
        own, known = chosen_actions("allowed", allowed, n_own, actions=problem.actions), self.at(state, stage)
        among = problem.task.stages.mask(own, stage)
        if known is None:
            return None if own.all() else among
        if (among & ~known).any():
            rule = f"must be among the actions {problem.env_actions(known)} that {problem.place(state, stage)} allows"
            fail("allowed", rule, problem.env_actions(among), "Leave the others out.")
        return None if np.array_equal(among, known) else among

    def check_action(self, state: Any, stage: int, action: int) -> None:
        """Refuse an action that is not allowed in a state."""
        known, problem = self.at(state, stage), self._problem
        if known is not None and not known[action]:
            rule = f"must be one of {problem.env_actions(known)}, which {problem.place(state, stage)} allows"
            remedy = "Report an action that is allowed, or change allowed=…."
            fail("action", rule, problem.env_action(action), remedy)

    def read_policy(self, name: str, table: IntArray | FloatArray) -> Any:
        """Return a user's policy, (H, S) actions or (H, A, S) probabilities, as one of the actions of the task.

        A policy with actions that are not allowed is refused.
        """
        allowed, stages = self._table, self._problem.task.stages
        for stage, row in enumerate(table):
            if allowed is None:
                break
            actions, states = (row, np.arange(len(row))) if table.ndim == 2 else np.nonzero(row)
            at_stage, when = allowed[:, stages.block(stage)], stages.when(stage)
            refuse_forbidden(name, at_stage, states, np.asarray(actions), problem=self._problem, when=when)
        return stages.inner_policy(table)

    def tell(self, state: Any, mask: BoolArray) -> None:
        """Take note of the actions (A,) that are allowed in a state; plans heed them from the next one on."""
        if self._on_change is None:
            rule = "must be given for this algorithm, which cannot learn masks while it plays"
            fail("allowed", rule, None, "Pass allowed=table (S, A), or allowed='all' to allow every action.")
        task, s = self._problem.finite_task, int(state)
        mask = np.tile(mask, task.stages.n_classes)  # a mask is that of a state
        if self.reported is None:
            known = np.arange(task.n_states) == (-1 if task.end_state is None else task.end_state)
            allowed = np.ones(self._shape, dtype=np.bool_)
        else:
            known, allowed = self.reported.known.copy(), self.reported.allowed.copy()
        if known[s] and not np.array_equal(allowed[s], mask):
            n, listed = task.n_own_actions, self._problem.env_actions
            rule = f"must be the same at every visit of state {self._problem.shown_state(s)}"
            received = f"{listed(mask[:n])} after {listed(allowed[s, :n])}"
            fail("action mask", rule, received, "If more than the state decides, make it part of the state.")
        if not known[s]:
            known[s], allowed[s] = True, mask
            self.take(ReportedMasks(known, allowed))

    def take(self, reported: ReportedMasks | None) -> None:
        """Use these reported masks from now on."""
        if reported is not self.reported:
            self.reported = reported
            assert self._on_change is not None
            self._on_change()

    def note(self, steps: Steps) -> None:
        """Take note of the pairs that were learned from."""
        if self._tried is not None:
            self._tried[steps.states[steps.taken], steps.actions[steps.taken]] = True

    def regret_words(self) -> str | None:
        """Return why no regret bound is proven; None if no mask was reported."""
        return None if self.reported is None else _REPORTED

    def certificate_words(self, *, is_new: bool) -> str | None:
        """Return why a certificate is not proven, or None if it is; `is_new` if no episode was played yet."""
        if self.reported is None:
            return _NOT_PLAYED if is_new and self.may_be_reported and self._problem.env is not None else None
        forbidden = ~self.reported.allowed if self._tried is None else self._tried & ~self.reported.allowed
        if count := int(np.count_nonzero(forbidden)):
            return (
                f"{count} pair{'s' * (count > 1)} of a state and an action may have been learned from that the "
                "environment reported as not allowed; report the mask at every visit, or declare it (allowed=…)"
            )
        if missing := int(np.count_nonzero(~self.reported.known)):
            return (
                f"the allowed actions of {missing} state{'s' * (missing > 1)} were not reported yet; "
                "a proof needs them declared (allowed=…)"
            )
        return None

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the reported masks (1, 0, or −1 where none was reported) and the pairs that were learned from."""
        told = {}
        if self.reported is not None:
            masks = np.where(self.reported.known[:, None], self.reported.allowed, _UNKNOWN)
            told[REPORTED_MASKS] = masks.astype(np.int8)
        return told | ({} if self._tried is None else {TRIED: self._tried.copy()})

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned; pairs that were not saved may all have been learned from."""
        for name, kind in ((REPORTED_MASKS, np.int8), (TRIED, np.bool_)):
            if name in arrays and (arrays[name].shape != self._shape or arrays[name].dtype != kind):
                raise InvalidInput(f"{name} must be {np.dtype(kind).name} of shape {self._shape}")
        told, tried = arrays.get(REPORTED_MASKS), arrays.get(TRIED)
        if told is not None:
            if not self.may_be_reported:
                raise InvalidInput(f"{REPORTED_MASKS} must be left out of a problem whose allowed actions are declared")
            known = told[:, 0] != _UNKNOWN
            self.take(ReportedMasks(known, np.where(known[:, None], told == 1, True)))
        self._tried = None if tried is None else tried.copy()
