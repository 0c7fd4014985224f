"""Checks of algorithms that a user wrote: Q as a plan needs it, and everything learned named for saving."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dis import get_instructions
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl.checks import fail, shown
from matrixrl.errors import InvalidInput
from matrixrl.problems import Task
from matrixrl.problems.reader import read_problem
from matrixrl.records import FloatArray

if TYPE_CHECKING:
    from matrixrl.algorithms.base import Algorithm
    from matrixrl.algorithms.finite import FiniteAlgorithm

__all__ = ["Q_AXES", "check_q", "check_q_axes", "is_plug_in", "refuse_forgotten"]

Q_AXES = ("replica", "action", "state")
"""Axes of Q, as an algorithm may declare them in `q_axes`."""

_PROBE = (2, 3, 4)  # replicas, actions and states of a problem on which no two axes of Q can be mistaken
_PLAIN = (bool, int, float, complex, str, bytes, np.generic, set, frozenset, type, CodeType)  # compared by ==
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


def refuse_forgotten(algorithm: Algorithm, unstarted: Algorithm, state: dict[str, Any]) -> None:
    """Refuse to save an algorithm of a user's class if one that is started again and given its state differs from it.

    Attributes that methods of the library assign are left out: it saves its own, and caches need no saving.

    Args:
        algorithm: The algorithm.
        unstarted: The algorithm as it was configured.
        state: What its `state` returns.
    """
    again = copy.deepcopy(unstarted)
    again.settings = algorithm.settings
    again._start(algorithm.problem, algorithm.seeds)
    again.restore(state)
    library = set().union(*(_assigned(one) for one in type(algorithm).__mro__ if not is_plug_in(one)))
    here, there = vars(algorithm), vars(again)
    itself = (id(algorithm), id(again))
    own = sorted({*here, *there} - library)
    lost = [name for name in own if not _same(here.get(name, here), there.get(name, there), {itself: None})]
    if lost:
        rule = f"must name every array that learn changes: {', '.join(lost)} of {algorithm.name} would be lost"
        remedy = (
            f"Add {', '.join(map(repr, lost))} to learned_names of {type(algorithm).__name__}, as arrays that begin "
            "allocates; draw random numbers from self.streams."
        )
        fail("learned_names", rule, shown(algorithm.learned_names), remedy)


@cache
def _assigned(kind: type) -> frozenset[str]:
    """Return the names of the attributes that the methods of a class assign."""
    codes = [method.__code__ for method in vars(kind).values() if isinstance(method, FunctionType)]
    return frozenset(step.argval for code in codes for step in get_instructions(code) if step.opname == "STORE_ATTR")


def _same(one: Any, other: Any, known: dict[tuple[int, int], Any]) -> bool:
    """Return whether two objects are equal in all their parts; False if that cannot be found out.

    Args:
        one: An object.
        other: Another one.
        known: Pairs whose comparison has begun, by their ids: objects may refer to each other.
    """
    if one is other or (id(one), id(other)) in known:
        return True
    if type(one) is not type(other):
        return False
    known[id(one), id(other)] = one, other  # kept, so that no other object gets these ids
    if isinstance(one, _PLAIN):
        return bool(one == other) or bool(one != one and other != other)  # NaN is not itself
    if type(one) is np.ndarray:
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if not one.dtype.hasobject:
            return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    if type(one) is dict:
        return one.keys() == other.keys() and all(_same(value, other[key], known) for key, value in one.items())
    try:
        return all(_same(*parts, known) for parts in zip(_parts(one), _parts(other), strict=True))
    except Exception:  # noqa: BLE001  # of a user's class, which cannot be taken apart
        return False


def _parts(value: Any) -> list[Any]:
    """Return what an object consists of: its elements, or what a copy of it is made from."""
    if type(value) in (list, tuple, np.ndarray):
        return list(value.flat if isinstance(value, np.ndarray) else value)
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return [value.__code__, value.__defaults__, value.__kwdefaults__, *cells]
    made = value.__reduce_ex__(4)
    return [list(part) if isinstance(part, Iterator) else part for part in made]
