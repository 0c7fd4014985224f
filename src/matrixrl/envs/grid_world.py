"""GridWorld: an open square grid with random moves, a goal in the far corner, and coordinates of every state."""

from __future__ import annotations

import numpy as np

from matrixrl.checks import fits_memory, integer, number
from matrixrl.envs.cases import table_of
from matrixrl.problems import FiniteMDP, Layout, MDPEnv
from matrixrl.records import FloatArray

__all__ = ["GridWorld"]

_MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])  # up, right, down, left


class GridWorld(MDPEnv):
    """Open grid of size × size cells; episodes start in one corner, the goal is in the opposite one.

    A move succeeds with probability 1 − slip and goes in each of the two sideways directions with probability slip/2;
    a move out of the grid does not change the state. The goal is absorbing and earns 1 per step. Neighbouring cells
    have similar dynamics, so that kernels on `points` generalise.

    Args:
        size: Cells along a side; n_states is its square.
        horizon: Steps in an episode; three times the side if None.
        slip: Probability of moving sideways.
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.

    Attributes:
        points: Coordinates of every state in [-1, 1]², shape (S, 2).
    """

    def __init__(
        self, size: int = 20, horizon: int | None = None, *, slip: float = 0.1, noisy_rewards: bool = False
    ) -> None:
        self.size = n = integer("size", size, low=2, remedy="Try 20.")
        slip = number("slip", slip, low=0.0, high=1.0, remedy="Give a probability.")
        fits_memory("size", 100.0 * n * n, f"{n:,}", remedy="Try 20.")
        states, goal = np.arange(n * n), n * n - 1
        cells = np.stack(np.divmod(states, n), axis=1)
        outcomes = []
        for turn, probability in ((0, 1.0 - slip), (1, slip / 2), (3, slip / 2)):
            there = np.clip(cells[:, None] + np.roll(_MOVES, -turn, axis=0), 0, n - 1) @ [n, 1]
            outcomes.append((probability, np.where(states[:, None] == goal, goal, there), 0.0))
        table, _ = table_of(outcomes)
        reward = np.zeros((n * n, 4))
        reward[goal] = 1.0
        self.points: FloatArray = 2.0 * cells / (n - 1) - 1.0
        mdp = FiniteMDP(table, reward, 3 * n if horizon is None else horizon, noisy_rewards=noisy_rewards)
        super().__init__(mdp)

    @property
    def layout(self) -> Layout:
        """The grid, row by row."""
        return Layout.grid(self.size, self.size, moves=("up", "right", "down", "left"))
