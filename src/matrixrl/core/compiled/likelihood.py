"""Optimistic and pessimistic backward induction with likelihood sets, compiled with numba.

The laws of the groups of pairs are lists of outcomes: the entries from `firsts` to `lasts` of a group.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from matrixrl.compiling.jit import compiled
from matrixrl.core.compiled.backup import choose

__all__ = ["BACKUP_DIGEST", "dirichlet_excess", "fill_plan", "largest_mean", "pessimistic_values"]

BACKUP_DIGEST = "d8ba87aaa63a5ee1"
"""Digest of core/compiled/backup.py, which numba does not watch; a test compares it."""

# Positions in the tuple of a law, which is a plain tuple for the reason that core.compiled.backup gives.
FIRSTS, LASTS, SHARES, STATES, EXTRAS, EPSILON, TOP_EPSILON = range(7)

_STEPS = 60
_CLOSE = 1e-7
_SMALLEST, _LARGEST = 1e-60, 1e60
_LONGEST = 7.0
_NARROWEST = 1e-30
_ROUNDING = 1e-14
_HALF_LOG_PI = 0.5 * math.log(math.pi)


@compiled
def _excess(count: int, shares: Any, first: int, gaps: Any, below: Any, gap: float, x: float) -> Any:
    """Return F(ν), its derivative by ln x, and Σ p̂ ln((ν − V)/y), at ν = top + x; x > 0 where the top was seen."""
    y = x + gap
    squares, variance, logs = 0.0, 0.0, 0.0
    for e in range(count):
        ratio, away = (x + gaps[e]) / y, below[e] / y
        part = shares[first + e] * (away / ratio)
        squares += part * away
        variance += part * (away / ratio)
        logs += shares[first + e] * (math.log(ratio) if ratio < 0.5 else math.log1p(away))
    return logs + math.log1p(squares), -(x / y) * (variance - squares * squares) / (1.0 + squares), logs


@compiled
def largest_mean(
    first: int,
    last: int,
    law: Any,
    values: Any,
    sign: float,
    top: float,
    epsilon: float,
    top_epsilon: float,
    scratch: Any,
) -> float:
    """Return the largest mean of sign·V over {q : KL(p̂‖q) <= ε}, as `core.likelihood.KLBall` does for all rows.

    Args:
        first: Position of the first entry of the group.
        last: Position after its last entry; `first` if it has no data.
        law: (firsts, lasts, shares, states, extras, epsilon, top_epsilon) of all groups.
        values: (S,) Value of each next state; an entry is worth the value of its state plus its extra.
        sign: 1 or -1.
        top: Largest sign·V of any outcome, seen or not.
        epsilon: Radius ε of the group.
        top_epsilon: Smaller radius that holds at ν = top alone; infinite if there is none.
        scratch: (2, n) Room for the entries of a group, overwritten.
    """
    if first == last:
        return top
    epsilon = max(epsilon, _NARROWEST)
    shares, states, extras, count = law[SHARES], law[STATES], law[EXTRAS], last - first
    gaps, below = scratch[0], scratch[1]
    gap, nearest = 0.0, np.inf  # distances from the top: of the mean, and of the best outcome seen
    for e in range(count):
        value = values[states[first + e]]
        if len(extras) > 0:
            value += extras[first + e]
        gaps[e] = top - sign * value
        gap += shares[first + e] * gaps[e]
        nearest = min(nearest, gaps[e])
    mean = top - gap
    if gap <= _ROUNDING * (abs(top) + abs(mean)):
        return top
    variance = 0.0
    for e in range(count):
        below[e] = gaps[e] - gap
        variance += shares[first + e] * below[e] * below[e]
    at_top = top
    if nearest > 0.0:
        excess, slope, logs = _excess(count, shares, first, gaps, below, gap, 0.0)
        at_top = max(top - nearest, mean - gap * math.expm1(logs - top_epsilon))
        if excess <= epsilon:
            return min(mean - gap * math.expm1(logs - epsilon), at_top)
    x = max(math.sqrt(variance / (2.0 * epsilon)) - gap, 1e-3 * gap)
    low, high, logs = _SMALLEST * gap, _LARGEST * gap, 0.0
    for _ in range(_STEPS):
        excess, slope, logs = _excess(count, shares, first, gaps, below, gap, x)
        if abs(excess - epsilon) <= _CLOSE * epsilon or x <= _SMALLEST * gap:
            break
        if excess > epsilon:
            low = x
        else:
            high = x
        step = -1.0
        if excess > 0.0 and slope < 0.0:
            flat = excess > epsilon and -slope < excess
            change = excess - epsilon if flat else math.log(excess / epsilon) * excess
            step = x * math.exp(min(change / -slope, _LONGEST))
        if step < 0.0 or step >= high or _SMALLEST * gap < step <= low:
            step = math.sqrt(low * high)
        x = max(step, _SMALLEST * gap)
    return min(mean - (x + gap) * math.expm1(logs - epsilon), at_top)


@compiled
def _longest(law: Any) -> int:
    """Return the largest number of entries of a group."""
    longest = 0
    for b in range(law[FIRSTS].shape[0]):
        for g in range(law[FIRSTS].shape[1]):
            longest = max(longest, law[LASTS][b, g] - law[FIRSTS][b, g])
    return longest


@compiled
def fill_plan(
    law: Any,
    joint: Any,
    groups: Any,
    reward: Any,
    first_replica: int,
    ties: Any,
    end_state: int,
    end_reward: float,
    values: Any,
    policy: Any,
    preference: Any,
    preference_weight: float,
    q_out: Any,
    sign: float = 1.0,
) -> None:
    """Fill in the optimistic values (B, H + 1, S) and the policy (B, H, S) of every replica; or the pessimistic ones.

    Args:
        law: Laws of the next states of the groups, with firsts, lasts and epsilon (B, K).
        joint: Joint laws of reward and next state, likewise; firsts is (B, 0) where rewards are known.
        groups: (P,) Group of each pair.
        reward: (B, P) Largest unit rewards that are believed, or the smallest ones.
        first_replica: Replica of these arrays that the first row of the arguments below belongs to.
        ties: (B, A) Numbers that break ties.
        end_state: State whose value is known, or -1.
        end_reward: Its unit reward.
        values: Filled in; values[:, H] is read.
        policy: Filled in.
        preference: (B, H, P) Preferences in [0, H] that break ties first; or (0, 0, 0).
        preference_weight: Factor of the preference.
        q_out: (B, H, P) Filled in with the bounds on Q; or (0, 0, 0).
        sign: 1 for upper bounds; -1 for lower bounds, which need radii that hold for all values and no joint laws.
    """
    n_replicas, horizon, n_states = policy.shape
    n_groups, n_actions = law[FIRSTS].shape[1], ties.shape[1]
    has_joint = joint[FIRSTS].shape[1] > 0
    scratch = np.empty((2, max(_longest(law), _longest(joint))))
    bounds, both = np.empty(n_groups), np.empty(n_groups)
    q, best, score, chosen = np.empty(n_states), np.empty(n_states), np.empty(n_states), np.empty(n_states)
    for b in range(n_replicas):
        r = first_replica + b
        for h in range(horizon - 1, -1, -1):
            following = values[b, h + 1]
            top = following.max() if sign > 0.0 else -following.min()
            for g in range(n_groups):
                bounds[g] = 0.0
                if h < horizon - 1:
                    first, last = law[FIRSTS][r, g], law[LASTS][r, g]
                    mean = largest_mean(
                        first, last, law, following, sign, top, law[EPSILON][r, g], law[TOP_EPSILON][r, g], scratch
                    )
                    bounds[g] = sign * mean
                if has_joint:
                    first, last = joint[FIRSTS][r, g], joint[LASTS][r, g]
                    both[g] = largest_mean(
                        first,
                        last,
                        joint,
                        following,
                        1.0,
                        top + 1.0,
                        joint[EPSILON][r, g],
                        joint[TOP_EPSILON][r, g],
                        scratch,
                    )
            best[:] = -np.inf
            score[:] = -np.inf
            for a in range(n_actions):
                pairs = slice(a * n_states, (a + 1) * n_states)
                for s in range(n_states):
                    p = a * n_states + s
                    q[s] = bounds[groups[p]] + reward[r, p]
                    if has_joint:
                        q[s] = min(q[s], both[groups[p]])
                    best[s] = max(best[s], q[s])
                if len(q_out) > 0:
                    q_out[b, h, pairs] = q
                if len(preference) > 0:
                    for s in range(n_states):
                        q[s] += preference_weight * preference[b, h, a * n_states + s]
                choose(a, q, ties[b, a], score, chosen)
            for s in range(n_states):
                values[b, h, s] = best[s] if sign > 0.0 else min(max(best[s], 0.0), float(horizon))
                policy[b, h, s] = int(chosen[s])
            if end_state >= 0:
                values[b, h, end_state] = (horizon - h) * end_reward


@compiled
def pessimistic_values(
    law: Any, groups: Any, least: Any, r: int, end_state: int, end_reward: float, policy: Any, values: Any
) -> None:
    """Fill in lower bounds (H + 1, S) on the values of a policy (H, S); values[H] is read.

    Args:
        law: Laws of the next states of the groups, with radii that hold for all values.
        groups: (P,) Group of each pair.
        least: (B, P) Smallest unit rewards that are believed.
        r: Replica.
        end_state: State whose value is known, or -1.
        end_reward: Its unit reward.
        policy: Action of each stage and state.
        values: Filled in.
    """
    horizon, n_states = policy.shape
    scratch = np.empty((2, _longest(law)))
    for h in range(horizon - 1, -1, -1):
        following = values[h + 1]
        top = -following.min()
        for s in range(n_states):
            p = policy[h, s] * n_states + s
            worth = least[r, p]
            if h < horizon - 1:
                g = groups[p]
                first, last = law[FIRSTS][r, g], law[LASTS][r, g]
                worth -= largest_mean(
                    first, last, law, following, -1.0, top, law[EPSILON][r, g], law[TOP_EPSILON][r, g], scratch
                )
            values[h, s] = min(max(worth, 0.0), float(horizon))
        if end_state >= 0:
            values[h, end_state] = (horizon - h) * end_reward


@compiled
def dirichlet_excess(first: int, last: int, times: Any, n_outcomes: int, priors: Any) -> float:
    """Return Σ c ln(c/n) − ln m(c) of the counts of one group, as `core.likelihood.dirichlet_excess` does for all.

    Args:
        first: Position of the first count of the group.
        last: Position after its last count.
        times: Counts of all groups.
        n_outcomes: Number of possible outcomes S.
        priors: (n, k₀, 4) Numbers of `_support_prior` that were computed before, filled in; the last one is 1 if so.
    """
    n, total = 0.0, 0.0
    for e in range(first, last):
        n += times[e]
    for e in range(first, last):
        total += times[e] * math.log(times[e] / n) - math.lgamma(times[e] + 0.5) + _HALF_LOG_PI
    k0, known = last - first, int(n)
    if known >= priors.shape[0] or k0 >= priors.shape[1]:
        constant, largest, log_sums = _support_prior(n, k0, n_outcomes)
        return total - constant - largest - log_sums
    prior = priors[known, k0]
    if prior[3] == 0.0:
        prior[0], prior[1], prior[2] = _support_prior(n, k0, n_outcomes)
        prior[3] = 1.0
    return float(total - prior[0] - prior[1] - prior[2])


@compiled
def _support_prior(n: float, k0: int, n_outcomes: int) -> tuple[float, float, float]:
    """Return three numbers whose sum is `core.likelihood.log_support_prior` of n observations of k₀ outcomes."""
    # Σ_{k>=k₀} of the terms of log_support_prior: two steps of k are a ratio of polynomials, so two sums are followed.
    largest, sums = -np.inf, 0.0
    for k in range(k0, min(k0 + 2, n_outcomes + 1)):
        log_term = math.lgamma(k + 1.0) - math.lgamma(k - k0 + 1.0) + math.lgamma(0.5 * k) - math.lgamma(n + 0.5 * k)
        log_term -= math.log(k * (k + 1.0))
        term, part, j, scale = 1.0, 1.0, float(k), 0.0
        while j + 2.0 <= n_outcomes and (term > 1e-17 * part or j < 2.0 * k0):
            term *= (j / (j + 3.0)) * ((j + 1.0) / (j + 1.0 - k0)) * ((j + 1.0) / (j + 2.0 - k0)) * (j / (2.0 * n + j))
            part += term
            j += 2.0
            if part > 1e200:
                term, part, scale = term * 1e-200, part * 1e-200, scale + 200.0 * math.log(10.0)
        log_part = log_term + scale + math.log(part)
        if log_part > largest:
            sums, largest = sums * math.exp(largest - log_part) + 1.0, log_part
        else:
            sums += math.exp(log_part - largest)
    constant = math.lgamma(n_outcomes - k0 + 1.0) - math.lgamma(n_outcomes + 1.0) + math.log1p(1.0 / n_outcomes)
    return constant, largest, math.log(sums)
