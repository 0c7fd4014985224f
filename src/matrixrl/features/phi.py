"""φ: features of state-action pairs.

Inside the library a pair (s, a) has the index a·S + s (action-major): the maximum over actions is then one
elementwise operation on contiguous memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from matrixrl.checks import integer, shaped
from matrixrl.features.psi import Psi
from matrixrl.linalg import DensePairs, DiagonalPairs, PairDesign
from matrixrl.records import FloatArray, IntArray

__all__ = ["OneHotPhi", "Phi", "TablePhi", "tensor_product"]


class Phi(ABC):
    """A feature map of state-action pairs; B replicas, S states, A actions, d features."""

    n_states: int
    n_actions: int
    d: int

    def pairs(self, states: IntArray, actions: IntArray) -> IntArray:
        """Return the pair index a·S + s, elementwise."""
        index: IntArray = np.asarray(actions, dtype=np.int64) * self.n_states + states
        return index

    @property
    @abstractmethod
    def table(self) -> FloatArray:
        """(S, A, d) the features of every pair."""

    @property
    @abstractmethod
    def max_norm_sq(self) -> float:
        """The largest squared norm of a feature vector."""

    @abstractmethod
    def design(self, n_replicas: int, ridge: float = 1.0) -> PairDesign:
        """Return A_1 = λI with the widths of all pairs."""

    @abstractmethod
    def dot(self, weights: FloatArray) -> FloatArray:
        """Return φ(s,a)ᵀw for all pairs: (B, d) → (B, A, S)."""

    @abstractmethod
    def rows(self, pairs: IntArray) -> FloatArray:
        """Return the features of some pairs: any shape → the same shape with d at the end."""

    @abstractmethod
    def accumulate(
        self,
        cross_moment: FloatArray,
        psi: Psi,
        pairs: IntArray,
        next_states: IntArray,
        weights: FloatArray,
    ) -> None:
        """Add Σ φψᵀ in place: cross_moment (B, d, d_psi); pairs, next_states, weights (B, k)."""

    @abstractmethod
    def smallest_design_eigenvalue(self) -> float:
        r"""Return \(\lambda_{\min}(\sum_p w_p \phi_p\phi_p^\top)\) for good weights w, on the span of φ."""


class TablePhi(Phi):
    """Features given as an array.

    Args:
        table: (S, A, d).

    >>> phi = TablePhi(np.ones((4, 2, 3)))
    >>> phi.d, phi.dot(np.ones((1, 3))).shape
    (3, (1, 2, 4))
    """

    def __init__(self, table: object) -> None:
        array = shaped("phi", table, (None, None, None), remedy="Give one vector of d numbers for each (s, a).")
        self.n_states, self.n_actions, self.d = array.shape
        self._rows = np.ascontiguousarray(array.transpose(1, 0, 2)).reshape(-1, self.d)

    @property
    def table(self) -> FloatArray:
        """(S, A, d) the features of every pair."""
        return self._rows.reshape(self.n_actions, self.n_states, self.d).transpose(1, 0, 2)

    @property
    def max_norm_sq(self) -> float:
        """The largest squared norm of a feature vector."""
        return float(np.einsum("pd,pd->p", self._rows, self._rows).max())

    def design(self, n_replicas: int, ridge: float = 1.0) -> PairDesign:
        """Return A_1 = λI with the widths of all pairs."""
        return DensePairs(self._rows, n_replicas, ridge=ridge)

    def dot(self, weights: FloatArray) -> FloatArray:
        """Return φ(s,a)ᵀw for all pairs: (B, d) → (B, A, S)."""
        return (weights @ self._rows.T).reshape(-1, self.n_actions, self.n_states)

    def rows(self, pairs: IntArray) -> FloatArray:
        """Return the features of some pairs."""
        return self._rows[pairs]

    def accumulate(
        self,
        cross_moment: FloatArray,
        psi: Psi,
        pairs: IntArray,
        next_states: IntArray,
        weights: FloatArray,
    ) -> None:
        """Add Σ φψᵀ in place."""
        psi.accumulate(cross_moment, self._rows[pairs] * weights[:, :, None], next_states)

    def smallest_design_eigenvalue(self) -> float:
        """Spread weights towards a D-optimal design; any weights are valid, better ones are tighter."""
        stride = max(1, len(self._rows) // 4096)  # a subset is a choice of weights too
        sample = self._rows[::stride]
        weights = np.full(len(sample), 1.0 / len(sample))
        best = 0.0
        for _ in range(20):
            moment = (sample * weights[:, None]).T @ sample
            eigenvalues, vectors = np.linalg.eigh(moment)
            keep = eigenvalues > eigenvalues[-1] * 1e-12
            best = max(best, float(eigenvalues[keep][0]))
            projected = sample @ (vectors[:, keep] / np.sqrt(eigenvalues[keep]))
            weights = weights * np.einsum("pd,pd->p", projected, projected)
            weights /= weights.sum()
        return best


class OneHotPhi(Phi):
    """One feature for each pair (d = S·A): the tabular case. Nothing of size d² is ever formed.

    >>> OneHotPhi(n_states=3, n_actions=2).d
    6
    """

    def __init__(self, n_states: int, n_actions: int) -> None:
        self.n_states = integer("n_states", n_states, low=1, remedy="Give the number of states.")
        self.n_actions = integer("n_actions", n_actions, low=1, remedy="Give the number of actions.")
        self.d = self.n_states * self.n_actions

    @property
    def table(self) -> FloatArray:
        """(S, A, d) the features of every pair."""
        return np.eye(self.d).reshape(self.n_actions, self.n_states, self.d).transpose(1, 0, 2)

    @property
    def max_norm_sq(self) -> float:
        """The largest squared norm of a feature vector."""
        return 1.0

    def design(self, n_replicas: int, ridge: float = 1.0) -> PairDesign:
        """Return A_1 = λI with the widths of all pairs."""
        return DiagonalPairs(self.d, n_replicas, ridge=ridge)

    def dot(self, weights: FloatArray) -> FloatArray:
        """Return φ(s,a)ᵀw for all pairs: (B, d) → (B, A, S)."""
        return weights.reshape(-1, self.n_actions, self.n_states)

    def rows(self, pairs: IntArray) -> FloatArray:
        """Return the features of some pairs."""
        chosen: FloatArray = (np.asarray(pairs)[..., None] == np.arange(self.d)).astype(np.float64)
        return chosen

    def accumulate(
        self,
        cross_moment: FloatArray,
        psi: Psi,
        pairs: IntArray,
        next_states: IntArray,
        weights: FloatArray,
    ) -> None:
        """Add Σ φψᵀ in place."""
        psi.accumulate_at(cross_moment, pairs, next_states, weights)

    def smallest_design_eigenvalue(self) -> float:
        """Uniform weights are the best there are."""
        return 1.0 / self.d


def tensor_product(state_features: object, action_features: object) -> TablePhi:
    """Return φ(s, a) = f(s) ⊗ g(a), of dimension d_f · d_g.

    Args:
        state_features: (S, d_f).
        action_features: (A, d_g); the identity gives every action its own copy of the state features.

    >>> tensor_product(np.ones((5, 3)), np.eye(2)).d
    6
    """
    f = shaped("state_features", state_features, (None, None), remedy="One row for each state.")
    g = shaped("action_features", action_features, (None, None), remedy="One row for each action.")
    product = np.einsum("si,aj->saij", f, g)
    return TablePhi(product.reshape(f.shape[0], g.shape[0], -1))
