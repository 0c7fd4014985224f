"""FourRooms: a grid of four rooms joined by doors, with random moves and a goal in the far corner."""

from __future__ import annotations

import numpy as np

from matrixrl.checks import fail, fits_memory, integer, number
from matrixrl.problems import FiniteMDP, Layout, MDPEnv

__all__ = ["FourRooms"]

_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left


class FourRooms(MDPEnv):
    """Square grid of four rooms; episodes start in the upper left corner, the goal is in the lower right one.

    A move succeeds with probability 1 − slip and goes in each of the two sideways directions with probability slip/2;
    a move into a wall does not change the state. The goal is absorbing and earns 1 per step.

    Args:
        size: Cells along a side without the outer walls; odd, at least 5. n_states is the number of free cells.
        horizon: Steps in an episode; four times the side if None.
        slip: Probability of moving sideways.
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.
    """

    def __init__(
        self, size: int = 9, horizon: int | None = None, *, slip: float = 0.1, noisy_rewards: bool = False
    ) -> None:
        n = integer("size", size, low=5, remedy="Try 9.")
        if n % 2 == 0:
            fail("size", "must be odd (the walls need a middle line)", n, f"Try {n + 1}.")
        slip = number("slip", slip, low=0.0, high=1.0, remedy="Give a probability.")
        fits_memory("size", 12.0 * (n - 1) ** 4, f"{n:,}", remedy="Try 9.")
        self._walls = _walls(n)
        self._cells = [(int(r), int(c)) for r, c in np.argwhere(~self._walls)]
        index_of = {cell: i for i, cell in enumerate(self._cells)}
        states = len(self._cells)
        goal = index_of[n - 1, n - 1]
        table = np.zeros((states, 4, states))
        reward = np.zeros((states, 4))
        reward[goal] = 1.0
        for s, (row, column) in enumerate(self._cells):
            for a in range(4):
                if s == goal:
                    table[s, a, s] = 1.0
                    continue
                for turn, probability in ((0, 1.0 - slip), (1, slip / 2), (3, slip / 2)):
                    dr, dc = _MOVES[(a + turn) % 4]
                    table[s, a, index_of.get((row + dr, column + dc), s)] += probability
        mdp = FiniteMDP(table, reward, 4 * n if horizon is None else horizon, noisy_rewards=noisy_rewards)
        super().__init__(mdp)

    @property
    def layout(self) -> Layout:
        """The free cells of the rooms."""
        return Layout(np.array(self._cells), np.array(_MOVES, dtype=np.float64))


def _walls(n: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    middle = n // 2
    walls = np.zeros((n, n), dtype=np.bool_)
    walls[middle, :] = walls[:, middle] = True
    near, far = middle // 2, middle + 1 + (n - middle - 1) // 2
    walls[middle, near] = walls[middle, far] = walls[near, middle] = walls[far, middle] = False
    return walls
