"""Which coordinates of an observation predict anything: the others are noise, and numbering them is a waste."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.records import FloatArray
from scorecards.probe import Seen, observations_repeat

__all__ = ["coordinates_repeat", "narrowed", "predictive_coordinates"]

LEVEL = 0.01
"""Level of one choice, over all coordinates and all that they may predict: about the probability that one which
predicts nothing is kept, if values are frequent and steps independent. Rare values are kept more often."""
_MOST_VALUES = 10  # a coordinate with more values is compared as a number, with fewer also value by value


def coordinates_repeat(episodes: Sequence[Seen]) -> bool:
    """Return whether every coordinate takes values that come again in other episodes, though observations may not."""
    size = episodes[0].observations[0].size
    return all(observations_repeat([narrowed(episode, [k]) for episode in episodes]) for k in range(size))


def narrowed(episode: Seen, coordinates: Sequence[int]) -> Seen:
    """Return an episode of which only some coordinates were seen."""
    seen = [np.asarray(board).ravel()[list(coordinates)] for board in episode.observations]
    return Seen(seen, episode.actions, episode.rewards)


def predictive_coordinates(episodes: Sequence[Seen]) -> list[int]:
    """Return the coordinates that predict the reward or a coordinate of the next observation.

    A coordinate is kept if, among the n steps with one of the actions, its correlation r with some target has |r| √n
    above a quantile of the normal distribution, corrected for the number of comparisons. Targets are the reward and
    every coordinate of the next observation. Coordinates with few values are compared value by value too. A coordinate
    that is new at every step and has an effect only together with another one is missed.

    Args:
        episodes: Episodes, with the same number of coordinates.
    """
    before, after, rewards, actions = _columns(episodes)
    sources, owner = _compared(before)
    targets = np.column_stack([_compared(after)[0], rewards])
    taken = np.unique(actions)
    bound = NormalDist().inv_cdf(1.0 - LEVEL / (2.0 * sources.shape[1] * targets.shape[1] * len(taken)))
    kept: set[int] = set()
    for action in taken:
        own = actions == action
        kept |= set(owner[np.abs(_scores(sources[own], targets[own])).max(axis=1) > bound].tolist())
    return sorted(kept)


def _columns(episodes: Sequence[Seen]) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.int64]]:
    """Return observations before and after all steps, rewards and actions."""

    def rows(boards: Sequence[Any]) -> FloatArray:
        return np.stack(boards).reshape(len(boards), -1).astype(np.float64)

    played = [episode for episode in episodes if episode.actions]
    before = np.concatenate([rows(episode.observations[:-1]) for episode in played])
    after = np.concatenate([rows(episode.observations[1:]) for episode in played])
    rewards = np.concatenate([np.asarray(episode.rewards, dtype=np.float64) for episode in played])
    return before, after, rewards, np.concatenate([np.asarray(episode.actions) for episode in played])


def _compared(columns: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return the columns that are compared, and the coordinate of each.

    Every coordinate is one column, as a number; with three to ten values it is also the indicators of its values.
    """
    parts: list[FloatArray] = []
    owner: list[int] = []
    for k, column in enumerate(columns.T):
        values = np.unique(column)
        group = [column]
        if 2 < len(values) <= _MOST_VALUES:
            group += [(column == value).astype(np.float64) for value in values]
        parts += group
        owner += [k] * len(group)
    return np.column_stack(parts), np.array(owner)


def _scores(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return r √n of every column of one array with every column of another; 0 where a column is constant."""
    n = len(first)
    first, second = (part - part.mean(axis=0) for part in (first, second))
    sizes = np.outer(np.linalg.norm(first, axis=0), np.linalg.norm(second, axis=0))
    products = first.T @ second
    ratios = np.divide(products, sizes, out=np.zeros_like(products), where=sizes > 1e-12 * n)
    found: FloatArray = np.sqrt(n) * ratios
    return found
