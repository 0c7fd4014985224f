"""Rewards outside the declared range: which they are, what is made of them, and how they are counted and saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail
from matrixrl.errors import InvalidInput
from matrixrl.problems import Problem
from matrixrl.records import BoolArray, FloatArray, Steps

__all__ = ["OUTSIDE", "OutsideRewards", "clipped", "find_outside", "wider_range"]

OUTSIDE = "outside_rewards"
"""Name of the saved array."""
_LARGEST_REWARD = 1e12  # as in Problem.reward

Range = tuple[float, float]


def find_outside(steps: Steps, problem: Problem) -> BoolArray | None:
    """Return which rewards lie outside the declared range, (B, T); None if none does."""
    if problem.reward_outside == "error" or problem.task.reward_range is None:
        return None  # rewards were checked one by one
    outside: BoolArray = steps.taken & ~problem.in_range(steps.rewards)
    return outside if outside.any() else None


def clipped(steps: Steps, outside: BoolArray, problem: Problem) -> Steps:
    """Return steps whose rewards outside the declared range are the nearest ones inside."""
    low, high = _range_of(problem)
    return replace(steps, rewards=np.where(outside, np.clip(steps.rewards, low, high), steps.rewards))


def wider_range(steps: Steps, outside: BoolArray, problem: Problem) -> Range:
    """Return the declared range, widened to contain all rewards of one replica."""
    if len(outside) > 1:
        fail("reward_outside", "must be 'error' or 'clip' for several replicas", "'widen'", "Play one seed.")
    low, high = _range_of(problem)
    seen = steps.rewards[outside]
    return min(low, float(seen.min())), max(high, float(seen.max()))


def _range_of(problem: Problem) -> Range:
    return problem.task.reward_range or (0.0, 0.0)


@dataclass(frozen=True)
class OutsideRewards:
    """Rewards outside the declared range that an algorithm learned from.

    Attributes:
        count: Number of them.
        first_episode: Number of the episode of the first one, counted from 1.
        declared: Declared range of rewards.
    """

    count: int
    first_episode: int
    declared: Range

    @classmethod
    def none_of(cls, problem: Problem) -> OutsideRewards:
        """Return the record of an algorithm that starts on a problem."""
        return cls(0, 0, _range_of(problem))

    def plus(self, count: int, episode: int) -> OutsideRewards:
        """Return the record with so many more of an episode."""
        return OutsideRewards(self.count + count, self.first_episode or episode, self.declared)

    def words(self, problem: Problem) -> str | None:
        """Return what the rewards outside the range mean for bounds; None if there were none."""
        if not self.count:
            return None
        low, high = self.declared
        what = f"{self.count} reward{'s' * (self.count > 1)} outside the declared range [{low:g}, {high:g}]"
        since = f"the first in episode {self.first_episode}"
        if problem.reward_outside == "clip":
            verb = "were" if self.count > 1 else "was"
            return f"{what} ({since}) {verb} clipped: the bounds hold for the clipped rewards, not for those earned"
        now = problem.task.reward_range or self.declared
        return (
            f"{what} ({since}) widened it to [{now[0]:g}, {now[1]:g}]: bounds start again, and nothing is proven for a "
            "range that was chosen by data"
        )

    def arrays(self, problem: Problem) -> dict[str, FloatArray]:
        """Return the count, the first episode, the declared and the present range, where rewards may lie outside."""
        if problem.reward_outside == "error":
            return {}
        numbers = (self.count, self.first_episode, *self.declared, *_range_of(problem))
        return {OUTSIDE: np.array(numbers, dtype=np.float64)}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], problem: Problem, episode: int, n_replicas: int
    ) -> tuple[OutsideRewards, Range]:
        """Return what `arrays` wrote after so many episodes, and the range of rewards that was in use.

        Raises:
            InvalidInput: No algorithm on this problem can have written it.
        """
        if (OUTSIDE in arrays) != (problem.reward_outside != "error"):
            raise InvalidInput(f"{OUTSIDE} must be there if, and only if, rewards may lie outside their range")
        if OUTSIDE not in arrays:
            return cls.none_of(problem), _range_of(problem)
        array = arrays[OUTSIDE]
        if array.shape != (6,) or array.dtype != np.float64 or not np.isfinite(array).all():
            raise InvalidInput(f"{OUTSIDE} must be six finite numbers")
        count, first, declared_low, declared_high, low, high = array.tolist()
        declared, now = (declared_low, declared_high), (low, high)
        _check_counts(count, first, episode, problem.task.horizon * n_replicas)
        _check_ranges(count, declared, now, problem)
        return cls(int(count), int(first), declared), now


def _check_counts(count: float, first: float, episode: int, most_each: int) -> None:
    """Refuse a number of rewards outside the range that so many episodes cannot have had since the first one."""
    if count == first == 0:
        return
    if count != np.floor(count) or first != np.floor(first) or not 1 <= first <= episode:
        raise InvalidInput(f"{OUTSIDE} must be whole numbers, and the first one of an episode that was played")
    most = (episode - first + 1) * most_each
    if not 1 <= count <= most:
        raise InvalidInput(f"{OUTSIDE} must be from 1 to {most:.0f} since episode {first:.0f}")


def _check_ranges(count: float, declared: Range, now: Range, problem: Problem) -> None:
    """Refuse ranges of rewards other than those that rewards make of the problem's own."""
    own = _range_of(problem)
    if own not in (declared, now):
        raise InvalidInput(f"{OUTSIDE} must hold the range of the problem, [{own[0]:g}, {own[1]:g}]")
    if not -_LARGEST_REWARD <= now[0] <= declared[0] <= declared[1] <= now[1] <= _LARGEST_REWARD:
        raise InvalidInput(f"{OUTSIDE} must hold a range inside a range of at most {_LARGEST_REWARD:g}")
    widened = count > 0 and problem.reward_outside == "widen"
    if (now != declared) != widened:
        raise InvalidInput(f"{OUTSIDE} must hold a wider range if, and only if, rewards have widened it")
    if count > 0 and problem.task.reward_range is None:
        raise InvalidInput(f"{OUTSIDE} must be none where no range of rewards is declared")
