"""Features ψ given as a scipy.sparse matrix."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from matrixrl.checks import fail
from matrixrl.features.psi import Psi
from matrixrl.features.psi_constants import PsiConstants, bound_c_psi, check_total, words_left_out
from matrixrl.linalg import GramInverse, Span, span_of_chunks
from matrixrl.records import FloatArray, IntArray

__all__ = ["SparsePsi"]

_CHUNK = 1 << 16  # number of states whose dense rows are formed together


class SparsePsi(Psi):
    """Feature map that stores the features of all states in a sparse matrix.

    Args:
        matrix: Features ψ(s), shape (S, d_psi), in any scipy.sparse format.
        pseudo: Whether linearly dependent features are accepted, and K_ψ is inverted on its range.

    Raises:
        InvalidInput: K_ψ is singular and `pseudo` is False, or the features sum to zero over all states.

    >>> psi = SparsePsi(sparse.csr_array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]))
    >>> psi.total, psi.project(np.array([[1.0, 0.0, 1.0]]))
    (array([2., 3.]), array([[1., 2.]]))
    """

    def __init__(self, matrix: sparse.sparray | sparse.spmatrix, *, pseudo: bool = False) -> None:
        if np.iscomplexobj(matrix):
            fail("psi", "must be real numbers", "complex ones", "Give real features.")
        csr = sparse.csr_array(matrix, dtype=np.float64)
        if csr.ndim != 2 or 0 in csr.shape:
            fail("psi", "must be a matrix with rows and columns", f"shape {csr.shape}", "Give one row for each state.")
        if not np.isfinite(csr.data).all():
            fail("psi", "must be finite", "NaN or infinity", "Remove or replace those entries.")
        self.n_states, self.d_psi = csr.shape
        self.matrix = csr
        self._transposed = csr.T.tocsr()
        self.pseudo = pseudo
        self.constants = self._measure()

    def _measure(self) -> PsiConstants:
        gram = (self._transposed @ self.matrix).toarray()
        inverted = GramInverse(gram, pseudo=self.pseudo)
        inverse = inverted.matrix
        total = np.asarray(self.matrix.sum(axis=0)).ravel()
        check_total(total, gram)
        dual_norm, about_mean = self._dual_norms(inverse, total)
        sums = np.asarray(abs(self.matrix).sum(axis=0)).ravel()
        is_exact = bool((np.abs(total) >= sums * (1 - 1e-12)).all())
        return PsiConstants(
            total=total,
            gram_inverse=inverse,
            dual_norm=dual_norm,
            noise_scale=min(dual_norm, about_mean),
            c_psi=bound_c_psi(sums, is_exact, gram, float(self.n_states), float(np.sqrt(self.norms_sq()).sum())),
            c_psi_is_exact=is_exact,
            c_psi_max_norm=float(sums.max()),
            left_out=words_left_out(inverted.rank, self.d_psi, self._span),
        )

    def _span(self) -> Span:
        """Return the directions that ψ uses."""
        firsts = range(0, self.n_states, _CHUNK)
        return span_of_chunks(self.matrix[first : first + _CHUNK].toarray() for first in firsts)

    def _dual_norms(self, inverse: FloatArray, total: FloatArray) -> tuple[float, float]:
        """Return the largest norm of K_ψ⁻¹ψ(s), and the largest distance from the mean of all states."""
        centre = inverse @ total / self.n_states
        longest = about_mean = 0.0
        for first in range(0, self.n_states, _CHUNK):
            dual = self.matrix[first : first + _CHUNK] @ inverse
            longest = max(longest, float(np.linalg.norm(dual, axis=1).max()))
            about_mean = max(about_mean, float(np.linalg.norm(dual - centre, axis=1).max()))
        return longest, about_mean

    @property
    def table(self) -> FloatArray:
        """Features of all states, shape (S, d_psi), as a new dense array."""
        dense: FloatArray = self.matrix.toarray()
        return dense

    def rows(self, states: IntArray) -> FloatArray:
        """Return the features of some states: indices of any shape → the same shape with d_psi at the end."""
        index = np.asarray(states)
        dense: FloatArray = self.matrix[index.ravel()].toarray()
        return dense.reshape(*index.shape, self.d_psi)

    def norms_sq(self) -> FloatArray:
        """Return ‖ψ(s)‖² of all states, shape (S,)."""
        return np.asarray(self.matrix.multiply(self.matrix).sum(axis=1)).ravel()

    def project(self, values: FloatArray) -> FloatArray:
        """Return v = ΨᵀV: (B, S) → (B, d_psi)."""
        return np.ascontiguousarray((self._transposed @ values.T).T)
