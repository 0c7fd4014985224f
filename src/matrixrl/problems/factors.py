"""Next-state factors F of a factored transition law, stored dense or sparse."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy import sparse

from matrixrl.checks import fail, shaped
from matrixrl.problems.inversion import cumulative, invert
from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import PROBABILITY

__all__ = ["DenseFactors", "Factors", "SparseFactors", "as_factors"]

_BELOW_ONE = np.nextafter(1.0, 0.0)


class Factors(ABC):
    """Base class of the d functions F_k of next states.

    Attributes:
        are_distributions: Whether every F_k is a probability distribution over next states.
    """

    are_distributions: bool

    @abstractmethod
    def expect(self, values: FloatArray) -> FloatArray:
        """Return Σ_s' F_k(s') V(s') for every factor: (B, S) → (B, d)."""

    @abstractmethod
    def combine(self, weights: FloatArray) -> FloatArray:
        """Return Σ_k w_k F_k: (k, d) → (k, S)."""

    @abstractmethod
    def sample(self, chosen: IntArray, uniforms: FloatArray) -> IntArray:
        """Return the next states that uniform numbers select from the chosen factors; all arrays have shape (k,)."""


class DenseFactors(Factors):
    """Store the factors as an array.

    Args:
        table: Factors F_k(s'), shape (d, S), all finite.
    """

    def __init__(self, table: FloatArray) -> None:
        self._table = table
        sums = table.sum(axis=-1)
        self.are_distributions = bool((table >= 0).all() and (np.abs(sums - 1.0) <= PROBABILITY).all())
        self._cdf = cumulative(table) if self.are_distributions else np.empty((0, 0))

    def expect(self, values: FloatArray) -> FloatArray:
        """Return Σ_s' F_k(s') V(s') for every factor: (B, S) → (B, d)."""
        return values @ self._table.T

    def combine(self, weights: FloatArray) -> FloatArray:
        """Return Σ_k w_k F_k: (k, d) → (k, S)."""
        return weights @ self._table

    def sample(self, chosen: IntArray, uniforms: FloatArray) -> IntArray:
        """Return the next states that uniform numbers select from the chosen factors; all arrays have shape (k,)."""
        return invert(self._cdf, chosen, np.clip(uniforms, 0.0, _BELOW_ONE))


class SparseFactors(Factors):
    """Store the factors as a sparse matrix.

    Args:
        matrix: Factors F_k(s'), shape (d, S), all finite.
    """

    def __init__(self, matrix: sparse.csr_array) -> None:
        self._matrix = matrix
        sums = np.asarray(matrix.sum(axis=1)).ravel()
        self.are_distributions = bool((matrix.data >= 0).all() and (np.abs(sums - 1.0) <= PROBABILITY).all())
        self._cdf = [np.cumsum(data) for data in np.split(matrix.data, matrix.indptr[1:-1])]

    def expect(self, values: FloatArray) -> FloatArray:
        """Return Σ_s' F_k(s') V(s') for every factor: (B, S) → (B, d)."""
        return np.ascontiguousarray((self._matrix @ values.T).T)

    def combine(self, weights: FloatArray) -> FloatArray:
        """Return Σ_k w_k F_k: (k, d) → (k, S)."""
        combined: FloatArray = weights @ self._matrix
        return combined

    def sample(self, chosen: IntArray, uniforms: FloatArray) -> IntArray:
        """Return the next states that uniform numbers select from the chosen factors; all arrays have shape (k,)."""
        following = np.empty(len(chosen), dtype=np.int64)
        indices, starts = self._matrix.indices, self._matrix.indptr
        for i, (k, u) in enumerate(zip(chosen, uniforms, strict=True)):
            cdf = self._cdf[k]
            place = min(int(cdf.searchsorted(u * cdf[-1], side="right")), len(cdf) - 1)
            following[i] = indices[starts[k] + place]
        return following


def as_factors(factors: Any, d: int, n_states: int) -> Factors:
    """Return the factors in the storage that fits their type.

    Args:
        factors: Array or scipy.sparse matrix, shape (d, S).
        d: Number of factors.
        n_states: Number of states S.

    Raises:
        InvalidInput: The shape is not (d, S), or an entry is not finite.
    """
    remedy = "Give one row of S numbers for each feature of phi."
    if not sparse.issparse(factors):
        return DenseFactors(shaped("factors", factors, (d, n_states), remedy=remedy))
    if np.iscomplexobj(factors):
        fail("factors", "must be real numbers", "complex ones", remedy)
    csr = sparse.csr_array(factors, dtype=np.float64)
    if csr.shape != (d, n_states):
        fail("factors", f"must have shape {(d, n_states)}", f"shape {csr.shape}", remedy)
    if not np.isfinite(csr.data).all():
        fail("factors", "must be finite", "NaN or infinity", "Remove or replace those entries.")
    return SparseFactors(csr)
