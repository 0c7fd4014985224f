"""Define the interface of feature maps φ(s, a) of state-action pairs.

Pairs are action-major: the pair (s, a) has the index a·S + s. The maximum over actions is then one elementwise
operation on contiguous memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from matrixrl.checks import shaped
from matrixrl.features.blocks import Blocks, design_eigenvalue, find_blocks
from matrixrl.features.psi import Psi
from matrixrl.html_tables import Described
from matrixrl.linalg import DensePairs, LearningDesign, exact_rank, span_of
from matrixrl.records import FloatArray, IntArray

__all__ = ["Phi"]


class Phi(Described, ABC):
    """Base class of feature maps of state-action pairs.

    A subclass sets `n_states`, `n_actions` and `d`, and implements `rows`. All other methods have defaults that form
    the features of all pairs once, S·A·d numbers; override them where the features have more structure.

    Attributes:
        n_states: Number of states S.
        n_actions: Number of actions A.
        d: Number of features.
        left_out: What the features leave out of the kernel that they were computed from, in words; None if nothing.
            Nothing is proven if P may need it.

    >>> class Angles(Phi):
    ...     n_states, n_actions, d = 8, 2, 4
    ...
    ...     def rows(self, pairs):
    ...         states, actions = self.states_and_actions(pairs)
    ...         angle = 2.0 * np.pi * states / self.n_states
    ...         pair = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    ...         return np.concatenate([pair * (actions == a)[..., None] for a in range(2)], axis=-1)
    >>> Angles().dot(np.ones((1, 4))).shape
    (1, 2, 8)
    >>> Angles().blocks().count
    2
    """

    n_states: int
    n_actions: int
    d: int
    left_out: str | None = None

    @abstractmethod
    def rows(self, pairs: IntArray) -> FloatArray:
        """Return the features of some pairs: indices of any shape → the same shape with d at the end."""

    def _words(self) -> str:
        return f"{type(self).__name__}: {self.n_states:,} states, {self.n_actions:,} actions, d {self.d:,}"

    def pairs(self, states: IntArray, actions: IntArray) -> IntArray:
        """Return the pair index a·S + s, elementwise."""
        index: IntArray = np.asarray(actions, dtype=np.int64) * self.n_states + states
        return index

    def states_and_actions(self, pairs: IntArray) -> tuple[IntArray, IntArray]:
        """Return the states and the actions of some pairs, elementwise."""
        actions, states = np.divmod(np.asarray(pairs), self.n_states)
        return states, actions

    def at(self, states: IntArray) -> FloatArray:
        """Return the features of some states with every action: (k,) → (A, k, d)."""
        return self.rows(self.pairs(np.asarray(states)[None, :], np.arange(self.n_actions)[:, None]))

    @cached_property
    def flat(self) -> FloatArray:
        """Features of all pairs, shape (S·A, d), action-major."""
        n_pairs = self.n_states * self.n_actions
        remedy = "Return one row of d numbers for each pair."
        return shaped("phi.rows", self.rows(np.arange(n_pairs)), (n_pairs, self.d), remedy=remedy)

    @property
    def table(self) -> FloatArray:
        """Features of all pairs, shape (S, A, d)."""
        return self.flat.reshape(self.n_actions, self.n_states, self.d).transpose(1, 0, 2)

    @property
    def max_norm_sq(self) -> float:
        """Largest squared norm of a feature vector."""
        return float(np.einsum("pd,pd->p", self.flat, self.flat).max())

    def dot(self, weights: FloatArray) -> FloatArray:
        """Return φ(s,a)ᵀw for all pairs: (B, d) → (B, A, S)."""
        return (weights @ self.flat.T).reshape(-1, self.n_actions, self.n_states)

    def design(self, n_replicas: int, ridge: float = 1.0) -> LearningDesign:
        """Return A_1 = λI of B replicas with the widths of all pairs.

        Args:
            n_replicas: Number of replicas B.
            ridge: Regularisation λ.
        """
        return DensePairs(self.flat, n_replicas, ridge=ridge)

    def accumulate(
        self,
        cross_moment: FloatArray,
        psi: Psi,
        pairs: IntArray,
        next_states: IntArray,
        weights: FloatArray,
    ) -> None:
        """Add Σ φψᵀ of visited pairs in place.

        Args:
            cross_moment: Sum to add to, shape (B, d, d_psi).
            psi: Feature map of next states.
            pairs: Visited pairs, shape (B, k).
            next_states: Their next states, shape (B, k).
            weights: Factor of each step, shape (B, k); 0 for a step that was not taken.
        """
        psi.accumulate(cross_moment, self.rows(pairs) * weights[:, :, None], next_states)

    def accumulate_rewards(self, moment: FloatArray, pairs: IntArray, rewards: FloatArray) -> None:
        """Add Σ φr in place: moment (B, d), pairs (B, k), rewards (B, k)."""
        moment += np.einsum("bkd,bk->bd", self.rows(pairs), rewards)

    def blocks(self) -> Blocks:
        """Return the finest blocks of features such that every pair uses features of one block only."""
        return self._blocks

    @cached_property
    def _blocks(self) -> Blocks:
        return find_blocks(self.flat)

    @cached_property
    def _design_eigenvalue(self) -> float:
        blocks = self._blocks
        return float(blocks.eigenvalues[0]) if blocks.count == 1 else design_eigenvalue(self.flat)

    def smallest_design_eigenvalue(self) -> float:
        r"""Return \(\lambda_{\min}(\sum_p w_p \phi_p\phi_p^\top)\) for good weights w, on the span of φ."""
        return self._design_eigenvalue

    @cached_property
    def too_small(self) -> str | None:
        """How many directions of φ the bound on M* leaves out although they are not zero, in words; None if none.

        Linearly dependent features have fewer directions than features, and nothing is left out.
        """
        kept = span_of(self.flat).rank if self.flat.any() else 0
        if kept == min(self.flat.shape):
            return None
        dropped = exact_rank(self.flat) - kept
        if dropped <= 0:
            return None
        return (
            f"phi is nearly dependent: {dropped} of its {kept + dropped} directions are as small as rounding errors "
            "and were left out of the bound on M*, and P may need them. Give all features one scale, and drop those "
            "that are combinations of others"
        )
