"""Combine φ and ψ of one problem, and read them from arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy import sparse

from matrixrl.checks import fail, integer
from matrixrl.features.one_hot import OneHotPhi, OneHotPsi
from matrixrl.features.phi import Phi
from matrixrl.features.psi import Psi
from matrixrl.features.sparse_psi import SparsePsi
from matrixrl.features.table_phi import TablePhi
from matrixrl.features.table_psi import TablePsi

if TYPE_CHECKING:
    from matrixrl.records import FloatArray

__all__ = ["Features", "as_phi", "as_psi", "check_sizes", "one_hot"]


@dataclass(frozen=True)
class Features:
    """Hold the two feature maps of the model P(s'|s,a) = φ(s,a)ᵀ M* ψ(s') (YW19, Assumption 1).

    Attributes:
        phi: Feature map of state-action pairs.
        psi: Feature map of next states.
        same_states: Whether both cover the same states, which is then checked; False for φ at a few queried states.

    >>> features = one_hot(n_states=3, n_actions=2)
    >>> features.phi.d, features.psi.d_psi
    (6, 3)
    """

    phi: Phi
    psi: Psi
    same_states: bool = True

    def __post_init__(self) -> None:
        _check_phi(self.phi)
        _check_psi(self.psi)
        if self.same_states and self.phi.n_states != self.psi.n_states:
            fail(
                "psi",
                f"must have one row for each of the {self.phi.n_states} states of phi",
                f"{self.psi.n_states} rows",
                "Give phi and psi for the same states, the end state included.",
            )

    def check(self, n_states: int, n_actions: int) -> Features:
        """Return the features if they cover a problem of S states and A actions; raise InvalidInput otherwise."""
        check_sizes(self.phi, self.psi, n_states, n_actions)
        return self


def one_hot(n_states: int, n_actions: int) -> Features:
    """Return the tabular features: one for each pair, and one for each next state.

    Args:
        n_states: Number of states S.
        n_actions: Number of actions A.
    """
    return Features(OneHotPhi(n_states, n_actions), OneHotPsi(n_states))


def check_sizes(phi: Phi, psi: Psi, n_states: int, n_actions: int) -> None:
    """Raise InvalidInput, naming the feature map, if one does not cover a problem of S states and A actions."""
    if phi.n_states != n_states or phi.n_actions != n_actions:
        fail(
            "phi",
            f"must cover {n_states} states and {n_actions} actions",
            f"{phi.n_states} and {phi.n_actions}",
            "Give phi of shape (n_states, n_actions, d); an end state counts as a state.",
        )
    if psi.n_states != n_states:
        fail(
            "psi",
            f"must cover {n_states} states",
            psi.n_states,
            "Give psi of shape (n_states, d_psi); an end state counts as a state.",
        )


def as_phi(value: Phi | FloatArray | None, default: Phi) -> Phi:
    """Return a feature map from a `Phi`, an (S, A, d) array, or None for the default."""
    if value is None:
        return default
    return _check_phi(value) if isinstance(value, Phi) else TablePhi(value)


def as_psi(value: Psi | FloatArray | None, default: Psi, *, pseudo: bool) -> Psi:
    """Return a feature map from a `Psi`, an (S, d_psi) array or scipy.sparse matrix, or None for the default."""
    if value is None:
        return default
    if sparse.issparse(value):
        return SparsePsi(value, pseudo=pseudo)
    return _check_psi(value) if isinstance(value, Psi) else TablePsi(value, pseudo=pseudo)


def _check_phi(phi: Phi) -> Phi:
    if not isinstance(phi, Phi):
        fail("phi", "must be a feature map", type(phi).__name__, "Give a matrixrl.features.Phi, such as TablePhi.")
    _check_counts("phi", phi, ("n_states", "n_actions", "d"))
    return phi


def _check_psi(psi: Psi) -> Psi:
    if not isinstance(psi, Psi):
        fail("psi", "must be a feature map", type(psi).__name__, "Give a matrixrl.features.Psi, such as TablePsi.")
    _check_counts("psi", psi, ("n_states", "d_psi"))
    return psi


def _check_counts(name: str, feature_map: Phi | Psi, counts: tuple[str, ...]) -> None:
    for count in counts:
        value = getattr(feature_map, count, None)
        integer(f"{name}.{count}", value, low=1, remedy="Set it in the class or in its __init__.")
