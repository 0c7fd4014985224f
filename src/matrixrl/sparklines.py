"""Numbers as a line of block characters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["sparkline"]

_BARS = "▁▂▃▄▅▆▇█"
_UNKNOWN = "·"


def sparkline(values: NDArray[Any], *, low: float | None = None, high: float | None = None) -> str:
    """Return the last 40 values as a line of block characters, with a dot for NaN.

    Args:
        values: (n,) numbers, at least one of them not NaN.
        low: Value of the lowest block; the least value that is shown by default.
        high: Value of the highest block; the largest value that is shown by default.

    >>> sparkline(np.array([0.0, np.nan, 1.0, 2.0])), sparkline(np.array([1.0, 1.0]), low=0.0, high=1.0)
    ('▁·▅█', '██')
    """
    shown = values[-40:]
    if np.isnan(shown).all():
        return _UNKNOWN * len(shown)
    bottom = float(np.nanmin(shown)) if low is None else low
    top = float(np.nanmax(shown)) if high is None else high
    if top <= bottom:
        return "".join(_UNKNOWN if np.isnan(x) else _BARS[0] for x in shown)
    heights = np.clip((shown - bottom) / (top - bottom), 0.0, 1.0) * (len(_BARS) - 1)
    return "".join(_UNKNOWN if np.isnan(x) else _BARS[round(float(x))] for x in heights)
