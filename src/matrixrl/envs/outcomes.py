"""Transition tables and rewards from lists of outcomes, and declared ranges of rewards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["Outcome", "range_of", "table_of"]

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
