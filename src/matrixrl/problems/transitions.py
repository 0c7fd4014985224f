"""P(s'|s,a) in three forms: dense, sparse, and factored (never expanded).

Every form answers the same two questions: the expected value of the next state for all pairs at once, and
the next state that a uniform number selects. Pairs are action-major, as in `features.phi`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from matrixrl.checks import distributions, fail, shaped
from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import PROBABILITY

__all__ = ["DenseTransitions", "FactoredTransitions", "SparseTransitions", "Successors", "Transitions"]

_CHECK_ENTRIES = 1 << 22  # rows of a factored P are checked in blocks of at most this many numbers


@dataclass(frozen=True)
class Successors:
    """The possible next states of every pair, padded to the most that one has.

    Attributes:
        states: (P, K); 0 beyond the last.
        chance: (P, K) their probabilities; 0 beyond the last.
        cdf: (P, K) the running sums that `sample` compares uniforms with; 1 from the last on.
    """

    states: IntArray
    chance: FloatArray
    cdf: FloatArray


class Transitions(ABC):
    """A validated transition law of S states and A actions."""

    n_states: int
    n_actions: int

    @abstractmethod
    def expect(self, values: FloatArray) -> FloatArray:
        """Return E[V(s') | s, a] for all pairs: (B, S) → (B, A, S)."""

    @abstractmethod
    def rows(self, states: IntArray, actions: IntArray) -> FloatArray:
        """Return P(·|s,a) for some pairs: (k,), (k,) → (k, S)."""

    @abstractmethod
    def sample(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> IntArray:
        """Return the next states that `uniforms` in [0, 1) select: all of shape (k,)."""

    def most_successors(self) -> int | None:
        """Return how many next states the pair with most of them has, or None where they are not listed."""
        return None

    def successors(self) -> Successors | None:
        """Return the possible next states of every pair as a table, or None where they are not listed."""
        return None

    def pair_index(self, states: IntArray, actions: IntArray) -> IntArray:
        """Return a·S + s, elementwise."""
        index: IntArray = np.asarray(actions, dtype=np.int64) * self.n_states + states
        return index


class DenseTransitions(Transitions):
    """P as an array.

    Args:
        table: (S, A, S), each row a distribution.

    >>> t = DenseTransitions([[[0.5, 0.5]], [[0.0, 1.0]]])
    >>> t.expect(np.array([[0.0, 2.0]]))
    array([[[1., 2.]]])
    """

    def __init__(self, table: object) -> None:
        array = shaped("P", table, (None, None, None), remedy="Give P[s, a, s'], shape (S, A, S).")
        if array.shape[2] != array.shape[0]:
            fail("P", "must have shape (S, A, S)", f"shape {array.shape}", "Give P[s, a, s'].")
        distributions("P", array)
        self.n_states, self.n_actions, _ = array.shape
        self._rows = np.ascontiguousarray(array.transpose(1, 0, 2)).reshape(-1, self.n_states)
        self._cdf = _cdf(self._rows)

    def expect(self, values: FloatArray) -> FloatArray:
        """Return E[V(s') | s, a] for all pairs."""
        return (values @ self._rows.T).reshape(-1, self.n_actions, self.n_states)

    def rows(self, states: IntArray, actions: IntArray) -> FloatArray:
        """Return P(·|s,a) for some pairs."""
        return self._rows[self.pair_index(states, actions)]

    def sample(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> IntArray:
        """Return the next states that `uniforms` select."""
        return _invert(self._cdf, self.pair_index(states, actions), uniforms)

    def most_successors(self) -> int:
        """Return how many next states the pair with most of them has."""
        return int(np.count_nonzero(self._rows, axis=1).max())

    def successors(self) -> Successors:
        """Return the possible next states of every pair as a table."""
        possible = self._rows != 0.0
        counts = possible.sum(axis=1)
        inside = np.arange(counts.max()) < counts[:, None]
        states, chance, cdf = np.zeros(inside.shape, dtype=np.int64), np.zeros(inside.shape), np.ones(inside.shape)
        states[inside] = np.nonzero(possible)[1]
        chance[inside] = self._rows[possible]
        cdf[inside] = self._cdf[possible]
        return Successors(states, chance, cdf)


class SparseTransitions(Transitions):
    """P as a scipy.sparse matrix.

    Args:
        matrix: (S·A, S), row s·A + a is P(·|s,a).
        n_actions: A.
    """

    def __init__(self, matrix: sparse.sparray | sparse.spmatrix, n_actions: int) -> None:
        csr = sparse.csr_array(matrix, dtype=np.float64)
        n_rows, n_states = csr.shape
        if n_rows != n_states * n_actions:
            fail(
                "P",
                f"must have shape (S·A, S) with A = {n_actions}",
                f"shape {csr.shape}",
                "Row s·A + a holds P(·|s,a).",
            )
        if not np.isfinite(csr.data).all():
            fail("P", "must be finite", "NaN or infinity", "Remove or replace those entries.")
        if (csr.data < -PROBABILITY).any():
            fail("P", "must not be negative", f"{csr.data.min():.6g}", "Probabilities are >= 0.")
        sums = np.asarray(csr.sum(axis=1)).ravel()
        if (np.abs(sums - 1.0) > PROBABILITY).any():
            worst = int(np.argmax(np.abs(sums - 1.0)))
            place = f"sum {sums[worst]:.6g} at row {worst}"
            fail("P", "rows must sum to one", place, "Normalise each row.")
        self.n_states, self.n_actions = n_states, n_actions
        order = np.arange(n_rows).reshape(n_states, n_actions).T.ravel()
        self._csr = csr[order]
        # Successors padded to the longest row, so that sampling many pairs is one comparison.
        counts = np.diff(self._csr.indptr)
        width = int(counts.max())
        self._next = np.zeros((n_rows, width), dtype=np.int64)
        self._chance = np.zeros((n_rows, width))
        inside = np.arange(width) < counts[:, None]
        self._next[inside] = self._csr.indices
        self._chance[inside] = self._csr.data
        self._cdf = _cdf(self._chance)

    def expect(self, values: FloatArray) -> FloatArray:
        """Return E[V(s') | s, a] for all pairs."""
        product = np.asarray(self._csr @ values.T).T
        return product.reshape(-1, self.n_actions, self.n_states)

    def rows(self, states: IntArray, actions: IntArray) -> FloatArray:
        """Return P(·|s,a) for some pairs."""
        chosen: FloatArray = self._csr[self.pair_index(states, actions)].toarray()
        return chosen

    def sample(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> IntArray:
        """Return the next states that `uniforms` select."""
        pairs = self.pair_index(states, actions)
        drawn: IntArray = self._next[pairs, _invert(self._cdf, pairs, uniforms)]
        return drawn

    def most_successors(self) -> int:
        """Return how many next states the pair with most of them has."""
        return int(self._next.shape[1])

    def successors(self) -> Successors:
        """Return the possible next states of every pair as a table."""
        return Successors(self._next, self._chance, self._cdf)


class FactoredTransitions(Transitions):
    """P(s'|s,a) = Σ_k φ_k(s,a) F_k(s'), kept as its two factors.

    Args:
        phi: (S, A, d).
        factors: (d, S) next-state factors. When every row of phi and of factors is a distribution (soft
            aggregation), sampling costs O(d + log S); otherwise the row of P is formed when it is needed.
    """

    def __init__(self, phi: object, factors: object) -> None:
        left = shaped("phi", phi, (None, None, None), remedy="Give phi of shape (S, A, d).")
        n_states, n_actions, d = left.shape
        right = shaped("factors", factors, (d, n_states), remedy="Give one row of S numbers per feature.")
        self.n_states, self.n_actions = n_states, n_actions
        self._phi = np.ascontiguousarray(left.transpose(1, 0, 2)).reshape(-1, d)
        self._factors = right
        self._is_mixture = all(
            (x >= 0).all() and np.allclose(x.sum(axis=-1), 1.0, rtol=0, atol=PROBABILITY)
            for x in (self._phi, self._factors)
        )
        if self._is_mixture:
            self._phi_cdf, self._factor_cdf = _cdf(self._phi), _cdf(self._factors)
        else:
            step = max(1, _CHECK_ENTRIES // n_states)
            for i in range(0, len(self._phi), step):
                distributions("P = phi @ factors", self._phi[i : i + step] @ self._factors)

    def expect(self, values: FloatArray) -> FloatArray:
        """Return E[V(s') | s, a] for all pairs, through the d factors."""
        weights = values @ self._factors.T
        return (weights @ self._phi.T).reshape(-1, self.n_actions, self.n_states)

    def rows(self, states: IntArray, actions: IntArray) -> FloatArray:
        """Return P(·|s,a) for some pairs."""
        return self._phi[self.pair_index(states, actions)] @ self._factors

    def sample(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> IntArray:
        """Return the next states that `uniforms` select."""
        pairs = self.pair_index(states, actions)
        if not self._is_mixture:
            rows = _cdf(np.maximum(self._phi[pairs] @ self._factors, 0.0))
            return _invert(rows, np.arange(len(pairs)), uniforms)
        # One uniform serves twice: what is left of it after choosing the factor is uniform again.
        latent = _invert(self._phi_cdf, pairs, uniforms)
        upper = self._phi_cdf[pairs, latent]
        lower = np.where(latent > 0, self._phi_cdf[pairs, np.maximum(latent - 1, 0)], 0.0)
        rest = (uniforms - lower) / np.maximum(upper - lower, np.finfo(np.float64).tiny)
        return _invert(self._factor_cdf, latent, np.clip(rest, 0.0, np.nextafter(1.0, 0.0)))


def _cdf(rows: FloatArray) -> FloatArray:
    """Return the running sums of each row, the last one exactly 1 so that inversion never overruns."""
    cdf = np.cumsum(rows, axis=-1)
    cdf /= cdf[:, -1:]
    return cdf


def _invert(cdf: FloatArray, rows: IntArray, uniforms: FloatArray) -> IntArray:
    """Return, for each of k rows of cdf, the first index whose running sum exceeds the uniform."""
    if len(rows) > 64 or (cdf.shape[1] <= 64 and len(rows) > 4):
        counted: IntArray = (cdf[rows] <= np.asarray(uniforms)[:, None]).sum(axis=1)
        return counted
    searched = [cdf[r].searchsorted(u, side="right") for r, u in zip(rows, uniforms, strict=True)]
    return np.array(searched, dtype=np.int64)
