"""MDPs to order, with the core M* known: random tabular, and random low-rank (soft aggregation)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.checks import integer, number
from matrixrl.features import Features, OneHotPhi, OneHotPsi, TablePhi, TablePsi
from matrixrl.problems.finite import FiniteMDP
from matrixrl.problems.transitions import FactoredTransitions
from matrixrl.records import FloatArray
from matrixrl.seeding import generator

__all__ = ["EmbeddedMDP", "low_rank", "tabular"]


@dataclass(frozen=True)
class EmbeddedMDP:
    """An MDP that its features embed exactly: P(s'|s,a) = φ(s,a)ᵀ core ψ(s') (Assumption 1).

    Attributes:
        mdp: the world; `mdp.features` holds φ and ψ.
        core: (d, d_psi) M*.
    """

    mdp: FiniteMDP
    core: FloatArray

    @property
    def features(self) -> Features:
        """φ and ψ of Assumption 1."""
        return self.mdp.task.features


def tabular(
    *,
    n_states: int = 10,
    n_actions: int = 2,
    horizon: int = 10,
    n_successors: int | None = None,
    orthonormal: bool = False,
    seed: int = 0,
) -> EmbeddedMDP:
    """Return a random MDP with one-hot φ, so that M* is P itself (times a rotation if asked).

    Args:
        n_states: S.
        n_actions: A.
        horizon: H.
        n_successors: how many next states each pair can reach; all of them by default.
        orthonormal: use a random rotation of the one-hot ψ, which keeps K_ψ = I but is dense.
        seed: of the problem.
    """
    n_states, n_actions = _sizes(n_states, n_actions)
    reach = n_states if n_successors is None else n_successors
    reach = min(n_states, integer("n_successors", reach, low=1, remedy="At least one next state."))
    rng = generator(seed, "problem")
    table = np.zeros((n_states, n_actions, n_states))
    for pair in table.reshape(-1, n_states):
        pair[rng.permutation(n_states)[:reach]] = rng.dirichlet(np.ones(reach))
    reward = rng.random((n_states, n_actions))
    core = np.ascontiguousarray(table.transpose(1, 0, 2)).reshape(-1, n_states)
    psi: OneHotPsi | TablePsi = OneHotPsi(n_states)
    if orthonormal:
        rotation = np.linalg.qr(rng.standard_normal((n_states, n_states)))[0]
        psi, core = TablePsi(rotation), core @ rotation
    features = Features(OneHotPhi(n_states, n_actions), psi)
    return EmbeddedMDP(FiniteMDP(table, reward, horizon, features=features), core)


def low_rank(
    *,
    n_states: int = 300,
    n_actions: int = 5,
    d: int = 5,
    d_psi: int | None = None,
    horizon: int = 10,
    concentration: float = 1.0,
    orthonormal: bool = False,
    seed: int = 0,
    noisy_rewards: bool = False,
) -> EmbeddedMDP:
    """Return a random soft-aggregation MDP of rank d, whose P is never expanded.

    φ(s,a) is a distribution over d meta-states, each meta-state leads to d_psi next-state factors, each a
    distribution over states, and the expected reward is linear in φ.

    Args:
        n_states: S.
        n_actions: A.
        d: number of features φ.
        horizon: H.
        d_psi: number of next-state features; d by default.
        concentration: of the Dirichlet law of φ; below 1, pairs differ more.
        orthonormal: transform ψ so that K_ψ = I (and M* with it; P stays the same).
        seed: of the problem.
        noisy_rewards: pay 0 or 1 at random with the right mean.
    """
    n_states, n_actions = _sizes(n_states, n_actions)
    d = integer("d", d, low=1, remedy="Give the number of features.")
    wide = integer("d_psi", d if d_psi is None else d_psi, low=1, remedy="Give the number of features.")
    spread = number("concentration", concentration, low=0.0, high=1e6, open_ends=True, remedy="Try 1.0.")
    rng = generator(seed, "problem")
    phi = rng.dirichlet(np.full(d, spread), size=(n_states, n_actions))
    core = rng.dirichlet(np.ones(wide), size=d)
    psi = rng.dirichlet(np.ones(n_states), size=wide).T
    theta = rng.random(d)
    transitions = FactoredTransitions(phi, core @ psi.T)
    if orthonormal:
        # Ψ = UΣVᵀ: the columns of U are orthonormal features of the same span, at most min(d_psi, S) of them.
        left, sizes, right = np.linalg.svd(psi, full_matrices=False)
        psi, core = left, core @ right.T * sizes
    features = Features(TablePhi(phi), TablePsi(psi, pseudo=wide > n_states))
    mdp = FiniteMDP(transitions, phi @ theta, horizon, features=features, noisy_rewards=noisy_rewards)
    return EmbeddedMDP(mdp, core)


def _sizes(n_states: int, n_actions: int) -> tuple[int, int]:
    return (
        integer("n_states", n_states, low=1, remedy="Give the number of states."),
        integer("n_actions", n_actions, low=1, remedy="Give the number of actions."),
    )
