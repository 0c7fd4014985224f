"""Power laws, ratios and shares with their intervals over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import binomtest

from matrixrl.records import FloatArray
from matrixrl_lab.analysis import Interval
from matrixrl_lab.analysis.statistics import CONFIDENCE, bootstrap, log_log_slope

__all__ = ["power", "ratio", "share_interval"]

_MIN_MEAN = 1e-12  # lower limit of a denominator


def power(x: Sequence[float], totals: Sequence[FloatArray]) -> Interval:
    """Return the exponent of mean regret in x by least squares on logarithms, with its interval over seeds.

    Args:
        x: Values of the quantity that varies, such as d or H, shape (m,).
        totals: Total regret by seed at each x: m arrays, which are resampled independently.

    >>> round(power([1.0, 2.0, 4.0], [np.full(3, 1.0), np.full(3, 4.0), np.full(3, 16.0)]).value, 6)
    2.0
    """
    at = np.asarray(x, dtype=np.float64)

    def slope(*samples: FloatArray, axis: int = -1) -> FloatArray:
        return log_log_slope(at, np.stack([sample.mean(axis=axis) for sample in samples], axis=-1))

    value = float(slope(*totals))
    if min(map(len, totals)) < 2:
        return Interval(value, math.nan, math.nan)
    low, high = bootstrap(totals, slope, batch=None)
    return Interval(value, float(low), float(high))


def ratio(above: FloatArray, below: FloatArray) -> Interval:
    """Return mean(above) / mean(below) with its interval.

    Args:
        above: Numerator by seed, shape (K,).
        below: Denominator of the same seeds, shape (K,); both are resampled together.

    >>> ratio(np.array([2.0, 4.0]), np.array([1.0, 2.0])).value
    2.0
    """

    def quotient(above: FloatArray, below: FloatArray, axis: int = -1) -> FloatArray:
        found: FloatArray = above.mean(axis=axis) / np.maximum(below.mean(axis=axis), _MIN_MEAN)
        return found

    value = float(quotient(above, below))
    if len(above) < 2 or len(above) != len(below):
        return Interval(value, math.nan, math.nan)
    low, high = bootstrap([above, below], quotient, paired=True)
    return Interval(value, float(low), float(high))


def share_interval(hits: int, of: int) -> Interval:
    """Return the share hits/of with its exact (Clopper–Pearson) 95 % interval.

    >>> share_interval(10, 10).high
    1.0
    """
    ends = binomtest(hits, of).proportion_ci(CONFIDENCE, method="exact")
    return Interval(hits / of, float(ends.low), float(ends.high))
