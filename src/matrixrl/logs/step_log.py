"""Steps of many episodes as flat arrays, and the record of all steps that an agent saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.errors import InvalidInput
from matrixrl.problems import FunctionalTask, Problem
from matrixrl.records import BoolArray, FloatArray, IntArray, Steps

__all__ = ["NAMES", "SeenLog", "StepLog", "rows_differ"]

_OF_STEPS = ("states", "actions", "rewards", "next_states", "ended")
NAMES = (*_OF_STEPS, "firsts", "lengths")
"""Names of the arrays of `StepLog` that every problem has."""
_OUTCOMES = "outcomes"

_TOGETHER = 1024  # played episodes that are joined, so that a step does not cost an array
_LOGGED = "logged"


def rows_differ(one: NDArray[Any], other: NDArray[Any]) -> BoolArray:
    """Return which states (n, …) of two arrays differ: (n,)."""
    differ: BoolArray = np.any(one != other, axis=tuple(range(1, one.ndim)))
    return differ


@dataclass(frozen=True, slots=True)
class StepLog:
    """Steps of m episodes, one episode after the other, n steps together.

    Attributes:
        states: (n, …) States before each step, numbered from 0, or vectors.
        actions: (n,) Actions, counted from 0.
        rewards: (n,) Rewards in the environment's unit.
        next_states: (n, …) States after each step.
        ended: (n,) Whether the environment terminated the episode with this step.
        firsts: (m,) Stage of the first step of each episode; 0 unless its first steps are missing.
        lengths: (m,) Number of steps of each episode, at least 1.
        outcomes: (n,) Outcome of each step of a problem with known dynamics, counted from 0; None for other problems.

    >>> one, two = np.array([0, 1, 0]), np.array([1, 0, 1])
    >>> log = StepLog(one, one, np.ones(3), two, np.zeros(3, dtype=bool), np.array([0, 2]), np.array([2, 1]))
    >>> log.stages, log.returns()
    (array([0, 1, 2]), array([2., 1.]))
    """

    states: NDArray[Any]
    actions: IntArray
    rewards: FloatArray
    next_states: NDArray[Any]
    ended: BoolArray
    firsts: IntArray
    lengths: IntArray
    outcomes: IntArray | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its arrays."""
        return NAMES if self.outcomes is None else (*NAMES, _OUTCOMES)

    @property
    def n_episodes(self) -> int:
        """Number of episodes m."""
        return len(self.lengths)

    @property
    def n_steps(self) -> int:
        """Number of steps n."""
        return len(self.actions)

    @property
    def offsets(self) -> IntArray:
        """Position of the first step of each episode, and n at the end: (m+1,)."""
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    @property
    def episodes(self) -> IntArray:
        """Number of the episode of each step, counted from 0: (n,)."""
        return np.repeat(np.arange(self.n_episodes), self.lengths)

    @property
    def stages(self) -> IntArray:
        """Stage of each step, counted from 0: (n,)."""
        begins = np.asarray(self.firsts, dtype=np.int64) - self.offsets[:-1]
        return np.arange(self.n_steps) + np.repeat(begins, self.lengths)

    def returns(self, discount: float = 1.0) -> FloatArray:
        """Return Σ γ^h r_h of each episode: (m,)."""
        weighted = self.rewards if discount == 1.0 else self.rewards * discount**self.stages
        return np.add.reduceat(weighted, self.offsets[:-1]) if self.n_episodes else np.zeros(0)

    @property
    def follows(self) -> BoolArray:
        """Whether a step has the same episode as the step before it: (n,)."""
        follows = np.ones(self.n_steps, dtype=np.bool_)
        follows[self.offsets[:-1]] = False
        return follows

    def _between(self, first: int, last: int, offsets: IntArray) -> StepLog:
        rows = slice(int(offsets[first]), int(offsets[last]))
        arrays = {name: getattr(self, name)[rows] for name in _OF_STEPS}
        outcomes = None if self.outcomes is None else self.outcomes[rows]
        return StepLog(**arrays, firsts=self.firsts[first:last], lengths=self.lengths[first:last], outcomes=outcomes)

    def parts(self, most: int) -> Iterator[StepLog]:
        """Yield all episodes in order, as many whole ones at a time as have at most so many steps; at least one."""
        offsets, first = self.offsets, 0
        while first < self.n_episodes:
            last = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
            last = max(last, first + 1)
            yield self._between(first, last, offsets)
            first = last

    def steps(self) -> Steps:
        """Return the steps of one replica: of one episode at their stages, of several episodes one after the other."""
        whole = np.int64 if self.states.dtype.kind in "iu" else np.float64
        found = Steps.of(
            self.states.astype(whole)[None],
            self.actions.astype(np.int64)[None],
            self.rewards[None],
            self.next_states.astype(whole)[None],
            self.ended[None],
            outcomes=None if self.outcomes is None else self.outcomes.astype(np.int64)[None],
        )
        missing = int(self.firsts[0]) if self.n_episodes == 1 else 0
        return found.padded(missing + self.n_steps, before=True)

    @classmethod
    def joined(cls, logs: Sequence[StepLog]) -> StepLog:
        """Return the episodes of some logs, one log after the other; there must be at least one log."""
        return cls(*(np.concatenate([getattr(log, name) for log in logs]) for name in logs[0].names))


