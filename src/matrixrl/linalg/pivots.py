"""Choose a few points whose kernel functions represent those of many."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from matrixrl.records import FloatArray, IntArray

__all__ = ["choose_pivots"]


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
