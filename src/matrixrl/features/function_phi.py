"""Features φ computed by a function of states."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from matrixrl.checks import fail, integer, real_numbers
from matrixrl.checks import function as check_function
from matrixrl.features.phi import Phi
from matrixrl.records import FloatArray, IntArray

__all__ = ["FunctionPhi"]

_CHUNK = 1 << 14  # number of states whose features are formed together
_SMALL_TABLE = 1 << 23  # largest number of features (64 megabytes) that `dot` stores


class FunctionPhi(Phi):
    """Feature map of a large finite state set, given as a function.

    Features are computed for the pairs that are used. The features of all pairs are stored only if they are few, or if
    a method other than `rows`, `at` and `dot` needs them.

    Args:
        function: Function that maps states (k,) to features (k, A, d).
        n_states: Number of states S.
        n_actions: Number of actions A.

    Raises:
        InvalidInput: The function returns another shape, or numbers that are not finite.

    >>> phi = FunctionPhi(lambda s: np.stack([s, 1.0 - s], axis=1)[:, :, None] + 1.0, n_states=10**6, n_actions=2)
    >>> phi.d, phi.at(np.array([0, 5])).shape
    (1, (2, 2, 1))
    """

    def __init__(self, function: Callable[[IntArray], FloatArray], n_states: int, n_actions: int) -> None:
        self.n_states = integer("n_states", n_states, low=1, remedy="Give the number of states.")
        self.n_actions = integer("n_actions", n_actions, low=1, remedy="Give the number of actions.")
        self._function = check_function("phi", function, of=1, remedy="Or give an (S, A, d) array.")
        self.d = 0  # unknown until the first call
        self.d = self.at(np.zeros(1, dtype=np.int64)).shape[2]
        self.at(np.array([0, self.n_states - 1]))

    def at(self, states: IntArray) -> FloatArray:
        """Return the features of some states with every action: (k,) → (A, k, d)."""
        return np.ascontiguousarray(self._by_state(states).transpose(1, 0, 2))

    def _by_state(self, states: IntArray) -> FloatArray:
        """Return the checked features of some states with every action: (k,) → (k, A, d)."""
        found = real_numbers(self._function(np.asarray(states)))
        wanted = (len(states), self.n_actions)
        if found.ndim != 3 or found.shape[:2] != wanted or found.shape[2] == 0 or self.d not in (0, found.shape[2]):
            rule = f"must map k states to real numbers of shape (k, {self.n_actions}, {self.d or 'd'})"
            received = f"shape {found.shape} for {len(states)} states"
            fail("phi", rule, received, "Return one vector for each state and action.")
        if not np.isfinite(found).all():
            fail("phi", "must be finite", "NaN or infinity", "Check the function.")
        return found

    def rows(self, pairs: IntArray) -> FloatArray:
        """Return the features of some pairs: indices of any shape → the same shape with d at the end."""
        index = np.asarray(pairs)
        states, actions = self.states_and_actions(index.ravel())
        found = self._by_state(states)[np.arange(len(states)), actions]
        return found.reshape(*index.shape, self.d)

    @cached_property
    def flat(self) -> FloatArray:
        """Features of all pairs, shape (S·A, d), action-major."""
        return self.at(np.arange(self.n_states)).reshape(-1, self.d)

    def dot(self, weights: FloatArray) -> FloatArray:
        """Return φ(s,a)ᵀw for all pairs, in chunks of states if they are many: (B, d) → (B, A, S)."""
        if self.n_states * self.n_actions * self.d <= _SMALL_TABLE:
            return super().dot(weights)
        out = np.empty((len(weights), self.n_actions, self.n_states))
        for first in range(0, self.n_states, _CHUNK):
            states = np.arange(first, min(first + _CHUNK, self.n_states))
            out[:, :, states] = np.moveaxis(self.at(states) @ weights.T, 2, 0)
        return out