class SeenLog:
    """The steps of all episodes that an agent played or learned from, in the order in which it learned from them.

    States and actions are kept in the smallest integers that hold them: 14 bytes a step for fewer than 256 states.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._blocks: list[StepLog] = []
        self._are_logged: list[BoolArray] = []
        self._pending: list[Steps] = []

    def add_played(self, steps: Steps) -> None:
        """Add a played episode (1, k) of k steps."""
        self._pending.append(steps)
        if len(self._pending) == _TOGETHER:
            self._join_pending()

    def add_logged(self, log: StepLog) -> None:
        """Add episodes of a log."""
        self._join_pending()
        self._add(log, logged=True)

    def _join_pending(self) -> None:
        played = self._pending
        if not played:
            return
        lengths = np.array([steps.actions.shape[1] for steps in played], dtype=np.int64)
        names = _OF_STEPS if self._problem.task.dynamics is None else (*_OF_STEPS, _OUTCOMES)
        arrays = {name: np.concatenate([getattr(steps, name)[0] for steps in played]) for name in names}
        arrays["actions"] = self._problem.task.stages.own(arrays["actions"])
        self._add(StepLog(**arrays, firsts=np.zeros_like(lengths), lengths=lengths), logged=False)
        self._pending = []

    def _add(self, log: StepLog, *, logged: bool) -> None:
        types = self._types()
        self._blocks.append(StepLog(*(getattr(log, name).astype(types[name]) for name in log.names)))
        self._are_logged.append(np.full(log.n_episodes, logged))

    def _types(self) -> dict[str, np.dtype[Any]]:
        """Return the type of each array."""
        task, kind = self._problem.task, self._problem.kind
        state = np.dtype(np.float64)
        if kind == "finite":
            state = np.min_scalar_type(self._problem.finite_task.n_states - 1)
        elif isinstance(task, FunctionalTask):
            state = task.state_dtype
        stage = np.min_scalar_type(task.horizon)
        outcomes = {} if task.dynamics is None else {_OUTCOMES: np.min_scalar_type(-task.dynamics.n_outcomes)}
        return {
            "states": state,
            "actions": np.min_scalar_type(self._problem.actions.size - 1),
            "rewards": np.dtype(np.float64),
            "next_states": state,
            "ended": np.dtype(np.bool_),
            "firsts": stage,
            "lengths": stage,
            **outcomes,
        }

    @property
    def n_episodes(self) -> int:
        """Number of episodes."""
        return sum(block.n_episodes for block in self._blocks) + len(self._pending)

    def all(self) -> tuple[StepLog, BoolArray]:
        """Return all steps, and which episodes (m,) were logged, not played; there must be an episode."""
        self._join_pending()
        if len(self._blocks) > 1:
            self._blocks = [StepLog.joined(self._blocks)]
            self._are_logged = [np.concatenate(self._are_logged)]
        return self._blocks[0], self._are_logged[0]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays, for saving; none before the first episode."""
        if not self.n_episodes:
            return {}
        seen, logged = self.all()
        return {name: getattr(seen, name) for name in seen.names} | {_LOGGED: logged}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned for the same problem."""
        if not arrays:
            return
        types = self._types() | {_LOGGED: np.dtype(np.bool_)}
        if set(arrays) != set(types):
            raise InvalidInput(f"the steps that were seen must have the arrays {sorted(types)}")
        if any(arrays[name].dtype != types[name] for name in types):
            raise InvalidInput("the steps that were seen must have the types of the problem")
        names = [name for name in types if name != _LOGGED]
        self._blocks, self._are_logged = [StepLog(**{name: arrays[name] for name in names})], [arrays[_LOGGED]]
