"""Optimistic and pessimistic backward induction with likelihood sets, compiled with numba.

The laws of the groups of pairs are lists of outcomes: the entries from `firsts` to `lasts` of a group.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from matrixrl.compilation import compiled, lean
from matrixrl.core.compiled.backup import choose, maximum, minimum
from matrixrl.core.compiled.kl_ball import (
    FIRSTS,
    LASTS,
    fill_table,
    gather,
    largest_mean_of,
)
from matrixrl.core.compiled.pruned import fill_pruned_plan

__all__ = ["dirichlet_excess", "fill_plan", "log_gamma", "policy_values"]

_HALF_LOG_PI = 0.5 * math.log(math.pi)


@lean
def _longest(law: Any, r: int) -> int:
    """Return the largest number of entries of a group of replica r."""
    longest = 0
    for g in range(law[FIRSTS].shape[1]):
        longest = max(longest, law[LASTS][r, g] - law[FIRSTS][r, g])
    return longest


@lean
def _fill_bounds(
    seen: Any, needed: Any, values: Any, sign: float, top: float, table: Any, guess: Any, gaps: Any, out: Any
) -> None:
    """Fill in the largest mean of sign·V of the needed groups (K,); positions of the search (K,) are changed."""
    fill_table(seen.listed_states, seen.listed_extras, values, sign, top, table)
    for g in range(len(out)):
        out[g] = top
        if needed[g] and seen.firsts[g] < seen.firsts[g + 1]:
            out[g], _, guess[g] = largest_mean_of(seen, g, values, table, sign, top, guess[g], -np.inf, gaps)


@compiled
def fill_plan(
    sign: float,
    law: Any,
    joint: Any,
    joint_is_less: bool,
    groups: Any,
    reward: Any,
    first_replica: int,
    ties: Any,
    end_state: int,
    end_values: Any,
    discount: float,
    choices: Any,
    values: Any,
    policy: Any,
    preference: Any,
    preference_weight: float,
    q_out: Any,
) -> None:
    """Fill in the optimistic values (B, H + 1, S) and the policy (B, H, S) of every replica; or the pessimistic ones.

    The arguments from `first_replica` to `q_out` are those of `core.compiled.backup.fill_plan`; the others:
        sign: 1 for upper bounds; -1 for lower bounds, which need radii that hold for all values and no joint laws.
        law: Laws of the next states of the groups, with firsts, lasts and epsilon (B, K).
        joint: Joint laws of reward and next state, likewise; firsts is (B, 0) where rewards are known.
        joint_is_less: Whether a bound by the joint law is never larger than one by the law and the reward, as with
            equal radii: {q : KL(p̂‖q) <= ε} of the joint law has its marginals in the sets of the others.
        groups: (P,) Group of each pair.
        reward: (B, P) Largest unit rewards that are believed, or the smallest ones; -∞ excludes a pair.
    """
    n_replicas, horizon, n_states = policy.shape
    n_groups = law[FIRSTS].shape[1]
    if sign > 0.0 and n_groups == len(groups) and len(preference) == 0 and len(q_out) == 0:
        ends = end_state, end_values, discount, choices
        for b in range(n_replicas):
            r = first_replica + b
            fill_pruned_plan(law, joint, joint_is_less, groups, reward, r, ties[b], ends, values[b], policy[b])
        return
    has_joint, uses_law = joint[FIRSTS].shape[1] > 0, not joint_is_less
    bounds, both, all_groups = np.zeros(n_groups), np.zeros(n_groups), np.arange(n_groups)
    q, best, score, chosen = np.empty(n_states), np.empty(n_states), np.empty(n_states), np.empty(n_states)
    needed = np.empty(n_groups, dtype=np.bool_)
    for b in range(n_replicas):
        r = first_replica + b
        of_law = gather(law, r, all_groups if uses_law else all_groups[:0], n_states)
        of_joint = gather(joint, r, all_groups if has_joint else all_groups[:0], n_states)
        table, joint_table = np.empty((3, len(of_law.listed_states))), np.empty((3, len(of_joint.listed_states)))
        at_law, at_joint = np.zeros(n_groups), np.zeros(n_groups)
        gaps = np.empty(max(_longest(law, r), _longest(joint, r)))
        for h in range(horizon - 1, -1, -1):
            following = discount * values[b, h + 1]
            top = maximum(following) if sign > 0.0 else -minimum(following)
            bounds[:] = 0.0
            needed[:] = False
            for p in range(choices[h, 0] * n_states, choices[h, 1] * n_states):
                needed[groups[p]] = True
            if uses_law and h < horizon - 1:
                _fill_bounds(of_law, needed, following, sign, top, table, at_law, gaps, bounds)
            if has_joint:
                _fill_bounds(of_joint, needed, following, 1.0, top + 1.0, joint_table, at_joint, gaps, both)
            best[:] = -np.inf
            score[:] = -np.inf
            if len(q_out) > 0:
                q_out[b, h] = -np.inf
            for a in range(choices[h, 0], choices[h, 1]):
                for s in range(n_states):
                    p = a * n_states + s
                    q[s] = np.inf
                    if uses_law:
                        q[s] = sign * bounds[groups[p]] + reward[r, p]
                    if has_joint:
                        q[s] = min(q[s], both[groups[p]])
                    if reward[r, p] == -np.inf:  # the pair is excluded
                        q[s] = -np.inf
                    best[s] = max(best[s], q[s])
                if len(q_out) > 0:
                    for s in range(n_states):
                        q_out[b, h, a * n_states + s] = q[s]
                if len(preference) > 0:
                    for s in range(n_states):
                        q[s] += preference_weight * preference[b, h, a * n_states + s]
                choose(a, q, ties[b, a], score, chosen)
            for s in range(n_states):
                values[b, h, s] = best[s] if sign > 0.0 else min(max(best[s], 0.0), float(horizon))
                policy[b, h, s] = int(chosen[s])
            if end_state >= 0:
                values[b, h, end_state] = end_values[h]


@compiled
def policy_values(
    sign: float,
    law: Any,
    groups: Any,
    reward: Any,
    r: int,
    end_state: int,
    end_values: Any,
    discount: float,
    policy: Any,
    ceiling: Any,
    values: Any,
) -> None:
    """Fill in bounds (H + 1, S) on the values of a policy (H, S), lower (sign -1) or upper ones; values[H] is read.

    The arguments are those of `fill_plan`, of one replica, except for:
        law: Laws of the next states of the groups, with radii that hold for all values.
        reward: (B, P) Smallest unit rewards that are believed, or the largest ones.
        r: Replica.
        ceiling: (H, S) Largest values; (0, 0) for H everywhere.
    """
    horizon, n_states = policy.shape
    n_groups, gaps = law[FIRSTS].shape[1], np.empty(_longest(law, r))
    seen = gather(law, r, np.arange(n_groups), n_states)
    table, at, bounds = np.empty((3, len(seen.listed_states))), np.zeros(n_groups), np.zeros(n_groups)
    needed = np.empty(n_groups, dtype=np.bool_)
    for h in range(horizon - 1, -1, -1):
        following = discount * values[h + 1]
        top = maximum(following) if sign > 0.0 else -minimum(following)
        if h < horizon - 1:
            needed[:] = False
            for s in range(n_states):
                needed[groups[policy[h, s] * n_states + s]] = True
            _fill_bounds(seen, needed, following, sign, top, table, at, gaps, bounds)
        for s in range(n_states):
            p = policy[h, s] * n_states + s
            worth = reward[r, p]
            if h < horizon - 1:
                worth += sign * bounds[groups[p]]
            most = ceiling[h, s] if len(ceiling) > 0 else float(horizon)
            values[h, s] = min(max(worth, 0.0), most)
        if end_state >= 0:
            values[h, end_state] = end_values[h]


@lean
def log_gamma(twice: float, log_gammas: Any) -> float:
    """Return ln Γ(x) of a whole or half number x > 0, given as 2x, from a table of them where it is long enough."""
    place = np.int64(twice)
    if place < len(log_gammas) and place == twice:
        return float(log_gammas[place])
    return math.lgamma(0.5 * twice)


@lean
def dirichlet_excess(first: int, last: int, times: Any, n_outcomes: int, priors: Any, log_gammas: Any) -> float:
    """Return Σ c ln(c/n) − ln m(c) of the counts of one group, as that of `core.likelihood.radii` does for all.

    `priors` (n, k₀, 4) keeps the numbers of `_support_prior` that were computed; the last one is 1 if they were.
    `log_gammas` (n,) has ln Γ(i/2) at i; it may be empty.
    """
    n, total = 0.0, 0.0
    for e in range(first, last):
        n += times[e]
    for e in range(first, last):
        total += times[e] * math.log(times[e] / n) - log_gamma(2.0 * times[e] + 1.0, log_gammas) + _HALF_LOG_PI
    k0, known = last - first, int(n)
    if known >= priors.shape[0] or k0 >= priors.shape[1]:
        constant, largest, log_sums = _support_prior(n, k0, n_outcomes, log_gammas)
        return float(total - constant - largest - log_sums)
    prior = priors[known, k0]
    if prior[3] == 0.0:
        prior[0], prior[1], prior[2] = _support_prior(n, k0, n_outcomes, log_gammas)
        prior[3] = 1.0
    return float(total - prior[0] - prior[1] - prior[2])


@lean
def _support_prior(n: float, k0: int, n_outcomes: int, log_gammas: Any) -> tuple[float, float, float]:
    """Return three numbers whose sum is `core.likelihood.log_support_prior` of n observations of k₀ outcomes."""
    # Σ_{k>=k₀} of the terms of log_support_prior: two steps of k are a ratio of polynomials, so two sums are followed.
    largest, sums = -np.inf, 0.0
    for k in range(k0, min(k0 + 2, n_outcomes + 1)):
        log_term = log_gamma(2.0 * k + 2.0, log_gammas) - log_gamma(2.0 * (k - k0) + 2.0, log_gammas)
        log_term += log_gamma(float(k), log_gammas) - log_gamma(2.0 * n + k, log_gammas)
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
    constant = log_gamma(2.0 * (n_outcomes - k0) + 2.0, log_gammas) - log_gamma(2.0 * n_outcomes + 2.0, log_gammas)
    constant += math.log1p(1.0 / n_outcomes)
    return constant, largest, math.log(sums)
