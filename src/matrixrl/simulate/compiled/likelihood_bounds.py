"""Bounds of the pairs of compiled episodes with likelihood sets: radii, rewards and empirical laws, kept up to date."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from matrixrl.compiling.jit import compiled, inlined
from matrixrl.core.compiled.kl_ball import largest_mean
from matrixrl.core.compiled.likelihood import dirichlet_excess
from matrixrl.core.likelihood.radii import NO_BET_SHARE, TOP_SHARE
from matrixrl.simulate.compiled.outcome_lists import FIRSTS, LASTS, SHARES, TIMES

__all__ = ["LOOPS_DIGEST", "Known", "levels_of", "refresh_all", "refresh_changed"]

LOOPS_DIGEST = "fb01a97bd0d8fc6c"
"""Digest of the files of the loops that are called, which numba does not watch; a test compares it."""

AGENT, TIES, PROVEN = range(3)
_HALF_LOG_PI = 0.5 * math.log(math.pi)
_LOG_TOP, _LEAST_SHARE = math.log(TOP_SHARE), min(TOP_SHARE, NO_BET_SHARE)
_REST = 1.0 - TOP_SHARE - NO_BET_SHARE
_LOG_REST = math.log(_REST)


class Known(NamedTuple):
    """Data of B replicas, and the bounds that follow from them at the m levels of the radius that are used.

    Attributes:
        visits: (B, P) Visits of each pair.
        reward_sums: (B, P) Sums of unit rewards.
        paid: (B, L) Levels of rewards; -1 where unused.
        ranks: (B, L) Levels in ascending order of their rewards, those in use first.
        n_paid: (B,) Number of levels in use.
        levels: (m,) Levels of the radius; the first one is that of the agent.
        scales: (3,) Factors of the radius of the agent, of ties and of certificates.
        log_all: ln(events/δ) of β_D.
        log_optimal: ln(events/δ) of β₁; infinite if it is not used.
        log_rewards: ln(events/δ) of rewards; infinite if they are known.
        learns_reward: Whether rewards are learned.
        tuned: Whether the radii of the agent and of ties leave out δ and the number of events.
        priors: (n, k₀, 4) Parts of `dirichlet_excess` that were computed before.
        upper: (m, B, P) Radius ε of upper bounds.
        lower: (B, P) Radius ε of lower bounds of certificates; (B, 0) if there are none.
        joint: (m, B, P) Radius ε of the joint law of reward and next state.
        top: (m, B, P) Radius ε at ν = top alone, of the joint law where rewards are learned; infinite if there is none.
        no_top: (B, P) Infinity.
        most: (m, B, P) Largest unit reward that is believed.
        least: (B, P) Smallest unit reward that is believed, for certificates; (B, 0) if there are none.
        changed: (B, P) Pairs that were visited since their bounds were computed.
        n_changed: (B,) Number of these pairs.
        is_changed: (B, P) Whether a pair is one of them.
    """

    visits: Any
    reward_sums: Any
    paid: Any
    ranks: Any
    n_paid: Any
    levels: Any
    scales: Any
    log_all: float
    log_optimal: float
    log_rewards: float
    learns_reward: bool
    tuned: bool
    priors: Any
    upper: Any
    lower: Any
    joint: Any
    top: Any
    no_top: Any
    most: Any
    least: Any
    changed: Any
    n_changed: Any
    is_changed: Any


# The loops take plain tuples, as core.compiled.backup explains; fields are found by their place.
(VISITS, REWARD_SUMS, PAID, RANKS, N_PAID, LEVELS, SCALES, LOG_ALL, LOG_OPTIMAL, LOG_REWARDS) = range(10)
(LEARNS_REWARD, TUNED, PRIORS, UPPER_EPSILON, LOWER_EPSILON, JOINT_EPSILON, TOP_EPSILON) = range(10, 17)
(NO_TOP, MOST, LEAST, CHANGED, N_CHANGED, IS_CHANGED) = range(17, 23)


@compiled
def _reward_bound(mean: float, epsilon: float, top_epsilon: float, sign: float) -> float:
    """Return the largest (sign 1) or smallest (sign -1) mean reward of the binary ball."""
    if mean <= 0.0 or mean >= 1.0:
        end = 1.0 if sign > 0.0 else 0.0
        certain = 0.0 if mean <= 0.0 else 1.0
        return end if end == certain else end - math.exp(-min(epsilon, top_epsilon)) * (end - certain)
    shares, states, gaps = np.array([1.0 - mean, mean]), np.array([0, 1], dtype=np.uint32), np.empty(2)
    bound, _, _ = largest_mean(
        np.int64(0),  # not literals, for which numba would compile the function again
        np.int64(2),
        shares,
        states,
        gaps[:0],
        states,
        np.array([0.0, 1.0]),
        np.empty((3, 0)),
        sign,
        1.0 if sign > 0.0 else 0.0,
        epsilon,
        top_epsilon,
        0.0,
        -np.inf,
        gaps,
    )
    return float(sign * bound)


@compiled
def _bet_gain(n: float, gain: float) -> float:
    """Return ln C_n from the gain over Beta(½, ½), as `core.likelihood.log_bet_gain` does."""
    at_ends = -math.log(_LEAST_SHARE + _REST * math.exp(-gain))
    if n <= 1.0:
        return at_ends
    return max(at_ends, gain + math.log(2.0 - 1.0 / n) + (n - 1.0) * math.log1p(-1.0 / n) - _LOG_REST)


@compiled
def _refresh(known: Any, law: Any, joint: Any, b: int, pair: int, n_states: int) -> None:
    """Bring the shares, the radii and the bounds on the reward of a pair up to date."""
    n = float(known[VISITS][b, pair])
    if n == 0.0:
        return
    for e in range(law[FIRSTS][b, pair], law[LASTS][b, pair]):
        law[SHARES][e] = law[TIMES][e] / n
    if joint[FIRSTS].shape[1] > 0:
        for e in range(joint[FIRSTS][b, pair], joint[LASTS][b, pair]):
            joint[SHARES][e] = joint[TIMES][e] / n
    gain = _HALF_LOG_PI + math.lgamma(n + 1.0) - math.lgamma(n + 0.5)
    bet_gain, excess = _bet_gain(n, gain), 0.0
    if not known[TUNED] or known[LEVELS][-1] == PROVEN:
        excess = dirichlet_excess(law[FIRSTS][b, pair], law[LASTS][b, pair], law[TIMES], n_states, known[PRIORS])
    for m in range(len(known[LEVELS])):
        level = known[LEVELS][m]
        scale = known[SCALES][level]
        of_all = known[LOG_ALL] + excess
        of_optimal, at_top = known[LOG_OPTIMAL] + bet_gain, known[LOG_OPTIMAL] - _LOG_TOP
        of_rewards, rewards_at_top = known[LOG_REWARDS] + bet_gain, known[LOG_REWARDS] - _LOG_TOP
        if known[TUNED] and level != PROVEN:
            of_all, of_optimal, of_rewards = gain, gain, gain
            at_top, rewards_at_top = np.inf, np.inf
        known[TOP_EPSILON][m, b, pair] = scale * at_top / n
        if level == PROVEN:
            known[LOWER_EPSILON][b, pair] = scale * of_all / n
        if known[LEARNS_REWARD]:
            mean = min(max(known[REWARD_SUMS][b, pair] / n, 0.0), 1.0)
            known[UPPER_EPSILON][m, b, pair] = scale * of_all / n
            known[JOINT_EPSILON][m, b, pair] = scale * of_optimal / n
            known[MOST][m, b, pair] = _reward_bound(mean, scale * of_rewards / n, scale * rewards_at_top / n, 1.0)
            if level == PROVEN:
                known[LEAST][b, pair] = _reward_bound(mean, scale * of_rewards / n, scale * rewards_at_top / n, -1.0)
        else:
            known[UPPER_EPSILON][m, b, pair] = scale * min(of_all, of_optimal) / n


@compiled
def refresh_all(known: Any, law: Any, joint: Any, n_states: int) -> None:
    """Bring the bounds of all pairs up to date."""
    for b in range(known[VISITS].shape[0]):
        for pair in range(known[VISITS].shape[1]):
            _refresh(known, law, joint, b, pair, n_states)


@compiled
def refresh_changed(known: Any, law: Any, joint: Any, b: int, n_states: int) -> None:
    """Bring the bounds of the pairs that were visited up to date."""
    for i in range(known[N_CHANGED][b]):
        pair = known[CHANGED][b, i]
        _refresh(known, law, joint, b, pair, n_states)
        known[IS_CHANGED][b, pair] = False
    known[N_CHANGED][b] = 0


@inlined
def levels_of(known: Any, b: int, reward: float) -> tuple[int, int, float]:
    """Return the levels below and above a reward, and the share of the one above, as `linalg.RewardLevels` does.

    A reward that is a level, or becomes one, has one level and no share.
    """
    paid, ranks, n = known[PAID][b], known[RANKS][b], known[N_PAID][b]
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if paid[ranks[middle]] < reward:
            low = middle + 1
        else:
            high = middle
    if low < n and paid[ranks[low]] == reward:
        return ranks[low], ranks[low], 0.0
    if n < len(paid):
        for i in range(n, low, -1):
            ranks[i] = ranks[i - 1]
        paid[n], ranks[low] = reward, n
        known[N_PAID][b] = n + 1
        return n, n, 0.0
    below, above = ranks[low - 1], ranks[low]  # 0 and 1 are levels
    return below, above, (reward - paid[below]) / (paid[above] - paid[below])
