"""Coordinates of a kernel on points that are chosen as they come: a pivoted Cholesky factor that grows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular

from matrixrl.checks import fail, integer, number
from matrixrl.records import FloatArray

__all__ = ["InducingFactor"]


class InducingFactor:
    r"""Finite coordinates z(x) of a kernel: z(x)ᵀz(y) = k(x, y) for inducing points, and nearly so elsewhere.

    The coordinates are \(z(x) = L^{-1} k(P, x)\) with \(k(P, P) = LL^\top\). What they miss at x is its residual,
    \(k(x,x) - \|z(x)\|^2 \ge 0\): |k(x,y) − z(x)ᵀz(y)| is at most the root of the product of two residuals. Points are
    added where the residual is largest, until it is at most `tolerance` everywhere or the budget is spent; with
    tolerance 0 and no budget every distinct point is inducing and the kernel is exact on all of them.

    Args:
        kernel: (n, p), (m, p) → (n, m).
        diagonal: (n, p) → (n,) k(x, x).
        n_coordinates: p.
        budget: the most inducing points there may be.
        tolerance: residual, as a share of k(x, x), below which a point is not worth adding. What rounding leaves of
            an ill-conditioned kernel is never added, whatever the tolerance.
    """

    _ROUNDING = 1e-11  # residuals of this share of k(x, x) are rounding: adding them would divide by noise

    def __init__(
        self,
        kernel: Callable[[FloatArray, FloatArray], FloatArray],
        diagonal: Callable[[FloatArray], FloatArray],
        n_coordinates: int,
        *,
        budget: int = 400,
        tolerance: float = 1e-4,
    ) -> None:
        self._kernel, self._diagonal = kernel, diagonal
        self.budget = integer("budget", budget, low=1, remedy="Try 400.")
        self.tolerance = number("tolerance", tolerance, low=0.0, high=1.0, remedy="Try 1e-4.")
        self.points = np.empty((0, n_coordinates))
        self.factor = np.empty((0, 0))  # L

    @property
    def size(self) -> int:
        """How many inducing points there are."""
        return len(self.points)

    def coordinates(self, x: FloatArray) -> FloatArray:
        """Return z of points (n, p): (n, m)."""
        if not self.size:
            return np.empty((len(x), 0))
        solved: FloatArray = solve_triangular(self.factor, self._kernel(self.points, x), lower=True, check_finite=False)
        return solved.T

    def residuals(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """Return k(x, x) − ‖z(x)‖², not below 0: (n,)."""
        found: FloatArray = np.maximum(self._diagonal(x) - np.vecdot(z, z), 0.0)
        return found

    def grow(self, candidates: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Add candidates where the residual is largest.

        Args:
            candidates: (n, p) points that may be added.
            z: (n, m) their coordinates so far.

        Returns:
            Their coordinates with the new ones at the end, and their residuals.
        """
        size = self._diagonal(candidates)
        raw = size - np.vecdot(z, z)
        if (raw < -1e-6 * np.maximum(size, np.finfo(np.float64).tiny)).any():
            received = f"k(x, x) − ‖z(x)‖² = {raw.min():.3g}"
            fail("kernel", "must be positive semi-definite", received, "Use a kernel, such as 'rbf'.")
        residual = np.maximum(raw, 0.0)
        floor = np.maximum(self.tolerance, self._ROUNDING) * size
        columns = [z]
        grown = z
        while self.size < self.budget:
            excess = residual - floor
            i = int(excess.argmax()) if len(excess) else 0
            if not len(excess) or excess[i] <= 0.0:
                break
            pivot = float(np.sqrt(residual[i]))
            column = (self._kernel(candidates, candidates[i : i + 1])[:, 0] - grown @ grown[i]) / pivot
            row = np.append(grown[i], pivot)
            larger = np.zeros((self.size + 1, self.size + 1))
            larger[:-1, :-1], larger[-1] = self.factor, row
            self.factor = larger
            self.points = np.vstack([self.points, candidates[i : i + 1]])
            columns.append(column[:, None])
            grown = np.hstack(columns)
            columns = [grown]
            residual = np.maximum(residual - column * column, 0.0)
            residual[i] = 0.0
        return grown, residual
