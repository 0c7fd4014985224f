"""Lists of the outcomes of each pair that grow with what is seen, for compiled episodes.

All lists are in flat arrays. A list that is full moves to the end of them, where it gets twice its room, so the memory
is that of the outcomes seen and of the pairs. Outcomes are in ascending order, so that sums run in the order of the
NumPy version.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matrixrl.compiling.jit import compiled, inlined
from matrixrl.linalg import OutcomeCounts
from matrixrl.records import FloatArray

__all__ = ["Laws", "count_outcome", "has_room", "lists_of", "make_room", "read_lists"]

_FREE = 2  # positions of the first room of a list


class Laws(NamedTuple):
    """Lists of the outcomes of each pair.

    Attributes:
        firsts: (B, P) Position of the first entry of a pair in the flat arrays.
        lasts: (B, P) Position after its last entry.
        rooms: (B, P) Position after its room.
        outcomes: (E,) Code of each outcome, ascending inside a pair.
        states: (E,) Next state of each outcome, unsigned.
        extras: (E,) Unit reward of each outcome; empty where the law is of next states alone.
        times: (E,) How often it was seen.
        shares: (E,) Its empirical probability, which is brought up to date before plans.
        sizes: (2,) Number of positions that are in use, and the length of the longest list.
    """

    firsts: Any
    lasts: Any
    rooms: Any
    outcomes: Any
    states: Any
    extras: Any
    times: Any
    shares: Any
    sizes: Any


(FIRSTS, LASTS, ROOMS, OUTCOMES, NEXT, EXTRAS, TIMES, SHARES, SIZES) = range(9)


@inlined
def has_room(law: Any, n_new: int) -> bool:
    """Return whether so many outcomes can be counted: in the worst case each of them moves a list of the longest."""
    return bool(law[SIZES][0] + n_new * (2 * law[SIZES][1] + 2 * _FREE) <= len(law[OUTCOMES]))


@inlined
def count_outcome(law: Any, b: int, pair: int, outcome: int, state: int, extra: float, weight: float) -> None:
    """Count one outcome of a pair so many times."""
    outcomes, times = law[OUTCOMES], law[TIMES]
    first, last = law[FIRSTS][b, pair], law[LASTS][b, pair]
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
    if last == law[ROOMS][b, pair]:
        moved, length = law[SIZES][0], last - first
        _copy(law, first, law, moved, length)
        law[FIRSTS][b, pair], law[ROOMS][b, pair] = moved, moved + max(2 * length, _FREE)
        law[SIZES][0] = law[ROOMS][b, pair]
        low, last = low + moved - first, last + moved - first
    for i in range(last, low, -1):
        outcomes[i], law[NEXT][i], times[i] = outcomes[i - 1], law[NEXT][i - 1], times[i - 1]
        if len(law[EXTRAS]) > 0:
            law[EXTRAS][i] = law[EXTRAS][i - 1]
    outcomes[low], law[NEXT][low], times[low] = outcome, state, weight
    if len(law[EXTRAS]) > 0:
        law[EXTRAS][low] = extra
    law[LASTS][b, pair] = last + 1
    law[SIZES][1] = max(law[SIZES][1], last + 1 - law[FIRSTS][b, pair])


@inlined
def _copy(source: Any, first: int, target: Any, start: int, length: int) -> None:
    """Copy a list to another place."""
    for i in range(length):
        target[OUTCOMES][start + i], target[NEXT][start + i] = source[OUTCOMES][first + i], source[NEXT][first + i]
        target[TIMES][start + i], target[SHARES][start + i] = source[TIMES][first + i], source[SHARES][first + i]
        if len(source[EXTRAS]) > 0:
            target[EXTRAS][start + i] = source[EXTRAS][first + i]


@compiled
def _pack(source: Any, target: Any) -> None:
    """Copy all lists with their rooms to other arrays, one after the other."""
    n_replicas, n_pairs = source[FIRSTS].shape
    position = 0
    for b in range(n_replicas):
        for p in range(n_pairs):
            first, last, room = source[FIRSTS][b, p], source[LASTS][b, p], source[ROOMS][b, p]
            _copy(source, first, target, position, last - first)
            target[FIRSTS][b, p], target[LASTS][b, p] = position, position + last - first
            position += room - first
            target[ROOMS][b, p] = position
    target[SIZES][0], target[SIZES][1] = position, source[SIZES][1]


@compiled
def _collect(law: Any, n_outcomes: int, codes: Any, times: Any) -> None:
    """Fill in the codes of all outcomes seen and how often they were, in the order of the pairs."""
    n_replicas, n_pairs = law[FIRSTS].shape
    i = 0
    for b in range(n_replicas):
        for p in range(n_pairs):
            row = (b * n_pairs + p) * n_outcomes
            for e in range(law[FIRSTS][b, p], law[LASTS][b, p]):
                codes[i], times[i] = row + law[OUTCOMES][e], law[TIMES][e]
                i += 1


def lists_of(counts: OutcomeCounts | None, n_replicas: int, levels: FloatArray | None) -> Laws:
    """Return the lists of some counts, without room for more; no lists if there are no counts.

    Args:
        counts: Counts of outcomes; their rows are pairs.
        n_replicas: Number of replicas B.
        levels: (B, L) Levels of rewards if an outcome is next state times L plus level; None if it is a next state.
    """
    n_rows = 0 if counts is None else counts.n_rows
    firsts = np.zeros(n_replicas * n_rows, dtype=np.int64)
    lasts, shape = firsts.copy(), (n_replicas, n_rows)
    if counts is None:
        nothing = np.zeros(0)
        whole = np.zeros(0, dtype=np.int64)
        sizes = np.zeros(2, dtype=np.int64)
        empty = firsts.reshape(shape)
        return Laws(empty, empty, empty, whole, whole.astype(np.uint32), nothing, nothing, nothing, sizes)
    seen = counts.seen
    firsts[seen.ids], lasts[seen.ids] = seen.firsts, seen.firsts + seen.lengths
    extras = np.zeros(0)
    n_levels = 1
    if levels is not None:
        n_levels = levels.shape[1]
        extras = levels[(seen.ids // n_rows)[seen.places], seen.outcomes % n_levels]
    return Laws(
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


def make_room(law: Laws, n_new: int, *, has_extras: bool) -> Laws:
    """Return the same lists in larger arrays, so that `n_new` more outcomes can be counted.

    Args:
        law: Lists.
        n_new: Number of outcomes.
        has_extras: Whether outcomes have rewards.
    """
    kept = int((law.rooms - law.firsts).sum())
    size = kept + kept // 2 + n_new * (2 * int(law.sizes[1]) + 2 * _FREE)
    target = Laws(
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
    _pack(tuple(law), tuple(target))
    return target


def read_lists(law: Laws, counts: OutcomeCounts) -> OutcomeCounts:
    """Return lists as counts with the sizes of other counts."""
    n_seen = int((law.lasts - law.firsts).sum())
    codes, times = np.empty(n_seen, dtype=np.int64), np.empty(n_seen)
    _collect(tuple(law), counts.n_outcomes, codes, times)
    read = OutcomeCounts(counts.n_replicas, counts.n_rows, counts.n_outcomes)
    read.take(codes, times)
    return read
