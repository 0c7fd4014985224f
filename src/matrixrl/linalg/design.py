"""The design matrix A_n = λI + Σ φφᵀ of every replica: solve, rank-k update, log-determinant, widths."""

from __future__ import annotations

import numpy as np

from matrixrl.checks import integer
from matrixrl.linalg.products import squared_row_norms
from matrixrl.records import FloatArray

__all__ = ["DesignMatrix"]


class DesignMatrix:
    r"""A_n and its inverse for B replicas, kept up to date by rank-k updates (YW19 Algorithm 1, line 11).

    The inverse follows the Woodbury identity, \(A^{-1} \leftarrow A^{-1} - GG^\top\) with G of k columns, so
    that whoever keeps widths can follow with \(w^2 \leftarrow w^2 - \|\phi^\top G\|^2\) (design 4.4).

    Args:
        d: number of features.
        n_replicas: B.
        ridge: λ, which is 1 in the paper.

    Attributes:
        matrix: (B, d, d) A_n.
        inverse: (B, d, d) its inverse.
        logdet: (B,) ln det(A_n / λ), which is ln det A_n in the paper.

    >>> design = DesignMatrix(d=2, n_replicas=1)
    >>> _ = design.update(np.array([[[1.0, 0.0]]]))
    >>> design.solve(np.array([[[2.0], [2.0]]]))[0].ravel()
    array([1., 2.])
    >>> float(np.round(design.logdet[0], 6)) == float(np.round(np.log(2.0), 6))
    True
    """

    def __init__(self, d: int, n_replicas: int, *, ridge: float = 1.0) -> None:
        self.d = integer("d", d, low=1, remedy="Give at least one feature.")
        self.n_replicas = integer("n_replicas", n_replicas, low=1, remedy="Ask for one or more.")
        self.ridge = ridge
        identity = np.tile(np.eye(self.d), (self.n_replicas, 1, 1))
        self.matrix = ridge * identity
        self.inverse = identity / ridge
        self.logdet = np.zeros(self.n_replicas)

    def update(self, x: FloatArray) -> tuple[bool, FloatArray]:
        """Add Σ xxᵀ over the k rows of each replica.

        Args:
            x: (B, k, d); rows of zeros add nothing.

        Returns:
            (True, G) with G of shape (B, d, k) and A⁻¹_new = A⁻¹_old − GGᵀ; or, when k >= d makes a new
            factorisation the cheaper way, (False, R) with R of shape (B, d, d) and A⁻¹_new = RRᵀ.
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
        """Recompute inverse and log-determinant from A by Cholesky; return L⁻ᵀ of shape (B, d, d)."""
        lower = np.linalg.cholesky(self.matrix)
        root: FloatArray = np.linalg.inv(lower).transpose(0, 2, 1)
        self.inverse = root @ root.transpose(0, 2, 1)
        scaled = np.diagonal(lower, axis1=1, axis2=2) / np.sqrt(self.ridge)
        self.logdet = 2.0 * np.log(scaled).sum(axis=1)
        return root

    def solve(self, rhs: FloatArray) -> FloatArray:
        """Return A⁻¹ rhs for rhs of shape (B, d, m)."""
        return self.inverse @ rhs

    def width_sq(self, rows: FloatArray) -> FloatArray:
        """Return φᵀA⁻¹φ for all rows (P, d), from a new factorisation: (B, P)."""
        root = np.linalg.inv(np.linalg.cholesky(self.matrix)).transpose(0, 2, 1)
        return squared_row_norms(rows, root)
