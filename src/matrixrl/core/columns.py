"""Sampled columns of Ψᵀ: a weighted sample of states in place of all states (YW19 section 3, implementation)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import choice, fail
from matrixrl.records import FloatArray, IntArray

__all__ = ["COLUMN_WEIGHTS", "Columns", "column_sampler", "inclusion_probabilities"]

COLUMN_WEIGHTS = {
    "norm": "states are drawn with probability proportional to ‖ψ(s)‖²",
    "uniform": "all states are drawn with equal probability",
}
"""Distributions of the sampled columns, by name."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A weighted sample of states such that Σ_j weight_j ψ(s_j)V(s_j) is an unbiased estimate of ΨᵀV.

    Attributes:
        states: (m, …) State numbers or state vectors.
        weights: (m,) Weights of the states.
        is_all: Whether the sample consists of every state once with weight 1, so that the sum is exact.
    """

    states: NDArray[Any]
    weights: FloatArray
    is_all: bool = False


def inclusion_probabilities(sizes: FloatArray, m: int) -> FloatArray:
    """Return the expected number of draws (S,) of each state: proportional to its size, at most 1, with sum m.

    States whose proportional number would exceed 1 are drawn with certainty; the remaining draws are distributed among
    the other states.

    Args:
        sizes: (S,) Sizes of the states, >= 0.
        m: Number of columns; smaller than the number of positive sizes.

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
    """Return a function of a random generator that draws m columns at a cost of O(m log S).

    The draw is stratified: the cumulative sum of the inclusion probabilities is divided into m intervals of length 1,
    and one state is drawn from each interval. The expected number of draws of a state is its inclusion probability p
    and its weight is 1/p, so the estimate of ΨᵀV is unbiased. With m >= S every state is taken once with weight 1, and
    the estimate is exact.

    Args:
        weights: Name of a distribution in `COLUMN_WEIGHTS`.
        m: Number of columns.
        n_states: Number of states S.
        norms_sq: Function that returns ‖ψ(s)‖² (S,); called only if the distribution needs it.

    >>> draw = column_sampler("uniform", 4, n_states=10**9, norms_sq=lambda: np.empty(0))
    >>> draw(np.random.default_rng(0)).weights
    array([2.5e+08, 2.5e+08, 2.5e+08, 2.5e+08])
    """
    choice("column_weights", weights, COLUMN_WEIGHTS)
    if m >= n_states:
        everything = Columns(np.arange(n_states), np.ones(n_states), is_all=True)
        return partial(_draw_again, everything)
    if weights == "uniform":
        return partial(_draw_uniformly, m, n_states)
    sizes = norms_sq()
    if not sizes.any():
        fail("psi", "must not be zero at every state", "zeros", "Give features that are not all zero.")
    used = np.flatnonzero(sizes)
    if m >= len(used):  # states with ψ(s) = 0 add nothing to ΨᵀV
        exact = Columns(used, np.ones(len(used)))
        return partial(_draw_again, exact)
    chance = inclusion_probabilities(sizes, m)
    certain = np.flatnonzero(chance >= 1.0)
    rest = np.flatnonzero((chance > 0.0) & (chance < 1.0))
    running = np.cumsum(chance[rest])
    running *= (m - len(certain)) / running[-1]  # removes the rounding error of the total, a whole number
    return partial(_draw_strata, m, chance, certain, rest, running)


# Functions of a module, as an agent that draws columns can then be pickled.
def _draw_again(columns: Columns, rng: np.random.Generator) -> Columns:
    del rng
    return columns


def _draw_uniformly(m: int, n_states: int, rng: np.random.Generator) -> Columns:
    states = np.minimum(((np.arange(m) + rng.random(m)) * (n_states / m)).astype(np.int64), n_states - 1)
    return Columns(states, np.full(m, n_states / m))


def _draw_strata(
    m: int, chance: FloatArray, certain: IntArray, rest: IntArray, running: FloatArray, rng: np.random.Generator
) -> Columns:
    count = m - len(certain)
    points = np.arange(count) + rng.random(count)
    chosen = rest[np.minimum(np.searchsorted(running, points, side="right"), len(rest) - 1)]
    states = np.concatenate([certain, chosen])
    return Columns(states, 1.0 / chance[states])
