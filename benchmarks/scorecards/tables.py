"""Tables of episodic MDPs on disk, and the values that normalise regret."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from matrixrl.checks import fail
from matrixrl.envs import policy_value
from matrixrl.problems import FiniteMDP
from matrixrl.problems.solution import evaluate_batch, q_values
from matrixrl.records import FloatArray

__all__ = ["find_tables", "greedy_value", "read_table", "uniform_value", "worst_value", "write_table"]

_ARRAYS = {"shape", "rows", "cols", "p", "R", "start", "H"}
HOW_TO_GET = (
    "Each MDP is one file <class>-<family>Episodic-prms_<k>.npz with the arrays shape (S, A, S), rows, cols and p (the "
    "entries of P as a matrix with S·A rows), R (S, A), start (S,) and H; scorecards.tables.write_table makes "
    "it from an MDP of the package colosseum (docs/scorecards.md)"
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


def greedy_value(mdp: FiniteMDP, q: FloatArray, *, repeated: int = 1) -> float:
    """Return the value at the start of the policy that takes the best action by Q, and draws among several.

    Args:
        mdp: Known MDP.
        q: (H, S, A) Q of some agent.
        repeated: Number of such calls so far, which compiled loops may have to pay for.
    """
    best = q == q.max(axis=2, keepdims=True)
    number = best.sum(axis=2, keepdims=True)
    if (number > 1).any():
        return policy_value(mdp, best / number)
    values = evaluate_batch(mdp, q.argmax(axis=2)[None], repeated=repeated)
    return float(mdp.task.start @ values[0, 0])


def uniform_value(mdp: FiniteMDP) -> float:
    """Return the value at the start of the policy that takes every action with the same probability."""
    return policy_value(mdp, np.full((mdp.n_states, mdp.n_actions), 1.0 / mdp.n_actions))


def worst_value(mdp: FiniteMDP) -> float:
    """Return the value at the start of the worst policy."""
    values = np.zeros(mdp.n_states)
    for h in reversed(range(mdp.horizon)):
        values = q_values(mdp, values, h).min(axis=1)
    return float(mdp.task.start @ values)
