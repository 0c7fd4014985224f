"""Where episodes start: the distribution of first states that bounds on values are about (docs/proofs.md, 6.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.core.likelihood.kl_ball import extreme_means
from matrixrl.core.likelihood.radii import dirichlet_excess, log_marginal
from matrixrl.linalg import SeenRows
from matrixrl.records import FloatArray, IntArray

__all__ = ["START_SHARE", "Start", "estimated_start", "log_start_ratio"]

START_SHARE = 0.05
"""Part of δ for the distribution of first states where it is estimated, and level of the test of a declared one."""


@dataclass(frozen=True, eq=False)
class Start:
    """A distribution of first states, known or estimated.

    Attributes:
        words: What it is, in words.
        states: (k, …) First states that are possible, or that were seen.
        weights: (k,) Their probabilities, or their shares among the first states that were seen.
        radius: Radius ε of the ball KL(weights‖μ) <= ε that holds the distribution μ; None if `weights` are exact.
    """

    words: str
    states: NDArray[Any]
    weights: FloatArray
    radius: float | None = None

    @classmethod
    def at(cls, state: Any, words: str = "") -> Start:
        """Return the start in one state."""
        return cls(words, np.asarray(state)[None], np.ones(1))

    def mean(self, values: FloatArray, end: float, *, sign: float) -> float:
        """Return an upper (sign 1) or lower (sign -1) bound on the mean of values (k,) at first states.

        It is the mean itself if the distribution is known. `end` is the largest (sign 1) or smallest (sign -1) value at
        any state in which an episode may begin.
        """
        if self.radius is None:
            return float(values @ self.weights)
        if not len(values):
            return end
        seen = SeenRows(np.arange(len(values)), self.weights, len(values))
        return float(extreme_means(seen, values, np.array([end]), np.array([self.radius]), sign)[0])


def estimated_start(counts: IntArray, delta: float) -> Start:
    """Return the distribution of first states as far as so many of them say, with probability 1 − δ at all times."""
    states = np.flatnonzero(counts)
    n = int(counts.sum())
    if not n:
        return Start("the distribution of first states, before any episode", states, np.zeros(0), math.inf)
    words = f"the distribution of first states, estimated from {n:,} episode{'s' * (n > 1)}"
    seen = SeenRows(states, counts[states].astype(np.float64), len(counts))
    beta = math.log(1.0 / delta) + float(dirichlet_excess(seen, len(counts))[0])
    return Start(words, states, seen.shares, beta / n)


def log_start_ratio(counts: IntArray, start: FloatArray) -> float:
    """Return ln m(c) − Σ c ln(start): the evidence against a declared distribution of first states.

    If they are drawn from it, this ever exceeds ln(1/δ) with probability at most δ.
    """
    states = np.flatnonzero(counts)
    if not len(states):
        return 0.0
    seen = SeenRows(states, counts[states].astype(np.float64), len(counts))
    return float(log_marginal(seen, len(counts))[0] - counts[states] @ np.log(start[states]))
