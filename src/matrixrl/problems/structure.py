"""Structure of unknown transition probabilities that a user declares, and that data can refute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, flag, shown
from matrixrl.errors import InvalidInput
from matrixrl.records import IntArray

if TYPE_CHECKING:
    from matrixrl.problems.task import Task
    from matrixrl.problems.transitions import Transitions

__all__ = ["Structure", "read_structure"]

_REMEDY = "Give successors[s][a], the list of possible next states, or a mask (S, A, S) of booleans."


def _no_codes() -> IntArray:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Structure:
    """What is declared of unknown transition probabilities. Pairs have the numbers a·S + s.

    Attributes:
        deterministic: Whether the next state and the reward of each pair are always the same.
        codes: (E,) Number of the pair times S, plus the next state, of everything that is possible, ascending; empty if
            all next states are possible.
    """

    deterministic: bool = False
    codes: IntArray = field(default_factory=_no_codes)

    LIKE: ClassVar[dict[str, NDArray[Any]]] = {
        "is_deterministic": np.empty(1, dtype=np.bool_),
        "successor_codes": _no_codes(),
    }
    """Names, types and numbers of axes of the arrays of `arrays`."""

    @property
    def words(self) -> str:
        """The structure in words."""
        return " with ".join(["deterministic"] * self.deterministic + ["known successors"] * bool(len(self.codes)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the structure as named arrays, for saving."""
        return dict(zip(self.LIKE, (np.array([self.deterministic]), self.codes), strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_states: int, n_pairs: int) -> Structure:
        """Return what `arrays` of a problem of these sizes returned, or raise `InvalidInput`."""
        is_point, codes = (arrays[name] for name in cls.LIKE)
        is_sorted = bool((np.diff(codes, prepend=-1, append=n_pairs * n_states) > 0).all())
        if len(codes) and not (is_sorted and len(np.unique(codes // n_states)) == n_pairs):
            raise InvalidInput("successors must be ascending, and at least one of each pair")
        return cls(bool(is_point[0]), codes)

    def repeated(self, n_classes: int, size: int) -> Structure:
        """Return the structure of inner actions, which all classes of stages share; `size` is S·A·S of one class."""
        return Structure(self.deterministic, (np.arange(n_classes)[:, None] * size + self.codes).ravel())

    def check(self, transitions: Transitions, task: Task) -> None:
        """Refuse a structure that known transition probabilities contradict."""
        states, actions, following = _possible(transitions)
        used = np.ones(len(states), dtype=np.bool_) if task.allowed is None else task.allowed[states, actions]
        several = used & (np.bincount(actions * task.n_states + states)[actions * task.n_states + states] > 1)
        if self.deterministic and several.any():
            first = several.argmax()
            received = f"several possible next states of state {states[first]} and action {actions[first]}"
            fail("deterministic", "must be left out unless P leads to one state from each pair", received, "Correct P.")
        missing = used & ~np.isin((actions * task.n_states + states) * task.n_states + following, self.codes)
        if len(self.codes) and missing.any():
            first = missing.argmax()
            received = f"P > 0 for state {following[first]} after state {states[first]} and action {actions[first]}"
            fail("successors", "must contain every next state that P makes possible", received, "Add it.")


def _possible(transitions: Transitions) -> tuple[IntArray, IntArray, IntArray]:
    """Return state, action and next state wherever P is positive, (E,) each."""
    lists, actions = transitions.successors(), np.arange(transitions.n_actions)
    if lists is not None:
        number = np.repeat(np.arange(len(lists.firsts) - 1), np.diff(lists.firsts))
        return number // len(actions), number % len(actions), lists.states
    found = [np.nonzero(transitions.rows(np.full(len(actions), s), actions)) for s in range(transitions.n_states)]
    states = np.repeat(np.arange(len(found)), [len(a) for a, _ in found])
    return states, np.concatenate([a for a, _ in found]), np.concatenate([following for _, following in found])


def read_structure(deterministic: Any, successors: Any, task: Task) -> Structure | None:
    """Return the structure that is declared for a task, as `Task` describes it; None if nothing is.

    The end state may be left out of the rows. If no pair leads to one that the library added, every pair may.
    """
    chosen = flag("deterministic", deterministic)
    if successors is None:
        return Structure(chosen) if chosen else None
    n, end = task.n_states, task.end_state
    lists = dict(_lists(successors, task))
    may_end = task.end_is_added and not any(end in states for states in lists.values())
    codes = []
    for a in range(task.n_own_actions):
        for s in range(n):
            states = lists.get((s, a), _no_codes())
            if s == end or not (len(states) or task.allowed is None or task.allowed[s, a]):
                states = np.array([s])  # nothing is chosen there
            elif not len(states):
                received = f"none for state {s} and action {a}"
                fail("successors", "must have a next state for every allowed pair", received, _REMEDY)
            elif may_end:
                states = np.append(states, n - 1)
            codes.append((a * n + s) * n + states)
    return Structure(chosen, np.concatenate(codes)).repeated(task.stages.n_classes, task.n_own_actions * n * n)


def _lists(given: Any, task: Task) -> Iterator[tuple[tuple[int, int], IntArray]]:
    """Yield each state and action with its possible next states, ascending."""
    sizes = task.n_observed, task.n_states
    for s, row in enumerate(_rows("successors", given, sizes, "states")):
        for a, one in enumerate(_rows(f"successors[{s}]", row, (task.n_own_actions,), "actions")):
            name, found = f"successors[{s}][{a}]", np.zeros(0, dtype=np.object_)
            with suppress(ValueError):  # of lists that are no array
                found = np.asarray(one)
            if found.dtype == np.bool_ and found.ndim == 1 and len(found) in sizes:
                found = np.flatnonzero(found)
            if found.ndim != 1 or (
                found.dtype.kind not in "iu" and not (isinstance(one, (list, tuple)) and len(one) == 0)
            ):
                fail(name, f"must be a list of states, or {sizes[0]} booleans", shown(one), _REMEDY)
            outside = found[(found < 0) | (found >= sizes[1])]
            if len(outside):
                fail(name, f"must have states from 0 to {sizes[1] - 1}", outside[0], _REMEDY)
            yield (s, a), np.unique(found).astype(np.int64)


def _rows(name: str, given: Any, sizes: tuple[int, ...], what: str) -> Any:
    """Return a list or an array with as many rows as there are states or actions."""
    is_list = isinstance(given, (list, tuple, np.ndarray))
    if not is_list or len(given) not in sizes:
        received = f"{len(given)} rows" if is_list else shown(given)
        fail(name, f"must have one row for each of {sizes[0]} {what}", received, _REMEDY)
    return given
