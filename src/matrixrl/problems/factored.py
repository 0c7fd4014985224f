"""Transition laws of low rank, stored as their two factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.checks import distributions, finite
from matrixrl.features import Phi, TablePhi
from matrixrl.problems.factors import as_factors
from matrixrl.problems.inversion import cumulative, invert, locate
from matrixrl.problems.transitions import Transitions
from matrixrl.records import BoolArray, FloatArray, IntArray
from matrixrl.tolerances import PROBABILITY

__all__ = ["FactoredTransitions"]

_CHECK_ENTRIES = 1 << 22  # numbers of P that are formed together to check a table of φ
_PRODUCT = "P = phi @ factors"


class FactoredTransitions(Transitions):
    r"""Represent \(P(s'|s,a) = \sum_k \phi_k(s,a) F_k(s')\) by φ and F, without forming P.

    Where φ(s,a) is a distribution over the factors and every factor is a distribution over next states (soft
    aggregation; Singh, Jaakkola & Jordan 1995), `sample` draws a factor and then a next state from it, at a cost of
    O(d + log S). Elsewhere it forms the row P(·|s,a).

    A table of φ is checked at once, and is sampled by factors only if all its pairs allow it. If φ is computed by a
    function, each pair is checked when it is used, and nothing of size S·A is stored.

    Args:
        phi: Feature map, or features as an array of shape (S, A, d).
        factors: Next-state factors F, shape (d, S); an array or a scipy.sparse matrix.

    Raises:
        InvalidInput: The shapes do not match, or a row of P is not a distribution.

    >>> t = FactoredTransitions([[[0.25, 0.75]], [[1.0, 0.0]]], factors=[[1.0, 0.0], [0.0, 1.0]])
    >>> t.expect(np.array([[0.0, 4.0]]))
    array([[[3., 0.]]])
    """

    def __init__(self, phi: Phi | Any, factors: Any) -> None:
        self._phi: Phi = phi if isinstance(phi, Phi) else TablePhi(phi)
        self.n_states, self.n_actions = self._phi.n_states, self._phi.n_actions
        self._factors = as_factors(factors, self._phi.d, self.n_states)
        self._is_table = isinstance(self._phi, TablePhi)
        self._weight_cdf: FloatArray | None = None
        if isinstance(self._phi, TablePhi):
            self._check_table(self._phi.flat)

    def _check_table(self, weights: FloatArray) -> None:
        if bool((weights >= 0.0).all()) and self._mixes(weights).all():
            self._weight_cdf = cumulative(weights)
            return
        step = max(1, _CHECK_ENTRIES // self.n_states)
        for first in range(0, len(weights), step):
            _checked(self._factors.combine(weights[first : first + step]))

    def expect(self, values: FloatArray) -> FloatArray:
        """Return E[V(s') | s, a] for all pairs through the d factors: (B, S) → (B, A, S)."""
        return self._phi.dot(self._factors.expect(values))

    def rows(self, states: IntArray, actions: IntArray) -> FloatArray:
        """Return P(·|s,a) for k pairs: (k,), (k,) → (k, S)."""
        weights = self._phi.rows(self.pair_index(states, actions))
        if self._is_table:
            return self._factors.combine(weights)
        mixes = self._mixes(weights)
        rows = self._factors.combine(np.where(mixes[:, None], np.maximum(weights, 0.0), weights))
        return rows if mixes.all() else _checked(rows)

    def sample(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> IntArray:
        """Return the next states that uniform numbers select; all arrays have shape (k,)."""
        pairs = self.pair_index(states, actions)
        if self._weight_cdf is not None:
            return self._sample_by_factor(self._weight_cdf, pairs, uniforms)
        weights = self._phi.rows(pairs)
        if self._is_table:
            return _sample_rows(self._factors.combine(weights), uniforms)
        mixes = self._mixes(weights)
        if mixes.all():
            return self._sample_by_factor(cumulative(np.maximum(weights, 0.0)), np.arange(len(pairs)), uniforms)
        following = np.empty(len(pairs), dtype=np.int64)
        weight_cdf = cumulative(np.maximum(weights[mixes], 0.0))
        following[mixes] = self._sample_by_factor(weight_cdf, np.arange(len(weight_cdf)), uniforms[mixes])
        rows = _checked(self._factors.combine(weights[~mixes]))
        following[~mixes] = _sample_rows(rows, uniforms[~mixes])
        return following

    def _mixes(self, weights: FloatArray) -> BoolArray:
        """Return whether weights (k, d) and factors are distributions, up to the tolerance: (k,)."""
        if not self._factors.are_distributions:
            return np.zeros(len(weights), dtype=np.bool_)
        mixes: BoolArray = (weights.min(axis=1) >= -PROBABILITY) & (np.abs(weights.sum(axis=1) - 1.0) <= PROBABILITY)
        return mixes

    def _sample_by_factor(self, weight_cdf: FloatArray, rows: IntArray, uniforms: FloatArray) -> IntArray:
        """Draw a factor from each row of `weight_cdf`, then a next state from that factor."""
        latent, rest = locate(weight_cdf, rows, uniforms)
        return self._factors.sample(latent, rest)


def _checked(rows: FloatArray) -> FloatArray:
    return distributions(_PRODUCT, finite(_PRODUCT, rows))


def _sample_rows(rows: FloatArray, uniforms: FloatArray) -> IntArray:
    return invert(cumulative(np.maximum(rows, 0.0)), np.arange(len(rows)), uniforms)
