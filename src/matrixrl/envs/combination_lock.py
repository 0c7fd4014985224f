"""CombinationLock: a chain in which every wrong action leads back to the start."""

from __future__ import annotations

import numpy as np

from matrixrl.checks import fits_memory, integer, number
from matrixrl.problems import FiniteMDP, Layout, MDPEnv
from matrixrl.random_streams import generator

__all__ = ["CombinationLock"]


class CombinationLock(MDPEnv):
    """Chain of states in which one hidden action per state leads forward and all others lead back to the start.

    The last state is the open lock. It is absorbing and earns 1 per step.

    Args:
        n_states: Number of states, the open lock included.
        n_actions: Number of actions.
        horizon: Steps in an episode; twice the number of states if None.
        slip: Probability that the right action leads back to the start too.
        seed: Seed of the combination.
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.
    """

    def __init__(
        self,
        n_states: int = 8,
        n_actions: int = 3,
        horizon: int | None = None,
        *,
        slip: float = 0.05,
        seed: int = 0,
        noisy_rewards: bool = False,
    ) -> None:
        n = integer("n_states", n_states, low=2, remedy="Give at least a closed and an open state.")
        count = integer("n_actions", n_actions, low=1, remedy="Give at least one action.")
        slip = number("slip", slip, low=0.0, high=1.0, remedy="Give a probability.")
        fits_memory("n_states and n_actions", 3.0 * n * n * count, f"{n:,} and {count:,}", remedy="Make it smaller.")
        self._combination = combination = generator(seed, "problem").integers(0, count, size=n)
        table = np.zeros((n, count, n))
        table[:, :, 0] = 1.0
        for s in range(n - 1):
            table[s, combination[s]] = 0.0
            table[s, combination[s], 0] += slip
            table[s, combination[s], s + 1] += 1.0 - slip
        table[n - 1] = np.eye(n)[n - 1]
        reward = np.zeros((n, count))
        reward[n - 1] = 1.0
        super().__init__(FiniteMDP(table, reward, 2 * n if horizon is None else horizon, noisy_rewards=noisy_rewards))

    @property
    def layout(self) -> Layout:
        """The chain of states; an action leads forward or back to the start."""
        moves = np.zeros((self.mdp.n_states, self.mdp.n_actions, 2))
        moves[:-1, :, 1] = np.where(self._combination[:-1, None] == np.arange(self.mdp.n_actions), 1.0, -1.0)
        return Layout.chain(self.mdp.n_states, moves=moves)
