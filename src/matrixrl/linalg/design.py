"""Inverses: of A_n = λI + Σ φφᵀ by rank-k updates, with log-determinants and widths, and of K_ψ."""

from __future__ import annotations

import numpy as np

from matrixrl.checks import integer
from matrixrl.errors import InvalidInput
from matrixrl.records import FloatArray
from matrixrl.tolerances import GRAM_RANK

__all__ = ["DesignMatrix", "GramInverse", "squared_row_norms"]

_BLOCK_ENTRIES = 1 << 17  # one megabyte of float64, so that a block is squared while it is in the cache


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


def squared_row_norms(rows: FloatArray, factor: FloatArray) -> FloatArray:
    r"""Return the squared norms of all rows after a linear map, \(\|x_p^\top G_b\|^2\).

    Args:
        rows: Vectors x_p, shape (P, d).
        factor: One map G_b for each replica, shape (B, d, k).

    Returns:
        Squared norms, shape (B, P).

    >>> squared_row_norms(np.eye(2), np.array([[[3.0], [4.0]]]))
    array([[ 9., 16.]])
    """
    n_replicas, d, k = factor.shape
    maps = np.ascontiguousarray(factor.transpose(0, 2, 1)).reshape(n_replicas * k, d)
    n_rows = rows.shape[0]
    out = np.empty((n_replicas, n_rows))
    step = max(1, _BLOCK_ENTRIES // max(d, n_replicas * k))
    for i in range(0, n_rows, step):
        images = maps @ rows[i : i + step].T  # one row for each map, so that squares are summed along memory
        images *= images
        images.reshape(n_replicas, k, -1).sum(axis=1, out=out[:, i : i + step])
    return out


class GramInverse:
    """Compute K_ψ⁻¹, or the pseudo-inverse if K_ψ is singular and `pseudo` is True.

    Args:
        gram: K_ψ, symmetric positive semi-definite, shape (d_psi, d_psi).
        pseudo: Whether a singular matrix is accepted and inverted on its range.

    Attributes:
        matrix: The inverse, shape (d_psi, d_psi).
        rank: Number of eigenvalues that are not zero.

    Raises:
        InvalidInput: `gram` is singular and `pseudo` is False; the message gives the null direction.

    >>> GramInverse(np.diag([2.0, 4.0])).matrix
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """

    def __init__(self, gram: FloatArray, *, pseudo: bool = False) -> None:
        eigenvalues, vectors = np.linalg.eigh(gram)
        keep = eigenvalues > GRAM_RANK * max(float(eigenvalues[-1]), np.finfo(np.float64).tiny)
        self.rank = int(keep.sum())
        if self.rank < len(eigenvalues) and not pseudo:
            raise InvalidInput(_singular_message(eigenvalues, vectors))
        basis = vectors[:, keep]
        self.matrix: FloatArray = (basis / eigenvalues[keep]) @ basis.T


def _singular_message(eigenvalues: FloatArray, vectors: FloatArray) -> str:
    direction = vectors[:, 0]
    order = np.argsort(-np.abs(direction))[:4]
    terms = " ".join(f"{direction[i]:+.3g}·psi[{i}]" for i in order if abs(direction[i]) > 1e-6)
    if (np.abs(direction) > 1e-6).sum() > len(order):
        terms += " + …"
    ratio = eigenvalues[0] / max(float(eigenvalues[-1]), np.finfo(np.float64).tiny)
    return (
        f"psi must have linearly independent features (K_psi invertible); got {terms} ≈ 0 on every state "
        f"(smallest/largest eigenvalue {ratio:.1e}). Drop one of those features, orthogonalise them "
        "(numpy.linalg.qr(psi)[0]), or pass psi_pinv=True to work on the span of the features."
    )
