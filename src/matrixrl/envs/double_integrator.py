"""DoubleIntegrator: a continuous control problem on a fine grid, with a known optimum."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from matrixrl.checks import fits_memory, integer, number
from matrixrl.problems import FiniteMDP, MDPEnv
from matrixrl.records import FloatArray, IntArray

__all__ = ["DoubleIntegrator"]

_PUSH, _STEP = 0.25, 0.25  # change of the speed by a push, change of the position by a speed of 1


class DoubleIntegrator(MDPEnv):
    """Push a mass with pushes −1, 0 or 1 and random noise to position 0.6, and hold it there.

    Position x and speed v lie in [-1, 1]. The next speed is v' = v + 0.25·(push + noise), the next position is
    x + 0.25·v', both clipped to [-1, 1]. The next state is one of the (up to four) grid points around that point, with
    probabilities that preserve its mean. The reward is exp(−((x − 0.6)² + v²)/0.08).

    Wrap the environment in `PointObservations` to run agents for continuous states and measure their exact regret.

    Args:
        positions: Number of grid points of the position.
        speeds: Number of grid points of the speed.
        horizon: Steps in an episode.
        noise: Size of the noise in units of a push; it is −noise, 0 or noise with probabilities ¼, ½ and ¼.
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.

    Attributes:
        points: Position and speed of every state, shape (S, 2).
    """

    def __init__(
        self,
        positions: int = 41,
        speeds: int = 31,
        horizon: int = 30,
        *,
        noise: float = 0.3,
        noisy_rewards: bool = False,
    ) -> None:
        nx = integer("positions", positions, low=3, remedy="Try 41.")
        nv = integer("speeds", speeds, low=3, remedy="Try 31.")
        fits_memory("positions and speeds", 300.0 * nx * nv, f"{nx:,} and {nv:,}", remedy="Try 41 and 31.")
        size = number("noise", noise, low=0.0, high=10.0, remedy="Try 0.3.")
        x, v = (grid.ravel() for grid in np.meshgrid(np.linspace(-1, 1, nx), np.linspace(-1, 1, nv), indexing="ij"))
        self.points: FloatArray = np.stack([x, v], axis=1)
        states = np.arange(nx * nv)
        parts = []
        for a, push in enumerate((-1.0, 0.0, 1.0)):
            for shock, chance in ((-size, 0.25), (0.0, 0.5), (size, 0.25)):
                speed = np.clip(v + _PUSH * (push + shock), -1.0, 1.0)
                position = np.clip(x + _STEP * speed, -1.0, 1.0)
                for following, share in _corners(position, speed, nx, nv):
                    parts.append((chance * share, states * 3 + a, following))
        chances, rows, next_states = (np.concatenate(entries) for entries in zip(*parts, strict=True))
        table = sparse.coo_array((chances, (rows, next_states)), shape=(nx * nv * 3, nx * nv)).tocsr()
        bell = np.exp(-((x - 0.6) ** 2 + v**2) / 0.08)
        start = int(np.argmin((x + 0.6) ** 2 + v**2))
        mdp = FiniteMDP(table, np.tile(bell[:, None], (1, 3)), horizon, start=start, noisy_rewards=noisy_rewards)
        super().__init__(mdp)


def _corners(x: FloatArray, v: FloatArray, nx: int, nv: int) -> list[tuple[IntArray, FloatArray]]:
    """Return the four grid points around each point, with their bilinear weights."""
    i, j = (x + 1.0) / 2.0 * (nx - 1), (v + 1.0) / 2.0 * (nv - 1)
    i0, j0 = np.minimum(i.astype(np.int64), nx - 2), np.minimum(j.astype(np.int64), nv - 2)
    fi, fj = i - i0, j - j0
    return [
        ((i0 + di) * nv + (j0 + dj), (fi if di else 1.0 - fi) * (fj if dj else 1.0 - fj))
        for di in (0, 1)
        for dj in (0, 1)
    ]
