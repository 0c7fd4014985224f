"""Counts of the outcomes of B replicas, kept as sorted lists of the outcomes seen, and rewards as a few levels."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from matrixrl.errors import InvalidInput
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["OutcomeCounts", "RewardLevels", "SeenRows"]

_FEW = 1 << 14  # observations that may wait, however little was seen


class SeenRows:
    """The rows that have data, with the law p̂ of each; the entries of a row are consecutive.

    Attributes:
        ids: (R,) Number of each row, replica by replica: b times the number of rows of a replica plus the row.
        firsts: (R,) Position of the first entry of each row.
        outcomes: (E,) Outcome of each entry.
        times: (E,) How often it was seen; may be a fraction.
        totals: (R,) Sum n of the entries of each row.
    """

    ids: IntArray
    firsts: IntArray
    outcomes: IntArray
    times: FloatArray
    totals: FloatArray

    def __init__(self, codes: IntArray, times: FloatArray, n_outcomes: int) -> None:
        rows = codes // n_outcomes
        self.firsts = np.flatnonzero(np.diff(rows, prepend=-1))
        self.ids = rows[self.firsts]
        self.outcomes = codes - rows * n_outcomes
        self.times = times
        self.totals = self.sums(times)

    @cached_property
    def lengths(self) -> IntArray:
        """Number of different outcomes seen in each row (R,)."""
        return np.diff(self.firsts, append=len(self.outcomes))

    @cached_property
    def places(self) -> IntArray:
        """Position of the row of each entry among the rows that have data (E,)."""
        return np.repeat(np.arange(len(self.ids)), self.lengths)

    @cached_property
    def shares(self) -> FloatArray:
        """Empirical probability p̂ of each entry (E,)."""
        return self.times / self.totals[self.places]

    def only(self, ids: IntArray) -> SeenRows:
        """Return some of the rows, given by their numbers in ascending order; each must have data."""
        places = np.searchsorted(self.ids, ids)
        chosen = np.zeros(len(self.ids), dtype=np.bool_)
        chosen[places] = True
        entries = chosen[self.places]
        part = object.__new__(SeenRows)
        part.ids, part.totals = self.ids[places], self.totals[places]
        part.outcomes, part.times = self.outcomes[entries], self.times[entries]
        part.firsts = np.cumsum(self.lengths[places]) - self.lengths[places]
        return part

    def repeated(self, places: IntArray, ids: IntArray) -> SeenRows:
        """Return the rows at some places (R',), which may be repeated, under other numbers `ids` in ascending order."""
        lengths = self.lengths[places]
        firsts = np.cumsum(lengths) - lengths
        entries = np.repeat(self.firsts[places] - firsts, lengths) + np.arange(int(lengths.sum()))
        made = object.__new__(SeenRows)
        made.ids, made.firsts, made.totals = ids, firsts, self.totals[places]
        made.outcomes, made.times = self.outcomes[entries], self.times[entries]
        return made

    def sums(self, entries: FloatArray) -> FloatArray:
        """Return the sum of the entries of each row: (E,) → (R,)."""
        return np.add.reduceat(entries, self.firsts) if len(self.firsts) else np.zeros(0)


class OutcomeCounts:
    """Number of times that each row of each replica led to each outcome.

    A row is a group of pairs that share a law, and an outcome is a next state. The memory is that of the outcomes seen,
    not of all rows times all outcomes. Observations are sorted when the counts are read, so that `add` costs the number
    of new observations only, however many there are already.

    Args:
        n_replicas: Number of replicas B.
        n_rows: Number of rows K of one replica.
        n_outcomes: Number of possible outcomes.

    >>> counts = OutcomeCounts(n_replicas=1, n_rows=2, n_outcomes=3)
    >>> counts.add(np.array([[1, 1, 1]]), np.array([[2, 0, 2]]))
    >>> counts.seen.outcomes, counts.seen.times
    (array([0, 2]), array([1., 2.]))
    """

    def __init__(self, n_replicas: int, n_rows: int, n_outcomes: int) -> None:
        self.n_replicas, self.n_rows, self.n_outcomes = n_replicas, n_rows, n_outcomes
        self._codes: IntArray = np.zeros(0, dtype=np.int64)
        self._times: FloatArray = np.zeros(0)
        self._totals: FloatArray = np.zeros(n_replicas * n_rows)
        self._waiting: list[tuple[IntArray, FloatArray]] = []  # codes and times that are not sorted in yet
        self._n_waiting = 0
        self._seen: SeenRows | None = None

    @property
    def seen(self) -> SeenRows:
        """The rows that have data."""
        self._sort_in()
        if self._seen is None:
            self._seen = SeenRows(self._codes, self._times, self.n_outcomes)
        return self._seen

    def totals(self) -> FloatArray:
        """Return the number of observations of every row: (B, K)."""
        return self._totals.reshape(self.n_replicas, self.n_rows).copy()

    def totals_of(self, ids: IntArray) -> FloatArray:
        """Return the number of observations of some rows, given by their numbers b·K + row."""
        return self._totals[ids]

    def add(self, rows: IntArray, outcomes: IntArray, weights: FloatArray | None = None) -> None:
        """Count observations: rows (B, T), outcomes (B, T), and how often each counts (B, T), once by default."""
        replicas = np.arange(self.n_replicas)[:, None]
        codes = ((replicas * self.n_rows + rows) * self.n_outcomes + outcomes).ravel()
        times = np.ones(len(codes)) if weights is None else weights.ravel()
        counted = times > 0.0
        new, inverse = np.unique(codes[counted], return_inverse=True)
        extra: FloatArray = np.bincount(inverse, times[counted], minlength=len(new)).astype(np.float64)
        np.add.at(self._totals, new // self.n_outcomes, extra)
        self._waiting.append((new, extra))
        self._n_waiting += len(new)
        if self._n_waiting > max(len(self._codes), _FEW):  # so that the memory stays that of the outcomes seen
            self._sort_in()

    def _sort_in(self) -> None:
        """Add what is waiting, in the order in which it came: sums are those of adding it at once."""
        if not self._waiting:
            return
        codes, extra = map(np.concatenate, zip(*self._waiting, strict=True))
        new = np.unique(codes)
        places = np.searchsorted(self._codes, new)
        known = places < len(self._codes)
        known[known] = self._codes[places[known]] == new[known]
        merged = np.insert(self._codes, places[~known], new[~known])
        times = np.insert(self._times, places[~known], 0.0)  # a copy: arrays that were given out do not change
        np.add.at(times, np.searchsorted(merged, codes), extra)
        # One statement without calls, which an interrupt cannot divide.
        self._codes, self._times, self._waiting, self._n_waiting, self._seen = merged, times, [], 0, None

    def arrays(self) -> dict[str, np.ndarray]:
        """Return codes and times of the outcomes seen, for saving."""
        self._sort_in()
        return {"codes": self._codes, "times": self._times}

    def restore(self, codes: IntArray, times: FloatArray) -> None:
        """Take back what `arrays` returned; refuse codes of other rows or outcomes."""
        limit = self.n_replicas * self.n_rows * self.n_outcomes
        if (np.diff(codes, prepend=-1, append=limit) <= 0).any():  # they become indices
            raise InvalidInput(f"the codes of outcomes must be increasing integers from 0 to {limit - 1}")
        if len(times) != len(codes):
            raise InvalidInput("every outcome that was seen must have one count")
        self.take(codes.copy(), times.copy())

    def take(self, codes: IntArray, times: FloatArray) -> None:
        """Use arrays (E,), as `arrays` returns them, that are known to be counts; they are not copied."""
        self._codes, self._times, self._seen = codes, times, None
        self._waiting, self._n_waiting = [], 0
        self._totals = np.zeros(self.n_replicas * self.n_rows)
        self._totals[self.seen.ids] = self.seen.totals


class RewardLevels:
    """The levels of unit rewards of B replicas: 0, 1 and the first other rewards that are seen.

    The first `n_levels` different rewards are levels themselves. A later one is divided between the levels around
    it, which keeps the mean and only loosens an upper bound, because ln(ν − r) is concave in r (docs/proofs.md,
    section 9).

    >>> levels = RewardLevels(n_replicas=1, n_levels=3)
    >>> levels.place(np.array([[0.25, 0.5]]), np.array([[True, True]]))[2]
    array([[0.        , 0.33333333]])
    """

    def __init__(self, n_replicas: int, n_levels: int = 64) -> None:
        self.values = np.full((n_replicas, n_levels), np.nan)
        self.values[:, :2] = 0.0, 1.0

    @property
    def n_levels(self) -> int:
        """Largest number of levels."""
        return int(self.values.shape[1])

    def place(self, rewards: FloatArray, counted: BoolArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the levels around rewards and the share of the upper one, each (B, T); the mixture has their mean.

        New rewards that count become levels as long as there is room. A reward that is a level has it on both sides.
        """
        below, above = np.zeros((2, *rewards.shape), dtype=np.int64)
        shares = np.zeros(rewards.shape)
        for b, row in enumerate(rewards):
            self._add(b, row[counted[b]])
            levels = self.values[b]
            order = np.argsort(levels)  # unused levels, not a number, come last
            used = levels[order][: int(np.isfinite(levels).sum())]
            right = np.clip(np.searchsorted(used, row, side="right"), 1, len(used) - 1)
            low, high = used[right - 1], used[right]
            weight = np.clip((row - low) / (high - low), 0.0, 1.0)
            below[b] = order[np.where(weight == 1.0, right, right - 1)]
            above[b] = order[np.where(weight == 0.0, right - 1, right)]
            shares[b] = np.where(weight == 1.0, 0.0, weight)
        return below, above, shares

    def _add(self, b: int, rewards: FloatArray) -> None:
        new, first = np.unique(rewards, return_index=True)
        fresh = ~np.isin(new, self.values[b])
        in_order = new[fresh][np.argsort(first[fresh])]
        free = np.flatnonzero(np.isnan(self.values[b]))[: len(in_order)]
        self.values[b, free] = in_order[: len(free)]
