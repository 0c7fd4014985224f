"""RiverSwim: a chain with a small reward at the near end and a large one at the far end."""

from __future__ import annotations

import numpy as np

from matrixrl.checks import fits_memory, integer
from matrixrl.problems import FiniteMDP, Layout, MDPEnv

__all__ = ["RiverSwim"]


class RiverSwim(MDPEnv):
    """Chain of states; action 0 swims left and always succeeds, action 1 swims right against the current.

    Action 1 moves one state to the right with probability 0.3, stays with 0.6, and moves to the left with 0.1. At the
    left end it moves to the right with 0.7 and stays with 0.3; at the right end it stays with 0.9 and moves to the left
    with 0.1. Action 0 in the first state earns 0.005, action 1 in the last state earns 1. These are the numbers of
    Ayoub et al. 2020, with V*(s0) = 8.271, 5.517, 5.078 for (n_states, horizon) = (4, 20), (6, 24), (12, 48).

    Args:
        n_states: Length of the river, at least 2.
        horizon: Steps in an episode; four per state if None.
        copies: Number of separate rivers of n_states states each. An episode starts in a random one. The number of
            features d grows with it, and the value of an optimal policy stays the same.
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.
    """

    def __init__(
        self, n_states: int = 6, horizon: int | None = None, *, copies: int = 1, noisy_rewards: bool = False
    ) -> None:
        n = integer("n_states", n_states, low=2, remedy="Give at least two states.")
        count = integer("copies", copies, low=1, remedy="Give at least one river.")
        fits_memory("n_states and copies", 6.0 * (n * count) ** 2, f"{n:,} and {count:,}", remedy="Make it smaller.")
        table = np.zeros((n, 2, n))
        reward = np.zeros((n, 2))
        for s in range(n):
            table[s, 0, max(s - 1, 0)] = 1.0
        table[0, 1, :2] = 0.3, 0.7
        table[n - 1, 1, n - 2 :] = 0.1, 0.9
        for s in range(1, n - 1):
            table[s, 1, s - 1 : s + 2] = 0.1, 0.6, 0.3
        reward[0, 0], reward[n - 1, 1] = 0.005, 1.0
        start = np.zeros((count, n))
        start[:, 0] = 1.0 / count
        steps = 4 * n if horizon is None else horizon
        self._length = n
        super().__init__(
            FiniteMDP(
                np.einsum("ij,sat->isajt", np.eye(count), table).reshape(count * n, 2, count * n),
                np.tile(reward, (count, 1)),
                steps,
                start=start.ravel(),
                noisy_rewards=noisy_rewards,
            )
        )

    @property
    def layout(self) -> Layout:
        """The river as a chain; a row for each of several rivers."""
        return Layout.grid(self.mdp.n_states // self._length, self._length, moves=("left", "right"))
