"""Steps of many episodes as flat arrays: what a log holds, and what an agent keeps of all that it saw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.records import BoolArray, FloatArray, IntArray, Steps

__all__ = ["NAMES", "StepLog", "rows_differ"]

_OF_STEPS = ("states", "actions", "rewards", "next_states", "ended")
NAMES = (*_OF_STEPS, "firsts", "lengths")
"""Names of the arrays of `StepLog`."""


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

    def part(self, first: int, last: int) -> StepLog:
        """Return the episodes first … last−1."""
        return self._between(first, last, self.offsets)

    def _between(self, first: int, last: int, offsets: IntArray) -> StepLog:
        rows = slice(int(offsets[first]), int(offsets[last]))
        arrays = {name: getattr(self, name)[rows] for name in _OF_STEPS}
        return StepLog(**arrays, firsts=self.firsts[first:last], lengths=self.lengths[first:last])

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
        )
        missing = int(self.firsts[0]) if self.n_episodes == 1 else 0
        return found.delayed(missing)

    def same_as(self, other: StepLog) -> bool:
        """Say whether two logs hold the same steps."""
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in NAMES)

    @classmethod
    def joined(cls, logs: Sequence[StepLog]) -> StepLog:
        """Return the episodes of some logs, one log after the other; there must be at least one log."""
        return cls(*(np.concatenate([getattr(log, name) for log in logs]) for name in NAMES))
