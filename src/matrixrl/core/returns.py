"""Bounds from the returns of episodes alone, without a model (docs/proofs.md, section 11)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from matrixrl.linalg import SeenRows
from matrixrl.records import FloatArray, IntArray

__all__ = [
    "MOST_FROZEN",
    "N_LEVELS",
    "Returns",
    "difference_bounds",
    "frozen_policy_bounds",
    "log_mean_wealth",
    "mean_lower_bounds",
    "path_deviation",
    "return_level",
    "statement_share",
]

N_LEVELS = 1 << 16
"""Number of levels of a return in [0, 1]; a return counts as the level below it."""
MOST_FROZEN = 63
"""Number of policies that are ever frozen, at episodes 1, 2, 4, …"""
_BETS = 0.7 ** np.arange(16)  # from 1 to 0.005, so that one of them is nearly the best bet
_LOG_WEIGHTS = -np.log(np.append(np.arange(1.0, 17.0) * np.arange(2.0, 18.0), 17.0))
"""Weights 1/2, 1/6, … of the bets on given policies; 1/17 is not bet, so the wealth never falls below it."""
_MOST_AT_ONCE = 1 << 22  # numbers of a table
_CELLS = 128  # of the values at which the wealth of two policies is multiplied
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


class Returns(NamedTuple):
    """What n episodes of one policy earned, as levels of its range; an episode that is not complete has two levels.

    Attributes:
        low: (n,) Levels that no return is below, 0 … `N_LEVELS`.
        high: (n,) Levels that no return is above.
        least: Smallest value that the policy can have.
        range: Largest value less the smallest one.
        weight: Number of episodes that each of them stands for, to foretell intervals.
    """

    low: IntArray
    high: IntArray
    least: float = 0.0
    range: float = 1.0
    weight: float = 1.0

    @classmethod
    def of(cls, low: FloatArray, high: FloatArray, least: float, most: float) -> Returns:
        """Return returns (n,) that are between `low` and `high`, of a policy whose returns are in [least, most]."""
        span = max(most - least, 1e-300)
        shares = (np.clip((side - least) / span, 0.0, 1.0) * N_LEVELS for side in (low, high))
        down, up = (rounded(side).astype(np.int64) for rounded, side in zip((np.floor, np.ceil), shares, strict=True))
        return cls(down, up, least, most - least)

    @property
    def flipped(self) -> Returns:
        """What the policy would have earned if losses were gains: a lower bound of it is an upper bound here."""
        return Returns(N_LEVELS - self.high, N_LEVELS - self.low, -self.least - self.range, self.range, self.weight)

    @property
    def mean(self) -> float:
        """Mean return, with the middle of the two levels of an episode."""
        return self.least + self.range * 0.5 * float(self.low.mean() + self.high.mean()) / N_LEVELS

    @property
    def squared_error(self) -> float:
        """Square of the standard error of the mean return."""
        middle = 0.5 * self.range / N_LEVELS * (self.low + self.high)
        return float(middle.var()) / (self.weight * len(middle))

    def interval(self, delta: float) -> tuple[float, float]:
        """Return an interval that holds the value with probability 1 − δ for all n at once (docs/proofs.md, 11.5)."""
        price = np.array([math.log(2.0 / delta)])
        low, high = (one.least + one.range * float(one.lower_shares(price)[0]) for one in (self, self.flipped))
        return low, -high

    def lower_shares(self, log_prices: FloatArray) -> FloatArray:
        """Return the largest shares of the range (J,) at which the log of the wealth is some numbers (J,), or 0."""
        low, high = np.zeros(len(log_prices)), np.ones(len(log_prices))
        levels, times = self._counts()
        for _ in range(_HALVINGS if len(levels) else 0):  # `low` stays valid
            middle = 0.5 * (low + high)
            refuted = _log_wealth(levels, times, middle) >= log_prices
            low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
        return low

    def log_wealth(self, shares: FloatArray) -> FloatArray:
        r"""Return the log of Σ w Π(1 − b + bX/v) over bets that the value is above some shares v (J,) of its range."""
        return _log_wealth(*self._counts(), shares)

    def _counts(self) -> tuple[IntArray, FloatArray]:
        """Return the different low levels (E,), and how often each was earned."""
        levels, times = np.unique(self.low, return_counts=True)
        weighted: FloatArray = self.weight * times.astype(np.float64)
        return levels, weighted


def _log_wealth(levels: IntArray, times: FloatArray, shares: FloatArray) -> FloatArray:
    """Return `Returns.log_wealth` of different levels (E,) and how often each was earned."""
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = levels / N_LEVELS / shares[:, None] - 1.0
        excess[:, levels == 0] = -1.0  # also where v is 0
        logs = np.zeros((len(_LOG_WEIGHTS), len(shares)))
        together = max(1, _MOST_AT_ONCE // max(excess.size, 1))  # bets
        for k in range(0, len(_BETS), together):
            bets = _BETS[k : k + together, None, None]
            logs[k : k + len(bets)] = np.log1p(bets * excess) @ times
    logs += _LOG_WEIGHTS[:, None]
    most = logs.max(axis=0)  # finite, as something is not bet
    wealth: FloatArray = np.where(np.isinf(most), most, np.log(np.exp(logs - most).sum(axis=0)) + most)
    return wealth


def difference_bounds(first: Returns, second: Returns, delta: float) -> tuple[float, float]:
    """Return an interval of the difference of the values of two policies that were played in different episodes.

    It holds with probability 1 − δ for all numbers of episodes of both at once (docs/proofs.md, 11.5).
    """
    price = math.log(2.0 / delta)
    return _difference_lower(first, second, price), -_difference_lower(second, first, price)


def _difference_lower(first: Returns, second: Returns, log_price: float) -> float:
    """Return the smallest a − b whose wealth, that of a times that of b, is below a price.

    The wealth falls with a, and grows with b. So in a cell [b_j, b_{j+1}] it is at least that at b_j, and every a that
    is refuted there is refuted in the cell.
    """
    other, most = second.flipped, np.array([log_price - _LOG_WEIGHTS[-1]])
    if not len(first.low) or not len(second.low):
        return first.least - second.least - second.range
    lowest, last = float(first.lower_shares(most)[0]), 1.0 - float(other.lower_shares(most)[0])
    means = (np.mean(one.low) / N_LEVELS for one in (first, other))
    own, refuting = (np.linspace(a, b, _CELLS) for a, b in zip((lowest, 1.0 - last), means, strict=True))
    cells = np.concatenate([[0.0], 1.0 - refuting[::-1], [1.0]])  # of b; in the last one all a are refuted
    needed = log_price - other.log_wealth(1.0 - cells[:-1])
    reached = first.log_wealth(own)
    found = np.array([own[reached >= least].max(initial=0.0) for least in needed])
    gaps = first.least + first.range * found - second.least - second.range * cells[1:]
    possible = needed > _LOG_WEIGHTS[-1]  # the wealth of a is never less
    return float(gaps[possible].min(initial=first.least + first.range - second.least))


def statement_share(number: int, other: int | None = None) -> float:
    """Return the part of δ of what returns say of the given policy of a number, counted from 1, or of it and another.

    Statements are ordered as policy 1; policy 2, policies 1 and 2; policy 3, 1 and 3, 2 and 3; …; the i-th one has
    1/(i(i + 1)), so that all together have δ.
    """
    first, second = (number, 0) if other is None else (max(number, other), min(number, other))
    place = first * (first - 1) // 2 + 1 + second
    return 1.0 / (place * (place + 1))
