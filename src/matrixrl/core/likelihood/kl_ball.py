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

    Attributes:
        mean: (R,) Mean p̂V of each row.
    """

    def __init__(self, seen: SeenRows, values: FloatArray, top: FloatArray, epsilon: FloatArray) -> None:
        self._firsts, self._places, self._shares = seen.firsts, seen.places, seen.shares
        self._top, self._epsilon = top, epsilon
        self.mean = seen.sums(seen.shares * values)
        distance = top - self.mean
        self._to_top = np.where(distance > ROUNDING * (np.abs(top) + np.abs(self.mean)), distance, 0.0)  # (R,)
        self._gaps = top[seen.places] - values  # of the entries, (E,)
        self._below = self.mean[seen.places] - values

    def bound(self, x: FloatArray, epsilon: FloatArray | None = None) -> FloatArray:
        """Return ν − e^{−ε} Π (ν − V)^p̂ at ν = max V + x, no larger than max V, at another ε if it is given: (R,)."""
        y = x + self._to_top
        of_entries = y[self._places]
        with np.errstate(divide="ignore", invalid="ignore"):  # y = 0 where the mean counts as the top
            ratio, away = (x[self._places] + self._gaps) / of_entries, self._below / of_entries
            logs = np.where(ratio < 0.5, np.log(ratio), np.log1p(np.maximum(away, -1.0)))  # the digits of both ends
            log_ratio = np.add.reduceat(self._shares * logs, self._firsts) if len(y) else y
            bound = self.mean - y * np.expm1(log_ratio - (self._epsilon if epsilon is None else epsilon))
        return np.where(y > 0.0, np.minimum(bound, self._top), self._top)  # y = 0: all mass is at the top

    def best(self) -> FloatArray:
        """Return the x of the smallest bound of each row: (R,).

        It solves F(ν) = ε, where F = Σ p̂ ln(ν − V) + ln Σ p̂/(ν − V) decreases in ν, or is 0 if F(max V) <= ε: the best
        outcome was not seen, and the ball reaches far. The root is found by Newton's method for F or ln F as functions
        of ln x, whichever is nearer to a line, inside a bracket.
        """
        epsilon, to_top, places, x = self._epsilon, self._to_top, self._places, np.zeros(len(self._top))
        if not len(x):
            return x
        least, most = SMALLEST * to_top, LARGEST * to_top
        low, high = least, most
        active = (to_top > 0.0) & (epsilon > NARROWEST)
        parts = np.empty((3, len(places)))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for step_number in range(STEPS + 1):
                y = x + to_top
                of_entries = y[places]
                ratio, away = (x[places] + self._gaps) / of_entries, self._below / of_entries
                inverse = away / ratio  # 1 − y/(ν − V), whose mean is −squares
                parts[0] = self._shares * away * inverse
                parts[1] = self._shares * inverse * inverse
                parts[2] = self._shares * np.where(ratio < 0.5, np.log(ratio), np.log1p(np.maximum(away, -1.0)))
                squares, variance, logs = np.add.reduceat(parts, self._firsts, axis=1)
                excess = logs + np.log1p(squares)  # F
                if step_number == 0:  # at max V, where it is not a number if the best was seen
                    active &= ~(excess <= epsilon)
                    if not active.any():
                        break
                    spread = np.sqrt(np.add.reduceat(self._shares * self._below**2, self._firsts) / (2 * epsilon))
                    x = np.where(active, np.clip(spread - to_top, 1e-3 * to_top, None), 0)
                    continue
                slope = -(x / y) * (variance - squares * squares) / (1.0 + squares)  # of F, by ln x
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
                if not active.any():
                    break
        return x
