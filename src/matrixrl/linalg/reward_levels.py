"""Rewards as a small number of levels, so that the joint law of reward and next state has few atoms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matrixrl.errors import InvalidInput
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["LevelShares", "RewardLevels"]


class LevelShares(NamedTuple):
    """Rewards as mixtures of two levels.

    Attributes:
        below: (B, T) Number of the level at or below each reward.
        above: (B, T) Number of the next level above; the same number where the reward is a level.
        weight: (B, T) Share of the level above, such that the mixture has the reward as its mean.
    """

    below: IntArray
    above: IntArray
    weight: FloatArray


class RewardLevels:
    """The levels of unit rewards of B replicas: 0, 1 and the first other rewards that are seen.

    The first `n_levels` different rewards are levels themselves. A later one is divided between the levels around
    it, which keeps the mean and only loosens an upper bound, because ln(ν − r) is concave in r (docs/proofs.md,
    section 9).

    Args:
        n_replicas: Number of replicas B.
        n_levels: Largest number of levels.

    >>> levels = RewardLevels(n_replicas=1, n_levels=3)
    >>> levels.place(np.array([[0.25, 0.5]]), np.array([[True, True]])).weight
    array([[0.        , 0.33333333]])
    """

    def __init__(self, n_replicas: int, n_levels: int = 64) -> None:
        self.values = np.full((n_replicas, n_levels), np.nan)
        self.values[:, :2] = 0.0, 1.0

    @property
    def n_levels(self) -> int:
        """Largest number of levels."""
        return int(self.values.shape[1])

    def place(self, rewards: FloatArray, counted: BoolArray) -> LevelShares:
        """Return where rewards lie between levels; new rewards become levels as long as there is room.

        Args:
            rewards: (B, T) Rewards in [0, 1].
            counted: (B, T) Which of them count.
        """
        numbers = np.zeros((2, *rewards.shape), dtype=np.int64)
        shares = LevelShares(numbers[0], numbers[1], np.zeros(rewards.shape))
        for b, row in enumerate(rewards):
            self._add(b, row[counted[b]])
            levels = self.values[b]
            order = np.argsort(levels)  # unused levels, not a number, come last
            used = levels[order][: int(np.isfinite(levels).sum())]
            right = np.clip(np.searchsorted(used, row, side="right"), 1, len(used) - 1)
            low, high = used[right - 1], used[right]
            weight = np.clip((row - low) / (high - low), 0.0, 1.0)
            shares.below[b] = order[np.where(weight == 1.0, right, right - 1)]
            shares.above[b] = order[np.where(weight == 0.0, right - 1, right)]
            shares.weight[b] = np.where(weight == 1.0, 0.0, weight)
        return shares

    def _add(self, b: int, rewards: FloatArray) -> None:
        new, first = np.unique(rewards, return_index=True)
        fresh = ~np.isin(new, self.values[b])
        in_order = new[fresh][np.argsort(first[fresh])]
        free = np.flatnonzero(np.isnan(self.values[b]))[: len(in_order)]
        self.values[b, free] = in_order[: len(free)]

    def restore(self, values: FloatArray) -> None:
        """Take back an array of levels.

        Raises:
            InvalidInput: The array is not made of levels.
        """
        if values.shape != self.values.shape or values.dtype != np.float64:
            raise InvalidInput(f"levels of rewards must have shape {self.values.shape}")
        used = np.isfinite(values)
        if (values[:, 0] != 0.0).any() or (values[:, 1] != 1.0).any() or (np.diff(used.astype(int), axis=1) > 0).any():
            raise InvalidInput("levels of rewards must start with 0 and 1, unused ones last")
        if ((values[used] < 0.0) | (values[used] > 1.0)).any():
            raise InvalidInput("levels of rewards must be in [0, 1]")
        if any(len(np.unique(row[~np.isnan(row)])) < (~np.isnan(row)).sum() for row in values):
            raise InvalidInput("levels of rewards must be different numbers")
        self.values = values.copy()
