"""Coordinates of states, and the Gaussian kernel on them."""

from __future__ import annotations

import numpy as np

from matrixrl.checks import shaped
from matrixrl.records import FloatArray

__all__ = ["line_points", "rbf"]


def rbf(x: FloatArray, y: FloatArray, length_scale: float) -> FloatArray:
    """Return exp(−‖x − y‖²/2ℓ²) of all pairs of rows: (n, p), (m, p) → (n, m).

    >>> rbf(np.zeros((1, 2)), np.ones((1, 2)), length_scale=1.0).round(6)
    array([[0.367879]])
    """
    distance_sq = ((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2)
    similar: FloatArray = np.exp(-0.5 * distance_sq / length_scale**2)
    return similar


def line_points(points: FloatArray | None, n_states: int) -> FloatArray:
    """Return the given coordinates of the states (S, p), or even ones on a line from −1 to 1 where there are none.

    >>> line_points(None, 3).ravel()
    array([-1.,  0.,  1.])
    """
    if points is None:
        return np.linspace(-1.0, 1.0, n_states)[:, None]
    return shaped("points", points, (n_states, None), remedy="Give one vector for each state.")
