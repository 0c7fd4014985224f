"""SoftGrid: a grid of up to millions of cells with features of a few overlapping regions."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from matrixrl.checks import fail, fits_memory, integer, number
from matrixrl.features import Features, FunctionPhi, SparsePsi
from matrixrl.problems import FactoredTransitions, FiniteMDP, Layout, MDPEnv
from matrixrl.records import FloatArray, IntArray

__all__ = ["SoftGrid"]

_MOVES = ((-1.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.0, -1.0))  # up, right, down, left


class SoftGrid(MDPEnv):
    """Square grid that is crossed from the first corner to the opposite one; side² states, d regions.

    A cell belongs to the (up to four) regions around it, with weights that change linearly between the centres of the
    regions. A move aims at a point `step` regions away, clipped to the grid, and leads to a random cell of the regions
    that the point belongs to. So P(s'|s,a) = φ(s,a)ᵀM*ψ(s'), where φ are the weights of the point and ψ the weights of
    the cell; at most four of them are not zero. No table of S·A·d numbers is stored. Only the last region has rewards.

    Args:
        side: Cells along each side; S = side².
        regions: Number of regions along the two sides; d is their product.
        horizon: Steps in an episode.
        step: Length of a move, in regions.
        copies: Number of actions for each of the four moves; A is four times that, and d does not change.
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.

    Attributes:
        core: True core M*, shape (d, d); agents do not use it.
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
    ) -> None:
        self.side = integer("side", side, low=2, remedy="Give the number of cells along a side.")
        if not isinstance(regions, (tuple, list)) or len(regions) != 2:
            fail("regions", "must be two numbers", regions, "Such as regions=5,4.")
        n_down, n_across = (integer("regions", n, low=2, remedy="Give two numbers, such as 5,4.") for n in regions)
        if self.side < max(n_down, n_across):
            rule = f"must be at least {max(n_down, n_across)}, one cell for each region"
            fail("side", rule, side, "Use fewer regions.")
        self.regions = n_down, n_across
        self._step = number("step", step, low=0.0, high=100.0, remedy="Try 0.75.")
        n_copies = integer("copies", copies, low=1, remedy="Give at least one action for each move.")
        n_states = self.side**2
        numbers = n_states * (4.0 * n_copies + 10.0) + float(n_down * n_across) ** 2
        fits_memory("side and copies", numbers, f"{self.side:,} and {n_copies:,}", remedy="Make it smaller.")
        self._moves = np.array(_MOVES * n_copies)
        phi = FunctionPhi(self._aim, n_states, len(self._moves))
        psi = _weights_of_cells(self.side, self.regions)
        mass = np.asarray(psi.sum(axis=0)).ravel()
        factors = (psi / mass).T.tocsr()
        self.core: FloatArray = np.diag(1.0 / mass)
        goal = np.zeros(n_down * n_across)
        goal[-1] = 1.0
        reward = np.ascontiguousarray(phi.dot(goal[None])[0].T)
        super().__init__(
            FiniteMDP(
                FactoredTransitions(phi, factors),
                reward,
                horizon,
                features=Features(phi, SparsePsi(psi)),
                noisy_rewards=noisy_rewards,
            )
        )

    def _aim(self, states: IntArray) -> FloatArray:
        """Return the weights of the points that the moves from some cells aim at: (k,) → (k, A, d)."""
        points = np.stack(np.divmod(np.asarray(states), self.side), axis=-1) / (self.side - 1)
        spacing = 1.0 / (np.array(self.regions) - 1)
        aims = np.clip(points[:, None, :] + self._step * spacing * self._moves, 0.0, 1.0)
        down, across = (_hats(aims[..., i], n) for i, n in enumerate(self.regions))
        weights: FloatArray = (down[..., :, None] * across[..., None, :]).reshape(len(points), len(self._moves), -1)
        return weights

    @property
    def layout(self) -> Layout:
        """The cells, row by row."""
        return Layout.grid(self.side, self.side, moves=self._moves)


def _hats(x: FloatArray, n: int) -> FloatArray:
    """Return n piecewise linear functions on [0, 1], each 1 at its centre and 0 at the others; they sum to one."""
    return np.maximum(0.0, 1.0 - np.abs(x[..., None] * (n - 1) - np.arange(n)))


def _weights_of_cells(side: int, regions: tuple[int, int]) -> sparse.csr_array:
    """Return the weights of every cell as a sparse matrix, shape (S, d)."""
    along = np.arange(side) / (side - 1)
    return sparse.csr_array(sparse.kron(*(sparse.csr_array(_hats(along, n)) for n in regions), format="csr"))
