"""Structure of unknown transition probabilities that a user declares, and that data can refute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, flag, shown, shown_element
from matrixrl.errors import InvalidInput
from matrixrl.records import IntArray

if TYPE_CHECKING:
    from matrixrl.problems.task import Task
    from matrixrl.problems.transitions import Transitions

__all__ = ["Structure", "read_structure"]

_REMEDY = "Give successors[s][a], the list of possible next states, or a mask (S, A, S) of booleans."


_NOTHING: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Structure:
    """What is declared of unknown transition probabilities. Pairs have the numbers a·S + s.

    Attributes:
        deterministic: Whether the next state and the reward of each pair are always the same.
        codes: (E,) Number of the pair times S, plus the next state, of everything that is possible, ascending; empty if
            all next states are possible.
    """

    deterministic: bool
    codes: IntArray

    LIKE: ClassVar[dict[str, NDArray[Any]]] = {"is_deterministic": np.array([True]), "successor_codes": _NOTHING}
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
        lists, n, n_actions = transitions.successors(), task.n_states, task.n_actions
        if lists is None:
            rule, received = "must be left out for a P that does not list next states", type(transitions).__name__
            fail("deterministic" if self.deterministic else "successors", rule, received, "Give P as an array.")
        states, actions = np.divmod(np.repeat(np.arange(n * n_actions), np.diff(lists.firsts)), n_actions)
        pairs = actions * n + states
        used = np.ones(len(pairs), dtype=np.bool_) if task.allowed is None else task.allowed[states, actions]
        several = used & (np.bincount(pairs)[pairs] > 1) & self.deterministic
        missing = used & ~np.isin(pairs * n + lists.states, self.codes) & (len(self.codes) > 0)
        for name, wrong in (("deterministic", several), ("successors", missing)):
            if wrong.any():
                at = wrong.argmax()
                class_, own = divmod(int(actions[at]), task.n_own_actions)
                action = shown_element(own if task.actions is None else task.actions.decode(own))
                received = f"P > 0 for next state {task.shown_state(lists.states[at])} of state "
                received += f"{task.shown_state(states[at])} and action {action}"
                received += f" at stage {task.stages.classes.tolist().index(class_)}" * task.is_staged
                rule = "must agree with P" + ", where it is one of several" * (name == "deterministic")
                fail(name, rule, received, "Correct one of them.")


def read_structure(deterministic: Any, successors: Any, task: Task) -> Structure | None:
    """Return the structure that is declared for a task, as `Task` describes it; None if nothing is.

    The end state may be left out of the rows. If no pair leads to one that the library added, every pair may.
    """
    chosen = flag("deterministic", deterministic)
    if successors is None:
        return Structure(chosen, _NOTHING) if chosen else None
    n, end = task.n_states, task.end_state
    lists = dict(_lists(successors, task))
    may_end = task.end_is_added and not any(end in states for states in lists.values())
    codes = []
    for a in range(task.n_own_actions):
        for s in range(n):
            states = lists.get((s, a), _NOTHING)
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
            yield (s, a), _states_of(f"successors[{s}][{a}]", one, sizes)


def _states_of(name: str, given: Any, sizes: tuple[int, int]) -> IntArray:
    """Return the states of a list or a mask, ascending."""
    found: NDArray[Any] = np.zeros((0, 0))
    with suppress(ValueError):  # of lists that are no array
        found = np.asarray(given)
    if found.dtype == np.bool_ and found.ndim == 1 and len(found) in sizes:
        return np.flatnonzero(found)
    is_list = found.ndim == 1 and (found.dtype.kind in "iu" or not found.size)
    if not is_list or len(np.unique(found)) < len(found) or (found < 0).any() or (found >= sizes[1]).any():
        rule = f"must list different states from 0 to {sizes[1] - 1}, or be {sizes[0]} booleans"
        fail(name, rule, shown(given), _REMEDY)
    return np.sort(found.astype(np.int64))


def _rows(name: str, given: Any, sizes: tuple[int, ...], what: str) -> Any:
    """Return a list or an array with as many rows as there are states or actions."""
    rows = given.tolist() if isinstance(given, np.ndarray) and not given.ndim else given
    if not isinstance(rows, (list, tuple, np.ndarray)) or len(rows) not in sizes:
        fail(name, f"must have one row for each of {sizes[0]} {what}", shown(given), _REMEDY)
    return rows
