"""SoftGrid: a field of up to millions of cells, seen through a few overlapping regions."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from matrixrl.checks import fail, integer, number
from matrixrl.features import Features, FunctionPhi, SparsePsi
from matrixrl.problems import FiniteMDP, MDPEnv, MixtureTransitions
from matrixrl.records import FloatArray, IntArray

__all__ = ["SoftGrid"]

_MOVES = ((-1.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.0, -1.0))  # up, right, down, left


class SoftGrid(MDPEnv):
    """Cross a square field from its first corner to the opposite one; side² states, d regions.

    A cell belongs to the (up to four) regions around it, in shares that change linearly from centre to centre. A move
    aims at a point `step` regions away, stays inside the field, and lands somewhere in the regions that the point
    belongs to. So P(s'|s,a) = φ(s,a)ᵀM*ψ(s') with φ the shares of the point and ψ the shares of the cell: d numbers, of
    which at most four are not zero, and no table of S·A·d numbers anywhere. Only the last region pays.

    Args:
        side: cells along each side; S = side².
        regions: (rows, columns) of regions; d is their product.
        horizon: H.
        step: how far a move aims, in regions.
        copies: how many actions there are for each of the four moves; A is four times that, and d stays the same.
        noisy_rewards: pay 0 or 1 at random with the right mean.
    """

    def __init__(
        self,
        side: int = 100,
        regions: tuple[int, int] = (5, 4),
        horizon: int = 20,
        *,
        step: float = 0.75,
        copies: int = 1,
        noisy_rewards: bool = False,
        render_mode: str | None = None,
    ) -> None:
        self.side = integer("side", side, low=2, remedy="Give the cells along a side.")
        if not isinstance(regions, (tuple, list)) or len(regions) != 2:
            fail("regions", "must be two numbers, rows and columns", regions, "Such as regions=5,4.")
        rows, columns = (integer("regions", n, low=2, remedy="Give rows and columns, such as 5,4.") for n in regions)
        if self.side < max(rows, columns):
            fail("side", f"must be at least {max(rows, columns)}, one cell for each region", side, "Use fewer regions.")
        self.regions = rows, columns
        self._step = number("step", step, low=0.0, high=100.0, remedy="Try 0.75.")
        self._moves = np.array(_MOVES * integer("copies", copies, low=1, remedy="One of each move is enough to play."))
        n_states = self.side**2
        phi = FunctionPhi(self._aim, n_states, len(self._moves))
        psi = _shares_of_all(self.side, self.regions)
        mass = np.asarray(psi.sum(axis=0)).ravel()
        parts = (psi / mass).T.tocsr()
        self.core: FloatArray = np.diag(1.0 / mass)
        goal = np.zeros(rows * columns)
        goal[-1] = 1.0
        reward = np.ascontiguousarray(phi.dot(goal[None])[0].T)
        super().__init__(
            FiniteMDP(
                MixtureTransitions(phi, parts),
                reward,
                horizon,
                features=Features(phi, SparsePsi(psi)),
                noisy_rewards=noisy_rewards,
            ),
            render_mode=render_mode,
        )

    def _aim(self, states: IntArray) -> FloatArray:
        """Return the shares of the points that the moves from some cells aim at: (k,) → (k, A, d)."""
        places = np.stack(np.divmod(np.asarray(states), self.side), axis=-1) / (self.side - 1)
        spacing = 1.0 / (np.array(self.regions) - 1)
        aims = np.clip(places[:, None, :] + self._step * spacing * self._moves, 0.0, 1.0)
        down, across = (_hats(aims[..., i], n) for i, n in enumerate(self.regions))
        shares: FloatArray = (down[..., :, None] * across[..., None, :]).reshape(len(places), len(self._moves), -1)
        return shares

    def picture(self, state: int) -> str:
        """Draw the regions, the one that holds the cell marked."""
        row, column = (int(x * n / self.side) for x, n in zip(divmod(state, self.side), self.regions, strict=True))
        lines = [
            " ".join("@" if (i, j) == (row, column) else "." for j in range(self.regions[1]))
            for i in range(self.regions[0])
        ]
        return "\n".join(lines)


def _hats(x: FloatArray, n: int) -> FloatArray:
    """Return n functions on [0, 1] that are 1 at their centre, 0 at the others', linear between, and sum to one."""
    return np.maximum(0.0, 1.0 - np.abs(x[..., None] * (n - 1) - np.arange(n)))


def _shares_of_all(side: int, regions: tuple[int, int]) -> sparse.csr_array:
    """Return the shares of every cell, sparse: (S, d)."""
    along = np.arange(side) / (side - 1)
    return sparse.csr_array(sparse.kron(*(sparse.csr_array(_hats(along, n)) for n in regions), format="csr"))
