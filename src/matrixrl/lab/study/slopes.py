"""Power laws across problems: how regret grows with d, H, S or A."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from matrixrl.lab.analysis import Interval
from matrixrl.lab.analysis.statistics import expanded_level
from matrixrl.records import FloatArray
from matrixrl.seeding import generator

__all__ = ["power", "ratio", "said", "share_interval"]

_RESAMPLES = 1999


def power(x: Sequence[float], totals: Sequence[FloatArray]) -> Interval:
    """Return the exponent of mean regret in x by least squares on logarithms, with its interval over seeds.

    Args:
        x: (m,) what is varied.
        totals: m arrays of total regret by seed; each is resampled by itself.

    >>> round(power([1.0, 2.0, 4.0], [np.full(3, 1.0), np.full(3, 4.0), np.full(3, 16.0)]).value, 6)
    2.0
    """
    logs = np.log(np.asarray(x, dtype=np.float64))
    centred = logs - logs.mean()
    rng = generator(0, "sampling")

    def slope(means: FloatArray) -> FloatArray:
        found: FloatArray = np.log(np.maximum(means, 1e-12)) @ centred / (centred @ centred)
        return found

    value = float(slope(np.array([t.mean() for t in totals])))
    if min(len(t) for t in totals) < 2:
        return Interval(value, math.nan, math.nan)
    drawn = [t[rng.integers(0, len(t), (_RESAMPLES, len(t)))].mean(axis=1) for t in totals]
    low, high = _ends(slope(np.stack(drawn, axis=1)), min(len(t) for t in totals))
    return Interval(value, low, high)


def ratio(above: FloatArray, below: FloatArray) -> Interval:
    """Return mean(above) / mean(below) with its interval, both resampled on the same seeds.

    >>> ratio(np.array([2.0, 4.0]), np.array([1.0, 2.0])).value
    2.0
    """
    value = float(above.mean() / max(float(below.mean()), 1e-12))
    if len(above) < 2 or len(above) != len(below):
        return Interval(value, math.nan, math.nan)
    rows = generator(0, "sampling").integers(0, len(above), (_RESAMPLES, len(above)))
    drawn = above[rows].mean(axis=1) / np.maximum(below[rows].mean(axis=1), 1e-12)
    low, high = _ends(drawn, len(above))
    return Interval(value, float(low), float(high))


def _ends(drawn: FloatArray, n: int) -> tuple[float, float]:
    """Return the ends of the 95 % interval of resampled numbers, wider for few seeds."""
    tail = (1.0 - expanded_level(n)) / 2.0
    low, high = np.quantile(drawn, [tail, 1.0 - tail])
    return float(low), float(high)


def share_interval(hits: int, of: int) -> Interval:
    """Return the share hits/of with its exact (Clopper–Pearson) 95 % interval.

    >>> share_interval(10, 10).high
    1.0
    """
    from scipy.stats import binomtest

    ends = binomtest(hits, of).proportion_ci(0.95, method="exact")
    return Interval(hits / of, float(ends.low), float(ends.high))


def said(interval: Interval | None, digits: int = 2) -> str:
    """Return an interval in words.

    >>> said(Interval(0.5, 0.45, 0.55)), said(Interval(-0.001, math.nan, math.nan))
    ('0.50 [0.45, 0.55]', '0.00')
    """
    if interval is None:
        return "–"
    value, low, high = (f"{round(x, digits) + 0.0:,.{digits}f}" for x in (interval.value, interval.low, interval.high))
    return value if math.isnan(interval.low) else f"{value} [{low}, {high}]"
