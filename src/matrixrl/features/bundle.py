"""φ and ψ of one problem, checked against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy import sparse

from matrixrl.checks import fail
from matrixrl.features.phi import OneHotPhi, Phi, TablePhi
from matrixrl.features.psi import OneHotPsi, Psi, TablePsi
from matrixrl.features.sparse_psi import SparsePsi

if TYPE_CHECKING:
    from matrixrl.records import FloatArray

__all__ = ["Features", "one_hot"]


@dataclass(frozen=True)
class Features:
    """The two feature maps of the model P(s'|s,a) = φ(s,a)ᵀ M* ψ(s') (Assumption 1).

    Attributes:
        phi: φ of state-action pairs.
        psi: ψ of next states.
        same_states: Whether both cover the same states, which is then checked; False for φ at a few queried states.

    >>> features = one_hot(n_states=3, n_actions=2)
    >>> features.phi.d, features.psi.d_psi
    (6, 3)
    """

    phi: Phi
    psi: Psi
    same_states: bool = True

    def __post_init__(self) -> None:
        if self.same_states and self.phi.n_states != self.psi.n_states:
            fail(
                "psi",
                f"must have one row for each of the {self.phi.n_states} states of phi",
                f"{self.psi.n_states} rows",
                "Give phi and psi for the same states, the end state included.",
            )

    def check(self, n_states: int, n_actions: int) -> Features:
        """Return itself if it covers a problem of that size."""
        check_sizes(self.phi, self.psi, n_states, n_actions)
        return self


def one_hot(n_states: int, n_actions: int) -> Features:
    """Return the tabular features: one for each pair, one for each next state."""
    return Features(OneHotPhi(n_states, n_actions), OneHotPsi(n_states))


def check_sizes(phi: Phi, psi: Psi, n_states: int, n_actions: int) -> None:
    """Refuse feature maps of another problem, naming the one that is wrong."""
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
    """Accept a feature map, an (S, A, d) array, or None for the default."""
    if value is None:
        return default
    return value if isinstance(value, Phi) else TablePhi(value)


def as_psi(value: Psi | FloatArray | None, default: Psi, *, pseudo: bool) -> Psi:
    """Accept a feature map, an (S, d_psi) array or scipy.sparse matrix, or None for the default."""
    if value is None:
        return default
    if sparse.issparse(value):
        return SparsePsi(value, pseudo=pseudo)
    return value if isinstance(value, Psi) else TablePsi(value, pseudo=pseudo)
