"""GridWorld: an open square with a slippery floor, a goal in the far corner, and a place for every state."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from matrixrl.checks import integer, number
from matrixrl.problems import FiniteMDP, MDPEnv
from matrixrl.records import FloatArray

__all__ = ["GridWorld"]

_MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])  # up, right, down, left


class GridWorld(MDPEnv):
    """Walk an open size × size grid from one corner to the other; neighbouring cells behave alike.

    A move succeeds with probability 1 − slip and goes in each of the two sideways directions with slip/2; the border
    stops it. The goal keeps whoever reaches it and earns 1 a step. `points` says where each state lies, so that a
    kernel can generalise.

    Args:
        size: cells along a side; n_states is its square.
        horizon: steps in an episode; three times the side by default.
        slip: probability of going sideways.
        noisy_rewards: pay 0 or 1 at random with the right mean.
    """

    def __init__(
        self,
        size: int = 20,
        horizon: int | None = None,
        *,
        slip: float = 0.1,
        noisy_rewards: bool = False,
        render_mode: str | None = None,
    ) -> None:
        self.size = n = integer("size", size, low=2, remedy="Try 20.")
        slip = number("slip", slip, low=0.0, high=1.0, remedy="A probability.")
        states, goal = np.arange(n * n), n * n - 1
        cells = np.stack(np.divmod(states, n), axis=1)
        parts = []
        for a in range(4):
            for turn, probability in ((0, 1.0 - slip), (1, slip / 2), (3, slip / 2)):
                there = np.clip(cells + _MOVES[(a + turn) % 4], 0, n - 1)
                following = np.where(states == goal, goal, there @ [n, 1])
                parts.append((np.full(n * n, probability), states * 4 + a, following))
        data, rows, columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        table = sparse.coo_array((data, (rows, columns)), shape=(n * n * 4, n * n)).tocsr()
        reward = np.zeros((n * n, 4))
        reward[goal] = 1.0
        self.points: FloatArray = 2.0 * cells / (n - 1) - 1.0
        mdp = FiniteMDP(table, reward, 3 * n if horizon is None else horizon, noisy_rewards=noisy_rewards)
        super().__init__(mdp, render_mode=render_mode)

    def picture(self, state: int) -> str:
        """Draw the grid with the walker."""
        cells = np.full((self.size, self.size), ".")
        cells[-1, -1] = "G"
        cells[divmod(state, self.size)] = "W"
        return "\n".join("".join(row) for row in cells)
