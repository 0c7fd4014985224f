"""Means, medians, interquartile means, performance profiles and growth exponents, with bootstrap intervals over seeds.

All are pure functions of arrays. Interquartile means, stratified intervals and profiles are those of R. Agarwal et al.,
"Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from matrixrl.random_streams import generator
from matrixrl.records import FloatArray

__all__ = [
    "Curve",
    "Interval",
    "Profile",
    "bootstrap",
    "curve_of",
    "expanded_level",
    "grid_of",
    "growth_exponent",
    "interquartile_mean",
    "iqm_interval",
    "log_log_slope",
    "mean_interval",
    "median_interval",
    "profile_of",
    "stratified_interval",
    "thresholds_of",
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
        mean, median, iqm: Mean, median and interquartile mean over seeds, shape (m,).
        low, high: 95 % bootstrap band of the mean, shape (m,); equal to the mean for one or two seeds.
    """

    episode: FloatArray
    mean: FloatArray
    median: FloatArray
    iqm: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class Profile:
    """A performance profile: the share of runs whose score is above a threshold, as a function of the threshold.

    Attributes:
        threshold: Thresholds τ in increasing order, shape (m,).
        share: Share of runs with a score above τ, mean over environments, shape (m,).
        low, high: 95 % stratified bootstrap band of the share at each τ, shape (m,); equal to it for one or two seeds.
    """

    threshold: FloatArray
    share: FloatArray
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
    mean, median, iqm = values.mean(axis=0), np.median(values, axis=0), interquartile_mean(values, axis=0)
    if len(values) < _MIN_SEEDS:
        return Curve(episode, mean, median, iqm, mean, mean)
    return Curve(episode, mean, median, iqm, *bootstrap([values], np.mean))


def mean_interval(values: FloatArray) -> Interval:
    """Return the mean of values of shape (K,) with its interval.

    >>> mean_interval(np.array([1.0, 1.0, 1.0]))
    Interval(value=1.0, low=1.0, high=1.0)
    """
    return stratified_interval([values], np.mean)


def median_interval(values: FloatArray) -> Interval:
    """Return the median of values of shape (K,) with its interval."""
    return stratified_interval([values], np.median)


def interquartile_mean(values: FloatArray, axis: int = -1) -> FloatArray:
    """Return the mean of the middle half: the mean without the ⌊n/4⌋ smallest and the ⌊n/4⌋ largest of n values.

    Args:
        values: Any shape.
        axis: Axis to reduce.

    >>> float(interquartile_mean(np.array([0.0, 2.0, 4.0, 100.0])))
    3.0
    """
    n = values.shape[axis]
    middle = np.moveaxis(np.sort(values, axis=axis), axis, -1)[..., n // 4 : n - n // 4]
    mean: FloatArray = middle.mean(axis=-1)
    return mean


def iqm_interval(values: FloatArray) -> Interval:
    """Return the interquartile mean of values of shape (K,) with its interval."""
    return stratified_interval([values], interquartile_mean)


def stratified_interval(samples: Sequence[FloatArray], statistic: Callable[..., Any]) -> Interval:
    """Return a statistic of the runs of all environments, with its stratified bootstrap interval.

    The seeds of each environment are resampled by themselves, so that every resample has all environments.

    Args:
        samples: One array of shape (K,) for each environment, in one unit.
        statistic: Function of an array and of `axis`, such as `interquartile_mean`.
    """

    def of_all(*resampled: FloatArray, axis: int = -1) -> Any:
        return statistic(np.concatenate(resampled, axis=axis), axis=axis)

    value = float(of_all(*samples))
    if min(map(len, samples)) < _MIN_SEEDS:
        return Interval(value, math.nan, math.nan)
    low, high = bootstrap(samples, of_all, strata=len(samples))
    return Interval(value, float(low), float(high))


def thresholds_of(scores: Sequence[FloatArray], points: int = _GRID) -> FloatArray:
    """Return thresholds for a profile of all these scores: half of them evenly spaced, half at quantiles.

    The first is below all scores, where every share is 1, and the last is the largest score, where every share is 0.

    Args:
        scores: Scores of all agents and environments, any number of arrays of shape (K,).
        points: Largest number of thresholds.
    """
    every = np.concatenate(scores)
    low, high = float(every.min()), float(every.max())
    first = low - 0.02 * (high - low or abs(high) or 1.0)
    half = points // 2
    return np.unique(np.concatenate([np.linspace(first, high, half), np.quantile(every, np.linspace(0.0, 1.0, half))]))


def profile_of(samples: Sequence[FloatArray], threshold: FloatArray) -> Profile:
    """Return the share of runs with a score above each threshold, averaged over environments, with its band.

    Args:
        samples: Scores of one agent, one array of shape (K,) for each environment.
        threshold: Thresholds τ, shape (m,).
    """
    above = [(scores[:, None] > threshold).astype(np.float64) for scores in samples]

    def share_of(*resampled: FloatArray, axis: int = 0) -> FloatArray:
        share: FloatArray = np.mean([rows.mean(axis=axis) for rows in resampled], axis=0)
        return share

    share = share_of(*above)
    if min(map(len, samples)) < _MIN_SEEDS:
        return Profile(threshold, share, share, share)
    return Profile(threshold, share, *bootstrap(above, share_of, strata=len(above)))


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
    strata: int = 1,
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the 95 % percentile bootstrap interval of a statistic.

    Args:
        samples: Arrays with one row per seed, at least two rows each. Every array is resampled independently.
        statistic: Function of the samples and of `axis`, over which it reduces.
        paired: Resample all arrays with the same seeds.
        batch: Number of resamples computed at once; None computes all of them together.
        strata: Number of samples over which the statistic is a mean, as `expanded_level` needs it.

    Returns:
        Lower and upper ends, with the shape of the statistic.
    """
    ends = stats.bootstrap(
        tuple(samples),
        statistic,
        axis=0,
        n_resamples=_RESAMPLES,
        confidence_level=expanded_level(min(map(len, samples)), strata),
        method="percentile",
        vectorized=True,
        paired=paired,
        batch=batch,
        rng=generator(0, "sampling"),
    ).confidence_interval
    return np.asarray(ends.low), np.asarray(ends.high)


def expanded_level(n: int, strata: int = 1) -> float:
    """Return the level of the percentile interval whose coverage is about 95 % for n seeds of each environment.

    The percentile interval is a normal interval with the sample variance divided by n, which is too narrow for few
    seeds. Its level is raised to that of a t interval: 1 − 2Φ(−t·√(n/(n−1))), where t is the 97.5 % quantile of the t
    distribution with n − 1 degrees of freedom, or `strata` times as many if the seeds of several environments are
    resampled independently.

    Args:
        n: Number of seeds of an environment.
        strata: Number of environments.

    >>> round(expanded_level(8), 3), round(expanded_level(1000), 3)
    (0.989, 0.95)
    """
    t = stats.t.ppf(0.5 + CONFIDENCE / 2.0, strata * (n - 1)) * math.sqrt(n / (n - 1))
    return float(1.0 - 2.0 * stats.norm.cdf(-t))


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
