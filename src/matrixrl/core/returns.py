"""Bounds from the returns of episodes alone, without a model (docs/proofs.md, section 11)."""

from __future__ import annotations

import math

import numpy as np

from matrixrl.core.likelihood.kl_ball import extreme_means
from matrixrl.core.likelihood.radii import targeted_beta
from matrixrl.linalg import SeenRows
from matrixrl.records import FloatArray

__all__ = ["N_LEVELS", "frozen_policy_bounds", "path_deviation", "return_level"]

N_LEVELS = 4096
"""Number of levels of a return in [0, 1]; a return counts as the level below it."""
_SLOPES = 0.5 ** np.arange(1, 21)  # λ of the bounds on the deviation, one of which is nearly the best one


def return_level(share: float) -> int:
    """Return the level of a return that is a share in [0, 1] of the largest one, rounded down."""
    return int(min(max(share, 0.0), 1.0) * N_LEVELS)


def frozen_policy_bounds(seen: SeenRows, delta: float) -> FloatArray:
    r"""Return lower bounds on the values of frozen policies, as shares of the largest return: (R,).

    With X_t the reward of an episode up to the first action that is not the frozen policy's, \(E[X_t] \le V^\pi\), and
    the bound is L at the radius \(\beta/n\) with
    \(\beta = \ln((j+1)(j+2)/\delta) + \ln(\sqrt\pi\,\Gamma(n+1)/\Gamma(n+½))\). It holds with
    probability 1 − δ for all frozen policies and all n at once.

    Args:
        seen: Rows j = 0, 1, … of frozen policies, with the number of episodes at each level of return.
        delta: Probability with which the bound of any frozen policy may fail.
    """
    log_numbers = np.log((seen.ids + 1.0) * (seen.ids + 2.0))
    epsilon = (log_numbers + targeted_beta(seen.totals, -math.log(delta))) / seen.totals
    lower = extreme_means(seen, seen.outcomes / N_LEVELS, np.zeros(len(seen.ids)), epsilon, -1.0)
    return np.maximum(lower, 0.0)


def path_deviation(shares: FloatArray, delta: float) -> float:
    r"""Return a number that the sum of returns exceeds the sum of their means by, with probability at most δ.

    It holds for all numbers of episodes at once, whatever the policies were. With a prediction \(\hat x_t\) from
    earlier returns, \(\exp(\lambda\sum(x_t - \mu_t) - \psi(\lambda)\sum(x_t - \hat x_t)^2)\) is a supermartingale
    for \(\psi(\lambda) = -\ln(1-\lambda) - \lambda\) (Howard, Ramdas, McAuliffe & Sekhon 2021), and δ is divided
    between twenty λ.

    Args:
        shares: (n,) Returns as shares in [0, 1] of the largest one, in order.
        delta: Probability with which the bound may fail.
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
