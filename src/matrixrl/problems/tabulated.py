"""Transition laws that store every row P(·|s,a), in a dense array or a sparse matrix."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import sparse

from matrixrl.checks import distributions, fail, shaped
from matrixrl.problems.inversion import cumulative, cumulative_lists, invert, invert_lists
from matrixrl.problems.transitions import Successors, Transitions
from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import PROBABILITY

__all__ = ["DenseTransitions", "SparseTransitions"]

_OR_ALLOWED = "or pass allowed=… if those actions are not allowed"
_NORMALISE = f"Normalise each row, {_OR_ALLOWED}."
_REPLACE = f"Remove or replace those entries, {_OR_ALLOWED}."


class DenseTransitions(Transitions):
    """Store P as an array.

    Args:
        table: Probabilities P[s, a, s'], shape (S, A, S); each row is a distribution over next states.

    >>> t = DenseTransitions([[[0.5, 0.5]], [[0.0, 1.0]]])
    >>> t.expect(np.array([[0.0, 2.0]]))
    array([[[1., 2.]]])
    """

    def __init__(self, table: object) -> None:
        remedy = "Give P[s, a, s'], shape (S, A, S)."
        array = shaped("P", table, (None, None, None), remedy=remedy, if_not_finite=_REPLACE)
        if array.shape[2] != array.shape[0]:
            fail("P", "must have shape (S, A, S)", f"shape {array.shape}", "Give P[s, a, s'].")
        distributions("P", array, remedy=_NORMALISE)
        self.n_states, self.n_actions, _ = array.shape
        self._rows = np.ascontiguousarray(array.transpose(1, 0, 2)).reshape(-1, self.n_states)
        self._cdf = cumulative(self._rows)

    def law(self) -> FloatArray:
        """Return P as an array (S, A, S)."""
        return self._rows.reshape(self.n_actions, self.n_states, self.n_states).transpose(1, 0, 2)

    def expect(self, values: FloatArray) -> FloatArray:
        """Return E[V(s') | s, a] for all pairs: (B, S) → (B, A, S)."""
        return (values @ self._rows.T).reshape(-1, self.n_actions, self.n_states)

    def rows(self, states: IntArray, actions: IntArray) -> FloatArray:
        """Return P(·|s,a) for k pairs: (k,), (k,) → (k, S)."""
        return self._rows[self.pair_index(states, actions)]

    def sample(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> IntArray:
        """Return the next states that uniform numbers select; all arrays have shape (k,)."""
        return invert(self._cdf, self.pair_index(states, actions), uniforms)

    def most_successors(self) -> int:
        """Return the largest number of possible next states of a pair."""
        return int(np.count_nonzero(self._rows, axis=1).max())

    def successors(self) -> Successors:
        """Return the possible next states of every pair."""
        by_state = self.law()
        cdf = self._cdf.reshape(self.n_actions, self.n_states, self.n_states).transpose(1, 0, 2)
        possible = by_state != 0.0
        firsts = np.zeros(self.n_states * self.n_actions + 1, dtype=np.int64)
        np.cumsum(np.count_nonzero(possible, axis=2).ravel(), out=firsts[1:])
        return Successors(firsts, np.nonzero(possible)[2], by_state[possible], cdf[possible])


class SparseTransitions(Transitions):
    """Store P as a scipy.sparse matrix; memory and time are those of its entries that are not zero.

    Args:
        matrix: Probabilities, shape (S·A, S); row s·A + a is P(·|s,a).
        n_actions: Number of actions A.

    >>> t = SparseTransitions(sparse.csr_array([[0.5, 0.5], [0.0, 1.0]]), n_actions=1)
    >>> t.expect(np.array([[0.0, 2.0]]))
    array([[[1., 2.]]])
    """

    def __init__(self, matrix: sparse.sparray | sparse.spmatrix, n_actions: int) -> None:
        if matrix.dtype.kind not in "fiub":
            fail("P", "must be a matrix of numbers", f"entries of type {matrix.dtype}", "Give real probabilities.")
        csr = sparse.csr_array(matrix, dtype=np.float64, copy=True)
        csr.sum_duplicates()  # and sort: equal tables select equal next states, also a dense and a sparse one
        csr.eliminate_zeros()
        n_rows, n_states = csr.shape
        if n_rows != n_states * n_actions:
            fail(
                "P",
                f"must have shape (S·A, S) with A = {n_actions}",
                f"shape {csr.shape}",
                "Row s·A + a holds P(·|s,a).",
            )
        if not np.isfinite(csr.data).all():
            fail("P", "must be finite", "NaN or infinity", _REPLACE)
        if (csr.data < -PROBABILITY).any():
            fail("P", "must not be negative", f"{csr.data.min():.6g}", "Probabilities are >= 0.")
        sums = np.asarray(csr.sum(axis=1)).ravel()
        if (np.abs(sums - 1.0) > PROBABILITY).any():
            worst = int(np.argmax(np.abs(sums - 1.0)))
            place = f"sum {sums[worst]:.6g} at row {worst}"
            fail("P", "rows must sum to one", place, _NORMALISE)
        self.n_states, self.n_actions = n_states, n_actions
        self._csr = csr

    @property
    def matrix(self) -> sparse.csr_array:
        """P as a matrix (S·A, S) with sorted rows; row s·A + a is P(·|s,a)."""
        return self._csr

    def law(self) -> sparse.csr_array:
        """Return P as a matrix (S·A, S); row s·A + a is P(·|s,a)."""
        return self._csr

    @cached_property
    def _cdf(self) -> FloatArray:
        """Cumulative probabilities of the entries of each row (E,)."""
        return cumulative_lists(self._csr.indptr, np.maximum(self._csr.data, 0.0))

    def expect(self, values: FloatArray) -> FloatArray:
        """Return E[V(s') | s, a] for all pairs: (B, S) → (B, A, S)."""
        product = self._csr @ (values[0] if len(values) == 1 else values.T)
        by_state = np.asarray(product).reshape(self.n_states, self.n_actions, -1)
        return np.ascontiguousarray(by_state.transpose(2, 1, 0))

    def rows(self, states: IntArray, actions: IntArray) -> FloatArray:
        """Return P(·|s,a) for k pairs: (k,), (k,) → (k, S)."""
        chosen: FloatArray = self._csr[self._lists(states, actions)].toarray()
        return chosen

    def chance(self, states: IntArray, actions: IntArray, next_states: IntArray) -> FloatArray:
        """Return P(s'|s,a) for k pairs and next states; all arrays have shape (k,)."""
        chosen: FloatArray = np.asarray(self._csr[self._lists(states, actions), next_states]).ravel()
        return chosen

    def sample(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> IntArray:
        """Return the next states that uniform numbers select; all arrays have shape (k,)."""
        places = invert_lists(self._csr.indptr, self._cdf, self._lists(states, actions), uniforms)
        drawn: IntArray = self._csr.indices[places].astype(np.int64)
        return drawn

    def most_successors(self) -> int:
        """Return the largest number of possible next states of a pair."""
        return int(np.diff(self._csr.indptr).max())

    def successors(self) -> Successors:
        """Return the possible next states of every pair."""
        return Successors(self._csr.indptr, self._csr.indices, self._csr.data, self._cdf)

    def _lists(self, states: IntArray, actions: IntArray) -> IntArray:
        """Return the row s·A + a of each pair; all arrays have shape (k,)."""
        return np.asarray(states, dtype=np.int64) * self.n_actions + actions
