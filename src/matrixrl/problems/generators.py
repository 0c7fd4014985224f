"""Random MDPs with a known core M*: tabular ones, and ones of low rank (soft aggregation)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.checks import fits_memory, flag, integer, number
from matrixrl.features import Features, OneHotPhi, OneHotPsi, TablePhi, TablePsi
from matrixrl.problems.finite import FiniteMDP
from matrixrl.problems.transitions import FactoredTransitions
from matrixrl.random_streams import generator
from matrixrl.records import FloatArray

__all__ = ["EmbeddedMDP", "low_rank", "tabular"]


@dataclass(frozen=True)
class EmbeddedMDP:
    """Hold an MDP and its true core: P(s'|s,a) = φ(s,a)ᵀ M* ψ(s') (YW19, Assumption 1).

    Attributes:
        mdp: The MDP; `mdp.features` holds φ and ψ.
        core: True core M*, shape (d, d_psi).
    """

    mdp: FiniteMDP
    core: FloatArray

    @property
    def features(self) -> Features:
        """Feature maps φ and ψ."""
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
    """Return a random MDP with one-hot φ; M* is P, times a rotation if `orthonormal` is True.

    Args:
        n_states: Number of states S.
        n_actions: Number of actions A.
        horizon: Steps in an episode H.
        n_successors: Number of possible next states of each pair; all states if None.
        orthonormal: Whether ψ is a random rotation of the one-hot features, which is dense but keeps K_ψ = I.
        seed: Seed of the problem.

    >>> made = tabular(n_states=4, n_actions=2, seed=0)
    >>> made.mdp.n_states, made.core.shape
    (4, (8, 4))
    """
    flag("orthonormal", orthonormal)
    n_states, n_actions = _sizes(n_states, n_actions)
    reach = n_states if n_successors is None else n_successors
    reach = min(n_states, integer("n_successors", reach, low=1, remedy="Give at least one next state."))
    sizes = f"{n_states:,} and {n_actions:,}"
    fits_memory("n_states and n_actions", 3.0 * n_actions * n_states**2, sizes, remedy="Make one of them smaller.")
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
    """Return a random soft-aggregation MDP of rank d; P is stored as its factors.

    φ(s,a) is a distribution over d meta-states, each row of M* is a distribution over d_psi next-state factors, each
    factor is a distribution over states, and the expected reward is linear in φ.

    Args:
        n_states: Number of states S.
        n_actions: Number of actions A.
        d: Number of features φ.
        d_psi: Number of features ψ; d if None.
        horizon: Steps in an episode H.
        concentration: Concentration of the Dirichlet distribution of φ; smaller values give pairs that differ more.
        orthonormal: Whether ψ is transformed so that K_ψ = I, and M* with it; P does not change.
        seed: Seed of the problem.
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.

    >>> made = low_rank(n_states=20, n_actions=2, d=3, seed=0)
    >>> made.features.phi.d, made.core.shape
    (3, (3, 3))
    """
    n_states, n_actions = _sizes(n_states, n_actions)
    d = integer("d", d, low=1, remedy="Give the number of features.")
    wide = integer("d_psi", d if d_psi is None else d_psi, low=1, remedy="Give the number of features.")
    flag("orthonormal", orthonormal)
    spread = number("concentration", concentration, low=0.0, high=1e6, open_ends=True, remedy="Try 1.0.")
    numbers = n_states * (n_actions * (d + 1.0) + 3.0 * wide) + d * wide
    received = f"{n_states:,}, {n_actions:,}, {d:,} and {wide:,}"
    fits_memory("n_states, n_actions, d and d_psi", numbers, received, remedy="Make one of them smaller.")
    rng = generator(seed, "problem")
    table = rng.dirichlet(np.full(d, spread), size=(n_states, n_actions))
    core = rng.dirichlet(np.ones(wide), size=d)
    psi = rng.dirichlet(np.ones(n_states), size=wide).T
    reward, phi = table @ rng.random(d), TablePhi(table)
    del table  # φ keeps the numbers in another order
    transitions = FactoredTransitions(phi, core @ psi.T)
    if orthonormal:
        # Ψ = UΣVᵀ: U holds orthonormal features of the same span, at most min(d_psi, S) of them.
        left, sizes, right = np.linalg.svd(psi, full_matrices=False)
        psi, core = left, core @ right.T * sizes
    features = Features(phi, TablePsi(psi, pseudo=wide > n_states))
    mdp = FiniteMDP(transitions, reward, horizon, features=features, noisy_rewards=noisy_rewards)
    return EmbeddedMDP(mdp, core)


def _sizes(n_states: int, n_actions: int) -> tuple[int, int]:
    return (
        integer("n_states", n_states, low=1, remedy="Give the number of states."),
        integer("n_actions", n_actions, low=1, remedy="Give the number of actions."),
    )
