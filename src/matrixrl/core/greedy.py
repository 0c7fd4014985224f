"""Greedy choice of actions, with ties broken by a ranking or at random."""

from __future__ import annotations

import numpy as np

from matrixrl.records import BoolArray, FloatArray, IntArray
from matrixrl.tolerances import TIE

__all__ = [
    "best_action_at_random",
    "best_among",
    "greedy_actions",
    "lowest_first",
    "random_actions",
    "random_rankings",
    "tie_weights",
]

_RANK_SHARE = 1e-3  # weight of a ranking relative to a preference; larger than rounding errors


def greedy_actions(
    q: FloatArray, tie_break: FloatArray, *, preference: FloatArray | None = None, axis: int = 1
) -> IntArray:
    """Return the action with the largest Q; `q` is changed in place.

    Args:
        q: Values of the actions along `axis`.
        tie_break: Small numbers that are added to the values of the actions to break ties; broadcast against `q`.
        preference: Preferences in [0, H], of the shape of `q`, that break ties before `tie_break`.
        axis: Axis of the actions.
    """
    if preference is not None:
        q += TIE * preference
    q += tie_break
    best: IntArray = q.argmax(axis=axis)
    return best


def tie_weights(rankings: FloatArray, horizon: int, *, has_preference: bool = False) -> FloatArray:
    """Return what is added to Q to break ties, from rankings in [0, 1]; it is smaller below a preference."""
    return (TIE * horizon * (_RANK_SHARE if has_preference else 1.0)) * rankings


def lowest_first(n_actions: int, n_replicas: int) -> FloatArray:
    """Return rankings (B, A) that prefer the action with the lowest number."""
    ranks = np.arange(n_actions)[::-1] / n_actions
    return np.tile(ranks, (n_replicas, 1))


def random_rankings(
    rngs: list[np.random.Generator], n_actions: int, chosen: IntArray | None = None, fill: FloatArray | None = None
) -> FloatArray:
    """Return a random ranking (B, A) of the actions of each replica, or of some; `fill` has the others."""
    rankings = np.zeros((len(rngs), n_actions)) if fill is None else fill
    for b in range(len(rngs)) if chosen is None else chosen:
        rankings[b] = rngs[b].permutation(n_actions) / n_actions
    return rankings


def random_actions(
    rng: np.random.Generator, shape: tuple[int, ...], n_actions: int, allowed: BoolArray | None
) -> IntArray:
    """Return actions that are drawn uniformly among those allowed (A, S), of a shape (…, S)."""
    if allowed is None:
        return rng.integers(n_actions, size=shape)
    counts = allowed.sum(axis=0)
    listed = np.argsort(~allowed, axis=0, kind="stable")  # of each state, its allowed actions first
    places = np.minimum((rng.random(shape) * counts).astype(np.int64), counts - 1)
    drawn: IntArray = listed[places, np.arange(allowed.shape[1])]
    return drawn


def best_among(q: FloatArray, among: BoolArray, horizon: int) -> IntArray:
    """Return the action with the largest Q (B, A) among some (A,); ties go to the lowest action."""
    open_q = np.where(among, q, -np.inf)
    return greedy_actions(open_q, tie_weights(lowest_first(q.shape[1], len(q)), horizon))


def best_action_at_random(q: FloatArray, slack: float, rng: np.random.Generator | None) -> int:
    """Return an action whose value is within `slack` of the largest of q (A,): random, or the lowest without `rng`."""
    best = np.flatnonzero(q >= q.max() - slack)
    return int(best[rng.integers(len(best))] if rng is not None and len(best) > 1 else best[0])
