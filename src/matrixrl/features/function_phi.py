"""φ given as a function of states: features of many pairs, computed where they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from matrixrl.checks import fail, integer, real_numbers
from matrixrl.features.phi import Blocks, Phi, TablePhi
from matrixrl.linalg import LearningDesign
from matrixrl.records import FloatArray, IntArray

__all__ = ["FunctionPhi"]

_CHUNK = 1 << 14  # states whose features are formed together
_SMALL_TABLE = 1 << 23  # numbers (64 megabytes): up to that many a table is kept once all pairs were asked for


class FunctionPhi(Phi):
    """Features of a finite but large state set, as a function; a table is kept only where it is small.

    Args:
        function: states (k,) → features (k, A, d).
        n_states: S.
        n_actions: A.

    >>> phi = FunctionPhi(lambda s: np.stack([s, 1.0 - s], axis=1)[:, :, None] + 1.0, n_states=10**6, n_actions=2)
    >>> phi.d, phi.at(np.array([0, 5])).shape
    (1, (2, 2, 1))
    """

    def __init__(self, function: Callable[[IntArray], FloatArray], n_states: int, n_actions: int) -> None:
        self.n_states = integer("n_states", n_states, low=1, remedy="Give the number of states.")
        self.n_actions = integer("n_actions", n_actions, low=1, remedy="Give the number of actions.")
        if not callable(function):
            fail("phi", "must be a function of states", type(function).__name__, "Or give an (S, A, d) array.")
        self._function = function
        self.d = 0
        self.d = self.at(np.zeros(1, dtype=np.int64)).shape[2]
        self.at(np.array([0, self.n_states - 1]))

    def at(self, states: IntArray) -> FloatArray:
        """Return the features of some states with every action: (k,) → (A, k, d)."""
        found = real_numbers(self._function(np.asarray(states)))
        wanted = (len(states), self.n_actions)
        if found.ndim != 3 or found.shape[:2] != wanted or found.shape[2] == 0 or self.d not in (0, found.shape[2]):
            rule = f"must map k states to real numbers of shape (k, {self.n_actions}, {self.d or 'd'})"
            received = f"shape {found.shape} for {len(states)} states"
            fail("phi", rule, received, "Return one vector for each state and action.")
        if not np.isfinite(found).all():
            fail("phi", "must be finite", "NaN or infinity", "Check the function.")
        return np.ascontiguousarray(found.transpose(1, 0, 2))

    def rows(self, pairs: IntArray) -> FloatArray:
        """Return the features of some pairs."""
        index = np.asarray(pairs)
        actions, states = np.divmod(index.ravel(), self.n_states)
        found = self.at(states)[actions, np.arange(len(states))]
        return found.reshape(*index.shape, self.d)

    def dot(self, weights: FloatArray) -> FloatArray:
        """Return φ(s,a)ᵀw for all pairs, in chunks of states where they are many: (B, d) → (B, A, S)."""
        if self.n_states * self.n_actions * self.d <= _SMALL_TABLE:
            return self._all.dot(weights)
        out = np.empty((len(weights), self.n_actions, self.n_states))
        for first in range(0, self.n_states, _CHUNK):
            states = np.arange(first, min(first + _CHUNK, self.n_states))
            out[:, :, states] = np.moveaxis(self.at(states) @ weights.T, 2, 0)
        return out

    @property
    def table(self) -> FloatArray:
        """(S, A, d) the features of every pair; S·A·d numbers."""
        return self._all.table

    @cached_property
    def _all(self) -> TablePhi:
        return TablePhi.of_states(self.at(np.arange(self.n_states)))

    @property
    def max_norm_sq(self) -> float:
        """The largest squared norm of a feature vector."""
        return self._all.max_norm_sq

    def design(self, n_replicas: int, ridge: float = 1.0) -> LearningDesign:
        """Return A_1 = λI with the widths of all pairs."""
        return self._all.design(n_replicas, ridge)

    def blocks(self) -> Blocks:
        """Return the connected components of "used by the same pair"."""
        return self._all.blocks()

    def smallest_design_eigenvalue(self) -> float:
        """Spread weights towards a D-optimal design."""
        return self._all.smallest_design_eigenvalue()
