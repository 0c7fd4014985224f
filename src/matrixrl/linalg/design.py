"""Design matrices A_n = λI + Σ φφᵀ: rank-k updates, solves, log-determinants and widths."""

from __future__ import annotations

import numpy as np

from matrixrl.checks import integer
from matrixrl.linalg.products import squared_row_norms
from matrixrl.records import FloatArray

__all__ = ["DesignMatrix"]


class DesignMatrix:
    r"""Keep A_n and its inverse for B replicas by rank-k updates (YW19 Algorithm 1, line 11).

    The inverse is updated by the Woodbury identity (Hager 1989), \(A^{-1} \leftarrow A^{-1} - GG^\top\) with G of shape
    (d, k). Squared widths follow from the same G: \(w^2 \leftarrow w^2 - \|\phi^\top G\|^2\).

    Args:
        d: Number of features.
        n_replicas: Number of replicas B.
        ridge: Regularisation λ; 1 in the paper.

    Attributes:
        matrix: A_n, shape (B, d, d).
        inverse: A_n⁻¹, shape (B, d, d).
        logdet: ln det(A_n / λ), shape (B,); ln det A_n in the paper.

    >>> design = DesignMatrix(d=2, n_replicas=1)
    >>> _ = design.update(np.array([[[1.0, 0.0]]]))
    >>> design.solve(np.array([[[2.0], [2.0]]]))[0].ravel()
    array([1., 2.])
    >>> float(np.round(design.logdet[0], 6)) == float(np.round(np.log(2.0), 6))
    True
    """

    def __init__(self, d: int, n_replicas: int, *, ridge: float = 1.0) -> None:
        self.d = integer("d", d, low=1, remedy="Give at least one feature.")
        self.n_replicas = integer("n_replicas", n_replicas, low=1, remedy="Give a number of replicas.")
        self.ridge = ridge
        identity = np.tile(np.eye(self.d), (self.n_replicas, 1, 1))
        self.matrix = ridge * identity
        self.inverse = identity / ridge
        self.logdet = np.zeros(self.n_replicas)

    def update(self, x: FloatArray) -> tuple[bool, FloatArray]:
        """Add Σ xxᵀ over the k rows of each replica.

        Args:
            x: Features of k steps, shape (B, k, d); a row of zeros adds nothing.

        Returns:
            (True, G) with G of shape (B, d, k) and A⁻¹_new = A⁻¹_old − GGᵀ if k < d. Otherwise a new factorisation is
            cheaper, and the result is (False, R) with R of shape (B, d, d) and A⁻¹_new = RRᵀ.
        """
        k = x.shape[1]
        x_t = x.transpose(0, 2, 1)
        self.matrix += x_t @ x
        if k >= self.d:
            return False, self.refactor()
        solved = self.inverse @ x_t
        inner = np.linalg.cholesky(np.eye(k) + x @ solved)
        factor: FloatArray = np.linalg.solve(inner, solved.transpose(0, 2, 1)).transpose(0, 2, 1)
        self.inverse -= factor @ factor.transpose(0, 2, 1)
        self.logdet += 2.0 * np.log(np.diagonal(inner, axis1=1, axis2=2)).sum(axis=1)
        return True, factor

    def refactor(self) -> FloatArray:
        """Recompute inverse and log-determinant from A = LLᵀ; return L⁻ᵀ of shape (B, d, d).

        If rounding errors have left A without a Cholesky factor, its eigenvalues are raised to λ, below which the exact
        ones never are. Guarantees are withdrawn long before (`lost_digits`).
        """
        try:
            lower = np.linalg.cholesky(self.matrix)
        except np.linalg.LinAlgError:
            return self._from_eigenvalues()
        root: FloatArray = np.linalg.inv(lower).transpose(0, 2, 1)
        self.inverse = root @ root.transpose(0, 2, 1)
        scaled = np.diagonal(lower, axis1=1, axis2=2) / np.sqrt(self.ridge)
        self.logdet = 2.0 * np.log(scaled).sum(axis=1)
        return root

    def _from_eigenvalues(self) -> FloatArray:
        eigenvalues, vectors = np.linalg.eigh(self.matrix)
        raised = np.maximum(eigenvalues, self.ridge)
        root: FloatArray = vectors / np.sqrt(raised)[:, None, :]
        self.inverse = root @ root.transpose(0, 2, 1)
        self.logdet = np.log(raised / self.ridge).sum(axis=1)
        return root

    def solve(self, rhs: FloatArray) -> FloatArray:
        """Return A⁻¹ rhs: (B, d, m) → (B, d, m)."""
        return self.inverse @ rhs

    def width_sq(self, rows: FloatArray) -> FloatArray:
        """Return φᵀA⁻¹φ of all rows from a new factorisation: (P, d) → (B, P)."""
        root = np.linalg.inv(np.linalg.cholesky(self.matrix)).transpose(0, 2, 1)
        return squared_row_norms(rows, root)
