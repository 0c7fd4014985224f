"""Evidence that the law of a row of observations has changed, whenever that was (docs/proofs.md, section 20)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from matrixrl.errors import InvalidInput
from matrixrl.records import FloatArray, IntArray

__all__ = ["NAMES", "ChangeEvidence", "Stretches", "log_marginals", "log_split_weight", "split_is_kept"]

_SUPPORTS = 8  # sizes of supports, from the smallest possible one on, that are mixed
_LIFETIME = 8  # of a split, in units of the largest power of two that divides its number
_HALF_LOG_PI = 0.5 * math.log(math.pi)
NAMES = ("rows", "outcomes", "splits", "counts")
"""Names of the arrays of `ChangeEvidence.arrays`."""


def log_split_weight(split: IntArray | int) -> FloatArray:
    """Return ln w_j, the prior probability of a change after batch j = 1, 2, …; they add up to 1.

    The 2^l numbers from 2^l on share 1/((l + 1)(l + 2)) equally.

    >>> float(np.exp(log_split_weight(np.arange(1, 1 << 16))).sum().round(9)) == round(1 - 1 / 17, 9)
    True
    """
    level = np.floor(np.log2(np.asarray(split, dtype=np.float64)))
    weight: FloatArray = -level * math.log(2.0) - np.log((level + 1.0) * (level + 2.0))
    return weight


def split_is_kept(split: IntArray, n_batches: int) -> NDArray[np.bool_]:
    """Return which splits are still compared after so many batches: those of large powers of two stay for longest.

    Of n batches about 4·log2(n) are kept, and some split lies within an eighth of the time since a change from it.
    """
    kept: NDArray[np.bool_] = n_batches - split < _LIFETIME * (split & -split)
    return kept


def log_marginals(counts: FloatArray, n_outcomes: int) -> FloatArray:
    """Return ln m(c) of counts (R, d) of some of the outcomes: `likelihood.radii.log_marginal` with few supports.

    Supports of more than seven outcomes that were not seen are left out of the mixture, which makes it smaller.

    >>> float(np.exp(log_marginals(np.array([[1.0, 0.0]]), 2)[0]).round(12))
    0.5
    """
    seen, n = (counts > 0.0).sum(axis=1), counts.sum(axis=1)
    of_counts = (gammaln(counts + 0.5) - _HALF_LOG_PI).sum(axis=1)
    more = np.arange(_SUPPORTS)
    k = np.minimum(np.maximum(seen[:, None] + more, 1), n_outcomes).astype(np.float64)
    of_k = math.log1p(1.0 / n_outcomes) - np.log(k * (k + 1.0)) + gammaln(k + 1.0) + gammaln(0.5 * k)
    terms = of_k - gammaln(more + 1.0) - gammaln(n[:, None] + 0.5 * k)
    terms[seen[:, None] + more > n_outcomes] = -np.inf
    most = terms.max(axis=1)
    # C(S−k₀, k−k₀)/C(S, k) = (S−k₀)! k! / (S! (k−k₀)!)
    constant = gammaln(n_outcomes - seen + 1.0) - gammaln(n_outcomes + 1.0)
    found: FloatArray = of_counts + constant + most + np.log(np.exp(terms - most[:, None]).sum(axis=1))
    return found


@dataclass
class Stretches:
    """Counts of one row up to the splits that are kept, and in all.

    Attributes:
        columns: Column of each outcome that was seen.
        n_batches: Number of batches so far; a batch is what one episode adds.
        total: (d,) Counts of all batches.
        splits: (L,) Number of the last batch before each split.
        episodes: (L,) Episodes that had been learned from at that time.
        before: (L, d) Counts of the batches before each split.
        weights: (L,) ln w + ln m of these counts.
    """

    columns: dict[int, int]
    n_batches: int
    total: FloatArray
    splits: IntArray
    episodes: IntArray
    before: FloatArray
    weights: FloatArray

    @classmethod
    def empty(cls) -> Stretches:
        """Return a row without data."""
        none = np.zeros(0, dtype=np.int64)
        return cls({}, 0, np.zeros(0), none, none, np.zeros((0, 0)), np.zeros(0))

    def add(
        self, outcomes: IntArray, times: FloatArray, episode: int, n_outcomes: int
    ) -> tuple[float, tuple[int, FloatArray]]:
        """Add a batch, and return the log evidence of a change, with the likeliest split and its counts.

        The evidence is ln Σ_j w_j m(before j) m(after j) − Σ c ln(c/n). Of the split, episodes that had been learned
        from and counts (d,) before it are returned; (0, zeros) if there is none.
        """
        columns = [self.columns.setdefault(one, len(self.columns)) for one in outcomes.tolist()]
        more = len(self.columns) - len(self.total)
        if more:
            self.total = np.append(self.total, np.zeros(more))
            self.before = np.concatenate([self.before, np.zeros((len(self.before), more))], axis=1)
        self.total[columns] += times
        self.n_batches += 1
        after = self.total - self.before
        log_m = log_marginals(np.concatenate([self.total[None], after]), n_outcomes)
        terms, evidence, split = self.weights + log_m[1:], -math.inf, (0, np.zeros_like(self.total))
        if len(terms):
            best = int(terms.argmax())
            split = int(self.episodes[best]), self.before[best].copy()  # which may be kept no longer
            evidence = float(np.logaddexp.reduce(terms) - xlogy(self.total, self.total / self.total.sum()).sum())
        self._split(episode, float(log_m[0]))
        return evidence, split

    def _split(self, episode: int, log_m: float) -> None:
        """Let a change begin after the last batch, and forget the splits that are kept no longer."""
        n = self.n_batches
        kept = split_is_kept(self.splits, n)
        self.splits = np.append(self.splits[kept], n)
        self.episodes = np.append(self.episodes[kept], episode)
        self.before = np.concatenate([self.before[kept], self.total[None]])
        self.weights = np.append(self.weights[kept], log_split_weight(n) + log_m)


class ChangeEvidence:
    """Rows of observations, in each of which a change of law is looked for.

    If the law of a row never changes, `add` ever returns the row with probability at most δ divided by the number of
    rows. A row that it has returned begins again, with a smaller part of δ.

    Args:
        n_rows: Number of rows K.
        n_outcomes: Number of possible outcomes S.
        delta: Probability with which any row may be returned though no law changes.

    Attributes:
        rows: Rows with data.
        run: Number of the run that the data belong to, counted from 1.
        times_found: How often a row was returned in this run.

    >>> found, pair, once = ChangeEvidence(1, 2, 0.05), np.array([0]), np.array([1.0])
    >>> [n for n in range(1, 60) if found.add(n, pair, np.array([n > 40]), once)]
    [44]
    """

    def __init__(self, n_rows: int, n_outcomes: int, delta: float) -> None:
        self.n_rows, self.n_outcomes, self.delta, self.run = n_rows, n_outcomes, delta, 1
        self.rows: dict[int, Stretches] = {}
        self.times_found: dict[int, int] = {}

    def threshold(self, row: int) -> float:
        """Return the log evidence at which a row is returned: ln(K i(i + 1)/δ) for its i-th run."""
        i = self.run + self.times_found.get(row, 0)
        return math.log(self.n_rows * i * (i + 1) / self.delta)

    def add(
        self, episode: int, rows: IntArray, outcomes: IntArray, times: FloatArray
    ) -> list[tuple[int, Stretches, int, FloatArray]]:
        """Add the observations of an episode, and return the rows whose law has changed.

        Each comes with its counts, and with the episodes and the counts before the likeliest split.

        Args:
            episode: Number of episodes that were learned from, this one included.
            rows: Rows of observations, of any shape.
            outcomes: Outcomes, likewise.
            times: How often each counts, likewise.
        """
        counted = times > 0.0
        codes, places = np.unique((rows * self.n_outcomes + outcomes)[counted], return_inverse=True)
        sums = np.bincount(places.ravel(), times[counted], minlength=len(codes))
        of_codes, found = codes // self.n_outcomes, []
        firsts = np.flatnonzero(np.diff(of_codes, prepend=-1)).tolist()
        for first, stop in zip(firsts, [*firsts[1:], len(codes)], strict=True):
            row = int(of_codes[first])
            data = self.rows.setdefault(row, Stretches.empty())
            seen: IntArray = codes[first:stop] - row * self.n_outcomes
            evidence, split = data.add(seen, sums[first:stop].astype(np.float64), episode, self.n_outcomes)
            if evidence >= self.threshold(row):
                found.append((row, data, *split))
                self.times_found[row] = self.times_found.get(row, 0) + 1
                del self.rows[row]
        return found

    def forget(self) -> None:
        """Start the next run, without data."""
        self.rows, self.times_found, self.run = {}, {}, self.run + 1

    def arrays(self) -> dict[str, NDArray[np.float64] | NDArray[np.int64]]:
        """Return all rows as named arrays, for saving."""
        numbers = sorted({*self.rows, *self.times_found})
        each = [self.rows.get(row, Stretches.empty()) for row in numbers]
        sizes = [
            [row, self.times_found.get(row, 0), one.n_batches, len(one.columns), len(one.splits)]
            for row, one in zip(numbers, each, strict=True)
        ]
        none, no_numbers = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
        return {
            "rows": np.array(sizes, dtype=np.int64).reshape(-1, 5),
            "outcomes": np.array([code for one in each for code in one.columns], dtype=np.int64),
            "splits": np.concatenate(none + [part for one in each for part in (one.splits, one.episodes)]),
            "counts": np.concatenate(
                no_numbers + [part.ravel() for one in each for part in (one.total, one.weights, one.before)]
            ),
        }

    def restore(self, arrays: Mapping[str, NDArray[np.float64]]) -> None:
        """Take back what `arrays` returned."""
        sizes, outcomes, splits, counts = (arrays[name] for name in NAMES)
        row, times, _, d, kept = sizes.T
        fits = (
            bool((sizes >= 0).all() and (row < self.n_rows).all() and (np.diff(row) > 0).all())
            and len(outcomes) == d.sum()
            and len(splits) == 2 * kept.sum()
            and len(counts) == (d + kept + kept * d).sum()
            and bool(((outcomes >= 0) & (outcomes < self.n_outcomes)).all() and (splits >= 0).all())
        )
        if not fits:
            raise InvalidInput("the counts that drift is found with must be those of rows of this problem")
        rows: dict[int, Stretches] = {}
        at = [0, 0, 0]

        def taken(source: int, size: int) -> NDArray[np.float64]:
            array = (outcomes, splits, counts)[source][at[source] : at[source] + size]
            at[source] += size
            return array.copy()

        for number, _, n, width, length in sizes.tolist():
            columns = {code: place for place, code in enumerate(taken(0, width).tolist())}
            if len(columns) < width:
                raise InvalidInput("the outcomes of a row that drift is found with must differ")
            of_splits, episodes = taken(1, length), taken(1, length)
            total, weights, before = taken(2, width), taken(2, length), taken(2, length * width)
            if n:
                rows[number] = Stretches(columns, n, total, of_splits, episodes, before.reshape(length, width), weights)
        self.rows = rows
        self.times_found = {int(one): int(count) for one, count in zip(row, times, strict=True) if count}
