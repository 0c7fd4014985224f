"""Define the interface of feature maps ψ(s') of next states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from matrixrl.checks import shaped
from matrixrl.features.psi_constants import PsiConstants, measure_psi
from matrixrl.html_tables import Described
from matrixrl.records import FloatArray, IntArray

__all__ = ["Psi"]


class Psi(Described, ABC):
    """Base class of feature maps of next states.

    Ψ is the S × d_psi matrix with rows ψ(s), and K_ψ = ΨᵀΨ. A subclass sets `n_states` and `d_psi`, and implements
    `rows`. All other methods have defaults that form Ψ once; override them where the features have more structure.

    Attributes:
        n_states: Number of states S.
        d_psi: Number of features.
        pseudo: Whether linearly dependent features are accepted, and K_ψ is inverted on its range.

    >>> class Halves(Psi):
    ...     n_states, d_psi = 6, 2
    ...
    ...     def rows(self, states):
    ...         return np.stack([states < 3, states >= 3], axis=-1).astype(float)
    >>> Halves().total, Halves().project(np.ones((1, 6)))
    (array([3., 3.]), array([[3., 3.]]))
    """

    n_states: int
    d_psi: int
    pseudo: bool = False

    @abstractmethod
    def rows(self, states: IntArray) -> FloatArray:
        """Return the features of some states: indices of any shape → the same shape with d_psi at the end."""

    def _words(self) -> str:
        return f"{type(self).__name__}: {self.n_states:,} states, d' {self.d_psi:,}"

    @cached_property
    def _dense(self) -> FloatArray:
        remedy = "Return one row of d_psi numbers for each state."
        return shaped("psi.rows", self.rows(np.arange(self.n_states)), (self.n_states, self.d_psi), remedy=remedy)

    @property
    def table(self) -> FloatArray:
        """Features of all states, shape (S, d_psi)."""
        return self._dense

    @cached_property
    def constants(self) -> PsiConstants:
        """Constants of Assumptions 2 and 2'."""
        return measure_psi(self.table, pseudo=self.pseudo)

    @property
    def total(self) -> FloatArray:
        """Sum u = Ψᵀ1 of the features of all states, shape (d_psi,); φᵀM*u = 1 for every pair."""
        return self.constants.total

    @property
    def left_out(self) -> str | None:
        """Part of the given features that these features leave out, in words; None if they leave out nothing.

        Nothing is proven if P may need it.
        """
        return self.constants.left_out

    @property
    def dual_norm(self) -> float:
        """C_ψ', the largest ‖K_ψ⁻¹ψ(s)‖₂ (Assumption 2)."""
        return self.constants.dual_norm

    @property
    def noise_scale(self) -> float:
        """Radius of a ball that contains every K_ψ⁻¹ψ(s): the sub-Gaussian size of the noise."""
        return self.constants.noise_scale

    @property
    def c_psi(self) -> float:
        """C_ψ of Assumption 2', ‖Ψᵀv‖₂ <= C_ψ‖v‖_∞."""
        return self.constants.c_psi

    @property
    def c_psi_is_exact(self) -> bool:
        """Whether `c_psi` is the smallest such constant; otherwise it is an upper bound on it."""
        return self.constants.c_psi_is_exact

    @property
    def c_psi_max_norm(self) -> float:
        """C_ψ of Assumption 2, ‖Ψᵀv‖_∞ <= C_ψ‖v‖_∞, exact."""
        return self.constants.c_psi_max_norm

    @cached_property
    def error_scale(self) -> float:
        """Largest ‖ψ(s)‖ times the norm of K_ψ⁻¹: what an error of size 1 in each Σ φψᵀ/‖ψ‖ does to M_n."""
        inverse = self.constants.gram_inverse
        longest = float(np.sqrt(self.norms_sq().max()))
        return longest if inverse is None else longest * float(np.linalg.norm(inverse, 2))

    def project(self, values: FloatArray) -> FloatArray:
        """Return v = ΨᵀV: (B, S) → (B, d_psi)."""
        return values @ self.table

    def solve_gram(self, moments: FloatArray) -> FloatArray:
        """Return X K_ψ⁻¹ for X of shape (…, d_psi)."""
        inverse = self.constants.gram_inverse
        return moments if inverse is None else moments @ inverse

    def norms_sq(self) -> FloatArray:
        """Return ‖ψ(s)‖² of all states, shape (S,)."""
        norms: FloatArray = np.vecdot(self.table, self.table)
        return norms

    def accumulate(self, cross_moment: FloatArray, rows: FloatArray, next_states: IntArray) -> None:
        """Add Σ φψᵀ in place.

        Args:
            cross_moment: Sum to add to, shape (B, d, d_psi).
            rows: Features φ of the visited pairs, shape (B, k, d).
            next_states: Their next states, shape (B, k).
        """
        cross_moment += rows.transpose(0, 2, 1) @ self.rows(next_states)

    def accumulate_at(
        self,
        cross_moment: FloatArray,
        features: IntArray,
        next_states: IntArray,
        weights: FloatArray,
    ) -> None:
        """Add Σ φψᵀ in place where every φ is one-hot.

        Args:
            cross_moment: Sum to add to, shape (B, d, d_psi).
            features: Position of the one in φ of each visited pair, shape (B, k).
            next_states: Their next states, shape (B, k).
            weights: Factor of each step, shape (B, k).
        """
        replica = np.arange(len(cross_moment))[:, None]
        np.add.at(cross_moment, (replica, features), self.rows(next_states) * weights[:, :, None])
