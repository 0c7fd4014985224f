"""The largest mean over the laws q with KL(p̂‖q) <= ε (docs/proofs.md, section 9)."""

from __future__ import annotations

import numpy as np

from matrixrl.linalg import SeenRows
from matrixrl.records import FloatArray

__all__ = ["KLBall", "extreme_means"]

STEPS = 60
"""Largest number of steps of the search for ν; every ν gives a valid bound, so stopping early is safe."""
CLOSE = 1e-7
"""Relative accuracy of the equation for ν; the bound is at its minimum there, so its own error is of second order."""
SMALLEST, LARGEST = 1e-60, 1e60
"""Bracket of x, in units of the distance from the mean to the top; beyond it the bound does not change."""
LONGEST = 7.0
"""Largest step upwards of ln x."""
NARROWEST = 1e-30
"""Radius up to which the bound is the mean: what the ball adds is less than rounding."""
ROUNDING = 1e-14
"""Relative distance below which a mean counts as the top itself."""


def extreme_means(
    seen: SeenRows,
    values: FloatArray,
    ends: FloatArray,
    epsilon: FloatArray,
    sign: float,
    top_epsilon: FloatArray | None = None,
) -> FloatArray:
    """Return the largest (sign 1) or smallest (sign -1) mean of values over {q : KL(p̂‖q) <= ε}, for each row: (R,).

    Args:
        seen: Rows with data, and their laws p̂.
        values: (E,) Value of the outcome of each entry.
        ends: (R,) Largest (sign 1) or smallest (sign -1) value of any outcome, seen or not.
        epsilon: (R,) Radius ε of each row; 0 returns the mean.
        sign: 1 for the largest mean, -1 for the smallest.
        top_epsilon: (R,) Radius that holds at ν = `ends` alone, if there is one. Its bound is at least the best value
            seen, which keeps it valid for a function below V whose maximum is not known (docs/proofs.md, section 9.2).
    """
    ball = KLBall(seen, sign * values, sign * ends, epsilon)
    means: FloatArray = np.where(epsilon <= NARROWEST, ball.mean, ball.bound(ball.best()))
    if top_epsilon is not None and len(means):
        best_seen = np.maximum.reduceat(sign * values, seen.firsts)
        at_top = ball.bound(np.zeros(len(means)), top_epsilon)
        means = np.minimum(means, np.maximum(at_top, best_seen))
    return sign * means


class KLBall:
    """The dual of max{qV : KL(p̂‖q) <= ε} for each row: the minimum over ν >= max V of ν − e^{−ε} Π (ν − V)^p̂.

    Every ν gives an upper bound. The unknown is x = ν − max V, and y = ν − p̂V is x plus the distance from the mean to
    the top; ratios (ν − V)/y are 1 + (p̂V − V)/y, so no digits cancel where ν is far away.

    Args:
        seen: Rows with data, and their laws p̂.
        values: (E,) Value of the outcome of each entry.
        top: (R,) Largest value of any outcome, seen or not.
        epsilon: (R,) Radius ε of each row; 0 is the mean alone.

    Attributes:
        mean: (R,) Mean p̂V of each row.
    """

    def __init__(self, seen: SeenRows, values: FloatArray, top: FloatArray, epsilon: FloatArray) -> None:
        self._seen, self._top = seen, top
        self._epsilon = epsilon
        self.mean = seen.sums(seen.shares * values)
        distance = top - self.mean
        self._to_top = np.where(distance > ROUNDING * (np.abs(top) + np.abs(self.mean)), distance, 0.0)  # (R,)
        self._gaps = top[seen.places] - values  # of the entries, (E,)
        self._below = self.mean[seen.places] - values

    def bound(self, x: FloatArray, epsilon: FloatArray | None = None) -> FloatArray:
        """Return ν − e^{−ε} Π (ν − V)^p̂ at ν = max V + x, no larger than max V: (R,).

        Args:
            x: (R,) Distance of ν from max V.
            epsilon: (R,) Radius in place of that of the ball.
        """
        y = x + self._to_top
        epsilon = self._epsilon if epsilon is None else epsilon
        with np.errstate(invalid="ignore"):  # of rows whose mean counts as the top: y = 0, and no ratio is a number
            log_ratio = self._seen.sums(self._seen.shares * self._log_ratios(x))
            bound = self.mean - y * np.expm1(log_ratio - epsilon)
        return np.where(y > 0.0, np.minimum(bound, self._top), self._top)  # y = 0: all mass is at the top

    def best(self) -> FloatArray:
        """Return the x of the smallest bound of each row: (R,).

        It solves F(ν) = ε, where F = Σ p̂ ln(ν − V) + ln Σ p̂/(ν − V) decreases in ν, or is 0 if F(max V) <= ε: the best
        outcome was not seen, and the ball reaches far. The root is found by Newton's method for F or ln F as functions
        of ln x, whichever is nearer to a line, inside a bracket.
        """
        epsilon, nothing = self._epsilon, np.zeros(len(self._top))
        variance = self._seen.sums(self._seen.shares * self._below**2)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            active = (self._to_top > 0.0) & (epsilon > NARROWEST)
            active &= ~(self._excess(nothing)[0] <= epsilon)  # not a number where the best was seen
            x = np.where(
                active, np.clip(np.sqrt(variance / (2 * epsilon)) - self._to_top, 1e-3 * self._to_top, None), 0
            )
            least, most = SMALLEST * self._to_top, LARGEST * self._to_top
            low, high = least, most
            for _ in range(STEPS):
                if not active.any():
                    break
                excess, slope = self._excess(x)
                grows = excess > epsilon
                low, high = np.where(grows, x, low), np.where(grows, high, x)
                # Far below the root F is nearly a line in ln x, far above it ln F is.
                flat = grows & (-slope < excess)
                change = np.where(flat, excess - epsilon, np.log(excess / epsilon) * excess) / -slope
                step = x * np.exp(np.minimum(change, LONGEST))
                inside = (step > low) & (step < high)
                active = active & ~(np.abs(excess - epsilon) <= CLOSE * epsilon)
                x = np.where(active, np.where(inside, step, np.sqrt(low * high)), x)
                beyond = active & (step <= least)
                x, active = np.where(beyond, least, x), active & ~beyond
        return x

    def _log_ratios(self, x: FloatArray) -> FloatArray:
        """Return ln((ν − V)/y) of the entries (E,), with the digits of small and of large ratios."""
        places = self._seen.places
        y = (x + self._to_top)[places]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio, excess = (x[places] + self._gaps) / y, self._below / y
            return np.where(ratio < 0.5, np.log(ratio), np.log1p(np.maximum(excess, -1.0)))

    def _excess(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return F and its derivative by ln x, each (R,)."""
        seen = self._seen
        y = x + self._to_top
        ratio = (x[seen.places] + self._gaps) / y[seen.places]
        away = self._below / y[seen.places]
        inverse = away / ratio  # 1 − y/(ν − V), whose mean is −squares
        squares = seen.sums(seen.shares * away * inverse)
        variance = seen.sums(seen.shares * inverse * inverse) - squares * squares
        excess = seen.sums(seen.shares * self._log_ratios(x)) + np.log1p(squares)
        return excess, -(x / y) * variance / (1.0 + squares)
