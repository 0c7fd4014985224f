"""Both feature maps of a problem: read from arrays, checked, and with the end state that they may leave out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from matrixrl.checks import fail, integer, shown
from matrixrl.display import Described
from matrixrl.features.phi import FunctionPhi, OneHotPhi, Phi, TablePhi
from matrixrl.features.psi import OneHotPsi, Psi, SparsePsi, TablePsi
from matrixrl.records import FloatArray, IntArray

__all__ = ["Features", "PhiWithEnd", "as_phi", "as_psi", "cover_end", "one_hot", "phi_with_end", "psi_with_end"]


@dataclass(frozen=True, repr=False)
class Features(Described):
    """Hold the two feature maps of the model P(s'|s,a) = φ(s,a)ᵀ M* ψ(s') (YW19, Assumption 1).

    Attributes:
        phi: Feature map of state-action pairs; an (S, A, d) array becomes one.
        psi: Feature map of next states; an (S, d_psi) array or scipy.sparse matrix becomes one.

    >>> features = one_hot(n_states=3, n_actions=2)
    >>> features.phi.d, features.psi.d_psi
    (6, 3)
    """

    phi: Phi
    psi: Psi

    def __post_init__(self) -> None:
        object.__setattr__(self, "phi", as_phi(self.phi, None))
        object.__setattr__(self, "psi", as_psi(self.psi, None))

    def _words(self) -> str:
        phi, psi = self.phi, self.psi
        return f"Features: d {phi.d:,} ({type(phi).__name__}), d' {psi.d_psi:,} ({type(psi).__name__})"

    def _facts(self) -> dict[str, object]:
        return {"φ of pairs": self.phi, "ψ of next states": self.psi}

    def cover(
        self, n_states: int, n_actions: int, end_state: int | None = None, end_words: str | None = None
    ) -> Features:
        """Return features of all S states and A actions, also from features that leave out the end state.

        Args:
            n_states: Number of states S, including the end state.
            n_actions: Number of actions A.
            end_state: Number of the end state, or None.
            end_words: The end state in words, for messages, if features may leave it out.

        Raises:
            InvalidInput: A feature map does not cover the problem; the message names it.
        """
        phi, psi = cover_end(self.phi, self.psi, n_states, end_state)
        states = (
            f"{n_states} states" if end_words is None else f"{n_states - 1} states (or {n_states} with {end_words})"
        )
        if phi.n_states != n_states or phi.n_actions != n_actions:
            received = f"{phi.n_states} states and {phi.n_actions} actions"
            fail("phi", f"must cover {states} and {n_actions} actions", received, "Give one vector for each pair.")
        if psi.n_states != n_states:
            fail("psi", f"must cover {states}", f"{psi.n_states} states", "Give one vector for each state.")
        return self if phi is self.phi and psi is self.psi else Features(phi, psi)


def one_hot(n_states: int, n_actions: int) -> Features:
    """Return the tabular features: one for each pair, and one for each next state.

    Args:
        n_states: Number of states S.
        n_actions: Number of actions A.
    """
    return Features(OneHotPhi(n_states, n_actions), OneHotPsi(n_states))


def as_phi(value: Any, default: Phi | None) -> Phi:
    """Return a feature map from a `Phi` or an (S, A, d) array; None gives the default, if there is one."""
    if value is None and default is not None:
        return default
    if isinstance(value, Phi):
        _check_counts("phi", value, ("n_states", "n_actions", "d"))
        return value
    _refuse_others("phi", value, Psi, wrong_axes=2)
    return TablePhi(value)


def as_psi(value: Any, default: Psi | None, *, pseudo: bool = False) -> Psi:
    """Return a feature map from a `Psi`, an (S, d_psi) array or sparse matrix; None gives the default, if any."""
    if value is None and default is not None:
        return default
    if sparse.issparse(value):
        return SparsePsi(value, pseudo=pseudo)
    if isinstance(value, Psi):
        _check_counts("psi", value, ("n_states", "d_psi"))
        return value
    _refuse_others("psi", value, Phi, wrong_axes=3)
    return TablePsi(value, pseudo=pseudo)


def _refuse_others(name: str, value: Any, other: type[Any], *, wrong_axes: int) -> None:
    """Refuse what is neither a feature map nor an array, and the map or the array of the other argument."""
    no_map = value is None or isinstance(value, (other, Features, type, str, bytes, dict))
    if no_map or (isinstance(value, np.ndarray) and value.ndim == wrong_axes):
        received = f"shape {value.shape}" if isinstance(value, np.ndarray) else shown(value)
        received = type(value).__name__ if isinstance(value, (other, Features)) else received
        remedy = "Check whether phi and psi are swapped: phi is a Phi or (S, A, d), psi is a Psi or (S, d_psi)."
        fail(name, "must be a feature map or an array", received, remedy)


def _check_counts(name: str, feature_map: Phi | Psi, counts: tuple[str, ...]) -> None:
    for count in counts:
        value = getattr(feature_map, count, None)
        integer(f"{name}.{count}", value, low=1, remedy="Set it in the class or in its __init__.")


_PROBES = 16  # states at which the length of a user's own φ is measured


# The end state has a feature of its own in φ and in ψ. Its law is known, since it leads to itself, and no step is ever
# learned from it, so the features of all other states keep their meaning (docs/proofs.md, section 5).


def cover_end(phi: Phi, psi: Psi, n_states: int, end_state: int | None) -> tuple[Phi, Psi]:
    """Return φ and ψ of all S states; a map may have left out the end state if it is the last one.

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
    if type(psi) is SparsePsi:
        return SparsePsi(sparse.block_diag([psi.matrix, [[1.0 / psi.constants.dual_norm]]]), pseudo=psi.pseudo)
    table = np.zeros((psi.n_states + 1, psi.d_psi + 1))
    table[:-1, :-1] = psi.table
    table[-1, -1] = 1.0 / psi.constants.dual_norm
    kind = TablePsi if type(psi) is TablePsi else PsiWithEnd
    return kind(table, pseudo=psi.pseudo, left_out=psi.left_out)


class PsiWithEnd(TablePsi):
    """A user's own ψ with one more state; a file has only its answers, as those of other maps of users."""


class PhiWithEnd(FunctionPhi):
    """A user's own φ, or a function, with one more state.

    Args:
        inner: φ of the other states.
    """

    def __init__(self, inner: Phi) -> None:
        probes = inner.at(np.linspace(0, inner.n_states - 1, min(_PROBES, inner.n_states)).astype(np.int64))
        length = float(np.sqrt(np.einsum("akd,akd->ak", probes, probes).max())) or 1.0

        def function(states: IntArray) -> FloatArray:
            others = states < inner.n_states
            found = np.zeros((len(states), inner.n_actions, inner.d + 1))
            found[others, :, :-1] = inner.at(states[others]).transpose(1, 0, 2)
            found[~others, :, -1] = length
            return found

        super().__init__(function, inner.n_states + 1, inner.n_actions)
        self.left_out = inner.left_out
