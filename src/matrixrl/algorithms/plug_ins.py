"""Checks of algorithms that a user wrote: Q as a plan needs it, and everything learned named for saving."""

from __future__ import annotations

import copy
import io
import marshal
import pickle
from dis import get_instructions
from functools import cache
from types import FunctionType
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

__all__ = ["check_q", "check_q_axes", "is_plug_in", "refuse_forgotten"]

_Q_AXES = ("replica", "action", "state")
_PROBE = (2, 3, 4)  # replicas, actions and states of a problem on which no two axes of Q can be mistaken
_LIBRARY = __name__.partition(".")[0]


def is_plug_in(kind: type, method: str | None = None) -> bool:
    """Return whether a class is a user's own, or a method of it is."""
    owner = kind if method is None else next(one for one in kind.__mro__ if method in vars(one))
    return owner.__module__.partition(".")[0] != _LIBRARY


def check_q(name: str, q: Any, shape: tuple[int, int, int]) -> FloatArray:
    """Return Q of a user's algorithm if it has a shape (B, A, S) and no NaN; refuse it in words otherwise."""
    remedy = f"The function that {name} gives to induct returns Q[b, a, s]."
    if not isinstance(q, np.ndarray) or q.dtype != np.float64 or q.shape != shape:
        received = f"shape {q.shape} of {q.dtype}" if isinstance(q, np.ndarray) else shown(q)
        fail("Q", f"must be an array of float64 of shape (B, A, S) = {shape}", received, remedy)
    if np.isnan(q).any():
        places = np.argwhere(np.isnan(q))
        fail("Q", "must have no NaN", f"{len(places)}, the first at [b, a, s] = {places[0].tolist()}", remedy)
    return q


def check_q_axes(unstarted: FiniteAlgorithm, started: FiniteAlgorithm) -> None:
    """Refuse an algorithm whose Q has its axes in another order, where the sizes of a problem cannot show it.

    If two of B, A and S are equal, the algorithm plans once on a small problem in which they differ. One that cannot
    plan there declares ``q_axes = ("replica", "action", "state")``.
    """
    task = started.task
    sizes = started.n_replicas, task.n_actions, task.n_states
    if started.q_axes == _Q_AXES or len(set(sizes)) == len(sizes):
        return
    n_replicas, n_actions, n_states = _PROBE
    small = Task(np.zeros((n_states, n_actions)), min(task.horizon, 2), reward_range=task.reward_range)
    words = f"{started.name} on a problem of {n_states} states and {n_actions} actions"
    try:
        copy.deepcopy(unstarted)._start(read_problem(small, measure_regret=False), range(n_replicas)).make_plan()
    except Exception as error:  # of a user's class
        if getattr(error, "argument", None) == "Q":
            raise InvalidInput(f"{words}: {error}") from error
        rule = f"must be declared, as two of B, A, S = {', '.join(map(str, sizes))} are equal"
        received = f"{type(error).__name__} ({error}) from {words}, where its axes would be checked"
        fail("q_axes", rule, received, f"Add q_axes = {_Q_AXES} to the class if Q[b, a, s] is returned.")


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
    saved = set(algorithm.learned_names).union(*map(_assigned, type(algorithm).__mro__))
    here, there = vars(algorithm), vars(again)
    lost = [
        name
        for name in sorted({*here, *there} - saved)
        if name not in here or name not in there or not _same(here[name], there[name], algorithm, again)
    ]
    if lost:
        rule = f"must name every array that learn changes: {', '.join(lost)} of {algorithm.name} would be lost"
        remedy = (
            f"Add {', '.join(map(repr, lost))} to learned_names of {type(algorithm).__name__}, as arrays that begin "
            "allocates; draw random numbers from self.streams."
        )
        fail("learned_names", rule, shown(algorithm.learned_names), remedy)


@cache
def _assigned(kind: type) -> frozenset[str]:
    """Return the names of the attributes that the methods of a class of the library assign."""
    methods = [] if is_plug_in(kind) else [one for one in vars(kind).values() if isinstance(one, FunctionType)]
    steps = (step for method in methods for step in get_instructions(method.__code__))
    return frozenset(step.argval for step in steps if step.opname == "STORE_ATTR")


def _same(one: Any, other: Any, owner: Algorithm, other_owner: Algorithm) -> bool:
    """Return whether attributes of two algorithms are equal in all their parts; False if that cannot be found out."""
    try:
        return one is other or _written(one, owner) == _written(other, other_owner)
    except Exception:  # noqa: BLE001  # of a user's class, which cannot be taken apart
        return False


def _written(value: Any, owner: Algorithm) -> bytes:
    """Return an attribute of an algorithm as bytes that are equal for equal objects."""
    out = io.BytesIO()
    writer = _Writer(out)
    writer.owner = owner
    writer.dump(value)
    return out.getvalue()


class _Writer(pickle.Pickler):
    """Writes marks for what both algorithms have, and functions by their code and what they refer to."""

    owner: Algorithm

    def persistent_id(self, value: Any) -> Any:
        if value is self.owner:
            return "owner"
        return id(value) if value is self.owner.problem or isinstance(value, type) else None

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, FunctionType):
            return NotImplemented
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return list, ([marshal.dumps(value.__code__), value.__defaults__, value.__kwdefaults__, cells],)
