"""Inducing points by pivoted Cholesky factors of a kernel: chosen at once, or added one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular

from matrixrl.checks import fail, integer, number
from matrixrl.records import FloatArray, IntArray

__all__ = ["InducingFactor", "choose_pivots"]


class InducingFactor:
    r"""Represent a kernel by coordinates z(x) such that z(x)ᵀz(y) = k(x, y) if x or y is an inducing point.

    The coordinates are \(z(x) = L^{-1} k(P, x)\) with \(k(P, P) = LL^\top\) and P the inducing points. The residual of
    x is \(k(x,x) - \|z(x)\|^2 \ge 0\), and |k(x,y) − z(x)ᵀz(y)| is at most the root of the product of the residuals of
    x and y. `grow` adds the points with the largest residuals (Fine & Scheinberg 2001) until all residuals are at most
    `tolerance` or the budget is used. With tolerance 0 and a large budget every distinct point is an inducing point,
    and the kernel is exact on all of them.

    Args:
        kernel: Function that maps points (n, p) and (m, p) to kernel values (n, m).
        diagonal: Function that maps points (n, p) to k(x, x), shape (n,).
        n_coordinates: Dimension p of the points.
        budget: Largest number of inducing points.
        tolerance: Largest residual, relative to k(x, x), of a point that is not added. Residuals of the size of
            rounding errors are not added for any tolerance.

    Attributes:
        points: Inducing points P, shape (m, p).
        factor: Cholesky factor L, shape (m, m).
    """

    _ROUNDING = 1e-11  # residuals below this share of k(x, x) are rounding errors, and dividing by them is unstable

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
        self.factor = np.empty((0, 0))

    @property
    def size(self) -> int:
        """Number of inducing points m."""
        return len(self.points)

    def coordinates(self, x: FloatArray) -> FloatArray:
        """Return z(x): (n, p) → (n, m)."""
        if not self.size:
            return np.empty((len(x), 0))
        solved: FloatArray = solve_triangular(self.factor, self._kernel(self.points, x), lower=True, check_finite=False)
        return solved.T

    def residuals(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """Return max(k(x, x) − ‖z(x)‖², 0) for points (n, p) with coordinates (n, m): (n,)."""
        found: FloatArray = np.maximum(self._diagonal(x) - np.vecdot(z, z), 0.0)
        return found

    def grow(self, candidates: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Add the candidates with the largest residuals to the inducing points.

        Args:
            candidates: Points that may be added, shape (n, p).
            z: Their current coordinates, shape (n, m).

        Returns:
            Their coordinates with those of the new inducing points at the end, shape (n, m_new), and their residuals,
            shape (n,).

        Raises:
            InvalidInput: The kernel is not positive semi-definite on the candidates.
        """
        size = self._diagonal(candidates)
        raw = size - np.vecdot(z, z)
        if (raw < -1e-6 * np.maximum(size, np.finfo(np.float64).tiny)).any():
            received = f"k(x, x) − ‖z(x)‖² = {raw.min():.3g}"
            fail("kernel", "must be positive semi-definite", received, "Use a kernel, such as 'rbf'.")
        residual = np.maximum(raw, 0.0)
        floor = np.maximum(self.tolerance, self._ROUNDING) * size
        grown = z
        while self.size < self.budget:
            excess = residual - floor
            i = int(excess.argmax()) if len(excess) else 0
            if not len(excess) or excess[i] <= 0.0:
                break
            pivot = float(np.sqrt(residual[i]))
            added = (self._kernel(candidates, candidates[i : i + 1])[:, 0] - grown @ grown[i]) / pivot
            row = np.append(grown[i], pivot)
            larger = np.zeros((self.size + 1, self.size + 1))
            larger[:-1, :-1], larger[-1] = self.factor, row
            self.factor = larger
            self.points = np.vstack([self.points, candidates[i : i + 1]])
            grown = np.hstack([grown, added[:, None]])
            residual = np.maximum(residual - added * added, 0.0)
            residual[i] = 0.0
        return grown, residual


def choose_pivots(
    x: FloatArray, kernel: Callable[[FloatArray, FloatArray], FloatArray], *, budget: int, tolerance: float
) -> IntArray:
    """Return the rows of points that a pivoted Cholesky factorisation of their kernel matrix chooses.

    The point with the largest residual k(x, x) − ‖z(x)‖² comes next, until all residuals are at most the tolerance.

    Args:
        x: (n, p) points.
        kernel: Kernel with k(x, x) = 1.
        budget: Largest number of points to choose.
        tolerance: Largest residual of a point that is not chosen.

    >>> kernel = lambda x, y: np.exp(-0.5 * (x - y.T) ** 2)
    >>> choose_pivots(np.array([[0.0], [0.01], [3.0]]), kernel, budget=3, tolerance=0.01)
    array([0, 2])
    """
    n, most = len(x), min(budget, len(x))
    residual, z = np.ones(n), np.empty((most, n))
    chosen: list[int] = []
    for j in range(most):
        i = int(residual.argmax())
        if residual[i] <= tolerance:
            break
        row = kernel(x[i : i + 1], x)[0]
        row -= z[:j, i] @ z[:j]
        row /= np.sqrt(residual[i])
        z[j] = row
        residual -= row * row
        np.maximum(residual, 0.0, out=residual)
        residual[i] = 0.0
        chosen.append(i)
    return np.array(chosen, dtype=np.int64)
