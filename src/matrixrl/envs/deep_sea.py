"""DeepSea: one action sequence in 2^size reaches the treasure, and each of its steps has a small cost."""

from __future__ import annotations

import numpy as np

from matrixrl.checks import fits_memory, integer
from matrixrl.problems import FiniteMDP, Layout, MDPEnv
from matrixrl.random_streams import generator

__all__ = ["DeepSea"]


class DeepSea(MDPEnv):
    """Grid in which each step goes down one row and left or right; the treasure is at the right of the last row.

    Each cell has its own action for "right". Moving right costs 0.01/size; moving right in the cell of the treasure
    earns 1. The last row leads back to the first cell, so that a longer horizon contains several dives.

    The environment is that of Osband et al. 2020 (bsuite).

    Args:
        size: Rows and columns of the grid, so that n_states = size².
        horizon: Steps in an episode; one dive (`size`) if None.
        seed: Seed of the assignment of actions to directions.
        noisy_rewards: Whether rewards are one end of the reward range at random, with the given means.
    """

    def __init__(
        self, size: int = 10, horizon: int | None = None, *, seed: int = 0, noisy_rewards: bool = False
    ) -> None:
        n = integer("size", size, low=2, remedy="Try 10.")
        fits_memory("size", 6.0 * n**4, f"{n:,}", remedy="Try 10.")
        self.size = n
        self._right = right = generator(seed, "problem").integers(0, 2, size=(n, n))
        cost = 0.01 / n
        table = np.zeros((n * n, 2, n * n))
        reward = np.zeros((n * n, 2))
        for row in range(n):
            for column in range(n):
                s = row * n + column
                for a in range(2):
                    goes_right = a == right[row, column]
                    target = min(column + 1, n - 1) if goes_right else max(column - 1, 0)
                    table[s, a, 0 if row == n - 1 else (row + 1) * n + target] = 1.0
                    reward[s, a] = -cost if goes_right else 0.0
        treasure = n * n - 1
        reward[treasure, right[n - 1, n - 1]] = 1.0
        mdp = FiniteMDP(
            table, reward, n if horizon is None else horizon, reward_range=(-cost, 1.0), noisy_rewards=noisy_rewards
        )
        super().__init__(mdp)

    @property
    def layout(self) -> Layout:
        """The grid; an action leads down, and to the right or to the left."""
        goes_right = self._right.ravel()[:, None] == np.arange(2)
        across = np.where(goes_right, 1.0, -1.0)
        return Layout.grid(self.size, self.size, moves=np.stack([np.ones_like(across), across], axis=2))
