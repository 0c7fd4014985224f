"""φ: features of state-action pairs.

Inside the library a pair (s, a) has the index a·S + s (action-major): the maximum over actions is then one
elementwise operation on contiguous memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from matrixrl.checks import fail, integer, shaped
from matrixrl.features.psi import Psi
from matrixrl.linalg import DensePairs, DiagonalPairs, LearningDesign
from matrixrl.records import FloatArray, IntArray

__all__ = ["Blocks", "OneHotPhi", "Phi", "TablePhi", "tensor_product"]


_SPAN = 1e-14  # eigenvalues below this share of the largest are rounding, not directions


@dataclass(frozen=True)
class Blocks:
    """Features that fall into groups which no pair mixes: independent estimation problems (design 4.7).

    Attributes:
        pair_block: (P,) the block of each pair.
        members: for each block, the features in it.
        eigenvalues: (K,) for each block, λ_min of a weighted Σ φφᵀ of its pairs.
        one_pair_each: whether every block is a single one-hot pair.
    """

    pair_block: IntArray
    members: list[IntArray]
    eigenvalues: FloatArray
    one_pair_each: bool

    @property
    def count(self) -> int:
        """K."""
        return len(self.members)


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
    def design(self, n_replicas: int, ridge: float = 1.0) -> LearningDesign:
        """Return A_1 = λI with the widths of all pairs."""

    @abstractmethod
    def dot(self, weights: FloatArray) -> FloatArray:
        """Return φ(s,a)ᵀw for all pairs: (B, d) → (B, A, S)."""

    @abstractmethod
    def rows(self, pairs: IntArray) -> FloatArray:
        """Return the features of some pairs: any shape → the same shape with d at the end."""

    def at(self, states: IntArray) -> FloatArray:
        """Return the features of some states with every action: (k,) → (A, k, d)."""
        return self.rows(self.pairs(np.asarray(states)[None, :], np.arange(self.n_actions)[:, None]))

    def accumulate(
        self,
        cross_moment: FloatArray,
        psi: Psi,
        pairs: IntArray,
        next_states: IntArray,
        weights: FloatArray,
    ) -> None:
        """Add Σ φψᵀ in place: cross_moment (B, d, d_psi); pairs, next_states, weights (B, k)."""
        psi.accumulate(cross_moment, self.rows(pairs) * weights[:, :, None], next_states)

    def accumulate_rewards(self, moment: FloatArray, pairs: IntArray, rewards: FloatArray) -> None:
        """Add Σ φr in place: moment (B, d); pairs and rewards (B, k)."""
        moment += np.einsum("bkd,bk->bd", self.rows(pairs), rewards)

    @abstractmethod
    def blocks(self) -> Blocks:
        """Return the finest partition of features such that every pair uses features of one block only."""

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
        largest = np.abs(array).max()
        if not 1e-100 < largest < 1e100:
            fail("phi", "must have a largest entry between 1e-100 and 1e100", f"{largest:.3g}", "Rescale it.")
        self._rows = np.ascontiguousarray(array.transpose(1, 0, 2)).reshape(-1, self.d)

    @classmethod
    def of_states(cls, features: FloatArray) -> TablePhi:
        """Return the map of the few states whose features (A, k, d) are given; they were checked before."""
        phi = cls.__new__(cls)
        phi.n_actions, phi.n_states, phi.d = features.shape
        phi._rows = features.reshape(-1, phi.d)
        return phi

    @cached_property
    def feature_rows(self) -> FloatArray:
        """(d, P) the features of all pairs, each feature in one piece of memory."""
        return np.ascontiguousarray(self._rows.T)

    @property
    def flat(self) -> FloatArray:
        """(P, d) the features of all pairs, action-major."""
        return self._rows

    @property
    def table(self) -> FloatArray:
        """(S, A, d) the features of every pair."""
        return self._rows.reshape(self.n_actions, self.n_states, self.d).transpose(1, 0, 2)

    @property
    def max_norm_sq(self) -> float:
        """The largest squared norm of a feature vector."""
        return float(np.einsum("pd,pd->p", self._rows, self._rows).max())

    def design(self, n_replicas: int, ridge: float = 1.0) -> LearningDesign:
        """Return A_1 = λI with the widths of all pairs."""
        return DensePairs(self._rows, n_replicas, ridge=ridge)

    def dot(self, weights: FloatArray) -> FloatArray:
        """Return φ(s,a)ᵀw for all pairs: (B, d) → (B, A, S)."""
        return (weights @ self._rows.T).reshape(-1, self.n_actions, self.n_states)

    def rows(self, pairs: IntArray) -> FloatArray:
        """Return the features of some pairs."""
        return self._rows[pairs]

    def blocks(self) -> Blocks:
        """Return the connected components of "used by the same pair"."""
        used = sparse.csr_array(self._rows != 0.0)
        n_pairs = len(self._rows)
        graph = sparse.block_array([[None, used], [used.T, None]])
        labels = csgraph.connected_components(graph, directed=False)[1]
        feature_labels = labels[n_pairs:]
        names, feature_block = np.unique(feature_labels, return_inverse=True)
        # A pair whose features are all zero has width 0: any block will do.
        pair_block = np.searchsorted(names, labels[:n_pairs]).clip(0, len(names) - 1)
        members = [np.flatnonzero(feature_block == k) for k in range(len(names))]
        eigenvalues = [_design_eigenvalue(self._rows[pair_block == k][:, m]) for k, m in enumerate(members)]
        return Blocks(pair_block, members, np.array(eigenvalues), one_pair_each=False)

    def smallest_design_eigenvalue(self) -> float:
        """Spread weights towards a D-optimal design; any weights are valid, better ones are tighter."""
        return _design_eigenvalue(self._rows)


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

    def design(self, n_replicas: int, ridge: float = 1.0) -> LearningDesign:
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

    def accumulate_rewards(self, moment: FloatArray, pairs: IntArray, rewards: FloatArray) -> None:
        """Add Σ φr in place."""
        np.add.at(moment, (np.arange(len(moment))[:, None], pairs), rewards)

    def blocks(self) -> Blocks:
        """Return one block for each pair."""
        index = np.arange(self.d)
        return Blocks(index, list(index[:, None]), np.ones(self.d), one_pair_each=True)

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


def _design_eigenvalue(rows: FloatArray) -> float:
    """Return λ_min of Σ w φφᵀ on the span of φ, for weights a few steps towards a D-optimal design.

    Weights that lose a direction of the span say nothing about it and do not count.
    """
    if not rows.any():
        return 1.0  # no pair uses these features, so nothing is ever said of them
    spectrum = np.linalg.eigvalsh(rows.T @ rows) / len(rows)
    spanned = spectrum > spectrum[-1] * _SPAN
    best = float(spectrum[spanned][0])  # uniform weights
    stride = max(1, len(rows) // 4096)  # a subset is a choice of weights too
    sample = rows[::stride]
    weights = np.full(len(sample), 1.0 / len(sample))
    for _ in range(20):
        moment = (sample * weights[:, None]).T @ sample
        eigenvalues, vectors = np.linalg.eigh(moment)
        keep = eigenvalues > eigenvalues[-1] * _SPAN
        if keep.sum() < spanned.sum():
            break
        best = max(best, float(eigenvalues[keep][0]))
        projected = sample @ (vectors[:, keep] / np.sqrt(eigenvalues[keep]))
        weights = weights * np.einsum("pd,pd->p", projected, projected)
        weights /= weights.sum()
    return best
