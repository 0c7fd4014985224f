"""Tables of episodic MDPs on disk, their hardness, and the values that normalise regret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from matrixrl.checks import fail
from matrixrl.problems import FiniteMDP, solve
from matrixrl.problems.solving import q_values
from matrixrl.records import FloatArray

__all__ = ["Hardness", "find_tables", "hardness", "read_table", "uniform_value", "worst_value", "write_table"]

REGULARISATION = 0.1
"""Added to every gap before its reciprocal is taken, as Colosseum does."""
_ARRAYS = {"shape", "rows", "cols", "p", "R", "start", "H"}
HOW_TO_GET = (
    "Each MDP is one file <class>-<family>Episodic-prms_<k>.npz with the arrays shape (S, A, S), rows, cols and p (the "
    "entries of P as a matrix with S·A rows), R (S, A), start (S,) and H; matrixrl.scorecards.tables.write_table makes "
    "it from an MDP of the package rlcolosseum (docs/scorecards.md)"
)


def read_table(path: Path) -> FiniteMDP:
    """Return the MDP of a table; rows of P are normalised because they were stored in single precision."""
    with np.load(path, allow_pickle=False) as table:
        if not set(table.files) >= _ARRAYS:
            fail("--data", "must hold tables of MDPs only", f"{path} with {', '.join(table.files)}", f"{HOW_TO_GET}.")
        n_states, n_actions, _ = (int(size) for size in table["shape"])
        entries = (table["p"].astype(np.float64), (table["rows"], table["cols"]))
        reward, start, horizon = table["R"].astype(np.float64), table["start"], int(table["H"])
    law = sparse.csr_array(entries, shape=(n_states * n_actions, n_states))
    law = sparse.diags_array(1.0 / law.sum(axis=1)) @ law
    return FiniteMDP(law, reward, horizon, start=start / start.sum())


def write_table(path: Path, law: ArrayLike, reward: ArrayLike, start: ArrayLike, horizon: int) -> None:
    """Write an MDP as a table that `read_table` reads; P in single precision, as Colosseum stores it.

    Args:
        path: File, named <class>-<family>Episodic-prms_<k>.npz.
        law: (S, A, S) Transition law P.
        reward: (S, A) Expected rewards in [0, 1].
        start: (S,) Distribution of first states.
        horizon: Steps of an episode.
    """
    dense = np.asarray(law, dtype=np.float32)
    flat = dense.reshape(-1, dense.shape[2])
    rows, cols = np.nonzero(flat)
    np.savez(
        path,
        shape=np.array(dense.shape),
        rows=rows,
        cols=cols,
        p=flat[rows, cols],
        R=np.asarray(reward),
        start=np.asarray(start),
        H=np.int64(horizon),
    )


def find_tables(folder: Path, only: Sequence[str] = ()) -> list[Path]:
    """Return the tables of a folder whose names contain one of the words; all without words."""
    found = [path for path in sorted(folder.glob("*.npz")) if not only or any(word in path.stem for word in only)]
    if not found:
        words = f" whose names contain {' or '.join(only)}" if only else ""
        fail("--data", f"must be a folder with tables of MDPs{words}", str(folder), f"{HOW_TO_GET}.")
    return found


def uniform_value(mdp: FiniteMDP) -> float:
    """Return the value at the start of the policy that takes every action with the same probability."""
    values = np.zeros(mdp.n_states)
    for h in reversed(range(mdp.horizon)):
        values = q_values(mdp, values, h).mean(axis=1)
    return float(mdp.task.start @ values)


def worst_value(mdp: FiniteMDP) -> float:
    """Return the value at the start of the worst policy."""
    values = np.zeros(mdp.n_states)
    for h in reversed(range(mdp.horizon)):
        values = q_values(mdp, values, h).min(axis=1)
    return float(mdp.task.start @ values)


@dataclass(frozen=True)
class Hardness:
    """Measures of how hard an episodic MDP is.

    Attributes:
        value_norm: Largest standard deviation of the optimal value of the next state, over stages, states and actions.
        gaps: Sum of 1 / (V*_h(s) − Q*_h(s, a) + 0.1) over actions, and stages and states that can be reached.
    """

    value_norm: float
    gaps: float


def hardness(mdp: FiniteMDP) -> Hardness:
    """Return the hardness of an MDP by Colosseum's definitions (Conserva & Rauber 2022), with values of every stage."""
    values = solve(mdp).values
    norm = total = 0.0
    reachable = mdp.task.start > 0.0
    rows = sparse.csr_array((mdp.n_states, mdp.n_states))
    states, actions = np.divmod(np.arange(mdp.n_states * mdp.n_actions), mdp.n_actions)
    law = sparse.csr_array(mdp.transitions.rows(states, actions))
    rows = sum((law[a :: mdp.n_actions] for a in range(mdp.n_actions)), start=rows)
    for h in range(mdp.horizon):
        mean, square = law @ values[h + 1], law @ values[h + 1] ** 2
        norm = max(norm, float(np.sqrt(np.clip(square - mean**2, 0.0, None)).max()))
        gaps: FloatArray = values[h][:, None] - q_values(mdp, values[h + 1], h)
        total += float((1.0 / (gaps[reachable] + REGULARISATION)).sum())
        reachable = (rows.T @ reachable.astype(np.float64)) > 0.0
    return Hardness(norm, total)
