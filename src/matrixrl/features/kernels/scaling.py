"""Observations in a common unit: half the range of their space, or the largest value seen where it has no bounds."""

from __future__ import annotations

import numpy as np

from matrixrl.checks import fail
from matrixrl.records import FloatArray

__all__ = ["ObservationScale"]

_UNBOUNDED = 1e6  # bounds beyond it are "any number" in all but name


class ObservationScale:
    """Maps observations to about [-1, 1], without tuning (design 4.1b).

    A coordinate with bounds is centred and divided by half its range; one without is divided by the largest |x| seen
    so far. Scaling by the spread of early data would be too narrow.

    Args:
        low: (p,) lower bounds, infinite where there are none.
        high: (p,) upper bounds.

    >>> scale = ObservationScale(np.array([0.0, -np.inf]), np.array([4.0, np.inf]))
    >>> scale.see(np.array([[1.0, 8.0]]))
    True
    >>> scale(np.array([[4.0, -4.0]]))
    array([[ 1. , -0.5]])
    """

    def __init__(self, low: FloatArray, high: FloatArray) -> None:
        low, high = np.asarray(low, dtype=np.float64).ravel(), np.asarray(high, dtype=np.float64).ravel()
        if low.shape != high.shape or np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
            fail("observation_space", "must have bounds low <= high", f"{low} and {high}", "Check the space.")
        bounded = (np.abs(low) < _UNBOUNDED) & (np.abs(high) < _UNBOUNDED)
        self._free = ~bounded
        self._centre = np.where(bounded, 0.5 * (np.where(bounded, low, 0.0) + np.where(bounded, high, 0.0)), 0.0)
        half = 0.5 * (np.where(bounded, high, 1.0) - np.where(bounded, low, -1.0))
        self._half = np.where(half > 0.0, half, 1.0)  # a constant coordinate says nothing, in any unit
        self._seen = np.zeros(len(low))

    @property
    def size(self) -> int:
        """P."""
        return len(self._centre)

    @property
    def seen(self) -> FloatArray:
        """(p,) the largest |x| so far where there are no bounds; all that changes."""
        return self._seen

    def restore(self, seen: FloatArray) -> None:
        """Take back what `seen` was."""
        self._seen = np.asarray(seen, dtype=np.float64)

    def see(self, observations: FloatArray) -> bool:
        """Take note of observations (n, p); return whether the unit changed."""
        if not self._free.any() or not len(observations):
            return False
        largest = np.where(self._free, np.abs(observations).max(axis=0), 0.0)
        grown = bool((largest > self._seen).any())
        self._seen = np.maximum(self._seen, largest)
        return grown

    def __call__(self, observations: FloatArray) -> FloatArray:
        """Return observations (n, p) in the common unit."""
        unit = np.where(self._free, np.where(self._seen > 0.0, self._seen, 1.0), self._half)
        scaled: FloatArray = (observations - self._centre) / unit
        return scaled
