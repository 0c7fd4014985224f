"""CombinationLock: the right action in every state, or back to the start."""

from __future__ import annotations

import numpy as np

from matrixrl.checks import integer, number
from matrixrl.problems import FiniteMDP, MDPEnv
from matrixrl.seeding import generator

__all__ = ["CombinationLock"]


class CombinationLock(MDPEnv):
    """A chain in which one hidden action a state turns the lock one notch and any other resets it.

    The last state is the open lock: it stays open and earns 1 a step.

    Args:
        n_states: notches, the open lock included.
        n_actions: buttons.
        horizon: steps in an episode; twice the number of states by default.
        slip: probability that the right action resets the lock too.
        seed: of the combination.
        noisy_rewards: pay 0 or 1 at random with the right mean.
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
        render_mode: str | None = None,
    ) -> None:
        n = integer("n_states", n_states, low=2, remedy="Closed and open at least.")
        buttons = integer("n_actions", n_actions, low=1, remedy="At least one button.")
        slip = number("slip", slip, low=0.0, high=1.0, remedy="A probability.")
        combination = generator(seed, "problem").integers(0, buttons, size=n)
        table = np.zeros((n, buttons, n))
        table[:, :, 0] = 1.0
        for s in range(n - 1):
            table[s, combination[s]] = 0.0
            table[s, combination[s], 0] += slip
            table[s, combination[s], s + 1] += 1.0 - slip
        table[n - 1] = np.eye(n)[n - 1]
        reward = np.zeros((n, buttons))
        reward[n - 1] = 1.0
        super().__init__(
            FiniteMDP(table, reward, 2 * n if horizon is None else horizon, noisy_rewards=noisy_rewards),
            render_mode=render_mode,
        )

    def picture(self, state: int) -> str:
        """Draw the lock: notches turned and notches left."""
        left = self.mdp.n_states - 1 - state
        return "[" + "#" * state + "." * left + "]" + (" open" if left == 0 else "")
