"""Sample from discrete distributions by inverting their cumulative sums."""

from __future__ import annotations

import numpy as np

from matrixrl.records import FloatArray, IntArray

__all__ = ["cumulative", "cumulative_lists", "invert", "invert_lists", "locate"]

_TINY = float(np.finfo(np.float64).tiny)


def cumulative(rows: FloatArray) -> FloatArray:
    """Return the cumulative sums of each row, scaled so that the last one is exactly 1.

    Args:
        rows: Non-negative weights, shape (n, m); each row has a positive sum.

    Returns:
        Cumulative sums, shape (n, m).

    >>> cumulative(np.array([[0.5, 0.25, 0.25]]))
    array([[0.5 , 0.75, 1.  ]])
    """
    cdf = np.cumsum(rows, axis=-1)
    cdf /= cdf[:, -1:]
    return cdf


def invert(cdf: FloatArray, rows: IntArray, uniforms: FloatArray) -> IntArray:
    """Return, for each of k rows of `cdf`, the first index whose cumulative sum exceeds the uniform number.

    Args:
        cdf: Cumulative sums as returned by `cumulative`, shape (n, m).
        rows: Row of `cdf` for each draw, shape (k,).
        uniforms: Numbers in [0, 1), shape (k,).

    Returns:
        Indices in 0 … m-1, shape (k,).

    >>> invert(np.array([[0.5, 0.75, 1.0]]), np.array([0, 0]), np.array([0.2, 0.6]))
    array([0, 1])
    """
    # One comparison of whole rows is faster for many draws, a binary search for a few draws from long rows.
    if len(rows) > 64 or (cdf.shape[1] <= 64 and len(rows) > 4):
        counted: IntArray = (cdf[rows] <= np.asarray(uniforms)[:, None]).sum(axis=1)
        return counted
    searched = [cdf[r].searchsorted(u, side="right") for r, u in zip(rows, uniforms, strict=True)]
    return np.array(searched, dtype=np.int64)


def cumulative_lists(firsts: IntArray, weights: FloatArray) -> FloatArray:
    """Return the cumulative sums of each of n lists, scaled so that the last one is exactly 1, as `cumulative` does.

    Args:
        firsts: Position of the first entry of each list, and the number of entries E, shape (n + 1,).
        weights: Non-negative entries of all lists, shape (E,); each list has a positive sum.

    >>> cumulative_lists(np.array([0, 2, 3]), np.array([0.5, 0.5, 1.0]))
    array([0.5, 1. , 1. ])
    """
    lengths = np.diff(firsts)
    cdf = np.array(weights, dtype=np.float64)
    by_length = np.argsort(-lengths, kind="stable")
    starts, sorted_lengths = firsts[:-1][by_length], -lengths[by_length]
    for k in range(1, int(lengths.max())):  # all lists at once, so that each sum has the order of its entries
        places = starts[: np.searchsorted(sorted_lengths, -k)] + k
        cdf[places] += cdf[places - 1]
    cdf /= np.repeat(cdf[firsts[1:] - 1], lengths)
    return cdf


def invert_lists(firsts: IntArray, cdf: FloatArray, lists: IntArray, uniforms: FloatArray) -> IntArray:
    """Return, for each of k lists, the position of the first entry whose cumulative sum exceeds the uniform number.

    Args:
        firsts: Position of the first entry of each list, and the number of entries E, shape (n + 1,).
        cdf: Cumulative sums as returned by `cumulative_lists`, shape (E,).
        lists: List of each draw, shape (k,).
        uniforms: Numbers in [0, 1), shape (k,).

    Returns:
        Positions in 0 … E-1, shape (k,).

    >>> invert_lists(np.array([0, 2, 3]), np.array([0.5, 1.0, 1.0]), np.array([0, 1]), np.array([0.6, 0.6]))
    array([1, 2])
    """
    if len(lists) <= 4:
        found = [
            firsts[i] + cdf[firsts[i] : firsts[i + 1]].searchsorted(u, side="right")
            for i, u in zip(lists, uniforms, strict=True)
        ]
        return np.array(found, dtype=np.int64)
    low, high = firsts[lists].astype(np.int64), firsts[lists + 1].astype(np.int64) - 1
    while (low < high).any():  # the entry is between both, which are included
        middle = (low + high) // 2
        beyond = cdf[middle] <= uniforms
        low, high = np.where(beyond, middle + 1, low), np.where(beyond, high, middle)
    return low


def locate(cdf: FloatArray, rows: IntArray, uniforms: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return what `invert` returns, and the relative position of each uniform number in the interval of its index.

    That position is uniform in [0, 1) again and independent of the index, so that one uniform number serves two draws.

    Args:
        cdf: Cumulative sums as returned by `cumulative`, shape (n, m).
        rows: Row of `cdf` for each draw, shape (k,).
        uniforms: Numbers in [0, 1), shape (k,).

    Returns:
        Indices in 0 … m-1 and positions, both of shape (k,).

    >>> locate(np.array([[0.5, 0.75, 1.0]]), np.array([0]), np.array([0.625]))
    (array([1]), array([0.5]))
    """
    if len(rows) > 4:
        indices = invert(cdf, rows, uniforms)
        lower = cdf[rows, indices - 1] * (indices > 0)
        return indices, (uniforms - lower) / np.maximum(cdf[rows, indices] - lower, _TINY)
    found, positions = [], []
    for r, u in zip(rows, uniforms, strict=True):
        row = cdf[r]
        i = row.searchsorted(u, side="right")
        low = row[i - 1] if i > 0 else 0.0
        found.append(i)
        positions.append((u - low) / max(row[i] - low, _TINY))
    return np.array(found, dtype=np.int64), np.array(positions)
