"""One-hot features of pairs and of next states: the tabular case."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from matrixrl.checks import integer
from matrixrl.features.blocks import Blocks
from matrixrl.features.phi import Phi
from matrixrl.features.psi import Psi
from matrixrl.features.psi_constants import PsiConstants
from matrixrl.linalg import DiagonalPairs, LearningDesign
from matrixrl.records import FloatArray, IntArray

__all__ = ["OneHotPhi", "OneHotPsi"]


class OneHotPhi(Phi):
    """Feature map with one feature for each pair, d = S·A. Nothing of size d² is stored.

    Args:
        n_states: Number of states S.
        n_actions: Number of actions A.

    >>> OneHotPhi(n_states=3, n_actions=2).d
    6
    """

    def __init__(self, n_states: int, n_actions: int) -> None:
        self.n_states = integer("n_states", n_states, low=1, remedy="Give the number of states.")
        self.n_actions = integer("n_actions", n_actions, low=1, remedy="Give the number of actions.")
        self.d = self.n_states * self.n_actions

    @property
    def table(self) -> FloatArray:
        """Features of all pairs, shape (S, A, d)."""
        return np.eye(self.d).reshape(self.n_actions, self.n_states, self.d).transpose(1, 0, 2)

    @property
    def max_norm_sq(self) -> float:
        """Largest squared norm of a feature vector, 1."""
        return 1.0

    def rows(self, pairs: IntArray) -> FloatArray:
        """Return the features of some pairs: indices of any shape → the same shape with d at the end."""
        chosen: FloatArray = (np.asarray(pairs)[..., None] == np.arange(self.d)).astype(np.float64)
        return chosen

    def dot(self, weights: FloatArray) -> FloatArray:
        """Return φ(s,a)ᵀw for all pairs: (B, d) → (B, A, S)."""
        return weights.reshape(-1, self.n_actions, self.n_states)

    def design(self, n_replicas: int, ridge: float = 1.0) -> LearningDesign:
        """Return A_1 = λI of B replicas with the widths of all pairs."""
        return DiagonalPairs(self.d, n_replicas, ridge=ridge)

    def accumulate(
        self,
        cross_moment: FloatArray,
        psi: Psi,
        pairs: IntArray,
        next_states: IntArray,
        weights: FloatArray,
    ) -> None:
        """Add Σ φψᵀ of visited pairs in place; shapes as in `Phi.accumulate`."""
        psi.accumulate_at(cross_moment, pairs, next_states, weights)

    def accumulate_rewards(self, moment: FloatArray, pairs: IntArray, rewards: FloatArray) -> None:
        """Add Σ φr in place: moment (B, d), pairs (B, k), rewards (B, k)."""
        np.add.at(moment, (np.arange(len(moment))[:, None], pairs), rewards)

    def blocks(self) -> Blocks:
        """Return one block for each pair."""
        index = np.arange(self.d)
        return Blocks(index, list(index[:, None]), np.ones(self.d), one_pair_each=True)

    @property
    def too_small(self) -> None:
        """None: all directions have the same size."""

    def smallest_design_eigenvalue(self) -> float:
        """Return 1/d, which uniform weights reach; no weights reach more."""
        return 1.0 / self.d


class OneHotPsi(Psi):
    """Feature map with one feature for each next state: Ψ = I, K_ψ = I, C_ψ' = 1.

    Args:
        n_states: Number of states S.

    >>> OneHotPsi(3).project(np.array([[1.0, 2.0, 3.0]]))
    array([[1., 2., 3.]])
    """

    def __init__(self, n_states: int) -> None:
        self.n_states = integer("n_states", n_states, low=1, remedy="Give the number of states.")
        self.d_psi = self.n_states

    @cached_property
    def constants(self) -> PsiConstants:
        """Constants of Assumptions 2 and 2'."""
        return PsiConstants(
            total=np.ones(self.n_states),
            gram_inverse=None,
            dual_norm=1.0,
            noise_scale=float(np.sqrt(1.0 - 1.0 / self.n_states)),
            c_psi=float(np.sqrt(self.n_states)),
            c_psi_is_exact=True,
            c_psi_max_norm=1.0,
        )

    @property
    def table(self) -> FloatArray:
        """Features of all states, shape (S, S): the identity matrix, formed when it is read."""
        return np.eye(self.n_states)

    def rows(self, states: IntArray) -> FloatArray:
        """Return the features of some states: indices of any shape → the same shape with d_psi at the end."""
        chosen: FloatArray = (np.asarray(states)[..., None] == np.arange(self.d_psi)).astype(np.float64)
        return chosen

    def project(self, values: FloatArray) -> FloatArray:
        """Return v = ΨᵀV = V."""
        return values

    def norms_sq(self) -> FloatArray:
        """Return ‖ψ(s)‖² = 1 of all states, shape (S,)."""
        return np.ones(self.n_states)

    def accumulate(self, cross_moment: FloatArray, rows: FloatArray, next_states: IntArray) -> None:
        """Add Σ φψᵀ in place; shapes as in `Psi.accumulate`."""
        replica = np.arange(len(cross_moment))[:, None]
        np.add.at(cross_moment.swapaxes(1, 2), (replica, next_states), rows)

    def accumulate_at(
        self,
        cross_moment: FloatArray,
        features: IntArray,
        next_states: IntArray,
        weights: FloatArray,
    ) -> None:
        """Count observed next states in place; shapes as in `Psi.accumulate_at`."""
        replica = np.arange(len(cross_moment))[:, None]
        np.add.at(cross_moment, (replica, features, next_states), weights)
