"""Inverse or pseudo-inverse of K_ψ = ΨᵀΨ."""

from __future__ import annotations

import numpy as np

from matrixrl.errors import InvalidInput
from matrixrl.records import FloatArray
from matrixrl.tolerances import GRAM_RANK

__all__ = ["GramInverse"]


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
