"""Random columns of Ψᵀ: a weighted sample of states that stands for all of them (YW19 section 3, implementation)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import choice, fail
from matrixrl.records import FloatArray

__all__ = ["COLUMN_WEIGHTS", "Columns", "column_sampler", "inclusion_probabilities"]

COLUMN_WEIGHTS = {
    "norm": "states are drawn with probability in proportion to ‖ψ(s)‖²",
    "uniform": "every state is as likely as any other",
}
"""How columns may be drawn, by name."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A sample of states with weights: Σ_j weight_j ψ(s_j)V(s_j) has the expectation ΨᵀV.

    Attributes:
        states: (m, …) state numbers, or state vectors.
        weights: (m,) how many states each of them stands for.
        is_all: whether it is every state, once, with weight 1: then nothing is estimated.
    """

    states: NDArray[Any]
    weights: FloatArray
    is_all: bool = False


def inclusion_probabilities(sizes: FloatArray, m: int) -> FloatArray:
    """Return how often each state is drawn on average: in proportion to its size, at most once, m in all.

    Where m times the share exceeds one, the state is certain and the rest is shared among the others.

    Args:
        sizes: (S,) not negative.
        m: how many columns; fewer than there are positive sizes.

    >>> inclusion_probabilities(np.array([1.0, 1.0, 2.0, 16.0]), 3)
    array([0.5, 0.5, 1. , 1. ])
    """
    chance = np.zeros(len(sizes))
    certain = np.zeros(len(sizes), dtype=np.bool_)
    while True:
        left = m - int(certain.sum())
        rest = np.where(certain, 0.0, sizes)
        chance = np.where(certain, 1.0, left * rest / rest.sum())
        if not (chance > 1.0).any():
            return chance
        certain |= chance >= 1.0


def column_sampler(
    weights: str, m: int, n_states: int, norms_sq: Callable[[], FloatArray]
) -> Callable[[np.random.Generator], Columns]:
    """Return a function that draws m columns; each draw costs O(m log S), whatever S is.

    The draw is stratified: the running sum of inclusion probabilities is cut into m intervals of length one, and one
    state is drawn from each. So a state is drawn as often as its probability says, the weights are one over it, the
    estimate is unbiased; and with m >= S every state is taken once with weight 1, which is exact.

    Args:
        weights: a name of `COLUMN_WEIGHTS`.
        m: how many columns.
        n_states: S.
        norms_sq: gives (S,) ‖ψ(s)‖², only called where it is needed.

    >>> draw = column_sampler("uniform", 4, n_states=10**9, norms_sq=lambda: np.empty(0))
    >>> draw(np.random.default_rng(0)).weights
    array([2.5e+08, 2.5e+08, 2.5e+08, 2.5e+08])
    """
    choice("column_weights", weights, COLUMN_WEIGHTS)
    if m >= n_states:
        everything = Columns(np.arange(n_states), np.ones(n_states), is_all=True)
        return lambda rng: everything  # noqa: ARG005
    if weights == "uniform":
        return lambda rng: Columns(
            np.minimum(((np.arange(m) + rng.random(m)) * (n_states / m)).astype(np.int64), n_states - 1),
            np.full(m, n_states / m),
        )
    sizes = norms_sq()
    if not sizes.any():
        fail("psi", "must not be zero at every state", "zeros", "Give features of next states.")
    used = np.flatnonzero(sizes)
    if m >= len(used):  # a state without features adds nothing to ΨᵀV
        exact = Columns(used, np.ones(len(used)))
        return lambda rng: exact  # noqa: ARG005
    chance = inclusion_probabilities(sizes, m)
    certain = np.flatnonzero(chance >= 1.0)
    rest = np.flatnonzero((chance > 0.0) & (chance < 1.0))
    running = np.cumsum(chance[rest])
    running *= (m - len(certain)) / running[-1]  # a whole number but for rounding

    def draw(rng: np.random.Generator) -> Columns:
        count = m - len(certain)
        points = np.arange(count) + rng.random(count)
        chosen = rest[np.minimum(np.searchsorted(running, points, side="right"), len(rest) - 1)]
        states = np.concatenate([certain, chosen])
        return Columns(states, 1.0 / chance[states])

    return draw
