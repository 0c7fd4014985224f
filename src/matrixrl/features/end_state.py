"""Features of the end state, which the library adds to features that leave it out.

The end state has a feature of its own in φ and in ψ. Its law is known, since it leads to itself, and no step is ever
learned from it, so the features of all other states keep their meaning (docs/proofs.md, section 5).
"""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from matrixrl.features.one_hot import OneHotPhi, OneHotPsi
from matrixrl.features.phi import Phi
from matrixrl.features.psi import Psi
from matrixrl.features.sparse_psi import SparsePsi
from matrixrl.features.table_phi import TablePhi
from matrixrl.features.table_psi import TablePsi
from matrixrl.records import FloatArray, IntArray

__all__ = ["PhiWithEnd", "PsiWithEnd", "cover_end", "phi_with_end", "psi_with_end"]

_PROBES = 16  # states at which the length of a user's own φ is measured


def cover_end(phi: Phi, psi: Psi, n_states: int, end_state: int | None) -> tuple[Phi, Psi]:
    """Return φ and ψ of all S states, of which a map may have left out the last one if it is the end state.

    Args:
        phi: Features of pairs of S or S − 1 states.
        psi: Features of S or S − 1 next states.
        n_states: Number of states S, including the end state.
        end_state: Number of the end state; nothing is added unless it is the last one.

    >>> phi, psi = cover_end(TablePhi(np.ones((2, 1, 1))), OneHotPsi(3), n_states=3, end_state=2)
    >>> phi.table[:, 0]
    array([[1., 0.],
           [1., 0.],
           [0., 1.]])
    """
    if end_state is not None and end_state == n_states - 1:
        phi = phi_with_end(phi) if phi.n_states == end_state else phi
        psi = psi_with_end(psi) if psi.n_states == end_state else psi
    return phi, psi


def phi_with_end(phi: Phi) -> Phi:
    """Return φ with one more state, whose pairs share a feature that no other pair has.

    The feature is as long as the longest φ, so that no constant of the features depends on it. One-hot pairs stay
    one-hot pairs.
    """
    if type(phi) is OneHotPhi:
        return OneHotPhi(phi.n_states + 1, phi.n_actions)
    if type(phi) is TablePhi:
        table = np.zeros((phi.n_states + 1, phi.n_actions, phi.d + 1))
        table[:-1, :, :-1] = phi.table
        table[-1, :, -1] = math.sqrt(phi.max_norm_sq)
        return TablePhi(table, left_out=phi.left_out)
    return PhiWithEnd(phi)


def psi_with_end(psi: Psi) -> Psi:
    """Return ψ with one more state, which has a feature that no other state has.

    The feature has the length 1/C_ψ': then K_ψ⁻¹ψ of the end state is as long as the longest one of the other states.
    """
    if type(psi) is OneHotPsi:
        return OneHotPsi(psi.n_states + 1)
    length = 1.0 / psi.dual_norm
    if type(psi) is SparsePsi:
        return SparsePsi(sparse.block_diag([psi.matrix, [[length]]]), pseudo=psi.pseudo)
    if type(psi) is TablePsi and psi.weighted is psi.table:
        table = np.zeros((psi.n_states + 1, psi.d_psi + 1))
        table[:-1, :-1] = psi.table
        table[-1, -1] = length
        return TablePsi(table, pseudo=psi.pseudo, left_out=psi.left_out)
    return PsiWithEnd(psi)


class PhiWithEnd(Phi):
    """A user's own φ, or a function, with one more state.

    Args:
        inner: φ of the other states.
    """

    def __init__(self, inner: Phi) -> None:
        self.inner = inner
        self.n_states, self.n_actions, self.d = inner.n_states + 1, inner.n_actions, inner.d + 1
        self.left_out = inner.left_out
        probes = inner.at(np.linspace(0, inner.n_states - 1, min(_PROBES, inner.n_states)).astype(np.int64))
        self._length = float(np.sqrt(np.einsum("akd,akd->ak", probes, probes).max())) or 1.0

    def rows(self, pairs: IntArray) -> FloatArray:
        """Return the features of some pairs: indices of any shape → the same shape with d at the end."""
        states, actions = self.states_and_actions(pairs)
        others = states < self.inner.n_states
        found = np.zeros((*states.shape, self.d))
        found[others, :-1] = self.inner.rows(self.inner.pairs(states[others], actions[others]))
        found[~others, -1] = self._length
        return found

    def at(self, states: IntArray) -> FloatArray:
        """Return the features of some states with every action: (k,) → (A, k, d)."""
        index = np.asarray(states)
        others = index < self.inner.n_states
        found = np.zeros((self.n_actions, len(index), self.d))
        found[:, others, :-1] = self.inner.at(index[others])
        found[:, ~others, -1] = self._length
        return found

    def dot(self, weights: FloatArray) -> FloatArray:
        """Return φ(s,a)ᵀw for all pairs: (B, d) → (B, A, S)."""
        found = np.empty((len(weights), self.n_actions, self.n_states))
        found[:, :, :-1] = self.inner.dot(np.ascontiguousarray(weights[:, :-1]))
        found[:, :, -1] = self._length * weights[:, -1:]
        return found


class PsiWithEnd(Psi):
    """A user's own ψ with one more state.

    Args:
        inner: ψ of the other states.
    """

    def __init__(self, inner: Psi) -> None:
        self.inner, self.pseudo = inner, inner.pseudo
        self.n_states, self.d_psi = inner.n_states + 1, inner.d_psi + 1
        self._length = 1.0 / inner.dual_norm

    def rows(self, states: IntArray) -> FloatArray:
        """Return the features of some states: indices of any shape → the same shape with d_psi at the end."""
        index = np.asarray(states)
        others = index < self.inner.n_states
        found = np.zeros((*index.shape, self.d_psi))
        found[others, :-1] = self.inner.rows(index[others])
        found[~others, -1] = self._length
        return found

    @property
    def left_out(self) -> str | None:
        """Part of the given features that these features leave out, in words; None if they leave out nothing."""
        return self.inner.left_out or super().left_out

    def project(self, values: FloatArray) -> FloatArray:
        """Return v = ΨᵀV: (B, S) → (B, d_psi)."""
        return np.concatenate([self.inner.project(values[:, :-1]), self._length * values[:, -1:]], axis=1)
