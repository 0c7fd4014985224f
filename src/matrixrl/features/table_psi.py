"""Features ψ given as an array."""

from __future__ import annotations

from dataclasses import replace

from matrixrl.checks import shaped
from matrixrl.features.psi import Psi
from matrixrl.features.psi_constants import measure_psi
from matrixrl.records import FloatArray, IntArray

__all__ = ["TablePsi"]


class TablePsi(Psi):
    """Feature map that stores the features of all states.

    Args:
        table: Features ψ(s), shape (S, d_psi).
        pseudo: Whether linearly dependent features are accepted, and K_ψ is inverted on its range.
        weights: Weight of each row in ΨᵀV and K_ψ, shape (S,), where the rows are a sample of all states; 1 if None.
        left_out: What the table leaves out of the kernel that it was computed from, in words; None if nothing.

    Raises:
        InvalidInput: K_ψ is singular and `pseudo` is False, or the features sum to zero over all states.

    >>> psi = TablePsi([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> psi.total
    array([2., 3.])
    """

    def __init__(
        self,
        table: object,
        *,
        pseudo: bool = False,
        weights: FloatArray | None = None,
        left_out: str | None = None,
    ) -> None:
        array = shaped("psi", table, (None, None), remedy="Give one vector of numbers for each state.")
        self.n_states, self.d_psi = array.shape
        self._dense = array
        self._weighted = array if weights is None else array * weights[:, None]
        self.pseudo = pseudo
        measured = measure_psi(array, weights=weights, pseudo=pseudo)
        self.constants = measured if left_out is None else replace(measured, left_out=left_out)

    @property
    def weighted(self) -> FloatArray:
        """Features of all states times their weights, shape (S, d_psi)."""
        return self._weighted

    def project(self, values: FloatArray) -> FloatArray:
        """Return v = ΨᵀV: (B, S) → (B, d_psi)."""
        return values @ self._weighted

    def rows(self, states: IntArray) -> FloatArray:
        """Return the features of some states: indices of any shape → the same shape with d_psi at the end."""
        return self._dense[states]
