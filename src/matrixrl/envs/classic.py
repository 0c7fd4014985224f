"""Problems of the literature: chains, a sea to dive in, a lock, and a random MDP with few features."""

from __future__ import annotations

import numpy as np

from matrixrl.checks import fits_memory, integer, number
from matrixrl.problems import FiniteMDP, Layout, MDPEnv, low_rank
from matrixrl.random_streams import generator

__all__ = ["CombinationLock", "DeepSea", "LinearMDP", "RiverSwim"]


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


class LinearMDP(MDPEnv):
    """Random soft-aggregation MDP with transitions and rewards that are linear in d features.

    The features are in `env.unwrapped.mdp.features`.

    Args:
        n_states, n_actions, d, d_psi, horizon, concentration, orthonormal, seed, noisy_rewards: See
            `matrixrl.problems.low_rank`.

    Attributes:
        core: True core M*, shape (d, d_psi); agents do not use it.
    """

    def __init__(
        self,
        n_states: int = 300,
        n_actions: int = 5,
        d: int = 5,
        horizon: int = 10,
        *,
        d_psi: int | None = None,
        concentration: float = 1.0,
        orthonormal: bool = False,
        seed: int = 0,
        noisy_rewards: bool = False,
    ) -> None:
        made = low_rank(
            n_states=n_states,
            n_actions=n_actions,
            d=d,
            d_psi=d_psi,
            horizon=horizon,
            concentration=concentration,
            orthonormal=orthonormal,
            seed=seed,
            noisy_rewards=noisy_rewards,
        )
        self.core = made.core
        super().__init__(made.mdp)
