"""The largest mean over a Kullback-Leibler ball around the empirical law of one group, compiled with numba.

It is the dual minimum of `core.likelihood.KLBall`. Three things make it fast: outcomes of equal value need no search,
the bound at ν = max V needs one logarithm for each outcome, or none if those of all outcomes were tabulated for
many groups, and a search begins where that of the next stage ended.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from matrixrl.compiling.jit import compiled

__all__ = ["fill_table", "largest_mean"]

# Positions in the tuple of a law, which is a plain tuple for the reason that core.compiled.backup gives.
FIRSTS, LASTS, SHARES, STATES, EXTRAS, EPSILON, TOP_EPSILON, CODES, PAID = range(9)
GAP, LOG_GAP, INVERSE_GAP = range(3)

_STEPS = 60
_CLOSE = 1e-7
_SMALLEST, _LARGEST = 1e-60, 1e60
_LONGEST = 7.0
_NARROWEST = 1e-30
_ROUNDING = 1e-14


@compiled
def fill_table(paid: Any, values: Any, sign: float, top: float, table: Any) -> None:
    """Fill in the distance of every outcome from the top, its logarithm and its inverse: (n outcomes, 3).

    Args:
        paid: (L,) Reward of each level; negative where unused. An outcome is state times L plus level.
        values: (S,) Value of each next state.
        sign: 1 or -1.
        top: Largest sign·(V + reward) of any outcome.
        table: Filled in.
    """
    n_levels = len(paid)
    for level in range(n_levels):
        if paid[level] < 0.0:
            continue
        for s in range(len(values)):
            row = table[s * n_levels + level]
            row[GAP] = top - sign * (values[s] + paid[level])
            row[LOG_GAP] = math.log(row[GAP]) if row[GAP] > 0.0 else -np.inf
            row[INVERSE_GAP] = 1.0 / row[GAP] if row[GAP] > 0.0 else np.inf


@compiled
def _at_top(count: int, shares: Any, first: int, gaps: Any) -> tuple[float, float]:
    """Return Σ p̂ ln(ν − V) and Σ p̂/(ν − V) at ν = top, where the top was not seen."""
    logs, inverse = 0.0, 0.0
    for e in range(count):
        logs += shares[first + e] * math.log(gaps[e])
        inverse += shares[first + e] / gaps[e]
    return logs, inverse


@compiled
def _excess(count: int, shares: Any, first: int, gaps: Any, gap: float, x: float) -> Any:
    """Return F(ν), its derivative by ln x, and Σ p̂ ln((ν − V)/y), at ν = top + x; x > 0."""
    y = x + gap
    squares, variance, logs = 0.0, 0.0, 0.0
    for e in range(count):
        ratio, away = (x + gaps[e]) / y, (gaps[e] - gap) / y
        part = shares[first + e] * (away / ratio)
        squares += part * away
        variance += part * (away / ratio)
        logs += shares[first + e] * (math.log(ratio) if ratio < 0.5 else math.log1p(away))
    return logs + math.log1p(squares), -(x / y) * (variance - squares * squares) / (1.0 + squares), logs


@compiled
def largest_mean(
    first: int,
    last: int,
    shares: Any,
    states: Any,
    extras: Any,
    codes: Any,
    values: Any,
    table: Any,
    sign: float,
    top: float,
    epsilon: float,
    top_epsilon: float,
    guess: float,
    gaps: Any,
) -> tuple[float, float, float]:
    """Return the largest mean of sign·V over {q : KL(p̂‖q) <= ε}, as `core.likelihood.KLBall` does for all rows.

    Args:
        first: Position of the first entry of the group.
        last: Position after its last entry; `first` if it has no data.
        shares: Shares p̂ of all entries.
        states: Next states of all entries.
        extras: Rewards of all entries, which are added to the values of next states; empty for none.
        codes: Outcomes of all entries, as rows of the table.
        values: (S,) Value of each next state.
        table: What `fill_table` made of them; (0, 3) if it was not called.
        sign: 1 or -1.
        top: Largest sign·V of any outcome, seen or not.
        epsilon: Radius ε of the group.
        top_epsilon: Smaller radius that holds at ν = top alone; infinite if there is none.
        guess: The third number that was returned for other values, where the search begins; 0 for none.
        gaps: (n,) Room for the entries of a group, overwritten.

    Returns:
        The bound, the bound without the radius at the top, and the x = ν − top that it was found at.
    """
    if first == last:
        return top, top, 0.0
    count = last - first
    tabulated = len(table) > 0
    gap, nearest, farthest, logs, inverse = 0.0, np.inf, 0.0, 0.0, 0.0  # gap: distance of the mean from the top
    if tabulated:
        for e in range(count):
            share, code = shares[first + e], codes[first + e]
            gaps[e] = table[code, GAP]
            gap += share * gaps[e]
            logs += share * table[code, LOG_GAP]
            inverse += share * table[code, INVERSE_GAP]
            nearest, farthest = min(nearest, gaps[e]), max(farthest, gaps[e])
    else:
        for e in range(count):
            value = values[states[first + e]]
            if len(extras) > 0:
                value += extras[first + e]
            gaps[e] = top - sign * value
            gap += shares[first + e] * gaps[e]
            nearest, farthest = min(nearest, gaps[e]), max(farthest, gaps[e])
    mean = top - gap
    if gap <= _ROUNDING * (abs(top) + abs(mean)):
        return top, top, 0.0
    if epsilon <= _NARROWEST:
        return mean, mean, 0.0
    if nearest == farthest:
        bound = mean - gap * math.expm1(-epsilon)
        return min(bound, max(mean, mean - gap * math.expm1(-top_epsilon))), bound, 0.0
    is_tested, at_top = nearest == 0.0, top
    if not is_tested and (guess <= 0.0 or tabulated or top_epsilon < np.inf):
        if not tabulated:
            logs, inverse = _at_top(count, shares, first, gaps)
        below = math.exp(logs - epsilon)
        if top_epsilon < np.inf:
            at_top = max(top - nearest, top - math.exp(logs - top_epsilon))
        if inverse * below <= 1.0:  # F(top) <= ε
            return min(top - below, at_top), top - below, 0.0
        is_tested = True
    x = guess
    if guess <= 0.0:
        variance = 0.0
        for e in range(count):
            variance += shares[first + e] * (gaps[e] - gap) * (gaps[e] - gap)
        x = max(math.sqrt(variance / (2.0 * epsilon)) - gap, 1e-3 * gap)
    low, high = _SMALLEST * gap, _LARGEST * gap
    for _ in range(_STEPS):
        excess, slope, logs = _excess(count, shares, first, gaps, gap, x)
        if abs(excess - epsilon) <= _CLOSE * epsilon or x <= _SMALLEST * gap:
            break
        if excess > epsilon:
            low = x
        else:
            high = x
            if not is_tested:
                logs, inverse = _at_top(count, shares, first, gaps)
                below = math.exp(logs - epsilon)
                if inverse * below <= 1.0:
                    return top - below, top - below, 0.0
                is_tested = True
        step = -1.0
        if excess > 0.0 and slope < 0.0:
            flat = excess > epsilon and -slope < excess
            change = excess - epsilon if flat else math.log(excess / epsilon) * excess
            step = x * math.exp(min(change / -slope, _LONGEST))
        if step < 0.0 or step >= high or _SMALLEST * gap < step <= low:
            step = math.sqrt(low * high)
        x = max(step, _SMALLEST * gap)
    bound = min(mean - (x + gap) * math.expm1(logs - epsilon), top)
    return min(bound, at_top), bound, x
