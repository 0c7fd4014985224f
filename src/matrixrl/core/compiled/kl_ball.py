"""The largest mean over a Kullback-Leibler ball around the empirical law of one group, compiled with numba.

It is the dual minimum of `core.likelihood.KLBall`. Three things make it fast: outcomes of equal value need no search,
the bound at ν = max V needs one logarithm for each outcome, or none if those of all outcomes were tabulated for
many groups, and a search begins where that of the next stage ended.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from matrixrl.compilation import inlined, internal, lean, merged, summed

__all__ = ["Outcomes", "fill_table", "gather", "largest_mean", "largest_mean_at_top", "largest_mean_of", "log_mean"]

# Positions in the tuple of a law, which is a plain tuple for the reason that core.compiled.backup gives.
FIRSTS, LASTS, SHARES, STATES, EXTRAS, EPSILON, TOP_EPSILON, CODES, PAID = range(9)
# Rows of a table.
GAP, LOG_GAP, INVERSE_GAP = range(3)

_STEPS = 60
_CLOSE = 3e-5  # relative, of F; what is left of the bound then is a trapezoid, with an error of the third order
_SMALLEST, _LARGEST = 1e-60, 1e60
_LONGEST = 7.0
_NARROWEST = 1e-30
_ROUNDING = 1e-14
_SMALL = 1 << 17  # possible outcomes of which different ones are listed


class Outcomes(NamedTuple):
    """Outcomes of n groups of one replica, one group after the other, and the U different ones among them.

    Attributes:
        firsts: (n + 1,) Position of the first outcome of each group.
        shares: (E,) Share p̂ of each outcome.
        states: (E,) Its next state.
        extras: (E,) Its reward; empty for none.
        numbers: (E,) Its number among the different outcomes.
        listed_states: (U,) Next states of the different outcomes, which are not listed if they are not much fewer, or
            if there could be too many.
        listed_extras: (U,) Their rewards.
        radii: (n,) Radius of each group.
        top_radii: (n,) Its radius at the top.
    """

    firsts: Any
    shares: Any
    states: Any
    extras: Any
    numbers: Any
    listed_states: Any
    listed_extras: Any
    radii: Any
    top_radii: Any


@internal
def gather(law: Any, r: int, groups: Any, n_states: int) -> Any:
    """Return the outcomes of some groups (n,) of replica r, from the laws of all groups."""
    firsts, n_levels = np.zeros(len(groups) + 1, dtype=np.int64), law[PAID].shape[1]
    radii, top_radii = np.empty(len(groups)), np.empty(len(groups))
    for i in range(len(groups)):
        firsts[i + 1] = firsts[i] + law[LASTS][r, groups[i]] - law[FIRSTS][r, groups[i]]
        radii[i], top_radii[i] = law[EPSILON][r, groups[i]], law[TOP_EPSILON][r, groups[i]]
    n_entries, n_codes = firsts[-1], n_states * n_levels
    shares, states = np.empty(n_entries), np.empty(n_entries, dtype=np.uint32)
    extras = np.empty(n_entries if len(law[EXTRAS]) > 0 else 0)
    numbers, n_different = np.zeros(n_entries, dtype=np.uint32), 0
    lists = n_codes <= _SMALL
    number_of = np.empty(n_codes if lists else 0, dtype=np.int32)
    number_of[:] = -1
    different = np.empty(min(n_entries, n_codes) if lists else 0, dtype=np.int64)
    e = 0
    for i in range(len(groups)):
        for k in range(law[FIRSTS][r, groups[i]], law[LASTS][r, groups[i]]):
            shares[e], states[e] = law[SHARES][k], law[STATES][k]
            if len(extras) > 0:
                extras[e] = law[EXTRAS][k]
            if lists:
                code = law[CODES][k]
                if number_of[code] < 0:
                    number_of[code], different[n_different] = n_different, e
                    n_different += 1
                numbers[e] = number_of[code]
            e += 1
    n_listed = n_different if 2 * n_different <= n_entries else 0
    listed_states, listed_extras = np.empty(n_listed, dtype=np.uint32), np.zeros(n_listed)
    for u in range(n_listed):
        listed_states[u] = states[different[u]]
        if len(extras) > 0:
            listed_extras[u] = extras[different[u]]
    return Outcomes(firsts, shares, states, extras, numbers, listed_states, listed_extras, radii, top_radii)


@lean
def fill_table(states: Any, extras: Any, values: Any, sign: float, top: float, table: Any) -> None:
    """Fill in the distance of outcomes (U,) from the top, its logarithm and its inverse: (3, U)."""
    for u in range(len(states)):
        gap = top - sign * (values[states[u]] + extras[u])
        table[GAP, u] = gap
        table[LOG_GAP, u] = math.log(gap) if gap > 0.0 else -np.inf
        table[INVERSE_GAP, u] = 1.0 / gap if gap > 0.0 else np.inf


@summed
def log_mean(first: int, last: int, shares: Any, numbers: Any, table: Any) -> float:
    """Return Σ p̂ ln(top − V) of one group, which exceeds ε + ln(top − b) only if its largest mean is below b."""
    total = 0.0
    for e in range(first, last):
        total += shares[e] * table[LOG_GAP, numbers[e]]
    return total


@summed
def _log_and_inverse_means(first: int, last: int, shares: Any, numbers: Any, table: Any) -> tuple[float, float]:
    """Return Σ p̂ ln(top − V) and Σ p̂/(top − V) of one group."""
    logs, inverse = 0.0, 0.0
    for e in range(first, last):
        logs += shares[e] * table[LOG_GAP, numbers[e]]
        inverse += shares[e] * table[INVERSE_GAP, numbers[e]]
    return logs, inverse


@lean
def largest_mean_at_top(
    first: int, last: int, shares: Any, numbers: Any, table: Any, top: float, epsilon: float
) -> tuple[bool, float]:
    """Return whether ν = top is the best one, and `largest_mean` if so; a group with data and no radius at the top.

    Most groups with few data are of this kind, and two sums are all that it takes.
    """
    logs, inverse = _log_and_inverse_means(first, last, shares, numbers, table)
    if logs == -np.inf or epsilon <= _NARROWEST:
        return False, 0.0
    below = math.exp(logs - epsilon)
    return inverse * below <= 1.0, top - below


@inlined
def _artanh_ratio(z: float) -> float:
    """Return artanh(z)/z for |z| <= 1/3, by its series, with an error below 1e-16."""
    u = z * z
    tail = 1.0 / 19.0 + u * (1.0 / 21.0 + u * (1.0 / 23.0 + u * (1.0 / 25.0 + u * (1.0 / 27.0 + u / 29.0))))
    tail = 1.0 / 11.0 + u * (1.0 / 13.0 + u * (1.0 / 15.0 + u * (1.0 / 17.0 + u * tail)))
    return 1.0 + u * (1.0 / 3.0 + u * (1.0 / 5.0 + u * (1.0 / 7.0 + u * (1.0 / 9.0 + u * tail))))


@summed
def _sums(shares: Any, gaps: Any, gap: float, x: float) -> Any:
    """Return Σ p̂aa/(1 + a), Σ p̂(a/(1 + a))² and Σ p̂ ln(1 + a) of a = (gaps − gap)/(x + gap) from −1/2 to 1.

    There are no branches, so the loop is compiled to vectors. ln(1 + a) is 2 artanh(a/(2 + a)): no digits cancel.
    """
    scale = 1.0 / (x + gap)
    squares, variance, logs = 0.0, 0.0, 0.0
    for e in range(len(shares)):
        away, share = (gaps[e] - gap) * scale, shares[e]
        inverse, z = away / (1.0 + away), away / (2.0 + away)
        squares += share * away * inverse
        variance += share * inverse * inverse
        logs += share * z * _artanh_ratio(z)
    return squares, variance, 2.0 * logs


@summed
def _far_sums(shares: Any, gaps: Any, gap: float, x: float) -> Any:
    """Return what `_sums` does for 1 + a from 2⁻⁸ to 2⁸: its eighth root is from 1/2 to 2."""
    scale = 1.0 / (x + gap)
    squares, variance, logs = 0.0, 0.0, 0.0
    for e in range(len(shares)):
        away, share = (gaps[e] - gap) * scale, shares[e]
        inverse = away / (1.0 + away)
        squares += share * away * inverse
        variance += share * inverse * inverse
        root = away / (1.0 + math.sqrt(1.0 + away))  # √(1 + a) − 1
        root /= 1.0 + math.sqrt(1.0 + root)
        root /= 1.0 + math.sqrt(1.0 + root)
        z = root / (2.0 + root)
        logs += share * z * _artanh_ratio(z)
    return squares, variance, 16.0 * logs


@lean
def _at_top(shares: Any, gaps: Any, gap: float, nearest: float, farthest: float) -> Any:
    """Return Σ p̂ ln(ν − V) and Σ p̂/(ν − V) at ν = top, where the top was not seen."""
    if nearest * 256.0 >= gap and farthest <= 256.0 * gap:
        squares, _, logs = _far_sums(shares, gaps, gap, 0.0)
        return logs + math.log(gap), (1.0 + squares) / gap
    logs, inverse = 0.0, 0.0
    for e in range(len(shares)):
        logs += shares[e] * math.log(gaps[e])
        inverse += shares[e] / gaps[e]
    return logs, inverse


@lean
def _excess(shares: Any, gaps: Any, gap: float, x: float, nearest: float, farthest: float) -> Any:
    """Return F(ν), its derivative by ln x, and Σ p̂ ln((ν − V)/y), at ν = top + x; gaps are in [nearest, farthest]."""
    y = x + gap
    least, most = (x + nearest) / y, (x + farthest) / y
    if least >= 0.5 and most <= 2.0:
        squares, variance, logs = _sums(shares, gaps, gap, x)
    elif least >= 1.0 / 256.0 and most <= 256.0:
        squares, variance, logs = _far_sums(shares, gaps, gap, x)
    else:
        squares, variance, logs = 0.0, 0.0, 0.0
        for e in range(len(shares)):
            ratio, away = (x + gaps[e]) / y, (gaps[e] - gap) / y
            part = shares[e] * (away / ratio)
            squares += part * away
            variance += part * (away / ratio)
            logs += shares[e] * (math.log(ratio) if ratio < 0.5 else math.log1p(away))
    return logs + math.log1p(squares), -(x / y) * (variance - squares * squares) / (1.0 + squares), logs


@lean
def largest_mean(
    first: int,
    last: int,
    shares: Any,
    states: Any,
    extras: Any,
    numbers: Any,
    values: Any,
    table: Any,
    sign: float,
    top: float,
    epsilon: float,
    top_epsilon: float,
    guess: float,
    enough: float,
    gaps: Any,
) -> tuple[float, float, float]:
    """Return the largest mean of sign·V over {q : KL(p̂‖q) <= ε}, as `core.likelihood.KLBall` does for all rows.

    Args:
        first: Position of the first entry of the group.
        last: Position after its last entry; `first` if it has no data.
        shares: Shares p̂ of all entries.
        states: Next states of all entries.
        extras: Rewards of all entries, which are added to the values of next states; empty for none.
        numbers: Columns of the table of all entries.
        values: (S,) Value of each next state.
        table: What `fill_table` made of them; (3, 0) if it was not called.
        sign: 1 or -1.
        top: Largest sign·V of any outcome, seen or not.
        epsilon: Radius ε of the group.
        top_epsilon: Smaller radius that holds at ν = top alone; infinite if there is none.
        guess: The third number that was returned for other values, where the search begins; 0 for none. Values that
            differ by their scale and an amount have the same one.
        enough: The search ends at a bound below this number, which need not be the smallest one.
        gaps: (n,) Room for the entries of a group, overwritten.

    Returns:
        The bound, the bound without the radius at the top, and the y that it was found at, in units of √(Var V/2ε).
    """
    if first == last or epsilon == np.inf:  # no data, or no radius on this side
        return top, top, 0.0
    own = shares[first:last]  # with an offset, the loops would have to check the sign of positions
    count = len(own)
    tabulated = table.shape[1] > 0
    gap, nearest, farthest, logs, inverse = 0.0, np.inf, 0.0, 0.0, 0.0  # gap: distance of the mean from the top
    if tabulated:
        for e in range(count):
            share, number = own[e], numbers[first + e]
            gaps[e] = table[GAP, number]
            gap += share * gaps[e]
            logs += share * table[LOG_GAP, number]
            inverse += share * table[INVERSE_GAP, number]
            nearest, farthest = min(nearest, gaps[e]), max(farthest, gaps[e])
    else:
        for e in range(count):
            value = values[states[first + e]]
            if len(extras) > 0:
                value += extras[first + e]
            gaps[e] = top - sign * value
            gap += own[e] * gaps[e]
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
            logs, inverse = _at_top(own, gaps, gap, nearest, farthest)
        below = math.exp(logs - epsilon)
        if top_epsilon < np.inf:
            at_top = max(top - nearest, top - math.exp(logs - top_epsilon))
        if inverse * below <= 1.0:  # F(top) <= ε
            return min(top - below, at_top), top - below, 0.0
        if min(top - below, at_top) < enough:
            return min(top - below, at_top), top - below, guess
        is_tested = True
    variance, skew = 0.0, 0.0
    for e in range(count):
        away = gaps[e] - gap
        part = own[e] * away * away
        variance += part
        skew += part * away
    first_order = math.sqrt(variance / (2.0 * epsilon))  # y of a narrow ball: F is V/2y² − 2/3 E(V̄ − V)³/y³ + …
    y = guess * first_order
    if guess <= 0.0:
        y = max(first_order - 2.0 / 3.0 * skew / variance, 0.5 * first_order) if variance > 0.0 else first_order
    x, left = max(y - gap, 1e-3 * gap), 0.0
    low, high = _SMALLEST * gap, _LARGEST * gap
    for _ in range(_STEPS):
        excess, slope, logs = _excess(own, gaps, gap, x, nearest, farthest)
        if abs(excess - epsilon) <= _CLOSE * epsilon or x <= _SMALLEST * gap:
            if slope < 0.0 and x > _SMALLEST * gap:  # the bound's derivative is 1 − e^(F − ε), which is 0 at the root
                left = 0.5 * (excess - epsilon) * (excess - epsilon) * x / -slope
            break
        if enough > -np.inf:
            bound = mean - (x + gap) * math.expm1(logs - epsilon)
            if bound < enough:
                return min(bound, at_top), bound, (x + gap) / first_order if first_order > 0.0 else 0.0
        if excess > epsilon:
            low = x
        else:
            high = x
            if not is_tested:
                logs, inverse = _at_top(own, gaps, gap, nearest, farthest)
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
    bound = min(mean - (x + gap) * math.expm1(logs - epsilon) - left, top)
    return min(bound, at_top), bound, (x + gap) / first_order if first_order > 0.0 else 0.0


@merged
def largest_mean_of(
    seen: Any, i: int, values: Any, table: Any, sign: float, top: float, guess: float, enough: float, gaps: Any
) -> Any:
    """Return `largest_mean` of group i of some outcomes."""
    return largest_mean(
        seen.firsts[i],
        seen.firsts[i + 1],
        seen.shares,
        seen.states,
        seen.extras,
        seen.numbers,
        values,
        table,
        sign,
        top,
        seen.radii[i],
        seen.top_radii[i],
        guess,
        enough,
        gaps,
    )
