"""How much of a known P the features can represent (Assumption 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.features import Features
from matrixrl.problems import Transitions
from matrixrl.records import FloatArray

__all__ = ["Embedding", "embedding"]

_LARGEST = 50_000_000  # numbers in P beyond which it is not expanded


@dataclass(frozen=True, slots=True)
class Embedding:
    """The best core for a known P.

    Attributes:
        core: (d, d_psi) the M that minimises the squared residual.
        residual: the largest |P(s'|s,a) − φᵀMψ(s')|.
        explained: 1 − Σ residual² / Σ P²: 1 means that Assumption 1 holds.
    """

    core: FloatArray
    residual: float
    explained: float


def embedding(transitions: Transitions, features: Features) -> Embedding | None:
    r"""Return the least-squares core, \(M = \Phi^+ P \Psi K_\psi^{-1}\), or None where P is too large to expand.

    >>> from matrixrl.problems import tabular
    >>> world = tabular(n_states=4, n_actions=2, seed=0)
    >>> round(embedding(world.mdp.transitions, world.features).explained, 12)
    1.0
    """
    n_states, n_actions = transitions.n_states, transitions.n_actions
    if n_states * n_states * n_actions > _LARGEST:
        return None
    actions, states = np.divmod(np.arange(n_states * n_actions), n_states)  # action-major, as φ's rows
    table = transitions.rows(states, actions)
    psi = features.psi
    targets = psi.solve_gram(table @ psi.table)
    core: FloatArray
    if features.phi.blocks().one_pair_each:
        core, fitted = targets, targets @ psi.table.T
    else:
        rows = features.phi.rows(np.arange(n_states * n_actions))
        core = np.asarray(np.linalg.lstsq(rows, targets, rcond=None)[0], dtype=np.float64)
        fitted = rows @ core @ psi.table.T
    off = table - fitted
    return Embedding(
        core=core,
        residual=float(np.abs(off).max()),
        explained=float(1.0 - (off * off).sum() / (table * table).sum()),
    )
