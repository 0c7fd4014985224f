"""P as a mixture whose weights are a function and whose parts are sparse: for very many states."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from matrixrl.checks import fail
from matrixrl.features import Phi
from matrixrl.problems.transitions import Transitions
from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import PROBABILITY

__all__ = ["MixtureTransitions"]


class MixtureTransitions(Transitions):
    """P(s'|s,a) = Σ_k φ_k(s,a) F_k(s') with φ any feature map and F sparse; nothing of size S·A is kept.

    Args:
        phi: mixture weights, a distribution over d parts for every pair (checked for each pair that is used).
        parts: (d, S) scipy.sparse, each row a distribution over next states.

    >>> from matrixrl.features import TablePhi
    >>> t = MixtureTransitions(TablePhi([[[0.25, 0.75]], [[1.0, 0.0]]]), sparse.csr_array([[1.0, 0.0], [0.0, 1.0]]))
    >>> t.expect(np.array([[0.0, 4.0]]))
    array([[[3., 0.]]])
    """

    def __init__(self, phi: Phi, parts: sparse.sparray | sparse.spmatrix) -> None:
        csr = sparse.csr_array(parts, dtype=np.float64)
        if csr.shape != (phi.d, phi.n_states):
            fail(
                "parts", f"must have shape {(phi.d, phi.n_states)}", csr.shape, "Give one row for each feature of phi."
            )
        sums = np.asarray(csr.sum(axis=1)).ravel()
        if not np.isfinite(csr.data).all() or (csr.data < 0).any() or (np.abs(sums - 1.0) > PROBABILITY).any():
            fail(
                "parts", "must have rows that are distributions", f"sums {sums.min():g} … {sums.max():g}", "Normalise."
            )
        self.n_states, self.n_actions = phi.n_states, phi.n_actions
        self._phi, self._parts = phi, csr
        self._cdf = [np.cumsum(csr.data[csr.indptr[k] : csr.indptr[k + 1]]) for k in range(phi.d)]

    def expect(self, values: FloatArray) -> FloatArray:
        """Return E[V(s') | s, a] for all pairs, through the d parts."""
        return self._phi.dot(np.ascontiguousarray((self._parts @ values.T).T))

    def rows(self, states: IntArray, actions: IntArray) -> FloatArray:
        """Return P(·|s,a) for some pairs."""
        found: FloatArray = self._weights(states, actions) @ self._parts
        return found

    def sample(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> IntArray:
        """Return the next states that `uniforms` select."""
        running = np.cumsum(self._weights(states, actions), axis=1)
        running /= running[:, -1:]
        latent = (running <= uniforms[:, None]).sum(axis=1)
        following = np.empty(len(latent), dtype=np.int64)
        for i, k in enumerate(latent):
            # One uniform serves twice: what is left of it after choosing the part is uniform again.
            lower = running[i, k - 1] if k > 0 else 0.0
            left = (uniforms[i] - lower) / max(running[i, k] - lower, np.finfo(np.float64).tiny)
            cdf = self._cdf[k]
            place = min(int(np.searchsorted(cdf, left * cdf[-1], side="right")), len(cdf) - 1)
            following[i] = self._parts.indices[self._parts.indptr[k] + place]
        return following

    def _weights(self, states: IntArray, actions: IntArray) -> FloatArray:
        weights = self._phi.rows(self.pair_index(states, actions))
        if (weights < -PROBABILITY).any() or (np.abs(weights.sum(axis=1) - 1.0) > PROBABILITY).any():
            fail("phi", "must be a distribution over the parts", f"{weights.min():g} … {weights.max():g}", "Normalise.")
        return np.maximum(weights, 0.0)
