"""Bounds of the pairs in compiled episodes, and the backups that use them: balls around M_n, or around empirical laws.

Every function takes both kinds of bounds, of which one is None. numba does not compile a branch `if balls is not None`
if the argument is None.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from matrixrl.compilation import compiled, internal, lean, merged
from matrixrl.core.compiled import backup, likelihood
from matrixrl.core.compiled.kl_ball import largest_mean
from matrixrl.core.likelihood.radii import NO_BET_SHARE, TOP_SHARE
from matrixrl.play.compiled.arrays import Balls, Data, KLBalls, Lists

__all__ = [
    "AGENT",
    "PROVEN",
    "TIES",
    "TUNED",
    "lower_value",
    "plan",
    "refresh_all",
    "refresh_changed",
    "upper_values",
    "width_of",
]

AGENT, TIES, TUNED, PROVEN = range(4)
_HALF_LOG_PI = 0.5 * math.log(math.pi)
_LOG_TOP, _LEAST_SHARE = math.log(TOP_SHARE), min(TOP_SHARE, NO_BET_SHARE)
_REST = 1.0 - TOP_SHARE - NO_BET_SHARE
_LOG_REST = math.log(_REST)


@lean
def _refresh_ball(data: Any, law: Any, balls: Any, b: int, pair: int) -> None:
    """Bring the estimate, the half-widths and the bounds on the reward of a pair up to date."""
    n, first = data.visits[b, pair], law.firsts[b, pair]
    n_successors = law.lasts[b, pair] - first
    shrink = 1.0 / (balls.ridge + n)
    balls.slack[b, pair] = balls.ridge * shrink
    balls.widest[b] = max(balls.widest[b], n_successors)
    for k in range(n_successors):
        balls.successors[b, k, pair] = law.states[first + k]
        balls.shares[b, k, pair] = law.times[first + k] * shrink
    for level in range(len(balls.by_visits)):
        for m in range(len(balls.centre)):
            balls.half_width[level, b, m, pair] = balls.by_visits[level, m, n]
    if data.learns_reward:
        mean = data.reward_sums[b, pair] * shrink
        for level in range(len(balls.by_visits)):
            half_width = balls.reward_by_visits[level, n]
            balls.most[level, b, pair] = min(max(mean + half_width, 0.0), 1.0)
            balls.least[b, pair] = min(max(mean - half_width, 0.0), 1.0)


@internal
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


@lean
def _bet_gain(n: float, gain: float) -> float:
    """Return ln C_n from the gain over Beta(½, ½), as `core.likelihood.log_bet_gain` does."""
    at_ends = -math.log(_LEAST_SHARE + _REST * math.exp(-gain))
    if n <= 1.0:
        return at_ends
    return max(at_ends, gain + math.log(2.0 - 1.0 / n) + (n - 1.0) * math.log1p(-1.0 / n) - _LOG_REST)


@internal
def _refresh_kl(data: Any, law: Any, joint: Any, kl: Any, b: int, pair: int, n_states: int) -> None:
    """Bring the shares, the radii and the bounds on the reward of a pair up to date."""
    n = float(data.visits[b, pair])
    if n == 0.0:
        return
    for e in range(law.firsts[b, pair], law.lasts[b, pair]):
        law.shares[e] = law.times[e] / n
    if joint.firsts.shape[1] > 0:
        for e in range(joint.firsts[b, pair], joint.lasts[b, pair]):
            joint.shares[e] = joint.times[e] / n
    gain = _HALF_LOG_PI
    gain += likelihood.log_gamma(2.0 * n + 2.0, kl.log_gammas) - likelihood.log_gamma(2.0 * n + 1.0, kl.log_gammas)
    bet_gain, excess = _bet_gain(n, gain), 0.0
    if not kl.tuned or kl.levels[-1] == PROVEN:
        first, last = law.firsts[b, pair], law.lasts[b, pair]
        excess = likelihood.dirichlet_excess(first, last, law.times, n_states, kl.priors, kl.log_gammas)
    for m in range(len(kl.levels)):
        level = kl.levels[m]
        scale = kl.scales[level]
        of_all = kl.log_all + excess
        of_optimal, at_top = kl.log_optimal + bet_gain, kl.log_optimal - _LOG_TOP
        of_rewards, rewards_at_top = kl.log_rewards + bet_gain, kl.log_rewards - _LOG_TOP
        if level == TUNED or (kl.tuned and level != PROVEN):
            of_all, of_optimal, of_rewards = gain, gain, gain
            at_top, rewards_at_top = np.inf, np.inf
        kl.top[m, b, pair] = scale * at_top / n
        if level == PROVEN:
            kl.lower[b, pair] = scale * of_all / n
        if data.learns_reward:
            mean = min(max(data.reward_sums[b, pair] / n, 0.0), 1.0)
            kl.upper[m, b, pair] = scale * of_all / n
            kl.joint[m, b, pair] = scale * of_optimal / n
            kl.most[m, b, pair] = _reward_bound(mean, scale * of_rewards / n, scale * rewards_at_top / n, 1.0)
            if level == PROVEN:
                kl.least[b, pair] = _reward_bound(mean, scale * of_rewards / n, scale * rewards_at_top / n, -1.0)
        else:
            kl.upper[m, b, pair] = scale * min(of_all, of_optimal) / n


def refresh_all(data: Data, law: Lists, joint: Lists, balls: Balls | None, kl: KLBalls | None, n_states: int) -> None:
    """Bring the bounds of all pairs up to date; the list of those that were visited stays as it is."""
    n_replicas, n_pairs = data.visits.shape
    of_all = data._replace(
        changed=np.tile(np.arange(n_pairs), (n_replicas, 1)),
        n_changed=np.full(n_replicas, n_pairs),
        is_changed=np.zeros_like(data.is_changed),
    )
    for b in range(n_replicas):
        refresh_changed(of_all, law, joint, balls, kl, b, n_states)


@compiled
def refresh_changed(data: Any, law: Any, joint: Any, balls: Any, kl: Any, b: int, n_states: int) -> None:
    """Bring the bounds of the pairs of replica b that were visited up to date."""
    for i in range(data.n_changed[b]):
        pair = data.changed[b, i]
        if balls is not None:
            _refresh_ball(data, law, balls, b, pair)
        if kl is not None:
            _refresh_kl(data, law, joint, kl, b, pair, n_states)
        data.is_changed[b, pair] = False
    data.n_changed[b] = 0


@internal
def _law(law: Any, epsilon: Any, top_epsilon: Any, paid: Any) -> Any:
    """Return lists and radii as `core.compiled.likelihood` takes them."""
    lists = law.firsts, law.lasts, law.shares, law.states, law.extras
    return *lists, epsilon, top_epsilon, law.outcomes, paid


@internal
def plan(
    world: Any,
    data: Any,
    law: Any,
    joint: Any,
    balls: Any,
    kl: Any,
    level: int,
    b: int,
    ties: Any,
    preference: Any,
    weight: float,
    values: Any,
    policy: Any,
    q_out: Any,
) -> None:
    """Fill in the optimistic values (1, H + 1, S) and the policy (1, H, S) of replica b at a level of the radius.

    `preference`, which counts `weight` times, and `q_out` are (1, H, P), or (0, 0, 0) for none.
    """
    of_actions = ties.reshape((1, len(ties)))
    ends = world.end_state, world.end_values, world.discount, world.choices
    if balls is not None:
        nothing = np.zeros((0, 0))
        estimate = nothing, nothing, world.ones, np.zeros((1, 0, 0)), balls.shares, balls.successors, balls.widest
        split = balls.centre, balls.norm, balls.constant, balls.is_normalised
        bound = balls.slack, balls.half_width[level], *split
        most = balls.most[level]
        backup.fill_plan(estimate, bound, most, b, of_actions, *ends, values, policy, preference, weight, q_out)
    if kl is not None:
        at_top = kl.no_top if data.learns_reward else kl.top[level]
        of_states = _law(law, kl.upper[level], at_top, np.zeros((len(data.visits), 1)))
        of_both = _law(joint, kl.joint[level], kl.top[level], data.paid)
        is_tuned = kl.levels[level] == TUNED or (kl.tuned and kl.levels[level] != PROVEN)
        joint_is_less = joint.firsts.shape[1] > 0 and is_tuned
        laws = of_states, of_both, joint_is_less, np.arange(len(world.reward))
        most = kl.most[level]
        likelihood.fill_plan(1.0, *laws, most, b, of_actions, *ends, values, policy, preference, weight, q_out)


@merged
def lower_value(world: Any, data: Any, law: Any, balls: Any, kl: Any, b: int, policy: Any, values: Any) -> float:
    """Return a lower bound on the value of a policy (H, S), in unit reward; `values` (H + 1, S) is overwritten."""
    if balls is not None:
        _fill_lower_values(world, balls, b, policy, values)
    if kl is not None:
        lists, groups = _law(law, kl.lower, kl.no_top, np.zeros((len(data.visits), 1))), np.arange(len(world.reward))
        ends = world.end_state, world.end_values, world.discount
        likelihood.policy_values(-1.0, lists, groups, kl.least, b, *ends, policy, np.zeros((0, 0)), values)
    return float(np.dot(values[0], world.start))


@internal
def upper_values(world: Any, data: Any, law: Any, kl: Any, b: int, policy: Any, ceiling: Any, values: Any) -> None:
    """Fill in `core.backup.upper_policy_values` (H + 1, S) of a policy (H, S) at the proven radius."""
    lists, groups = _law(law, kl.lower, kl.no_top, np.zeros((len(data.visits), 1))), np.arange(len(world.reward))
    ends = world.end_state, world.end_values, world.discount
    likelihood.policy_values(1.0, lists, groups, kl.most[-1], b, *ends, policy, ceiling, values)


@lean
def _extreme_mean(
    law: Any, kl: Any, b: int, pair: int, values: Any, sign: float, top: float, room: Any, no_table: Any
) -> float:
    """Return the largest mean of sign·V by the law of a pair at the proven radius; `top` is the largest sign·V."""
    bound, _, _ = largest_mean(
        law.firsts[b, pair],
        law.lasts[b, pair],
        law.shares,
        law.states,
        law.extras,
        law.states,
        values,
        no_table,
        sign,
        top,
        kl.lower[b, pair],
        kl.no_top[b, pair],
        0.0,
        -np.inf,
        room,
    )
    return float(bound)


@merged
def width_of(data: Any, law: Any, kl: Any, b: int, pair: int, following: Any) -> float:  # noqa: ARG001
    """Return the distance of the bounds on r + P V of a pair at the proven radius, V the values (S,) that follow."""
    width = kl.most[-1, b, pair] - kl.least[b, pair]
    if len(following) > 0:
        room, no_table = np.empty(law.lasts[b, pair] - law.firsts[b, pair]), np.empty((3, 0))
        width += _extreme_mean(law, kl, b, pair, following, 1.0, backup.maximum(following), room, no_table)
        width += _extreme_mean(law, kl, b, pair, following, -1.0, -backup.minimum(following), room, no_table)
    return float(width)


@internal
def _fill_lower_values(world: Any, balls: Any, b: int, policy: Any, values: Any) -> None:
    """Fill in lower bounds (H + 1, S) on the values of a policy by balls around M_n, at the last level."""
    horizon, n_states = policy.shape
    shares, successors, slack, least = balls.shares[b], balls.successors[b], balls.slack[b], balls.least[b]
    half_width, n_members = balls.half_width[-1, b], len(balls.centre)
    shift, scale = np.empty(n_members), np.empty(n_members)
    form = slack, half_width, balls.centre, balls.norm, balls.constant, balls.is_normalised
    ceiling = 0.0
    for h in range(horizon - 1, -1, -1):
        ceiling = float(horizon) if world.discount == 1.0 else 1.0 + world.discount * ceiling  # Frame.ceilings
        v = world.discount * values[h + 1]
        low, high = backup.split_all(form, v, world.ones, shift, scale)
        for s in range(n_states):
            p = policy[h, s] * n_states + s
            worth = least[p]
            if h < horizon - 1:
                mean = 0.0
                for k in range(balls.widest[b]):
                    mean += shares[k, p] * v[successors[k, p]]
                bound = -np.inf
                for m in range(n_members):
                    bound = max(bound, mean + shift[m] * slack[p] - scale[m] * half_width[m, p])
                worth += min(max(bound, low), high) if balls.is_normalised else bound
            values[h, s] = min(max(worth, 0.0), ceiling)
        if world.end_state >= 0:
            values[h, world.end_state] = world.end_values[h]
