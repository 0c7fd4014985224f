"""Means, medians and growth exponents with bootstrap intervals over seeds; pure functions of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from matrixrl.records import FloatArray
from matrixrl.seeding import generator

__all__ = [
    "Curve",
    "Interval",
    "bootstrap",
    "curve_of",
    "expanded_level",
    "grid_of",
    "growth_exponent",
    "log_log_slope",
    "mean_interval",
    "median_interval",
]

CONFIDENCE = 0.95
_RESAMPLES = 1999
_BATCH = 100  # resamples held in memory at once
_MIN_SEEDS = 3  # with fewer seeds the spread cannot be estimated
_GRID = 160
_SLOPE_POINTS = 24
_MIN_MEAN = 1e-12  # lower limit of a mean before its logarithm is taken


@dataclass(frozen=True)
class Interval:
    """A number with its 95 % interval over seeds.

    Attributes:
        value: Estimate from all seeds.
        low: Lower end of the interval; NaN if there are too few seeds.
        high: Upper end of the interval; NaN if there are too few seeds.
    """

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float | None]:
        """Return the three numbers as plain data, with None in place of NaN."""
        return {name: _plain(getattr(self, name)) for name in ("value", "low", "high")}


@dataclass(frozen=True)
class Curve:
    """A quantity against episodes, summarised over K seeds.

    Attributes:
        episode: Episode numbers, counted from 1, shape (m,).
        mean, median: Mean and median over seeds, shape (m,).
        low, high: 95 % bootstrap band of the mean, shape (m,); equal to the mean for one or two seeds.
    """

    episode: FloatArray
    mean: FloatArray
    median: FloatArray
    low: FloatArray
    high: FloatArray


def grid_of(n: int, points: int = _GRID) -> FloatArray:
    """Return at most `points` of the episodes 1 … n, half of them evenly and half logarithmically spaced.

    Args:
        n: Number of episodes.
        points: Largest number of episodes to return; all n are returned if n is not larger.

    >>> grid_of(4)
    array([1., 2., 3., 4.])
    """
    if n <= points:
        return np.arange(1.0, n + 1.0)
    both = np.concatenate([np.linspace(1, n, points // 2), np.geomspace(1, n, points // 2)])
    return np.unique(both.round())


def curve_of(values: FloatArray, episode: FloatArray) -> Curve:
    """Return the mean, the median and the band of the mean at each episode.

    Args:
        values: One row per seed, shape (K, m).
        episode: Episode numbers, shape (m,).
    """
    mean, median = values.mean(axis=0), np.median(values, axis=0)
    if len(values) < _MIN_SEEDS:
        return Curve(episode, mean, median, mean, mean)
    return Curve(episode, mean, median, *bootstrap([values], np.mean))


def mean_interval(values: FloatArray) -> Interval:
    """Return the mean of values of shape (K,) with its interval.

    >>> mean_interval(np.array([1.0, 1.0, 1.0]))
    Interval(value=1.0, low=1.0, high=1.0)
    """
    return _interval(values, np.mean)


def median_interval(values: FloatArray) -> Interval:
    """Return the median of values of shape (K,) with its interval."""
    return _interval(values, np.median)


def growth_exponent(cumulative: FloatArray, episode: FloatArray) -> Interval | None:
    r"""Return the slope of ln(mean cumulative regret) against ln N over the last decade, with its interval.

    A slope of 1 is linear regret (the agent has stopped learning), ½ is the rate of the theorems, and 0 means that
    regret no longer grows.

    Args:
        cumulative: Cumulative regret of each seed, shape (K, m).
        episode: Episode numbers, shape (m,).

    Returns:
        The slope, or None if the mean regret is not positive or there are fewer than ten episodes.

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
    curves = cumulative[:, picked]
    if not (curves.mean(axis=0) > 0.0).all():
        return None

    def slope(seeds: FloatArray, axis: int = -1) -> FloatArray:
        return log_log_slope(episode[picked], curves[seeds.astype(int)].mean(axis=axis - 1))

    seeds = np.arange(len(curves), dtype=np.float64)
    value = float(slope(seeds))
    if len(curves) < _MIN_SEEDS:
        return Interval(value, math.nan, math.nan)
    low, high = bootstrap([seeds], slope)
    return Interval(value, float(low), float(high))


def log_log_slope(x: FloatArray, means: FloatArray) -> FloatArray:
    """Return the least-squares slope of ln(means) against ln(x).

    Args:
        x: Positive numbers, shape (m,).
        means: Values at x, shape (..., m).

    Returns:
        Slopes, shape (...).
    """
    centred = np.log(x) - np.log(x).mean()
    slope: FloatArray = np.log(np.maximum(means, _MIN_MEAN)) @ centred / (centred @ centred)
    return slope


def bootstrap(
    samples: Sequence[FloatArray],
    statistic: Callable[..., Any],
    *,
    paired: bool = False,
    batch: int | None = _BATCH,
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the 95 % percentile bootstrap interval of a statistic.

    Args:
        samples: Arrays with one row per seed, at least two rows each. Every array is resampled independently.
        statistic: Function of the samples and of `axis`, over which it reduces.
        paired: Resample all arrays with the same seeds.
        batch: Number of resamples computed at once; None computes all of them together.

    Returns:
        Lower and upper ends, with the shape of the statistic.
    """
    ends = stats.bootstrap(
        tuple(samples),
        statistic,
        axis=0,
        n_resamples=_RESAMPLES,
        confidence_level=expanded_level(min(map(len, samples))),
        method="percentile",
        vectorized=True,
        paired=paired,
        batch=batch,
        rng=generator(0, "sampling"),
    ).confidence_interval
    return np.asarray(ends.low), np.asarray(ends.high)


def expanded_level(n: int) -> float:
    """Return the level of the percentile interval whose coverage is about 95 % for n seeds.

    The percentile interval is a normal interval with the sample variance divided by n, which is too narrow for few
    seeds. Its level is raised to that of a t interval: 1 − 2Φ(−t·√(n/(n−1))), where t is the 97.5 % quantile of the t
    distribution with n − 1 degrees of freedom.

    >>> round(expanded_level(8), 3), round(expanded_level(1000), 3)
    (0.989, 0.95)
    """
    t = stats.t.ppf(0.5 + CONFIDENCE / 2.0, n - 1) * math.sqrt(n / (n - 1))
    return float(1.0 - 2.0 * stats.norm.cdf(-t))


def _interval(values: FloatArray, statistic: Callable[..., Any]) -> Interval:
    value = float(statistic(values))
    if len(values) < _MIN_SEEDS:
        return Interval(value, math.nan, math.nan)
    low, high = bootstrap([values], statistic)
    return Interval(value, float(low), float(high))


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
