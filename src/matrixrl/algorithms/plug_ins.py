"""Checks of algorithms that a user wrote: Q as a plan needs it, and everything learned named for saving."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl.checks import fail, shown
from matrixrl.errors import InvalidInput
from matrixrl.problems import Task
from matrixrl.problems.reading import read_problem
from matrixrl.records import FloatArray

if TYPE_CHECKING:
    from matrixrl.algorithms.base import Algorithm
    from matrixrl.algorithms.finite import FiniteAlgorithm

__all__ = ["Q_AXES", "check_q", "check_q_axes", "is_plug_in", "refuse_forgotten", "snapshot", "unlike"]

Q_AXES = ("replica", "action", "state")
"""Axes of Q, as an algorithm may declare them in `q_axes`."""

_PROBE = (2, 3, 4)  # replicas, actions and states of a problem on which no two axes of Q can be mistaken
_LIBRARY = __name__.partition(".")[0]


def is_plug_in(kind: type, method: str | None = None) -> bool:
    """Return whether a class is a user's own, or a method of it is."""
    owner = kind if method is None else next(one for one in kind.__mro__ if method in vars(one))
    return owner.__module__.partition(".")[0] != _LIBRARY


def check_q(name: str, q: Any, shape: tuple[int, int, int]) -> FloatArray:
    """Return Q of a user's algorithm if it has a shape (B, A, S) and no NaN; refuse it in words otherwise.

    Args:
        name: Name of the algorithm.
        q: What its function of stage and values returned.
        shape: Numbers of replicas, actions and states.
    """
    remedy = f"The function that {name} gives to induct returns Q[b, a, s]."
    if not isinstance(q, np.ndarray) or q.dtype != np.float64 or q.shape != shape:
        received = f"shape {q.shape} of {q.dtype}" if isinstance(q, np.ndarray) else shown(q)
        fail("Q", f"must be an array of float64 of shape (B, A, S) = {shape}", received, remedy)
    if np.isnan(q).any():
        places = [int(place) for place in np.argwhere(np.isnan(q))[0]]
        fail("Q", "must have no NaN", f"{int(np.isnan(q).sum())}, the first at [b, a, s] = {places}", remedy)
    return q


def check_q_axes(unstarted: FiniteAlgorithm, started: FiniteAlgorithm) -> None:
    """Refuse an algorithm whose Q has its axes in another order, where the sizes of a problem cannot show it.

    If two of B, A and S are equal, the algorithm plans once on a small problem in which they differ. One that cannot
    plan there declares ``q_axes = ("replica", "action", "state")``.

    Args:
        unstarted: The algorithm as it was configured.
        started: The algorithm on the problem that is to be learned.
    """
    declared, task = started.q_axes, started.task
    if declared not in ((), Q_AXES):
        fail("q_axes", f"must be {Q_AXES}, or be left out", shown(declared), "Return Q[b, a, s].")
    if declared or len({started.n_replicas, task.n_actions, task.n_states}) == 3:
        return
    n_replicas, n_actions, n_states = _PROBE
    reward = np.zeros((n_states, n_actions))
    problem = read_problem(Task(reward, min(task.horizon, 2), reward_range=task.reward_range), measure_regret=False)
    words = f"{started.name} on a problem of {n_states} states and {n_actions} actions"
    try:
        probe = copy.deepcopy(unstarted)._start(problem, list(range(n_replicas)))
        probe.make_plan()
    except (InvalidInput, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        if getattr(error, "argument", None) == "Q":
            raise InvalidInput(f"{words}: {error}") from error
        sizes = f"B, A, S = {started.n_replicas}, {task.n_actions}, {task.n_states}"
        rule = f"must be declared, as two of {sizes} are equal"
        received = f"{type(error).__name__} ({error}) from {words}, where its axes would be checked"
        fail("q_axes", rule, received, f"Add q_axes = {Q_AXES} to the class if Q[b, a, s] is returned.")


def snapshot(algorithm: Algorithm) -> dict[str, Any]:
    """Return copies of the attributes of an algorithm that may be learned: arrays, numbers and containers of them.

    Numbers are left out for subclasses of an algorithm of the library, which counts what needs no saving.
    """
    plain: tuple[type, ...] = (np.ndarray, list, dict, set, tuple)
    inherits = any("learn" in vars(one) for one in type(algorithm).__mro__ if not is_plug_in(one) and not _is_base(one))
    kinds = plain if inherits else (*plain, bool, int, float)
    return {name: copy.deepcopy(value) for name, value in vars(algorithm).items() if isinstance(value, kinds)}


def unlike(algorithm: Algorithm, before: dict[str, Any]) -> set[str]:
    """Return the names of attributes that differ from a `snapshot`, or that are new."""
    now = snapshot(algorithm)
    return {name for name in {*now, *before} if name not in before or not _same(now.get(name), before[name])}


def refuse_forgotten(algorithm: Algorithm, changed: set[str] | frozenset[str], state: dict[str, Any]) -> None:
    """Refuse to save an algorithm whose state lacks what `learn` has changed.

    Args:
        algorithm: The algorithm.
        changed: Names of attributes that `learn` changed.
        state: What its `state` returned.
    """
    left = sorted(changed - set(algorithm.learned_names))
    if not left:
        return
    again = copy.deepcopy(algorithm, {id(algorithm.problem): algorithm.problem})
    again._start(algorithm.problem, algorithm.seeds)
    again.restore(state)
    lost = [name for name in left if not _same(vars(again).get(name), vars(algorithm)[name])]
    if lost:
        rule = f"must name every array that learn changes: {', '.join(lost)} of {algorithm.name} would be lost"
        remedy = f"Add {', '.join(map(repr, lost))} to learned_names of {type(algorithm).__name__}, as arrays."
        fail("learned_names", rule, shown(algorithm.learned_names), remedy)


def _is_base(kind: type) -> bool:
    """Return whether a class declares `learn` for others to implement."""
    return bool(getattr(vars(kind).get("learn"), "__isabstractmethod__", False))


def _same(one: Any, other: Any) -> bool:
    """Return whether two attributes are equal; objects of other classes count as equal."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        if type(one) is not type(other) or one.dtype != other.dtype:
            return False
        return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return not isinstance(one, (bool, int, float, set)) or one == other
