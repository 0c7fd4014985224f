"""The Gaussian kernel of coordinates."""

from __future__ import annotations

import numpy as np

from matrixrl.records import FloatArray

__all__ = ["rbf"]


def rbf(x: FloatArray, y: FloatArray, length_scale: float) -> FloatArray:
    """Return exp(−‖x − y‖²/2ℓ²) of all pairs of rows: (n, p), (m, p) → (n, m).

    >>> rbf(np.zeros((1, 2)), np.ones((1, 2)), length_scale=1.0).round(6)
    array([[0.367879]])
    """
    distance_sq = ((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2)
    similar: FloatArray = np.exp(-0.5 * distance_sq / length_scale**2)
    return similar
