"""Measurements that are made in every k-th episode: which episodes have one, and how the others are filled in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import LARGEST_INTEGER, fail, shown

__all__ = ["held", "is_measured", "measured_places", "spacing"]


def spacing(argument: str, value: object) -> int:
    """Return k of a request to measure: 1 for True, 0 for False, or a whole number of at least 1.

    >>> spacing("measure_regret", True), spacing("measure_regret", False), spacing("measure_regret", 50)
    (1, 0, 50)
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if not isinstance(value, (int, np.integer)) or not 1 <= value <= LARGEST_INTEGER:
        rule = "must be true, false or a number of episodes of at least 1"
        fail(argument, rule, shown(value), "Such as 100, to measure in every hundredth episode.")
    return int(value)


def is_measured(episode: int, every: int) -> bool:
    """Return whether an episode, counted from 0, has a measurement: 0, k, 2k, …; none if k is 0."""
    return every > 0 and episode % every == 0


def measured_places(n_episodes: int, every: int, first: int = 0) -> NDArray[np.int64]:
    """Return the positions of measured episodes among `n_episodes` of which the first is number `first`.

    >>> measured_places(7, every=3), measured_places(7, every=3, first=2)
    (array([0, 3, 6]), array([1, 4]))
    """
    return np.arange(-first % every, n_episodes, every) if every > 0 else np.zeros(0, dtype=np.int64)


def held(series: NDArray[np.float64], every: int, first: int = 0) -> NDArray[np.float64]:
    """Return a series (…, N) of episodes from number `first` on, in which each has the last measured value.

    It is NaN before the first measured episode, and wherever the measured value is NaN.

    >>> held(np.array([1.0, np.nan, np.nan, 4.0]), every=3)
    array([1., 1., 1., 4.])
    """
    if every == 1:
        return series
    places = (np.arange(series.shape[-1]) + first) // every * every - first
    filled = series[..., np.maximum(places, 0)]
    filled[..., places < 0] = np.nan
    return filled
