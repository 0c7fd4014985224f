"""Whole episodes of agents with likelihood sets on one-hot pairs, compiled with numba.

The laws of the pairs are padded lists of outcomes in ascending order, so that sums run in the order of the NumPy
version. Arrays of pairs are action-major, as everywhere.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from matrixrl.core.compiled.jit import compiled
from matrixrl.core.compiled.likelihood import dirichlet_excess, fill_plan, largest_mean, pessimistic_values
from matrixrl.core.likelihood.radii import NO_BET_SHARE, TOP_SHARE
from matrixrl.simulate.compiled.episodes import (
    ACTIONS,
    CERTIFIED,
    END_REWARD,
    END_STATE,
    HIGH,
    LENGTHS,
    LOW,
    MEASURES,
    NOISY,
    REGRET,
    RETURNS,
    REWARD,
    START,
    STATES,
    UPPER,
    play_one,
    regret_of,
    reward_of,
)

__all__ = ["LOOPS_DIGEST", "Kept", "Known", "Laws", "play_episodes", "refresh_all"]

LOOPS_DIGEST = "71853bea56902a45"
"""Digest of core/compiled/likelihood.py and simulate/compiled/episodes.py, which numba does not watch."""

AGENT, TIES, PROVEN = range(3)
_HALF_LOG_PI = 0.5 * math.log(math.pi)
_LOG_TOP, _LEAST_SHARE = math.log(TOP_SHARE), min(TOP_SHARE, NO_BET_SHARE)
_REST = 1.0 - TOP_SHARE - NO_BET_SHARE
_LOG_REST = math.log(_REST)


class Laws(NamedTuple):
    """Padded lists of the outcomes of each pair.

    Attributes:
        firsts: (B, P) Position of the first entry of a pair in the flat arrays.
        lasts: (B, P) Position after its last entry.
        outcomes: (E,) Code of each outcome, ascending inside a pair.
        states: (E,) Next state of each outcome.
        extras: (E,) Unit reward of each outcome; empty where the law is of next states alone.
        times: (E,) How often it was seen.
        shares: (E,) Its empirical probability.
    """

    firsts: Any
    lasts: Any
    outcomes: Any
    states: Any
    extras: Any
    times: Any
    shares: Any


class Known(NamedTuple):
    """Data of B replicas, and the bounds that follow from them.

    Attributes:
        visits: (B, P) Visits of each pair.
        excess: (B, P) `dirichlet_excess` of each pair.
        reward_sums: (B, P) Sums of unit rewards.
        levels: (B, L) Levels of rewards; -1 where unused.
        scales: (3,) Factors of the radius of the agent, of ties and of certificates.
        log_all: ln(events/δ) of β_D.
        log_optimal: ln(events/δ) of β₁; infinite if it is not used.
        log_rewards: ln(events/δ) of rewards; infinite if they are known.
        learns_reward: Whether rewards are learned.
        tuned: Whether the radii of the agent and of ties leave out δ and the number of events.
        upper: (3, B, P) Radius ε of upper bounds.
        lower: (B, P) Radius ε of lower bounds of certificates.
        joint: (3, B, P) Radius ε of the joint law of reward and next state.
        top: (3, B, P) Radius ε at ν = top alone, of the joint law where rewards are learned; infinite if there is none.
        no_top: (B, P) Infinity.
        most: (3, B, P) Largest unit reward that is believed.
        least: (B, P) Smallest unit reward that is believed, for certificates.
    """

    visits: Any
    excess: Any
    reward_sums: Any
    levels: Any
    scales: Any
    log_all: float
    log_optimal: float
    log_rewards: float
    learns_reward: bool
    tuned: bool
    upper: Any
    lower: Any
    joint: Any
    top: Any
    no_top: Any
    most: Any
    least: Any


class Kept(NamedTuple):
    """The plan that each replica plays, until some pair has grown by 1 + κ since it was made.

    Attributes:
        policy: (B, H, S) Its policy.
        values: (B, H + 1, S) Its optimistic values.
        visits: (B, P) Visits of each pair when it was made; -1 before the first plan.
        regret: (B,) Regret of its policy, where it was measured.
        measured: (B,) Whether it was; a flag, because the loops assume that there is no NaN.
        n_plans: (B,) Number of plans made by these loops.
        growth: κ; 0 plans before every episode.
    """

    policy: Any
    values: Any
    visits: Any
    regret: Any
    measured: Any
    n_plans: Any
    growth: float


(FIRSTS, LASTS, OUTCOMES, NEXT, EXTRAS, TIMES, SHARES) = range(7)
(VISITS, EXCESS, REWARD_SUMS, LEVELS, SCALES, LOG_ALL, LOG_OPTIMAL, LOG_REWARDS, LEARNS_REWARD, TUNED) = range(10)
(UPPER_EPSILON, LOWER_EPSILON, JOINT_EPSILON, TOP_EPSILON, NO_TOP, MOST, LEAST) = range(10, 17)
(POLICY, VALUES, KEPT_VISITS, KEPT_REGRET, MEASURED, N_PLANS, GROWTH) = range(7)


@compiled
def _reward_bound(mean: float, epsilon: float, top_epsilon: float, sign: float) -> float:
    """Return the largest (sign 1) or smallest (sign -1) mean reward of the binary ball."""
    if mean <= 0.0 or mean >= 1.0:
        end = 1.0 if sign > 0.0 else 0.0
        certain = 0.0 if mean <= 0.0 else 1.0
        return end if end == certain else end - math.exp(-min(epsilon, top_epsilon)) * (end - certain)
    shares, states = np.array([1.0 - mean, mean]), np.array([0, 1])
    law = (states, states, shares, states, np.zeros(0), shares, shares)
    bound: float = sign * largest_mean(
        0, 2, law, np.array([0.0, 1.0]), sign, 1.0 if sign > 0.0 else 0.0, epsilon, top_epsilon, np.empty((2, 2))
    )
    return bound


@compiled
def _bet_gain(n: float, gain: float) -> float:
    """Return ln C_n from the gain over Beta(½, ½), as `core.likelihood.log_bet_gain` does."""
    at_ends = -math.log(_LEAST_SHARE + _REST * math.exp(-gain))
    if n <= 1.0:
        return at_ends
    return max(at_ends, gain + math.log(2.0 - 1.0 / n) + (n - 1.0) * math.log1p(-1.0 / n) - _LOG_REST)


@compiled
def _refresh(known: Any, law: Any, b: int, pair: int, n_states: int) -> None:
    """Bring the radii and the bounds on the reward of a pair up to date."""
    n = float(known[VISITS][b, pair])
    if n == 0.0:
        return
    known[EXCESS][b, pair] = dirichlet_excess(law[FIRSTS][b, pair], law[LASTS][b, pair], law[TIMES], n_states)
    gain = _HALF_LOG_PI + math.lgamma(n + 1.0) - math.lgamma(n + 0.5)
    bet_gain = _bet_gain(n, gain)
    known[LOWER_EPSILON][b, pair] = known[SCALES][PROVEN] * (known[LOG_ALL] + known[EXCESS][b, pair]) / n
    for level in range(3):
        scale = known[SCALES][level]
        of_all = known[LOG_ALL] + known[EXCESS][b, pair]
        of_optimal, at_top = known[LOG_OPTIMAL] + bet_gain, known[LOG_OPTIMAL] - _LOG_TOP
        of_rewards, rewards_at_top = known[LOG_REWARDS] + bet_gain, known[LOG_REWARDS] - _LOG_TOP
        if known[TUNED] and level != PROVEN:
            of_all, of_optimal, of_rewards = gain, gain, gain
            at_top, rewards_at_top = np.inf, np.inf
        known[TOP_EPSILON][level, b, pair] = scale * at_top / n
        if known[LEARNS_REWARD]:
            mean = min(max(known[REWARD_SUMS][b, pair] / n, 0.0), 1.0)
            known[UPPER_EPSILON][level, b, pair] = scale * of_all / n
            known[JOINT_EPSILON][level, b, pair] = scale * of_optimal / n
            known[MOST][level, b, pair] = _reward_bound(mean, scale * of_rewards / n, scale * rewards_at_top / n, 1.0)
            if level == PROVEN:
                known[LEAST][b, pair] = _reward_bound(mean, scale * of_rewards / n, scale * rewards_at_top / n, -1.0)
        else:
            known[UPPER_EPSILON][level, b, pair] = scale * min(of_all, of_optimal) / n


@compiled
def refresh_all(known: Any, law: Any, n_states: int) -> None:
    """Bring the radii of all pairs up to date."""
    for b in range(known[VISITS].shape[0]):
        for pair in range(known[VISITS].shape[1]):
            _refresh(known, law, b, pair, n_states)


@compiled
def _count(law: Any, b: int, pair: int, outcome: int, state: int, extra: float, visits: float) -> None:
    """Count one outcome of a pair that has now been visited so often."""
    first, last = law[FIRSTS][b, pair], law[LASTS][b, pair]
    e = first
    while e < last and law[OUTCOMES][e] < outcome:
        e += 1
    if e == last or law[OUTCOMES][e] != outcome:
        for i in range(last, e, -1):
            law[OUTCOMES][i], law[NEXT][i] = law[OUTCOMES][i - 1], law[NEXT][i - 1]
            law[TIMES][i] = law[TIMES][i - 1]
            if len(law[EXTRAS]) > 0:
                law[EXTRAS][i] = law[EXTRAS][i - 1]
        law[OUTCOMES][e], law[NEXT][e], law[TIMES][e] = outcome, state, 0.0
        if len(law[EXTRAS]) > 0:
            law[EXTRAS][e] = extra
        last += 1
        law[LASTS][b, pair] = last
    law[TIMES][e] += 1.0
    for i in range(first, last):
        law[SHARES][i] = law[TIMES][i] / visits


@compiled
def _level_of(levels: Any, reward: float) -> int:
    """Return the number of the level of a reward; a new reward takes the first free level."""
    for i in range(len(levels)):
        if levels[i] == reward:
            return i
        if levels[i] < 0.0:  # free
            levels[i] = reward
            return i
    return -1


@compiled
def _learn(world: Any, known: Any, law: Any, joint: Any, b: int, states: Any, actions: Any, coins: Any) -> Any:
    """Count the steps of one episode; return its return and its length."""
    n_states = len(world[START])
    earned, length = 0.0, 0
    for h in range(len(actions)):
        if states[h] == world[END_STATE]:  # steps after the end were not taken
            continue
        p = actions[h] * n_states + states[h]
        paid = reward_of(world, p, coins[h] if world[NOISY] else 0.0)
        earned += paid
        length += 1
        known[VISITS][b, p] += 1
        visits = float(known[VISITS][b, p])
        following = states[h + 1]
        _count(law, b, p, following, following, 0.0, visits)
        if known[LEARNS_REWARD]:
            unit = (paid - world[LOW]) / (world[HIGH] - world[LOW])
            known[REWARD_SUMS][b, p] += unit
            if joint[FIRSTS].shape[1] > 0:
                level = _level_of(known[LEVELS][b], unit)
                _count(joint, b, p, following * known[LEVELS].shape[1] + level, following, unit, visits)
    return earned, length


@compiled
def _plan(
    world: Any,
    known: Any,
    law: Any,
    joint: Any,
    groups: Any,
    level: int,
    b: int,
    ties: Any,
    preference: Any,
    weight: float,
    values: Any,
    policy: Any,
    q_out: Any,
) -> None:
    """Fill in the optimistic values (1, H + 1, S) and the policy (1, H, S) of replica b at one level of the radius."""
    at_top = known[NO_TOP] if known[LEARNS_REWARD] else known[TOP_EPSILON][level]
    of_states = (law[FIRSTS], law[LASTS], law[SHARES], law[NEXT], law[EXTRAS], known[UPPER_EPSILON][level], at_top)
    of_both = (
        joint[FIRSTS],
        joint[LASTS],
        joint[SHARES],
        joint[NEXT],
        joint[EXTRAS],
        known[JOINT_EPSILON][level],
        known[TOP_EPSILON][level],
    )
    fill_plan(
        of_states,
        of_both,
        groups,
        known[MOST][level],
        b,
        ties.reshape((1, len(ties))),
        world[END_STATE],
        world[END_REWARD],
        values,
        policy,
        preference,
        weight,
        q_out,
    )


@compiled
def _is_due(visits: Any, kept: Any, growth: float) -> bool:
    """Return whether to plan: some pair (P,) was visited for the first time or grew by 1 + κ since the last plan."""
    if growth == 0.0:
        return True
    due = False
    for p in range(len(visits)):
        due |= kept[p] < 0 or (visits[p] > kept[p] and visits[p] >= kept[p] * (1.0 + growth))
    return due


@compiled
def play_episodes(
    world: Any,
    known: Any,
    law: Any,
    joint: Any,
    kept: Any,
    ties: Any,
    uniforms: Any,
    weight: float,
    certifies: bool,
    learns: bool,
    played: Any,
) -> None:
    """Play and learn n episodes in every replica.

    Args:
        world: The MDP, as in `simulate.compiled.episodes`.
        known: What was learned and the bounds; changed in place.
        law: Laws of next states, likewise.
        joint: Joint laws of reward and next state, likewise; firsts is (B, 0) where they are not used.
        kept: Plans that are being played, likewise.
        ties: (B, n, A) Numbers that break the ties that are left; each plan takes the next ones.
        uniforms: (B, n, D) Random numbers: first state, next states, and coins for noisy rewards.
        weight: Factor of the small-radius Q in breaking ties; 0 if it is not used.
        certifies: Whether every episode is certified.
        learns: False leaves everything that was learned unchanged.
        played: Filled in.
    """
    n_replicas, n_episodes, horizon = played[ACTIONS].shape
    n_states, n_pairs = len(world[START]), len(world[REWARD])
    groups = np.arange(n_pairs)
    values, other = np.zeros((1, horizon + 1, n_states)), np.zeros((1, horizon, n_states), dtype=np.int32)
    nothing, no_ties, prefers = np.zeros((0, 0, 0)), np.zeros(ties.shape[2]), weight > 0.0
    preference = np.zeros((1, horizon, n_pairs)) if prefers else nothing
    lower = (law[FIRSTS], law[LASTS], law[SHARES], law[NEXT], law[EXTRAS], known[LOWER_EPSILON], known[NO_TOP])
    for b in range(n_replicas):
        policy, optimistic = kept[POLICY][b : b + 1], kept[VALUES][b : b + 1]
        for i in range(n_episodes):
            if _is_due(known[VISITS][b], kept[KEPT_VISITS][b], kept[GROWTH]):
                if prefers:
                    _plan(world, known, law, joint, groups, TIES, b, no_ties, nothing, 0.0, values, other, preference)
                    for h in range(horizon):
                        for p in range(n_pairs):
                            preference[0, h, p] = min(max(preference[0, h, p], 0.0), float(horizon))
                drawn = ties[b, kept[N_PLANS][b]]
                _plan(
                    world, known, law, joint, groups, AGENT, b, drawn, preference, weight, optimistic, policy, nothing
                )
                kept[KEPT_VISITS][b] = known[VISITS][b]
                kept[MEASURED][b] = False
                kept[N_PLANS][b] += 1
            played[UPPER][b, i] = np.dot(optimistic[0, 0], world[START])
            if certifies:
                pessimistic_values(
                    lower, groups, known[LEAST], b, world[END_STATE], world[END_REWARD], policy[0], values[0]
                )
                played[CERTIFIED][b, i, 0] = np.dot(values[0, 0], world[START])
                _plan(world, known, law, joint, groups, PROVEN, b, no_ties, nothing, 0.0, values, other, nothing)
                played[CERTIFIED][b, i, 1] = np.dot(values[0, 0], world[START])
            if world[MEASURES]:
                if not kept[MEASURED][b]:
                    kept[KEPT_REGRET][b] = regret_of(world, policy[0], values[0])
                    kept[MEASURED][b] = True
                played[REGRET][b, i] = kept[KEPT_REGRET][b]
            if not learns:
                continue
            states, actions = played[STATES][b, i], played[ACTIONS][b, i]
            play_one(world, policy[0], uniforms[b, i], states, actions)
            coins = uniforms[b, i, horizon + 1 :]
            earned, length = _learn(world, known, law, joint, b, states, actions, coins)
            played[RETURNS][b, i], played[LENGTHS][b, i] = earned, length
            for h in range(horizon):
                if states[h] != world[END_STATE]:
                    _refresh(known, law, b, actions[h] * n_states + states[h], n_states)
