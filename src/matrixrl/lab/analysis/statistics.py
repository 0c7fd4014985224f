"""Means with bootstrap intervals over seeds; pure functions of arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from matrixrl.records import FloatArray
from matrixrl.seeding import generator

__all__ = ["Curve", "Interval", "curve_of", "grid_of", "growth_exponent", "mean_interval", "median_interval"]

CONFIDENCE = 0.95
_RESAMPLES = 1999
_FEWEST = 3  # seeds; fewer say next to nothing of their spread
_GRID = 160
_SLOPE_POINTS = 24
_NO_REGRET = 1e-12  # a resample of seeds without regret has a logarithm too


@dataclass(frozen=True)
class Interval:
    """A number with its 95 % bootstrap interval over seeds; NaN ends for one or two seeds, which cannot say."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float | None]:
        """Return plain data; None where there is no number."""
        return {name: _plain(getattr(self, name)) for name in ("value", "low", "high")}


@dataclass(frozen=True)
class Curve:
    """A quantity along episodes, over K seeds.

    Attributes:
        episode: (m,) counted from 1.
        mean, median: (m,).
        low, high: (m,) the 95 % bootstrap band of the mean; equal to it for one or two seeds.
    """

    episode: FloatArray
    mean: FloatArray
    median: FloatArray
    low: FloatArray
    high: FloatArray


def grid_of(n: int, points: int = _GRID) -> FloatArray:
    """Return episodes 1 … n to draw, some evenly and some logarithmically spread; all if they are few.

    >>> grid_of(4)
    array([1., 2., 3., 4.])
    """
    if n <= points:
        return np.arange(1.0, n + 1.0)
    both = np.concatenate([np.linspace(1, n, points // 2), np.geomspace(1, n, points // 2)])
    return np.unique(both.round())


def curve_of(values: FloatArray, episode: FloatArray) -> Curve:
    """Return mean, median and band of values (K, m) at the episodes (m,)."""
    mean, median = values.mean(axis=0), np.median(values, axis=0)
    if len(values) < _FEWEST:
        return Curve(episode, mean, median, mean, mean)
    band = _bootstrap(values, np.mean)
    return Curve(episode, mean, median, band[0], band[1])


def mean_interval(values: FloatArray) -> Interval:
    """Return the mean of (K,) numbers with its interval.

    >>> mean_interval(np.array([1.0, 1.0, 1.0]))
    Interval(value=1.0, low=1.0, high=1.0)
    """
    return _interval(values, np.mean)


def median_interval(values: FloatArray) -> Interval:
    """Return the median of (K,) numbers with its interval."""
    return _interval(values, np.median)


def growth_exponent(cumulative: FloatArray, episode: FloatArray) -> Interval | None:
    r"""Return the slope of ln(mean cumulative regret) against ln N over the last decade, with its interval.

    One is linear regret (nothing is learned any more), ½ the rate of the theorems, 0 a regret that has stopped. None
    where there is no regret to speak of, or fewer than ten episodes.

    Args:
        cumulative: (K, m) cumulative regret at the episodes.
        episode: (m,).

    >>> n = np.arange(1.0, 1001.0)
    >>> round(growth_exponent(np.sqrt(n)[None, :], n).value, 6)
    0.5
    """
    last = float(episode[-1])
    chosen = np.flatnonzero(episode >= last / 10.0)
    if last < 10.0 or len(chosen) < 3:
        return None
    targets = np.geomspace(episode[chosen[0]], last, _SLOPE_POINTS)
    picked = np.unique(np.searchsorted(episode, targets).clip(max=len(episode) - 1))
    curves, x = cumulative[:, picked], np.log(episode[picked])
    if not (curves.mean(axis=0) > 0.0).all():
        return None
    centred = x - x.mean()

    def slope(seeds: FloatArray, axis: int = -1) -> FloatArray:
        mean = curves[seeds.astype(int)].mean(axis=axis - 1)
        found: FloatArray = np.log(np.maximum(mean, _NO_REGRET)) @ centred / (centred @ centred)
        return found

    everyone = np.arange(len(curves))
    value = float(slope(everyone.astype(float)))
    if len(curves) < _FEWEST:
        return Interval(value, math.nan, math.nan)
    ends = stats.bootstrap(
        (everyone.astype(float),),
        slope,
        n_resamples=_RESAMPLES,
        confidence_level=expanded_level(len(curves)),
        method="percentile",
        vectorized=True,
        rng=generator(0, "sampling"),
    ).confidence_interval
    return Interval(value, float(ends.low), float(ends.high))


def expanded_level(n: int) -> float:
    """Return the level at which percentiles are read so that n seeds cover 95 % of the time, not fewer.

    The plain percentile interval is a normal interval with the variance of the sample (divided by n): too narrow for
    few seeds. Its level is raised as a t interval's is: 1 − 2Φ(−t·√(n/(n−1))), t the 97.5 % quantile of n − 1 degrees.

    >>> round(expanded_level(8), 3), round(expanded_level(1000), 3)
    (0.989, 0.95)
    """
    t = stats.t.ppf(0.5 + CONFIDENCE / 2.0, n - 1) * math.sqrt(n / (n - 1))
    return float(1.0 - 2.0 * stats.norm.cdf(-t))


def _interval(values: FloatArray, statistic: object) -> Interval:
    value = float(statistic(values))  # type: ignore[operator]
    if len(values) < _FEWEST:
        return Interval(value, math.nan, math.nan)
    low, high = _bootstrap(values[:, None], statistic)
    return Interval(value, float(low[0]), float(high[0]))


def _bootstrap(values: FloatArray, statistic: object) -> tuple[FloatArray, FloatArray]:
    found = stats.bootstrap(
        (values,),
        statistic,
        axis=0,
        n_resamples=_RESAMPLES,
        confidence_level=expanded_level(len(values)),
        method="percentile",
        vectorized=True,
        batch=100,
        rng=generator(0, "sampling"),
    ).confidence_interval
    return np.asarray(found.low), np.asarray(found.high)


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
