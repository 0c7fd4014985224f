"""Define the interface of a transition law P(s'|s,a).

A law computes the expected value of the next state for all pairs at once, and the next state that a uniform number
selects. Pairs are action-major, as in `matrixrl.features.Phi`: the pair (s, a) has the index a·S + s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from matrixrl.records import FloatArray, IntArray

__all__ = ["Successors", "Transitions"]


@dataclass(frozen=True)
class Successors:
    """List the possible next states of every pair, padded to the largest number K of them.

    Attributes:
        states: Possible next states, shape (P, K); 0 in the padding.
        chance: Their probabilities, shape (P, K); 0 in the padding.
        cdf: Cumulative probabilities that `Transitions.sample` compares uniform numbers with, shape (P, K); 1 in the
            padding.
    """

    states: IntArray
    chance: FloatArray
    cdf: FloatArray


class Transitions(ABC):
    """Base class of transition laws P of S states and A actions.

    Attributes:
        n_states: Number of states S.
        n_actions: Number of actions A.
    """

    n_states: int
    n_actions: int

    @abstractmethod
    def expect(self, values: FloatArray) -> FloatArray:
        """Return E[V(s') | s, a] for all pairs: values of shape (B, S) → (B, A, S)."""

    @abstractmethod
    def rows(self, states: IntArray, actions: IntArray) -> FloatArray:
        """Return P(·|s,a) for k pairs: states (k,), actions (k,) → (k, S)."""

    @abstractmethod
    def sample(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> IntArray:
        """Return the next states that uniform numbers in [0, 1) select; all arrays have shape (k,)."""

    def most_successors(self) -> int | None:
        """Return the largest number of possible next states of a pair, or None if they are not listed."""
        return None

    def successors(self) -> Successors | None:
        """Return the possible next states of every pair, or None if they are not listed."""
        return None

    def pair_index(self, states: IntArray, actions: IntArray) -> IntArray:
        """Return the pair index a·S + s, elementwise."""
        index: IntArray = np.asarray(actions, dtype=np.int64) * self.n_states + states
        return index
