"""Tests of the assumptions of the proofs: how well the features represent a known P, and known rewards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.features import Features, OneHotPhi, OneHotPsi, Phi
from matrixrl.problems import Transitions
from matrixrl.records import BoolArray, FloatArray, IntArray
from matrixrl.tolerances import PROBABILITY

__all__ = ["Embedding", "embedding", "refuted_assumption", "refuted_rewards", "reward_residual"]

_LARGEST = 50_000_000  # largest number of entries of P, or of features of all pairs, for which a table is computed
_QUICK = 4_000_000  # largest number of entries of P that is checked unasked, which takes at most about a second
_RESIDUAL = 1e-6  # larger errors of a probability are not rounding errors of the features


@dataclass(frozen=True, slots=True)
class Embedding:
    """The least-squares approximation P ≈ φᵀMψ of a known P.

    Attributes:
        core: (d, d_psi) Matrix M that minimises the sum of squared residuals.
        residual: Largest |P(s'|s,a) − φᵀMψ(s')|.
        explained: 1 − Σ residual² / Σ P²; it is 1 if Assumption 1 holds.
    """

    core: FloatArray
    residual: float
    explained: float

    @property
    def is_exact(self) -> bool:
        """Whether Assumption 1 holds, up to rounding."""
        return self.residual <= _RESIDUAL


def reward_residual(unit_reward: FloatArray, phi: Phi, allowed: BoolArray | None = None) -> float | None:
    """Return the largest |R(s,a) − φᵀθ| of unit rewards (S, A) at allowed pairs (S, A), for the least-squares θ.

    It is 0 up to rounding, `tolerances.PROBABILITY`, if the rewards are linear in φ, and None if pairs are too many.

    >>> from matrixrl.problems import tabular
    >>> problem = tabular(n_states=4, n_actions=2, seed=0)
    >>> reward_residual(problem.mdp.task.unit_reward, problem.features.phi)
    0.0
    """
    rewards = unit_reward.T.ravel()  # action-major, like the rows of φ
    if isinstance(phi, OneHotPhi):
        return 0.0
    if len(rewards) * phi.d > _LARGEST:
        return None
    pairs = _pairs(len(rewards), allowed)
    rows, rewards = phi.rows(pairs), rewards[pairs]
    return float(np.abs(rewards - rows @ np.linalg.lstsq(rows, rewards, rcond=None)[0]).max())


def _pairs(n_pairs: int, allowed: BoolArray | None) -> IntArray:
    """Return the numbers of the pairs (S, A) that are allowed, action-major."""
    return np.arange(n_pairs) if allowed is None else np.flatnonzero(allowed.T)


def embedding(transitions: Transitions, features: Features, allowed: BoolArray | None = None) -> Embedding | None:
    r"""Return the least-squares matrix \(M = \Phi^+ P \Psi K_\psi^{-1}\) and its residuals.

    Args:
        transitions: Transition law P.
        features: Features φ and ψ.
        allowed: (S, A) Allowed actions, whose pairs alone are fitted; None if all are.

    Returns:
        The approximation, or None if the table of P is too large.

    >>> from matrixrl.problems import tabular
    >>> problem = tabular(n_states=4, n_actions=2, seed=0)
    >>> round(embedding(problem.mdp.transitions, problem.features).explained, 12)
    1.0
    """
    n_states, n_actions = transitions.n_states, transitions.n_actions
    if n_states * n_states * n_actions > _LARGEST:
        return None
    pairs = _pairs(n_states * n_actions, allowed)
    actions, states = np.divmod(pairs, n_states)  # action-major, like the rows of φ
    table = transitions.rows(states, actions)
    psi = features.psi
    targets = psi.solve_gram(table @ psi.table)
    core: FloatArray
    if features.phi.blocks().one_pair_each:
        core, fitted = targets, targets @ psi.table.T
        if allowed is not None:
            core = np.zeros((features.phi.d, psi.d_psi))
            core[pairs] = targets
    else:
        rows = features.phi.rows(pairs)
        core = np.asarray(np.linalg.lstsq(rows, targets, rcond=None)[0], dtype=np.float64)
        fitted = rows @ core @ psi.table.T
    off = table - fitted
    return Embedding(
        core=core, residual=float(np.abs(off).max()), explained=float(1.0 - (off * off).sum() / (table * table).sum())
    )


def refuted_assumption(
    transitions: Transitions, unit_reward: FloatArray | None, features: Features, allowed: BoolArray | None = None
) -> str | None:
    """Return, in words, which assumption of the proofs is false for a known MDP; None if none is, or P is too large."""
    phi, psi = features.phi, features.psi
    is_tabular = isinstance(phi, OneHotPhi) and isinstance(psi, OneHotPsi)
    if not is_tabular and transitions.n_states**2 * transitions.n_actions <= _QUICK:
        fit = embedding(transitions, features, allowed)
        if fit is not None and not fit.is_exact:
            return (
                f"the features explain {100 * fit.explained:.3g} % of the known transitions (largest error "
                f"{fit.residual:.2g}), and the proof needs all of them. Use richer features, such as one-hot ones"
            )
    return None if unit_reward is None else refuted_rewards(unit_reward, phi, allowed)


def refuted_rewards(unit_reward: FloatArray, phi: Phi, allowed: BoolArray | None = None) -> str | None:
    """Return, in words, that unit rewards (S, A) are not linear in φ; None if they are, or φ is too large."""
    residual = reward_residual(unit_reward, phi, allowed)
    if residual is None or residual <= PROBABILITY:
        return None
    return (
        f"learned rewards must be linear in phi, and the best fit misses R by {residual:.2g} of its range. "
        "Add R to the features, or give the rewards (known_reward=True)"
    )
