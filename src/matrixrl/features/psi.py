"""ψ: features of next states, with K_ψ = ΨᵀΨ and u = Ψᵀ1."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from matrixrl.checks import fail, integer, shaped
from matrixrl.linalg import GramInverse
from matrixrl.records import FloatArray, IntArray

__all__ = ["OneHotPsi", "Psi", "TablePsi"]


class Psi(ABC):
    """A feature map of next states; B replicas, S states, d_psi features.

    Attributes:
        total: (d_psi,) u = Ψᵀ1, in which every transition has the value one.
        dual_norm: C_ψ', the largest ‖K_ψ⁻¹ψ(s)‖₂ (Assumption 2).
        noise_scale: the radius of a ball that holds every K_ψ⁻¹ψ(s): the sub-Gaussian size of the noise.
        c_psi: C_ψ of Assumption 2', ‖Ψᵀv‖₂ <= C_ψ‖v‖_∞.
        c_psi_is_exact: whether it is the smallest such constant or an upper bound on it.
        c_psi_columns: C_ψ of Assumption 2, ‖Ψᵀv‖_∞ <= C_ψ‖v‖_∞; always exact.
        pseudo: whether linearly dependent columns are accepted.
    """

    n_states: int
    d_psi: int
    total: FloatArray
    dual_norm: float
    noise_scale: float
    c_psi: float
    c_psi_is_exact: bool
    c_psi_columns: float
    pseudo: bool = False

    @property
    @abstractmethod
    def table(self) -> FloatArray:
        """(S, d_psi) the features of every state."""

    @abstractmethod
    def project(self, values: FloatArray) -> FloatArray:
        """Return v = ΨᵀV: (B, S) → (B, d_psi)."""

    @abstractmethod
    def solve_gram(self, moments: FloatArray) -> FloatArray:
        """Return X K_ψ⁻¹ for X of shape (…, d_psi)."""

    @abstractmethod
    def rows(self, states: IntArray) -> FloatArray:
        """Return the features of some states: any shape → the same shape with d_psi at the end."""

    @abstractmethod
    def norms_sq(self) -> FloatArray:
        """(S,) ‖ψ(s)‖²."""

    def accumulate(self, cross_moment: FloatArray, rows: FloatArray, next_states: IntArray) -> None:
        """Add Σ φψᵀ in place: cross_moment (B, d, d_psi), rows (B, k, d), next_states (B, k)."""
        cross_moment += rows.transpose(0, 2, 1) @ self.rows(next_states)

    def accumulate_at(
        self,
        cross_moment: FloatArray,
        features: IntArray,
        next_states: IntArray,
        weights: FloatArray,
    ) -> None:
        """Add Σ φψᵀ in place where φ is one-hot at `features` (B, k), times `weights` (B, k)."""
        replica = np.arange(len(cross_moment))[:, None]
        np.add.at(cross_moment, (replica, features), self.rows(next_states) * weights[:, :, None])

    def refuse_zero_total(self, size: float) -> None:
        """Refuse features that sum to zero over all states; `size` is the Frobenius norm of Ψ."""
        if np.linalg.norm(self.total) <= 1e-9 * size:
            fail(
                "psi",
                "must not sum to zero over all states (no model could give probabilities that sum to one)",
                f"a total of norm {np.linalg.norm(self.total):.2g}",
                "Add a constant column, or do not centre the features.",
            )


class TablePsi(Psi):
    """Features given as an array.

    Args:
        table: (S, d_psi).
        pseudo: work on the span of the features when their columns are linearly dependent.
        weights: (S,) how much each row counts in ΨᵀV and K_ψ, where the rows are a sample of all states; 1 by default.

    Raises:
        InvalidInput: K_ψ is singular and `pseudo` is False.

    >>> psi = TablePsi([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> psi.total
    array([2., 3.])
    """

    def __init__(self, table: object, *, pseudo: bool = False, weights: FloatArray | None = None) -> None:
        array = shaped("psi", table, (None, None), remedy="Give one vector of numbers for each state.")
        self.n_states, self.d_psi = array.shape
        self._table = array
        self._weighted = array if weights is None else array * weights[:, None]
        self.pseudo = pseudo
        gram = self._weighted.T @ array
        self._inverse = GramInverse(gram, pseudo=pseudo).matrix
        self.total = self._weighted.sum(axis=0)
        self.refuse_zero_total(float(np.sqrt(np.trace(gram))))
        dual = array @ self._inverse
        self.dual_norm = float(np.linalg.norm(dual, axis=1).max())
        about_mean = float(np.linalg.norm(dual - dual.mean(axis=0), axis=1).max())
        self.noise_scale = min(self.dual_norm, about_mean)
        self._set_c_psi(gram, float(self.n_states if weights is None else weights.sum()))

    def _set_c_psi(self, gram: FloatArray, count: float) -> None:
        array = self._weighted
        columns = np.abs(array).sum(axis=0)
        self.c_psi_columns = float(columns.max())
        # The maximum of a convex function over the cube of v is at a vertex: exact where V = 1 is the best one,
        # which is so when each column has one sign; otherwise the smallest of three simple bounds.
        self.c_psi_is_exact = bool(((array >= 0).all(axis=0) | (array <= 0).all(axis=0)).all())
        bounds = [float(np.linalg.norm(columns))]
        if not self.c_psi_is_exact:
            bounds.append(float(np.sqrt(count * np.linalg.eigvalsh(gram)[-1])))
            bounds.append(float(np.linalg.norm(array, axis=1).sum()))
        self.c_psi = min(bounds)

    @property
    def table(self) -> FloatArray:
        """(S, d_psi) the features of every state."""
        return self._table

    @property
    def weighted(self) -> FloatArray:
        """(S, d_psi) the features of every state as often as they count in ΨᵀV."""
        return self._weighted

    def project(self, values: FloatArray) -> FloatArray:
        """Return v = ΨᵀV: (B, S) → (B, d_psi)."""
        return values @ self._weighted

    def solve_gram(self, moments: FloatArray) -> FloatArray:
        """Return X K_ψ⁻¹."""
        return moments @ self._inverse

    def rows(self, states: IntArray) -> FloatArray:
        """Return the features of some states."""
        return self._table[states]

    def norms_sq(self) -> FloatArray:
        """(S,) ‖ψ(s)‖²."""
        norms: FloatArray = np.vecdot(self._table, self._table)
        return norms


class OneHotPsi(Psi):
    """One feature for each state: Ψ = I, K_ψ = I, C_ψ' = 1.

    >>> OneHotPsi(3).project(np.array([[1.0, 2.0, 3.0]]))
    array([[1., 2., 3.]])
    """

    def __init__(self, n_states: int) -> None:
        self.n_states = integer("n_states", n_states, low=1, remedy="Give the number of states.")
        self.d_psi = self.n_states
        self.total = np.ones(self.n_states)
        self.dual_norm = 1.0
        self.noise_scale = float(np.sqrt(1.0 - 1.0 / self.n_states))
        self.c_psi = float(np.sqrt(self.n_states))
        self.c_psi_is_exact = True
        self.c_psi_columns = 1.0

    @property
    def table(self) -> FloatArray:
        """(S, d_psi) the features of every state."""
        return np.eye(self.n_states)

    def project(self, values: FloatArray) -> FloatArray:
        """Return v = ΨᵀV = V."""
        return values

    def solve_gram(self, moments: FloatArray) -> FloatArray:
        """Return X K_ψ⁻¹ = X."""
        return moments

    def rows(self, states: IntArray) -> FloatArray:
        """Return the features of some states."""
        chosen: FloatArray = (np.asarray(states)[..., None] == np.arange(self.d_psi)).astype(np.float64)
        return chosen

    def norms_sq(self) -> FloatArray:
        """(S,) ones."""
        return np.ones(self.n_states)

    def accumulate(self, cross_moment: FloatArray, rows: FloatArray, next_states: IntArray) -> None:
        """Add Σ φψᵀ in place."""
        replica = np.arange(len(cross_moment))[:, None]
        np.add.at(cross_moment.swapaxes(1, 2), (replica, next_states), rows)

    def accumulate_at(
        self,
        cross_moment: FloatArray,
        features: IntArray,
        next_states: IntArray,
        weights: FloatArray,
    ) -> None:
        """Count transitions in place."""
        replica = np.arange(len(cross_moment))[:, None]
        np.add.at(cross_moment, (replica, features, next_states), weights)
