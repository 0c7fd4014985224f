"""Scale observations to about [-1, 1]."""

from __future__ import annotations

import numpy as np

from matrixrl.checks import fail
from matrixrl.records import BoolArray, FloatArray

__all__ = ["ObservationScale"]

_UNBOUNDED = 1e6  # bounds beyond this size are treated as infinite


class ObservationScale:
    """Map observations to about [-1, 1].

    An observation with bounds is centred and divided by half its range. One without bounds is divided by the largest
    absolute value seen so far; the standard deviation of early data would be too small a scale, because the first
    episodes visit a small part of the space.

    Args:
        low: Lower bounds, shape (p,); infinite where there are none.
        high: Upper bounds, shape (p,); infinite where there are none.

    Raises:
        InvalidInput: A lower bound is above its upper bound, or NaN.

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
        self._half = np.where(half > 0.0, half, 1.0)  # an observation that is constant keeps its unit
        self._seen = np.zeros(len(low))

    @property
    def size(self) -> int:
        """Number of observations p."""
        return len(self._centre)

    @property
    def seen(self) -> FloatArray:
        """Largest absolute values of the unbounded observations so far, shape (p,); 0 for bounded ones."""
        return self._seen

    def restore(self, seen: FloatArray) -> None:
        """Restore the value of `seen`."""
        self._seen = np.asarray(seen, dtype=np.float64)

    def see(self, observations: FloatArray) -> bool:
        """Update `seen` from observations (n, p); return whether the scale changed."""
        if not self._free.any() or not len(observations):
            return False
        largest = np.where(self._free, np.abs(observations).max(axis=0), 0.0)
        grown = bool((largest > self._seen).any())
        self._seen = np.maximum(self._seen, largest)
        return grown

    @property
    def bounded(self) -> BoolArray:
        """Which observations have bounds, shape (p,)."""
        return ~self._free

    @property
    def unit(self) -> FloatArray:
        """What observations are divided by, shape (p,)."""
        found: FloatArray = np.where(self._free, np.where(self._seen > 0.0, self._seen, 1.0), self._half)
        return found

    def __call__(self, observations: FloatArray) -> FloatArray:
        """Return scaled observations: (n, p) → (n, p)."""
        scaled: FloatArray = (observations - self._centre) / self.unit
        return scaled
