"""Transition laws P(s'|s,a): their interface, stored rows, low rank, and sampling by inversion.

A law computes the expected value of the next state for all pairs at once, and the next state that a uniform number
selects. Pairs are action-major, as in `matrixrl.features.Phi`: the pair (s, a) has the index a·S + s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from matrixrl.checks import distributions, fail, finite, shaped
from matrixrl.features import Phi, TablePhi
from matrixrl.records import BoolArray, FloatArray, IntArray
from matrixrl.tolerances import PROBABILITY

__all__ = ["DenseTransitions", "FactoredTransitions", "SparseTransitions", "Successors", "Transitions"]

_TINY = float(np.finfo(np.float64).tiny)


def cumulative(rows: FloatArray) -> FloatArray:
    """Return the cumulative sums of rows (n, m) of non-negative weights, scaled so that the last ones are exactly 1.

    >>> cumulative(np.array([[0.5, 0.25, 0.25]]))
    array([[0.5 , 0.75, 1.  ]])
    """
    cdf = np.cumsum(rows, axis=-1)
    cdf /= cdf[:, -1:]
    return cdf


def invert(cdf: FloatArray, rows: IntArray, uniforms: FloatArray) -> IntArray:
    """Return the first index of k rows of `cdf` (n, m) whose cumulative sum exceeds a uniform number: (k,).

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
    """Return what `cumulative` does of n lists of weights (E,); `firsts` (n + 1,) are their first positions, and E.

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
    """Return the position of the first entry of k of the lists of `cumulative_lists` that exceeds a number: (k,).

    >>> invert_lists(np.array([0, 2, 3]), np.array([0.5, 1.0, 1.0]), np.array([0, 1]), np.array([0.6, 0.6]))
    array([1, 2])
    """
    # A loop is faster for a few draws, the more so from long lists; else all lists are halved together.
    if len(lists) <= 4 or len(lists) <= 3 * int((firsts[lists + 1] - firsts[lists]).max()).bit_length():
        draws = zip(lists, uniforms, strict=True)
        found = [firsts[i] + cdf[firsts[i] : firsts[i + 1]].searchsorted(u, side="right") for i, u in draws]
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


@dataclass(frozen=True)
class Successors:
    """List the possible next states of every pair, one list after the other.

    Lists are in the order of the states: that of the pair (s, a) is number s·A + a.

    Attributes:
        firsts: Position of the first entry of each list, and the number of entries E, shape (P + 1,).
        states: Possible next states, ascending in each list, shape (E,).
        chance: Their probabilities, shape (E,).
        cdf: Cumulative probabilities that `Transitions.sample` compares uniform numbers with, shape (E,).
    """

    firsts: IntArray
    states: IntArray
    chance: FloatArray
    cdf: FloatArray

    @property
    def most(self) -> int:
        """Largest number of next states of a pair."""
        return int(np.diff(self.firsts).max())

    def contain(self, lists: IntArray, states: IntArray) -> BoolArray:
        """Return whether states are in lists, elementwise; arrays of shape (k,)."""
        n_states = np.int64(1 + max(int(self.states.max()), int(states.max(initial=0))))
        codes = np.repeat(np.arange(len(self.firsts) - 1), np.diff(self.firsts)) * n_states + self.states
        wanted = np.asarray(lists, dtype=np.int64) * n_states + states
        places = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        found: BoolArray = codes[places] == wanted
        return found


class Transitions(ABC):
    """Base class of transition probabilities P of S states and A actions.

    Attributes:
        n_states: Number of states S.
        n_actions: Number of actions A.
    """

    n_states: int
    n_actions: int

    @abstractmethod
    def expect(self, values: FloatArray) -> FloatArray:
        """Return E[V(s') | s, a] for all pairs: values of shape (B, S) → (B, A, S)."""

    @abstractmethod
    def rows(self, states: IntArray, actions: IntArray) -> FloatArray:
        """Return P(·|s,a) for k pairs: states (k,), actions (k,) → (k, S)."""

    @abstractmethod
    def sample(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> IntArray:
        """Return the next states that uniform numbers in [0, 1) select; all arrays have shape (k,)."""

    def chance(self, states: IntArray, actions: IntArray, next_states: IntArray) -> FloatArray:
        """Return P(s'|s,a) for k pairs and next states; all arrays have shape (k,)."""
        chosen: FloatArray = self.rows(states, actions)[np.arange(len(states)), next_states]
        return chosen

    def most_successors(self) -> int | None:
        """Return the largest number of possible next states of a pair, or None if they are not listed."""
        return None

    def successors(self) -> Successors | None:
        """Return the possible next states of every pair, or None if they are not listed."""
        return None

    def pair_index(self, states: IntArray, actions: IntArray) -> IntArray:
        """Return the pair index a·S + s, elementwise."""
        index: IntArray = np.asarray(actions, dtype=np.int64) * self.n_states + states
        return index


_OR_ALLOWED = "or pass allowed=… if those actions are not allowed"
_NORMALISE = f"Normalise each row, {_OR_ALLOWED}."
_REPLACE = f"Remove or replace those entries, {_OR_ALLOWED}."


class DenseTransitions(Transitions):
    """Store P as an array.

    Args:
        table: Probabilities P[s, a, s'], shape (S, A, S); each row is a distribution over next states.
        name: Name in error messages.

    >>> t = DenseTransitions([[[0.5, 0.5]], [[0.0, 1.0]]])
    >>> t.expect(np.array([[0.0, 2.0]]))
    array([[[1., 2.]]])
    """

    def __init__(self, table: object, *, name: str = "P") -> None:
        remedy = "Give P[s, a, s'], shape (S, A, S)."
        array = shaped(name, table, (None, None, None), remedy=remedy, if_not_finite=_REPLACE)
        if array.shape[2] != array.shape[0]:
            fail(name, "must have shape (S, A, S)", f"shape {array.shape}", "Give P[s, a, s'].")
        distributions(name, array, remedy=_NORMALISE)
        self.n_states, self.n_actions, _ = array.shape
        self._rows = np.ascontiguousarray(array.transpose(1, 0, 2)).reshape(-1, self.n_states)
        self._cdf = cumulative(self._rows)

    def law(self) -> FloatArray:
        """Return P as an array (S, A, S)."""
        return self._rows.reshape(self.n_actions, self.n_states, self.n_states).transpose(1, 0, 2)

    def expect(self, values: FloatArray) -> FloatArray:
        return (values @ self._rows.T).reshape(-1, self.n_actions, self.n_states)

    def rows(self, states: IntArray, actions: IntArray) -> FloatArray:
        return self._rows[self.pair_index(states, actions)]

    def sample(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> IntArray:
        return invert(self._cdf, self.pair_index(states, actions), uniforms)

    def most_successors(self) -> int:
        return int(np.count_nonzero(self._rows, axis=1).max())

    def successors(self) -> Successors:
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
        name: Name in error messages.

    >>> t = SparseTransitions(sparse.csr_array([[0.5, 0.5], [0.0, 1.0]]), n_actions=1)
    >>> t.expect(np.array([[0.0, 2.0]]))
    array([[[1., 2.]]])
    """

    def __init__(self, matrix: sparse.sparray | sparse.spmatrix, n_actions: int, *, name: str = "P") -> None:
        csr = _real_csr(name, matrix, _REPLACE)
        csr.sum_duplicates()  # and sort: equal tables select equal next states, also a dense and a sparse one
        csr.eliminate_zeros()
        n_rows, n_states = csr.shape
        if n_rows != n_states * n_actions:
            rule = f"must have shape (S·A, S) with A = {n_actions}"
            fail(name, rule, f"shape {csr.shape}", "Row s·A + a holds P(·|s,a).")
        if (csr.data < -PROBABILITY).any():
            fail(name, "must not be negative", f"{csr.data.min():.6g}", "Probabilities are >= 0.")
        sums = np.asarray(csr.sum(axis=1)).ravel()
        if (np.abs(sums - 1.0) > PROBABILITY).any():
            worst = int(np.argmax(np.abs(sums - 1.0)))
            place = f"sum {sums[worst]:.6g} at row {worst}"
            fail(name, "rows must sum to one", place, _NORMALISE)
        self.n_states, self.n_actions = n_states, n_actions
        self._csr = csr

    def law(self) -> sparse.csr_array:
        """Return P as a matrix (S·A, S) with sorted rows; row s·A + a is P(·|s,a)."""
        return self._csr

    @cached_property
    def _cdf(self) -> FloatArray:
        """Cumulative probabilities of the entries of each row (E,)."""
        return cumulative_lists(self._csr.indptr, np.maximum(self._csr.data, 0.0))

    def expect(self, values: FloatArray) -> FloatArray:
        product = self._csr @ (values[0] if len(values) == 1 else values.T)
        by_state = np.asarray(product).reshape(self.n_states, self.n_actions, -1)
        return np.ascontiguousarray(by_state.transpose(2, 1, 0))

    def rows(self, states: IntArray, actions: IntArray) -> FloatArray:
        chosen: FloatArray = self._csr[self._lists(states, actions)].toarray()
        return chosen

    def chance(self, states: IntArray, actions: IntArray, next_states: IntArray) -> FloatArray:
        chosen: FloatArray = np.asarray(self._csr[self._lists(states, actions), next_states]).ravel()
        return chosen

    def sample(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> IntArray:
        places = invert_lists(self._csr.indptr, self._cdf, self._lists(states, actions), uniforms)
        drawn: IntArray = self._csr.indices[places].astype(np.int64)
        return drawn

    def most_successors(self) -> int:
        return int(np.diff(self._csr.indptr).max())

    def successors(self) -> Successors:
        return Successors(self._csr.indptr, self._csr.indices, self._csr.data, self._cdf)

    def _lists(self, states: IntArray, actions: IntArray) -> IntArray:
        """Return the row s·A + a of each pair; all arrays have shape (k,)."""
        return np.asarray(states, dtype=np.int64) * self.n_actions + actions


_CHECK_ENTRIES = 1 << 22  # numbers of P that are formed together to check a table of φ
_BELOW_ONE = np.nextafter(1.0, 0.0)
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
        self._factors = _checked_factors(factors, self._phi.d, self.n_states)
        self._factor_cdf = self._cumulative_factors()
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
            _checked(weights[first : first + step] @ self._factors)

    def expect(self, values: FloatArray) -> FloatArray:
        if sparse.issparse(self._factors):  # its transpose would be formed again at each call
            return self._phi.dot(np.ascontiguousarray((self._factors @ values.T).T))
        return self._phi.dot(values @ self._factors.T)

    def rows(self, states: IntArray, actions: IntArray) -> FloatArray:
        weights = self._phi.rows(self.pair_index(states, actions))
        if self._is_table:
            combined: FloatArray = weights @ self._factors
            return combined
        mixes = self._mixes(weights)
        rows: FloatArray = np.where(mixes[:, None], np.maximum(weights, 0.0), weights) @ self._factors
        return rows if mixes.all() else _checked(rows)

    def sample(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> IntArray:
        pairs = self.pair_index(states, actions)
        if self._weight_cdf is not None:
            return self._sample_by_factor(self._weight_cdf, pairs, uniforms)
        weights = self._phi.rows(pairs)
        if self._is_table:
            return _sample_rows(weights @ self._factors, uniforms)
        mixes = self._mixes(weights)
        if mixes.all():
            return self._sample_by_factor(cumulative(np.maximum(weights, 0.0)), np.arange(len(pairs)), uniforms)
        following = np.empty(len(pairs), dtype=np.int64)
        if mixes.any():
            weight_cdf = cumulative(np.maximum(weights[mixes], 0.0))
            following[mixes] = self._sample_by_factor(weight_cdf, np.arange(len(weight_cdf)), uniforms[mixes])
        rows = _checked(weights[~mixes] @ self._factors)
        following[~mixes] = _sample_rows(rows, uniforms[~mixes])
        return following

    def _mixes(self, weights: FloatArray) -> BoolArray:
        """Return whether weights (k, d) and factors are distributions, up to the tolerance: (k,)."""
        if self._factor_cdf is None:
            return np.zeros(len(weights), dtype=np.bool_)
        mixes: BoolArray = (weights.min(axis=1) >= -PROBABILITY) & (np.abs(weights.sum(axis=1) - 1.0) <= PROBABILITY)
        return mixes

    def _cumulative_factors(self) -> FloatArray | None:
        """Return cumulative sums of the factors, of the entries of sparse ones; None unless all are distributions."""
        entries = self._factors.data if sparse.issparse(self._factors) else self._factors
        sums = np.asarray(self._factors.sum(axis=1)).ravel()
        if (entries < 0).any() or (np.abs(sums - 1.0) > PROBABILITY).any():
            return None
        return cumulative_lists(self._factors.indptr, entries) if entries.ndim == 1 else cumulative(entries)

    def _sample_by_factor(self, weight_cdf: FloatArray, rows: IntArray, uniforms: FloatArray) -> IntArray:
        """Draw a factor from each row of `weight_cdf`, then a next state from that factor."""
        latent, rest = locate(weight_cdf, rows, uniforms)
        uniforms, cdf = np.minimum(rest, _BELOW_ONE), self._factor_cdf
        assert cdf is not None
        if cdf.ndim == 2:
            return invert(cdf, latent, uniforms)
        drawn: IntArray = self._factors.indices[invert_lists(self._factors.indptr, cdf, latent, uniforms)]
        return drawn.astype(np.int64, copy=False)


def _checked_factors(factors: Any, d: int, n_states: int) -> Any:
    """Return factors (d, S) as an array or a csr_array of finite real numbers."""
    remedy = "Give one row of S numbers for each feature of phi."
    if not sparse.issparse(factors):
        return shaped("factors", factors, (d, n_states), remedy=remedy)
    csr = _real_csr("factors", factors, "Remove or replace those entries.")
    if csr.shape != (d, n_states):
        fail("factors", f"must have shape {(d, n_states)}", f"shape {csr.shape}", remedy)
    return csr


def _real_csr(name: str, matrix: Any, if_not_finite: str) -> sparse.csr_array:
    """Return a copy of a sparse matrix of finite real numbers."""
    if matrix.dtype.kind not in "fiub":
        fail(name, "must be a matrix of numbers", f"entries of type {matrix.dtype}", "Give real numbers.")
    csr = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    if not np.isfinite(csr.data).all():
        fail(name, "must be finite", "NaN or infinity", if_not_finite)
    return csr


def _checked(rows: FloatArray) -> FloatArray:
    return distributions(_PRODUCT, finite(_PRODUCT, rows))


def _sample_rows(rows: FloatArray, uniforms: FloatArray) -> IntArray:
    return invert(cumulative(np.maximum(rows, 0.0)), np.arange(len(rows)), uniforms)
