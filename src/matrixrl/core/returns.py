"""Bounds from the returns of episodes alone, without a model (docs/proofs.md, section 11)."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from matrixrl.linalg import SeenRows
from matrixrl.records import FloatArray

__all__ = [
    "MOST_FROZEN",
    "N_LEVELS",
    "frozen_policy_bounds",
    "log_mean_wealth",
    "mean_lower_bounds",
    "path_deviation",
    "return_level",
]

N_LEVELS = 1 << 16
"""Number of levels of a return in [0, 1]; a return counts as the level below it."""
MOST_FROZEN = 63
"""Number of policies that are ever frozen, at episodes 1, 2, 4, …"""
_BETS = 0.7 ** np.arange(16)  # from 1 to 0.005, so that one of them is nearly the best bet
_HALVINGS = 40
_SLOPES = 0.5 ** np.arange(1, 21)  # λ of the bounds on the deviation, one of which is nearly the best one


def return_level(share: float) -> int:
    """Return the level of a return that is a share in [0, 1] of the largest one, rounded down."""
    return int(min(max(share, 0.0), 1.0) * N_LEVELS)


def frozen_policy_bounds(seen: SeenRows, delta: float) -> FloatArray:
    r"""Return lower bounds on the values of frozen policies, as shares of the largest return: (R,).

    With X_t the reward of an episode up to the first action that is not the frozen policy's, \(E[X_t] \le V^\pi\), so
    for every bet b the product \(\prod_t(1 - b + bX_t/V^\pi)\) is a supermartingale, and so is its mean over some bets.
    The bound is the value at which this mean is J/δ, for the J = `MOST_FROZEN` policies that are ever frozen. It holds
    with probability 1 − δ for all of them and all numbers of episodes at once (docs/proofs.md, section 11.2).
    """
    return mean_lower_bounds(seen, delta / MOST_FROZEN)


def mean_lower_bounds(seen: SeenRows, delta: float) -> FloatArray:
    r"""Return lower bounds on means of numbers in [0, 1], one for each row: (R,).

    The numbers of a row, shares of `N_LEVELS`, come one after the other, each with a mean of at most V given those
    before it. Each bound is below V with probability 1 − δ for all counts at once, by the wealth of
    `frozen_policy_bounds`.
    """
    mean = seen.sums(seen.shares * (seen.outcomes / N_LEVELS))
    low, high = np.zeros(len(mean)), mean
    for _ in range(_HALVINGS):  # `low` stays a valid bound
        middle = 0.5 * (low + high)
        refuted = log_mean_wealth(seen, middle) >= -math.log(delta)
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    return low


def log_mean_wealth(seen: SeenRows, values: FloatArray) -> FloatArray:
    """Return the log of the mean over the bets of Π(1 − b + bX/V) for one value V of each row: (R,) → (R,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = seen.outcomes / N_LEVELS / values[seen.places]
        logs = np.log1p(_BETS[:, None] * (np.where(seen.outcomes > 0, gain, 0.0) - 1.0))  # a lost bet of all is -inf
    wealth = np.stack([seen.sums(seen.times * bet) for bet in logs])
    mean: FloatArray = logsumexp(wealth, axis=0) - math.log(len(_BETS))
    return mean


def path_deviation(shares: FloatArray, delta: float) -> float:
    r"""Return a number that the sum of returns exceeds the sum of their means by, with probability at most δ.

    It holds for all numbers of episodes at once, whatever the policies were. With a prediction \(\hat x_t\) from
    earlier returns, \(\exp(\lambda\sum(x_t - \mu_t) - \psi(\lambda)\sum(x_t - \hat x_t)^2)\) is a supermartingale
    for \(\psi(\lambda) = -\ln(1-\lambda) - \lambda\) (Howard, Ramdas, McAuliffe & Sekhon 2021), and δ is divided
    between twenty λ.
    """
    n = len(shares)
    if n == 0:
        return 0.0
    before = np.cumsum(shares) - shares
    predicted = (0.5 + before) / np.arange(1, n + 1)
    variation = float(((shares - predicted) ** 2).sum())
    cumulant = -np.log1p(-_SLOPES) - _SLOPES
    bounds = (math.log(len(_SLOPES) / delta) + cumulant * variation) / _SLOPES
    return float(min(bounds.min(), n))
