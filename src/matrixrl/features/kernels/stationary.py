"""Radial kernels of points that are already divided by their length scales, as plain functions of arrays."""

from __future__ import annotations

import numpy as np

from matrixrl.records import FloatArray

__all__ = ["matern_5_2", "rbf", "squared_distances"]


def squared_distances(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return ‖x_i − y_j‖² of points (n, p) and (m, p): (n, m)."""
    found: FloatArray = x @ y.T
    found *= -2.0
    found += np.vecdot(x, x)[:, None]
    found += np.vecdot(y, y)
    return np.maximum(found, 0.0, out=found)


def rbf(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return exp(−r²/2) of points (n, p) and (m, p) at distance r: (n, m).

    >>> rbf(np.zeros((1, 1)), np.array([[0.0], [1.0]])).round(3)
    array([[1.   , 0.607]])
    """
    found = squared_distances(x, y)
    found *= -0.5
    return np.exp(found, out=found)


def matern_5_2(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return (1 + √5 r + 5r²/3) exp(−√5 r) of points (n, p) and (m, p) at distance r: (n, m)."""
    squared = squared_distances(x, y)
    squared *= 5.0
    r = np.sqrt(squared)
    squared *= 1.0 / 3.0
    squared += r
    squared += 1.0
    np.negative(r, out=r)
    squared *= np.exp(r, out=r)
    return squared
