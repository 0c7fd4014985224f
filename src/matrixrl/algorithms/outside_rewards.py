"""Rewards outside the declared range, which are clipped if `reward_outside="clip"`: which they are, and their count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.problems import Problem
from matrixrl.records import Steps

__all__ = ["OUTSIDE", "OutsideRewards", "clip_rewards"]

OUTSIDE = "outside_rewards"
"""Name of the saved array."""


def clip_rewards(steps: Steps, problem: Problem) -> tuple[Steps, int]:
    """Return steps whose rewards lie in the declared range, and the number of rewards that were clipped."""
    if problem.reward_outside == "error" or problem.task.reward_range is None:
        return steps, 0  # rewards were checked one by one
    outside = steps.taken & ~problem.in_range(steps.rewards)
    if not outside.any():
        return steps, 0
    rewards = np.where(outside, np.clip(steps.rewards, *problem.task.reward_range), steps.rewards)
    return replace(steps, rewards=rewards), int(outside.sum())


@dataclass(frozen=True)
class OutsideRewards:
    """Rewards outside the declared range that an algorithm learned from.

    Attributes:
        count: Number of them.
        first_episode: Number of the episode of the first one, counted from 1.
    """

    count: int = 0
    first_episode: int = 0

    def plus(self, count: int, episode: int) -> OutsideRewards:
        """Return the record with so many more of an episode."""
        return OutsideRewards(self.count + count, self.first_episode or episode) if count else self

    def words(self, problem: Problem) -> str | None:
        """Return what the rewards outside the range mean for bounds; None if there were none."""
        if not self.count or problem.task.reward_range is None:
            return None
        low, high = problem.task.reward_range
        what = f"{self.count} reward{'s' * (self.count > 1)} outside the declared range [{low:g}, {high:g}]"
        verb = "were" if self.count > 1 else "was"
        return (
            f"{what} (the first in episode {self.first_episode}) {verb} clipped: the bounds hold for the clipped "
            "rewards, not for those earned"
        )

    def arrays(self, problem: Problem) -> dict[str, NDArray[Any]]:
        """Return the count and the first episode, where rewards may lie outside the range."""
        if problem.reward_outside == "error":
            return {}
        return {OUTSIDE: np.array([self.count, self.first_episode], dtype=np.int64)}
