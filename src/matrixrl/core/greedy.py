"""The greedy step: the best action of each state, with ties broken by a ranking or at random."""

from __future__ import annotations

import numpy as np

from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import TIE

__all__ = ["best_action_at_random", "greedy_actions", "lowest_first", "random_rankings", "tie_weights"]

_RANK_SHARE = 1e-3  # coarser than rounding, finer than what a preference is about


def greedy_actions(
    q: FloatArray, tie_break: FloatArray, *, preference: FloatArray | None = None, axis: int = 1
) -> IntArray:
    """Return the action with the largest Q; `q` is changed in place.

    Args:
        q: Values with the actions along `axis`.
        tie_break: What is added for each action, smaller than any difference that counts; broadcasts against `q`.
        preference: In [0, H], of the shape of `q`; breaks ties before `tie_break` does.
        axis: The axis of the actions.
    """
    if preference is not None:
        q += TIE * preference
    q += tie_break
    best: IntArray = q.argmax(axis=axis)
    return best


def tie_weights(rankings: FloatArray, horizon: int, *, has_preference: bool = False) -> FloatArray:
    """Return what a ranking of actions in [0, 1] adds to Q: little where a preference breaks ties first."""
    return (TIE * horizon * (_RANK_SHARE if has_preference else 1.0)) * rankings


def lowest_first(n_actions: int, n_replicas: int) -> FloatArray:
    """Return the ranking in which the lowest action wins: (B, A)."""
    ranks = np.arange(n_actions)[::-1] / n_actions
    return np.tile(ranks, (n_replicas, 1))


def random_rankings(
    rngs: list[np.random.Generator], n_actions: int, chosen: IntArray | None = None, fill: FloatArray | None = None
) -> FloatArray:
    """Return a random ranking of the actions for each replica: (B, A).

    Args:
        rngs: One generator for each replica.
        n_actions: A.
        chosen: The replicas that draw one; all by default.
        fill: (B, A) the rankings of the others; zeros by default.
    """
    rankings = np.zeros((len(rngs), n_actions)) if fill is None else fill
    for b in range(len(rngs)) if chosen is None else chosen:
        rankings[b] = rngs[b].permutation(n_actions) / n_actions
    return rankings


def best_action_at_random(q: FloatArray, slack: float, rng: np.random.Generator | None) -> int:
    """Return one of the actions within `slack` of the best of q (A,): a random one, or the lowest without `rng`."""
    best = np.flatnonzero(q >= q.max() - slack)
    return int(best[rng.integers(len(best))] if rng is not None and len(best) > 1 else best[0])
