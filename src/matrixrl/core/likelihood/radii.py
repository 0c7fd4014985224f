"""Radii of the likelihood sets: how far KL(p̂‖P) can be, with probability 1 − δ for all n at once.

`targeted_beta` holds for the fixed functions V*_2 … V*_H, and β_D of `dirichlet_excess` for all functions
(docs/proofs.md, section 9).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from matrixrl.linalg import SeenRows
from matrixrl.records import FloatArray, IntArray

__all__ = [
    "NO_BET_SHARE",
    "TOP_SHARE",
    "SupportPriors",
    "dirichlet_excess",
    "log_bet_gain",
    "log_marginal",
    "log_mixture_gain",
    "log_shared_law_ratio",
    "log_support_prior",
    "targeted_beta",
    "top_beta",
]

TOP_SHARE = 1.0 / 3.0
"""Prior probability of the bet b = 1 in the mixture behind β₁; its bound, at ν = max V, does not grow with n."""
NO_BET_SHARE = 0.1
"""Prior probability of the bet b = 0, which makes the bounds at other ν tighter."""
_REST = 1.0 - TOP_SHARE - NO_BET_SHARE

_HALF_LOG_PI = 0.5 * math.log(math.pi)
_CHUNK = 1 << 20  # terms that are summed together
_LARGEST_SUPPORT = 100_000


def log_mixture_gain(n: FloatArray | float) -> FloatArray:
    """Return ln(√π Γ(n+1)/Γ(n+½)), what the best constant bet gains at most over the mixture Beta(½, ½).

    >>> float(np.round(np.exp(log_mixture_gain(np.array([1.0])))[0], 12))
    2.0
    """
    n = np.asarray(n, dtype=np.float64)
    gain: FloatArray = _HALF_LOG_PI + gammaln(n + 1.0) - gammaln(n + 0.5)
    return gain


def log_bet_gain(n: FloatArray | float) -> FloatArray:
    """Return ln C_n, what the best constant bet gains at most over the mixture of β₁ (docs/proofs.md, section 9.2).

    The mixture is b = 1 with probability `TOP_SHARE`, b = 0 with probability `NO_BET_SHARE`, else Beta(½, ½). C_n is
    the largest ratio of b^k(1−b)^(n−k) at its maximum to its mean, which is attained at k = 0, 1 or n.
    """
    n = np.asarray(n, dtype=np.float64)
    gain = log_mixture_gain(n)
    at_ends = -np.log(min(TOP_SHARE, NO_BET_SHARE) + _REST * np.exp(-gain))
    more = np.maximum(n, 2.0)  # with one observation there is no k between 0 and n
    inside = gain + np.log(2.0 - 1.0 / more) + (more - 1.0) * np.log1p(-1.0 / more) - math.log(_REST)
    largest: FloatArray = np.where(n > 1.0, np.maximum(at_ends, inside), at_ends)
    return largest


def targeted_beta(n: FloatArray, log_events: float) -> FloatArray:
    """Return β₁(n), so that U at ε = β₁/n bounds the means of fixed functions; log_events is ln(rows·functions/δ)."""
    return log_events + log_bet_gain(n)


def top_beta(log_events: float) -> float:
    """Return the radius, times n, of the bound at ν = max V alone, which holds together with `targeted_beta`."""
    return log_events - math.log(TOP_SHARE)


def dirichlet_excess(seen: SeenRows, n_outcomes: int, priors: SupportPriors | None = None) -> FloatArray:
    """Return Σ c ln(c/n) − ln m(c) of each row: by how much p̂ is more likely than a mixture of Dirichlet(½) laws.

    β_D is this number plus ln(number of rows / δ): KL(p̂‖P) <= β_D/n for all n at once. `priors` keeps what was
    computed before, for few rows at a time.
    """
    return seen.sums(seen.times * np.log(seen.shares)) - log_marginal(seen, n_outcomes, priors)


def log_marginal(seen: SeenRows, n_outcomes: int, priors: SupportPriors | None = None) -> FloatArray:
    """Return ln m(c), the log probability of the sequence of outcomes of each row under the mixture: (R,)."""
    of_counts = seen.sums(gammaln(seen.times + 0.5) - _HALF_LOG_PI)
    if priors is not None:
        return of_counts + priors.read(seen.totals, seen.lengths)
    # Many rows have the same two numbers, after a long log most of them.
    different, places = np.unique(seen.totals + 1j * seen.lengths, return_inverse=True)
    return of_counts + log_support_prior(different.real, different.imag.astype(np.int64), n_outcomes)[places]


class SupportPriors:
    """`log_support_prior` of the pairs (n, k₀) that were asked for, each of which is computed once.

    Supports of more than 10⁵ + k₀ states are left out of the mixture: with fewer states it is the same, and with more
    it is a smaller number, which can only make a radius larger.

    >>> float(SupportPriors(3).read(np.array([2.0]), np.array([1]))[0].round(6)) == float(
    ...     log_support_prior(np.array([2.0]), np.array([1]), 3)[0].round(6)
    ... )
    True
    """

    def __init__(self, n_outcomes: int) -> None:
        self._n_outcomes = n_outcomes
        self._known: dict[tuple[float, int], float] = {}

    def read(self, n: FloatArray, k0: IntArray) -> FloatArray:
        """Return the numbers for some n and k₀ (R,)."""
        asked = list(zip(n.tolist(), k0.tolist(), strict=True))
        for one in asked:
            if one not in self._known:
                most, at = min(self._n_outcomes, _LARGEST_SUPPORT + one[1]), (np.array([one[0]]), np.array([one[1]]))
                self._known[one] = float(_support_priors(*at, self._n_outcomes, most)[0])
        return np.array([self._known[one] for one in asked])


def log_shared_law_ratio(seen_pairs: SeenRows, groups: IntArray, seen: SeenRows, n_outcomes: int) -> FloatArray:
    """Return Σ_i ln m(c_i) − Σ_j c_j ln(c_j/n) of each group: the evidence that its pairs do not share a law.

    If they do, it ever exceeds ln(1/δ) with probability at most δ (docs/proofs.md, section 9.6).
    """
    apart = np.bincount(groups, log_marginal(seen_pairs, n_outcomes), minlength=len(seen.ids))
    ratio: FloatArray = apart - seen.sums(seen.times * np.log(seen.shares))
    return ratio


def log_support_prior(n: FloatArray, k0: IntArray, n_outcomes: int) -> FloatArray:
    """Return ln Σ_{k>=k₀} w_k C(S−k₀, k−k₀)/C(S, k) Γ(k/2)/Γ(n + k/2), w_k = (1 + 1/S)/(k(k+1)): (R,)."""
    # Many rows share both numbers; complex numbers are sorted by the first, then by the second.
    _, places, inverse = np.unique(n + 1j * k0, return_index=True, return_inverse=True)
    return _support_priors(n[places], k0[places], n_outcomes)[inverse]


def _support_priors(n: FloatArray, k0: IntArray, n_outcomes: int, largest: int | None = None) -> FloatArray:
    """Return what `log_support_prior` does, one row after the other, from supports of at most so many outcomes."""
    k = np.arange(1, (n_outcomes if largest is None else largest) + 1, dtype=np.float64)
    of_k = math.log1p(1.0 / n_outcomes) - np.log(k) - np.log1p(k) + gammaln(k + 1.0) + gammaln(0.5 * k)
    result = np.empty(len(n))
    rows = max(1, _CHUNK // len(k))
    for first in range(0, len(n), rows):
        here = slice(first, first + rows)
        seen, total = k0[here, None].astype(np.float64), n[here, None]
        unseen = np.maximum(k - seen, 0.0)
        terms = np.where(k >= seen, of_k - gammaln(unseen + 1.0) - gammaln(total + 0.5 * k), -np.inf)
        most = terms.max(axis=1, keepdims=True)
        # C(S−k₀, k−k₀)/C(S, k) = (S−k₀)! k! / (S! (k−k₀)!)
        constant = gammaln(n_outcomes - k0[here] + 1.0) - gammaln(n_outcomes + 1.0)
        result[here] = constant + most[:, 0] + np.log(np.exp(terms - most).sum(axis=1))
    return result
