"""Combine φ and ψ of one problem, and read them from arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from matrixrl.checks import fail, flag, integer, shown
from matrixrl.features.end_state import cover_end
from matrixrl.features.one_hot import OneHotPhi, OneHotPsi
from matrixrl.features.phi import Phi
from matrixrl.features.psi import Psi
from matrixrl.features.sparse_psi import SparsePsi
from matrixrl.features.table_phi import TablePhi
from matrixrl.features.table_psi import TablePsi
from matrixrl.html_tables import Described

__all__ = ["Features", "as_phi", "as_psi", "check_sizes", "one_hot"]


@dataclass(frozen=True, repr=False)
class Features(Described):
    """Hold the two feature maps of the model P(s'|s,a) = φ(s,a)ᵀ M* ψ(s') (YW19, Assumption 1).

    Attributes:
        phi: Feature map of state-action pairs; an (S, A, d) array becomes one.
        psi: Feature map of next states; an (S, d_psi) array or scipy.sparse matrix becomes one.
        same_states: Whether both cover the same states, which is then checked; False for φ at a few queried states.

    >>> features = one_hot(n_states=3, n_actions=2)
    >>> features.phi.d, features.psi.d_psi
    (6, 3)
    """

    phi: Phi
    psi: Psi
    same_states: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "phi", as_phi(self.phi, None))
        object.__setattr__(self, "psi", as_psi(self.psi, None))
        if self.same_states and self.phi.n_states != self.psi.n_states:
            fail(
                "psi",
                f"must have one row for each of the {self.phi.n_states} states of phi",
                f"{self.psi.n_states} rows",
                "Give phi and psi for the same states.",
            )

    def _words(self) -> str:
        phi, psi = self.phi, self.psi
        return f"Features: d {phi.d:,} ({type(phi).__name__}), d' {psi.d_psi:,} ({type(psi).__name__})"

    def _facts(self) -> dict[str, object]:
        return {"φ of pairs": self.phi, "ψ of next states": self.psi}

    def check(self, n_states: int, n_actions: int) -> Features:
        """Return the features if they cover a problem of S states and A actions; raise InvalidInput otherwise."""
        check_sizes(self.phi, self.psi, n_states, n_actions)
        return self

    def cover(self, n_states: int, n_actions: int, end_state: int | None, end_words: str | None) -> Features:
        """Return features of all S states and A actions, also from features that leave out the end state.

        Args:
            n_states: Number of states S, including the end state.
            n_actions: Number of actions A.
            end_state: Number of the end state, or None.
            end_words: The end state in words, for messages.

        Raises:
            InvalidInput: A feature map does not cover the problem; the message names it.
        """
        phi, psi = cover_end(self.phi, self.psi, n_states, end_state)
        check_sizes(phi, psi, n_states, n_actions, end_words)
        return self if phi is self.phi and psi is self.psi else Features(phi, psi)


def one_hot(n_states: int, n_actions: int) -> Features:
    """Return the tabular features: one for each pair, and one for each next state.

    Args:
        n_states: Number of states S.
        n_actions: Number of actions A.
    """
    return Features(OneHotPhi(n_states, n_actions), OneHotPsi(n_states))


def check_sizes(phi: Phi, psi: Psi, n_states: int, n_actions: int, end_words: str | None = None) -> None:
    """Raise InvalidInput, naming the feature map, if one does not cover a problem of S states and A actions.

    Args:
        phi: Features of pairs.
        psi: Features of next states.
        n_states: Number of states S, including the end state.
        n_actions: Number of actions A.
        end_words: The end state in words, if there is one that features may leave out.
    """
    states = f"{n_states} states" if end_words is None else f"{n_states - 1} states (or {n_states} with {end_words})"
    least = n_states if end_words is None else n_states - 1
    if phi.n_states != n_states or phi.n_actions != n_actions:
        fail(
            "phi",
            f"must cover {states} and {n_actions} actions",
            f"{phi.n_states} states and {phi.n_actions} actions",
            f"Give phi of shape ({least}, {n_actions}, d).",
        )
    if psi.n_states != n_states:
        fail("psi", f"must cover {states}", f"{psi.n_states} states", f"Give psi of shape ({least}, d_psi).")


def as_phi(value: Any, default: Phi | None) -> Phi:
    """Return a feature map from a `Phi`, an (S, A, d) array, or None for the default.

    Args:
        value: What was given.
        default: Feature map if nothing was given; None if something must be given.
    """
    if value is None and default is not None:
        return default
    if isinstance(value, Phi):
        _check_counts("phi", value, ("n_states", "n_actions", "d"))
        return value
    _refuse_others("phi", value)
    if isinstance(value, Psi):
        fail("phi", "must be features of state-action pairs", f"{type(value).__name__}, of next states", _SWAP)
    if _axes(value) == 2:
        fail("phi", "must have shape (S, A, d)", f"shape {np.shape(value)}, that of psi", _SWAP)
    return TablePhi(value)


def as_psi(value: Any, default: Psi | None, *, pseudo: bool = False) -> Psi:
    """Return a feature map from a `Psi`, an (S, d_psi) array or scipy.sparse matrix, or None for the default.

    Args:
        value: What was given.
        default: Feature map if nothing was given; None if something must be given.
        pseudo: Whether linearly dependent columns of an array are accepted.
    """
    flag("psi_pinv", pseudo)
    if value is None and default is not None:
        return default
    if sparse.issparse(value):
        return SparsePsi(value, pseudo=pseudo)
    if isinstance(value, Psi):
        _check_counts("psi", value, ("n_states", "d_psi"))
        return value
    _refuse_others("psi", value)
    if isinstance(value, Phi):
        fail("psi", "must be features of next states", f"{type(value).__name__}, of state-action pairs", _SWAP)
    if _axes(value) == 3:
        fail("psi", "must have shape (S, d_psi)", f"shape {np.shape(value)}, that of phi", _SWAP)
    return TablePsi(value, pseudo=pseudo)


_SWAP = "Check whether phi and psi are swapped: phi is (S, A, d), psi is (S, d_psi)."


def _axes(value: Any) -> int | None:
    """Return the number of axes of something that is an array of numbers, else None."""
    try:
        return np.asarray(value).ndim if np.asarray(value).dtype.kind in "fiub" else None
    except (TypeError, ValueError, OverflowError):
        return None


def _refuse_others(name: str, value: Any) -> None:
    """Refuse what is neither a feature map nor an array, and name what to pass instead."""
    kind = "Phi, such as TablePhi" if name == "phi" else "Psi, such as TablePsi"
    if isinstance(value, Features):
        fail(name, "must be one feature map", "Features, which hold two", f"Pass {name}=features.{name}.")
    if isinstance(value, type) or value is None or isinstance(value, (str, bytes, dict)):
        fail(name, "must be a feature map or an array", shown(value), f"Give a matrixrl.features.{kind}, or an array.")


def _check_counts(name: str, feature_map: Phi | Psi, counts: tuple[str, ...]) -> None:
    for count in counts:
        value = getattr(feature_map, count, None)
        integer(f"{name}.{count}", value, low=1, remedy="Set it in the class or in its __init__.")
