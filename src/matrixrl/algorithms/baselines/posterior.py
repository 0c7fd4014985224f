"""Draws from the posterior of P: Dirichlet laws of all pairs, as a table or as sparse matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse

from matrixrl.linalg import OutcomeCounts
from matrixrl.records import FloatArray, IntArray

__all__ = ["LEAST", "draw_distributions", "draw_expectation", "unseen_entries"]

LEAST = 1e-20
"""Gamma variables below this are set to 0. A row sums to about 0.5 or more, so its digits do not change."""

_MANY = 0.5  # share of unseen entries from which on all of them are drawn


def draw_distributions(weights: FloatArray, rngs: Sequence[np.random.Generator]) -> FloatArray:
    """Draw one distribution from the Dirichlet law of each row of weights: (B, n, S).

    Args:
        weights: (B, n, S) parameters, all positive.
        rngs: One generator for each replica.

    >>> draw_distributions(np.array([[[1e9, 1e9]]]), [np.random.default_rng(0)]).round(3)
    array([[[0.5, 0.5]]])
    """
    draws = np.empty(weights.shape)
    for b, rng in enumerate(rngs):
        rng.standard_gamma(weights[b], out=draws[b])
    total = draws.sum(axis=2, keepdims=True)
    lost = total[:, :, 0] < np.finfo(np.float64).tiny
    for b in np.flatnonzero(lost.any(axis=1)).tolist():
        # All of a row underflowed, so every weight is tiny; such a Dirichlet law puts all on one state, which is
        # state i with probability proportional to weight i.
        rows = np.flatnonzero(lost[b])
        chances = np.cumsum(weights[b, rows], axis=1)
        level = rngs[b].random((rows.size, 1)) * chances[:, -1:]
        draws[b, rows] = 0.0
        draws[b, rows, np.minimum((chances <= level).sum(axis=1), weights.shape[2] - 1)] = 1.0
        total[b, rows] = 1.0
    draws /= total
    return draws


def draw_expectation(
    counts: OutcomeCounts, alpha: float, pairs: IntArray, rngs: Sequence[np.random.Generator]
) -> Callable[[FloatArray], FloatArray]:
    r"""Draw P of some pairs from its posterior and return the product with it, (B, S) → (B, n).

    A row with counts c has the law Dirichlet(c + α): independent Gamma variables divided by their sum. Those of next
    states that were seen are drawn for each of them. A next state that was not seen has a Gamma(α) variable; with
    α = prior / S nearly all of them are below `LEAST`, and `unseen_entries` draws only the others. `LEAST` is the only
    difference from a draw of all entries, and it changes no digit of a row.

    Args:
        counts: Counts of the next states of each pair.
        alpha: Parameter α of the symmetric Dirichlet prior.
        pairs: (n,) Pairs, in ascending order.
        rngs: One generator for each replica.
    """
    seen, n_states = counts.seen, counts.n_outcomes
    replicas, rows = np.divmod(seen.ids, counts.n_rows)
    row_of = np.full(counts.n_rows, -1)
    row_of[pairs] = np.arange(len(pairs))
    drawn = []
    for b, rng in enumerate(rngs):
        mine = (replicas == b) & (row_of[rows] >= 0)
        entries = mine[seen.places]
        codes = row_of[rows[seen.places[entries]]] * n_states + seen.outcomes[entries]
        weights = rng.standard_gamma(seen.times[entries] + alpha)
        places, values = _unseen(len(pairs) * n_states, alpha, rng)
        found = np.searchsorted(codes, places)
        known = found < len(codes)
        known[known] = codes[found[known]] == places[known]
        places, values = places[~known], values[~known]
        parts = [_matrix(codes, weights, len(pairs), n_states), _matrix(places, values, len(pairs), n_states)]
        total = np.sum([np.asarray(part.sum(axis=1)).ravel() for part in parts], axis=0)
        lost = np.flatnonzero(total == 0.0)  # the law of a row of tiny weights puts all on one state
        if lost.size:
            alone = lost * n_states + rng.integers(n_states, size=lost.size)
            parts.append(_matrix(alone, np.ones(lost.size), len(pairs), n_states))
            total[lost] = 1.0
        drawn.append((parts, total))

    def expect(values: FloatArray) -> FloatArray:
        products = [
            sum(part @ mine for part in parts) / total for (parts, total), mine in zip(drawn, values, strict=True)
        ]
        return np.stack(products)

    return expect


def _matrix(codes: IntArray, weights: FloatArray, n_rows: int, n_states: int) -> sparse.csr_array:
    """Return the matrix (n, S) of entries that are sorted by row times S plus column."""
    rows, columns = np.divmod(codes, n_states)
    firsts = np.searchsorted(rows, np.arange(n_rows + 1))
    return sparse.csr_array((weights, columns, firsts), shape=(n_rows, n_states))


def _unseen(size: int, alpha: float, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Return positions and values of those of `size` independent Gamma(α) variables that are above `LEAST`."""
    masses = np.array([-math.log(LEAST), math.exp(-1.0)]) / math.gamma(alpha)
    if masses.sum() <= _MANY:
        return unseen_entries(size, alpha, masses, rng)
    values = rng.standard_gamma(alpha, size=size)
    places = np.flatnonzero(values > LEAST)
    return places, values[places]


def unseen_entries(
    size: int, alpha: float, masses: FloatArray, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    r"""Return positions and values of those of `size` independent Gamma(α) variables that are above `LEAST`.

    The density :math:`x^{\alpha-1}e^{-x}/\Gamma(\alpha)` is at most 1/(xΓ(α)) below 1 and
    :math:`e^{-x}/\Gamma(\alpha)` above, so every entry is proposed with the probability of that envelope, and a
    proposal is kept with the probability of the ratio.

    Args:
        size: Number of variables.
        alpha: α, small.
        masses: Masses of the envelope below and above 1, which sum to at most 1.
        rng: Random generator.
    """
    chance = float(masses.sum())
    expected = size * chance
    places: IntArray = np.empty(0, dtype=np.int64)
    last = -1
    while last < size:  # gaps between successes of independent trials are geometric
        steps = rng.geometric(chance, size=int(expected + 6.0 * math.sqrt(expected) + 10.0))
        more = last + np.cumsum(steps)
        places, last = np.concatenate([places, more]), int(more[-1])
    places = places[places < size]
    uniforms = rng.random((3, places.size))
    below = uniforms[0] < masses[0] / chance
    values = np.where(below, LEAST ** uniforms[1], 1.0 - np.log1p(-uniforms[1]))
    kept = uniforms[2] < np.where(below, values**alpha * np.exp(-values), values ** (alpha - 1.0))
    return places[kept], values[kept]
