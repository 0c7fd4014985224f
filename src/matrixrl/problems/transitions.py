"""Define the interface of a transition law P(s'|s,a).

A law computes the expected value of the next state for all pairs at once, and the next state that a uniform number
selects. Pairs are action-major, as in `matrixrl.features.Phi`: the pair (s, a) has the index a·S + s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["Successors", "Transitions"]


@dataclass(frozen=True)
class Successors:
    """List the possible next states of every pair, one list after the other.

    Lists are in the order of the states: that of the pair (s, a) is number s·A + a.

    Attributes:
        firsts: Position of the first entry of each list, and the number of entries E, shape (P + 1,).
        states: Possible next states, ascending in each list, shape (E,).
        chance: Their probabilities, shape (E,).
        cdf: Cumulative probabilities that `Transitions.sample` compares uniform numbers with, shape (E,).
    """

    firsts: IntArray
    states: IntArray
    chance: FloatArray
    cdf: FloatArray

    @property
    def most(self) -> int:
        """Largest number of next states of a pair."""
        return int(np.diff(self.firsts).max())

    def contain(self, lists: IntArray, states: IntArray) -> BoolArray:
        """Return whether states are in lists, elementwise; arrays of shape (k,)."""
        n_states = np.int64(1 + max(int(self.states.max()), int(states.max(initial=0))))
        codes = np.repeat(np.arange(len(self.firsts) - 1), np.diff(self.firsts)) * n_states + self.states
        wanted = np.asarray(lists, dtype=np.int64) * n_states + states
        places = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        found: BoolArray = codes[places] == wanted
        return found


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

    def chance(self, states: IntArray, actions: IntArray, next_states: IntArray) -> FloatArray:
        """Return P(s'|s,a) for k pairs and next states; all arrays have shape (k,)."""
        chosen: FloatArray = self.rows(states, actions)[np.arange(len(states)), next_states]
        return chosen

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
