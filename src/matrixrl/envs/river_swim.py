"""RiverSwim: swim against the current to a large reward, or drift to a small one."""

from __future__ import annotations

import numpy as np

from matrixrl.checks import integer
from matrixrl.problems import FiniteMDP, MDPEnv

__all__ = ["RiverSwim"]


class RiverSwim(MDPEnv):
    """A chain of states; action 0 swims left and always succeeds, action 1 swims right against the current.

    Right: one state forward with probability 0.3, stay with 0.6, back with 0.1; forward with 0.7 (stay with 0.3)
    at the left end; stay with 0.9 (back with 0.1) at the right end. Left in the first state earns 0.005, right
    in the last one earns 1. These are the numbers of Ayoub et al. 2020, with V*(s0) = 8.271, 5.517, 5.078 for
    (n_states, horizon) = (4, 20), (6, 24), (12, 48).

    Args:
        n_states: length of the river, at least 2.
        horizon: steps in an episode; four for each state by default.
        copies: that many separate rivers, n_states each; an episode starts in one of them at random. Each must be
            learned by itself, so d grows and nothing else changes.
        noisy_rewards: pay 0 or 1 at random with the right mean.
    """

    def __init__(
        self,
        n_states: int = 6,
        horizon: int | None = None,
        *,
        copies: int = 1,
        noisy_rewards: bool = False,
        render_mode: str | None = None,
    ) -> None:
        n = integer("n_states", n_states, low=2, remedy="A river has two ends.")
        table = np.zeros((n, 2, n))
        reward = np.zeros((n, 2))
        for s in range(n):
            table[s, 0, max(s - 1, 0)] = 1.0
        table[0, 1, :2] = 0.3, 0.7
        table[n - 1, 1, n - 2 :] = 0.1, 0.9
        for s in range(1, n - 1):
            table[s, 1, s - 1 : s + 2] = 0.1, 0.6, 0.3
        reward[0, 0], reward[n - 1, 1] = 0.005, 1.0
        count = integer("copies", copies, low=1, remedy="One river is the classic.")
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
            ),
            render_mode=render_mode,
        )

    def picture(self, state: int) -> str:
        """Draw the river with the swimmer."""
        river, place = divmod(state, self._length)
        which = f"{river + 1}: " if self.mdp.n_states > self._length else ""
        return which + "~" * place + "S" + "~" * (self._length - 1 - place) + "$"
