"""ψ as a scipy.sparse matrix: few features of each state are not zero."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from matrixrl.checks import fail
from matrixrl.features.psi import Psi
from matrixrl.linalg import GramInverse
from matrixrl.records import FloatArray, IntArray

__all__ = ["SparsePsi"]

_CHUNK = 1 << 16  # states whose dense rows are formed together


class SparsePsi(Psi):
    """Features given as a sparse matrix; products with it cost what is not zero.

    Args:
        matrix: (S, d_psi), any scipy.sparse format.
        pseudo: work on the span of the features when their columns are linearly dependent.

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
        self._columns = csr.T.tocsr()
        self.pseudo = pseudo
        gram = (self._columns @ csr).toarray()
        self._inverse = GramInverse(gram, pseudo=pseudo).matrix
        self.total = np.asarray(csr.sum(axis=0)).ravel()
        self.refuse_zero_total(float(np.sqrt(np.trace(gram))))
        self._set_noise()
        absolute = np.asarray(abs(csr).sum(axis=0)).ravel()
        signs = np.asarray(csr.sum(axis=0)).ravel()
        self.c_psi_columns = float(absolute.max())
        self.c_psi_is_exact = bool((np.abs(signs) >= absolute * (1 - 1e-12)).all())
        bounds = [float(np.linalg.norm(absolute))]
        if not self.c_psi_is_exact:
            bounds.append(float(np.sqrt(self.n_states * np.linalg.eigvalsh(gram)[-1])))
            bounds.append(float(np.sqrt(self.norms_sq()).sum()))
        self.c_psi = min(bounds)

    def _set_noise(self) -> None:
        """Measure the points K_ψ⁻¹ψ(s), a chunk of states at a time."""
        centre = self._inverse @ self.total / self.n_states
        longest = about_mean = 0.0
        for first in range(0, self.n_states, _CHUNK):
            dual = self.matrix[first : first + _CHUNK] @ self._inverse
            longest = max(longest, float(np.linalg.norm(dual, axis=1).max()))
            about_mean = max(about_mean, float(np.linalg.norm(dual - centre, axis=1).max()))
        self.dual_norm = longest
        self.noise_scale = min(longest, about_mean)

    @property
    def table(self) -> FloatArray:
        """(S, d_psi) the features of every state, dense."""
        dense: FloatArray = self.matrix.toarray()
        return dense

    def rows(self, states: IntArray) -> FloatArray:
        """Return the features of some states."""
        index = np.asarray(states)
        dense: FloatArray = self.matrix[index.ravel()].toarray()
        return dense.reshape(*index.shape, self.d_psi)

    def norms_sq(self) -> FloatArray:
        """(S,) ‖ψ(s)‖²."""
        return np.asarray(self.matrix.multiply(self.matrix).sum(axis=1)).ravel()

    def project(self, values: FloatArray) -> FloatArray:
        """Return v = ΨᵀV: (B, S) → (B, d_psi)."""
        return np.ascontiguousarray((self._columns @ values.T).T)

    def solve_gram(self, moments: FloatArray) -> FloatArray:
        """Return X K_ψ⁻¹."""
        return moments @ self._inverse
