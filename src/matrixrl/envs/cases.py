"""What the cases share: tables from outcomes, and the exact value of a given policy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from matrixrl.checks import distributions, fail, shaped
from matrixrl.problems import FiniteMDP, evaluate
from matrixrl.problems.solution import q_values
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["Outcome", "policy_value", "range_of", "table_of"]

Outcome = tuple[ArrayLike, IntArray, ArrayLike]
"""Probability, next state (S, A) and reward of one outcome; the first and the last are numbers or arrays (S, A)."""


def table_of(outcomes: Iterable[Outcome]) -> tuple[Any, FloatArray]:
    r"""Return P as a sparse matrix (S·A, S) and the expected rewards (S, A) of a problem given by its outcomes.

    An outcome, such as a demand, happens with probability \(p_i(s,a)\), leads to \(f_i(s,a)\) and earns
    \(r_i(s,a)\). Then \(P(s'|s,a) = \sum_i p_i(s,a)\,1\{f_i(s,a) = s'\}\) and
    \(R(s,a) = \sum_i p_i(s,a)\,r_i(s,a)\).

    Args:
        outcomes: All outcomes; their probabilities add up to 1 at every pair.

    >>> stay, leave = np.array([[0], [1]]), np.array([[1], [0]])
    >>> table, reward = table_of([(0.75, stay, 0.0), (0.25, leave, 2.0)])
    >>> table.toarray().tolist(), reward.ravel().tolist()
    ([[0.75, 0.25], [0.25, 0.75]], [0.5, 0.5])
    """
    parts = []
    reward: FloatArray = np.zeros((1, 1))
    for probability, following, earned in outcomes:
        chances = np.broadcast_to(np.asarray(probability, dtype=np.float64), following.shape)
        reward = reward + chances * np.asarray(earned, dtype=np.float64)
        rows = np.arange(following.size)
        parts.append((chances.ravel(), rows, following.ravel()))
    entries, rows, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
    table = sparse.coo_array((entries, (rows, columns)), shape=(reward.size, reward.shape[0])).tocsr()
    table.eliminate_zeros()
    return table, reward


def range_of(reward: FloatArray, allowed: BoolArray | None = None) -> tuple[float, float]:
    """Return the smallest and the largest expected reward (S, A) of the pairs that are allowed."""
    used = reward if allowed is None else reward[allowed]
    return float(used.min()), float(used.max())


def policy_value(mdp: FiniteMDP, policy: Any) -> float:
    """Return the exact value V^π(s0) of a policy, averaged over the distribution of the first state.

    Args:
        mdp: Known MDP.
        policy: A `Policy`, its table (H, S), or the probabilities of a random policy: (S, A), or (H, S, A) by stage.

    >>> import matrixrl
    >>> mdp = matrixrl.make("river-swim").unwrapped.mdp
    >>> round(policy_value(mdp, np.full((6, 2), 0.5)), 3)
    0.047
    """
    given = np.asarray(policy)
    if given.dtype.kind in "iu":
        return float(mdp.task.start @ evaluate(mdp, given)[0])
    if given.ndim == 3 and len(given) != mdp.horizon:
        fail("policy", f"must have {mdp.horizon} stages", len(given), "Give (H, S, A), or (S, A) for all stages.")
    size, remedy = (mdp.n_states, mdp.task.n_own_actions), "Give the probability of each action in each state."
    tables = [shaped("policy", one, size, remedy=remedy) for one in (given if given.ndim == 3 else [given])]
    stages = [distributions("policy", table) for table in tables]
    values: FloatArray = np.zeros(mdp.n_states)
    for stage in reversed(range(mdp.horizon)):
        chances = stages[stage % len(stages)]
        q, taken = q_values(mdp, values, stage), chances > 0.0
        if np.isneginf(q[taken]).any():
            fail("policy", "must take allowed actions only", "another action", "Set its probability to 0.")
        values = (chances * np.where(taken, q, 0.0)).sum(axis=1)
    return float(mdp.task.start @ values)
