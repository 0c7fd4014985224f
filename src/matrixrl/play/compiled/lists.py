"""Lists of the outcomes of each pair that grow with what is seen, for compiled episodes.

All lists are in flat arrays. A list that is full moves to the end of them, where it gets twice its room, so the memory
is that of the outcomes seen and of the pairs. Outcomes are in ascending order, so that sums run in the order of the
NumPy version.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.compilation import compiled, inlined, merged
from matrixrl.linalg import OutcomeCounts
from matrixrl.play.compiled.arrays import Lists
from matrixrl.records import FloatArray, IntArray

__all__ = ["count_outcome", "has_room", "lists_of", "make_room", "read_lists"]

_FREE = 2  # positions of the first room of a list


@inlined
def has_room(law: Any, n_new: int) -> bool:
    """Return whether so many outcomes can be counted: in the worst case each of them moves a list of the longest."""
    return bool(law.sizes[0] + n_new * (2 * law.sizes[1] + 2 * _FREE) <= len(law.outcomes))


@inlined
def count_outcome(law: Any, b: int, pair: int, outcome: int, state: int, extra: float, weight: float) -> None:
    """Count one outcome of a pair so many times."""
    outcomes, times = law.outcomes, law.times
    first, last = law.firsts[b, pair], law.lasts[b, pair]
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if outcomes[middle] < outcome:
            low = middle + 1
        else:
            high = middle
    if low < last and outcomes[low] == outcome:
        times[low] += weight
        return
    if last == law.rooms[b, pair]:
        moved, length = law.sizes[0], last - first
        _copy(law, first, law, moved, length)
        law.firsts[b, pair], law.rooms[b, pair] = moved, moved + max(2 * length, _FREE)
        law.sizes[0] = law.rooms[b, pair]
        low, last = low + moved - first, last + moved - first
    for i in range(last, low, -1):
        outcomes[i], law.states[i], times[i] = outcomes[i - 1], law.states[i - 1], times[i - 1]
        if len(law.extras) > 0:
            law.extras[i] = law.extras[i - 1]
    outcomes[low], law.states[low], times[low] = outcome, state, weight
    if len(law.extras) > 0:
        law.extras[low] = extra
    law.lasts[b, pair] = last + 1
    law.sizes[1] = max(law.sizes[1], last + 1 - law.firsts[b, pair])


@merged
def _copy(source: Any, first: int, target: Any, start: int, length: int) -> None:
    """Copy a list to another place."""
    for i in range(length):
        target.outcomes[start + i], target.states[start + i] = source.outcomes[first + i], source.states[first + i]
        target.times[start + i], target.shares[start + i] = source.times[first + i], source.shares[first + i]
        if len(source.extras) > 0:
            target.extras[start + i] = source.extras[first + i]


@compiled
def _pack(source: Any, target: Any) -> None:
    """Copy all lists with their rooms to other arrays, one after the other."""
    n_replicas, n_pairs = source.firsts.shape
    position = 0
    for b in range(n_replicas):
        for p in range(n_pairs):
            first, last, room = source.firsts[b, p], source.lasts[b, p], source.rooms[b, p]
            _copy(source, first, target, position, last - first)
            target.firsts[b, p], target.lasts[b, p] = position, position + last - first
            position += room - first
            target.rooms[b, p] = position
    target.sizes[0], target.sizes[1] = position, source.sizes[1]


@compiled
def _collect(law: Any, n_outcomes: int, codes: Any, times: Any) -> None:
    """Fill in the codes of all outcomes seen and how often they were, in the order of the pairs."""
    n_replicas, n_pairs = law.firsts.shape
    i = 0
    for b in range(n_replicas):
        for p in range(n_pairs):
            row = (b * n_pairs + p) * n_outcomes
            for e in range(law.firsts[b, p], law.lasts[b, p]):
                codes[i], times[i] = row + law.outcomes[e], law.times[e]
                i += 1


def lists_of(counts: OutcomeCounts | None, n_replicas: int, levels: FloatArray | None) -> Lists:
    """Return the lists of counts whose rows are pairs, without room for more; no lists if there are no counts.

    With levels of rewards (B, L), an outcome is next state times L plus level; without them it is a next state.
    """
    counts = OutcomeCounts(n_replicas, 0, 1) if counts is None else counts
    seen, shape = counts.seen, (n_replicas, counts.n_rows)
    firsts = np.zeros(n_replicas * counts.n_rows, dtype=np.int64)
    lasts = firsts.copy()
    firsts[seen.ids], lasts[seen.ids] = seen.firsts, seen.firsts + seen.lengths
    n_levels, extras = 1, np.zeros(0)
    if levels is not None:
        n_levels = levels.shape[1]
        extras = levels[(seen.ids // max(counts.n_rows, 1))[seen.places], seen.outcomes % n_levels]
    return Lists(
        firsts=firsts.reshape(shape),
        lasts=lasts.reshape(shape),
        rooms=lasts.reshape(shape).copy(),
        outcomes=seen.outcomes.copy(),
        states=(seen.outcomes // n_levels).astype(np.uint32),
        extras=extras,
        times=seen.times.copy(),
        shares=seen.shares.copy(),
        sizes=np.array([len(seen.outcomes), seen.lengths.max(initial=0)], dtype=np.int64),
    )


def make_room(law: Lists, n_new: int, *, has_extras: bool) -> Lists:
    """Return the same lists in larger arrays, so that `n_new` more outcomes can be counted."""
    kept = int((law.rooms - law.firsts).sum())
    size = kept + kept // 2 + n_new * (2 * int(law.sizes[1]) + 2 * _FREE)
    target = Lists(
        firsts=np.empty_like(law.firsts),
        lasts=np.empty_like(law.lasts),
        rooms=np.empty_like(law.rooms),
        outcomes=np.empty(size, dtype=np.int64),
        states=np.empty(size, dtype=np.uint32),
        extras=np.empty(size if has_extras else 0),
        times=np.empty(size),
        shares=np.empty(size),
        sizes=np.zeros(2, dtype=np.int64),
    )
    _pack(law, target)
    return target


def read_lists(law: Lists, n_outcomes: int) -> tuple[IntArray, FloatArray]:
    """Return the codes of all outcomes seen, (b·P + pair)·n + outcome in ascending order, and how often they were."""
    n_seen = int((law.lasts - law.firsts).sum())
    codes, times = np.empty(n_seen, dtype=np.int64), np.empty(n_seen)
    _collect(law, n_outcomes, codes, times)
    return codes, times
