"""Partitions of outcomes: what next state and reward say of an outcome that is not reported."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["Partitions", "partitions"]

_MOST = 4096  # partitions, each of which is compared with all others


class Partitions(NamedTuple):
    """Partitions of the outcomes into cells that no observation of a pair tells apart, for J groups of pairs.

    The pairs of a group share the law of their outcome and the partition.

    Attributes:
        groups: (A, S) Group of each pair.
        cells: (J, W) Smallest outcome of the cell of each outcome.
        serves: (J, J) Whether a step of the first group says in which cell of the second one its outcome is: both
            have one law, and each cell of the first is in one of the second, which has several.
    """

    groups: IntArray
    cells: IntArray
    serves: BoolArray


def partitions(next_states: IntArray, rewards: FloatArray, laws: IntArray) -> Partitions:
    """Return the partitions of pairs from their next states and rewards (A, S, W) and their laws (A, S).

    Raises:
        InvalidInput: There are too many partitions.
    """
    n_outcomes, n_pairs = next_states.shape[-1], laws.size
    rows = np.empty((n_pairs, 1 + n_outcomes), dtype=np.int32)
    rows[:, 0] = laws.ravel()
    at_once = max(1, (1 << 20) // n_outcomes)
    flat = next_states.reshape(n_pairs, -1), rewards.reshape(n_pairs, -1)
    for first in range(0, n_pairs, at_once):
        part = slice(first, first + at_once)
        rows[part, 1:] = _cells(flat[0][part], flat[1][part])
    as_bytes: NDArray[Any] = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, places, groups = np.unique(as_bytes, return_index=True, return_inverse=True)
    if len(places) > _MOST:
        rule = f"must be False for more than {_MOST:,} different partitions of outcomes into those that look alike"
        fail("censored", rule, f"{len(places):,} of them", "Report outcomes, or let next states tell fewer apart.")
    found, cells = rows[places, 0], rows[places, 1:].astype(np.int64)
    serves = np.zeros((len(places), len(places)), dtype=np.bool_)
    for i, own in enumerate(cells):
        serves[i] = (found == found[i]) & (cells[:, own] == cells).all(axis=1)
    serves[:, (cells == 0).all(axis=1)] = False  # where all outcomes look alike nothing is to be learned
    return Partitions(groups.reshape(laws.shape).astype(np.int64), cells, serves)


def _cells(next_states: IntArray, rewards: FloatArray) -> IntArray:
    """Return the smallest outcome with the same next state and reward, of every outcome: (n, W)."""
    numbers = np.broadcast_to(np.arange(next_states.shape[1]), next_states.shape)
    order = np.lexsort((numbers, rewards, next_states), axis=-1)
    ordered = [np.take_along_axis(array, order, axis=1) for array in (next_states, rewards)]
    begins = np.ones(next_states.shape, dtype=np.bool_)
    begins[:, 1:] = (ordered[0][:, 1:] != ordered[0][:, :-1]) | (ordered[1][:, 1:] != ordered[1][:, :-1])
    first = np.maximum.accumulate(np.where(begins, numbers, 0), axis=1)  # the place where each cell begins
    cells = np.empty(next_states.shape, dtype=np.int64)
    np.put_along_axis(cells, order, np.take_along_axis(order, first, axis=1), axis=1)
    return cells
