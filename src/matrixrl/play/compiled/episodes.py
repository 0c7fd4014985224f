"""Whole episodes of MatrixRL on one-hot pairs, compiled: plan, certify, measure regret, play, learn.

Each replica is played from the first to the last episode in turn, so that what it has learned stays in the cache.
Between two plans an episode costs its steps only: the bounds of the pairs that were visited are brought up to date
before the next plan.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.compilation import compiled, inlined, internal, lean, merged
from matrixrl.play.compiled.bounds import lower_value, plan, refresh_changed, upper_values, width_of
from matrixrl.play.compiled.lists import count_outcome, has_room

__all__ = ["play_episodes"]


@lean
def _invert(cdf: Any, first: int, last: int, uniform: float) -> int:
    """Return the first place from `first` to before `last` whose running sum exceeds the uniform; the last sum is 1."""
    low, high = first, last - 1
    while low < high:
        middle = (low + high) // 2
        if cdf[middle] <= uniform:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _draw(world: Any, policy: Any, uniforms: Any, states: Any, actions: Any) -> None:
    """Draw one episode: states (H + 1,) and actions (H,)."""
    horizon, n_states = policy.shape
    n_actions = len(world.reward) // n_states
    states[0] = _invert(world.start_cdf, 0, n_states, uniforms[0])
    for h in range(horizon):
        actions[h] = policy[h, states[h]]
        pair = states[h] * n_actions + actions[h]
        first, last = np.int64(world.lists[pair]), np.int64(world.lists[pair + 1])
        states[h + 1] = world.following[_invert(world.cdf, first, last, uniforms[h + 1])]


@internal
def _regret(world: Any, policy: Any, values: Any) -> float:
    """Return V*(s0) − V^π(s0) in the environment's unit; `values` (H + 1, S) is overwritten."""
    horizon, n_states = policy.shape
    n_actions = len(world.reward) // n_states
    lists, following, chance = world.lists, world.following, world.chance
    for h in range(horizon - 1, -1, -1):
        v = world.discount * values[h + 1]
        for s in range(n_states):
            pair = s * n_actions + policy[h, s]
            worth = world.reward[policy[h, s] * n_states + s]
            for e in range(lists[pair], lists[pair + 1]):
                worth += chance[e] * v[following[e]]
            values[h, s] = worth
    return float(max(world.optimal_value - np.dot(values[0], world.start), 0.0))


@merged
def _levels_of(data: Any, b: int, reward: float) -> tuple[int, int, float]:
    """Return the levels below and above a reward, and the share of the one above, as `linalg.RewardLevels` does.

    A reward that is a level, or becomes one, has one level and no share.
    """
    paid, ranks, n = data.paid[b], data.ranks[b], data.n_paid[b]
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
        data.n_paid[b] = n + 1
        return n, n, 0.0
    below, above = ranks[low - 1], ranks[low]  # 0 and 1 are levels
    return below, above, (reward - paid[below]) / (paid[above] - paid[below])


@merged
def _count_step(
    world: Any, data: Any, law: Any, joint: Any, kept: Any, b: int, pair: int, following: int, paid: float
) -> None:
    """Count one step, and note whether a plan is due: a pair was visited for the first time, or it grew by 1 + κ."""
    data.visits[b, pair] += 1
    count_outcome(law, b, pair, following, following, 0.0, 1.0)
    if data.learns_reward:
        unit = (paid - world.low) / (world.high - world.low)
        data.reward_sums[b, pair] += unit
        if joint.firsts.shape[1] > 0:
            below, above, share = _levels_of(data, b, unit)
            code, levels = following * data.paid.shape[1], data.paid[b]
            count_outcome(joint, b, pair, code + below, following, levels[below], 1.0 - share)
            if share > 0.0:
                count_outcome(joint, b, pair, code + above, following, levels[above], share)
    if not data.is_changed[b, pair]:
        data.is_changed[b, pair] = True
        data.changed[b, data.n_changed[b]] = pair
        data.n_changed[b] += 1
    if data.visits[b, pair] >= kept.visits[b, pair] * (1.0 + kept.growth):
        kept.due[b] = True


@inlined
def _learn(
    world: Any, data: Any, law: Any, joint: Any, kept: Any, b: int, states: Any, actions: Any, coins: Any
) -> Any:
    """Count the steps of one episode (Algorithm 1, lines 11, 12); return its return and its length."""
    n_states = len(world.start)
    earned, length, weight = 0.0, 0, 1.0
    for h in range(len(actions)):
        if states[h] == world.end_state:  # steps after the end were not taken
            continue
        pair = actions[h] * n_states + states[h]
        paid = world.reward[pair]
        if world.noisy:
            paid = world.high if coins[h] < world.pays[pair] else world.low
        earned += weight * paid
        weight *= world.discount
        length += 1
        _count_step(world, data, law, joint, kept, b, pair, states[h + 1], paid)
    return earned, length


@internal
def _chooses_tuned(world: Any, budget: Any, b: int, horizon: int) -> bool:
    """Return whether the next episode of replica b plays the tuned plan, as `OptimismBudget.choose` says."""
    expected = 0.0
    if budget.declares_start:
        expected = np.dot(budget.lack[b], world.start)
    else:
        for s in range(len(world.start)):
            if budget.first_states[b, s]:
                expected = max(expected, budget.lack[b, s])
    return bool(budget.charged[b] + expected <= budget.alpha * (budget.earned[b] + horizon))


@internal
def _settle(
    world: Any,
    data: Any,
    law: Any,
    joint: Any,
    balls: Any,
    kl: Any,
    budget: Any,
    b: int,
    values: Any,
    states: Any,
    actions: Any,
) -> None:
    """Charge the episode of replica b and add what it earns to Ω, as `OptimismBudget.settle` does."""
    horizon, n_states, most = len(actions), len(world.start), np.inf
    if budget.is_tuned[b]:
        mean = np.dot(budget.lack[b], world.start)
        charge = mean if budget.declares_start else budget.lack[b, states[0]]
        budget.charged[b] += charge
        most = charge / budget.alpha
    if not budget.declares_start:
        budget.first_states[b, states[0]] = True
    total, weight, keeps, is_fresh = 0.0, 1.0, budget.widths.shape[1] > 0, False
    for h in range(horizon):
        if states[h] != world.end_state:
            pair = actions[h] * n_states + states[h]
            if keeps and budget.turns[b, h, pair] == budget.turn[b]:
                width = budget.widths[b, h, pair]
            else:
                if not is_fresh:
                    refresh_changed(data, law, joint, balls, kl, b, n_states)
                    is_fresh = True
                following = world.discount * values[h + 1] if h < horizon - 1 else values[0, :0]
                width = width_of(data, law, kl, b, pair, following)
                if keeps:
                    budget.widths[b, h, pair], budget.turns[b, h, pair] = width, budget.turn[b]
            total += weight * min(max(width, 0.0), budget.lefts[h])
        weight *= world.discount
    budget.earned[b] += min(total, most)


@compiled
def play_episodes(
    world: Any,
    data: Any,
    law: Any,
    joint: Any,
    balls: Any,
    kl: Any,
    kept: Any,
    budget: Any,
    ties: Any,
    uniforms: Any,
    weight: float,
    certifies: bool,
    learns: bool,
    began: int,
    at: Any,
    played: Any,
) -> bool:
    """Play and learn n episodes in every replica; return False if the lists need more room before going on.

    Args:
        world: The MDP.
        data: What was learned; changed in place, as are the next seven arguments.
        law: Laws of next states.
        joint: Joint laws of reward and next state; firsts is (B, 0) where they are not used.
        balls: Bounds by balls around M_n, or None.
        kl: Bounds by likelihood sets, or None.
        kept: Plans that are being played.
        budget: The optimism budget; its α is 0 where there is none.
        ties: (B, n, A) Numbers that break the ties that are left; each plan takes the next ones.
        uniforms: (B, n, D) Random numbers: first state, next states, and coins for noisy rewards.
        weight: Factor of the small-radius Q in breaking ties; 0 if it is not used.
        certifies: Whether every episode is certified.
        learns: False leaves everything that was learned unchanged.
        began: Number of episodes that were played before.
        at: (2,) Replica and episode to begin with; changed to those to go on with.
        played: Filled in.
    """
    n_replicas, n_episodes, horizon = played.actions.shape
    n_states, n_pairs = len(world.start), len(world.reward)
    values, other = np.zeros((1, horizon + 1, n_states)), np.zeros((1, horizon, n_states), dtype=np.int32)
    nothing, no_ties, prefers = np.zeros((0, 0, 0)), np.zeros(ties.shape[2]), weight > 0.0
    preference = np.zeros((1, horizon, n_pairs)) if prefers else nothing
    has_joint = joint.firsts.shape[1] > 0
    # Positions of the levels of the radius; not literals, for each of which numba would compile the plan again.
    has_budget = budget.alpha > 0.0
    agent, tied, tuned = np.int64(0), np.int64(1), np.int64(prefers) + 1
    proven = tuned + np.int64(has_budget)
    for b in range(at[0], n_replicas):
        policy, optimistic = kept.policy[b : b + 1], kept.values[b : b + 1]
        for i in range(at[1], n_episodes):
            if learns and not (has_room(law, horizon) and (not has_joint or has_room(joint, 2 * horizon))):
                at[0], at[1] = b, i
                return False
            if kept.due[b] or certifies:
                refresh_changed(data, law, joint, balls, kl, b, n_states)
            if kept.due[b]:
                ranks = ties[b, kept.n_plans[b]]
                if has_budget or prefers:  # one call, because each of them takes long to compile
                    level, first, into = tied, no_ties, other
                    if has_budget:
                        level, first, into = tuned, budget.tie_scale * ranks, budget.tuned[b : b + 1]
                    plan(world, data, law, joint, balls, kl, level, b, first, nothing, 0.0, values, into, preference)
                if prefers:
                    for h in range(horizon):
                        for p in range(n_pairs):
                            preference[0, h, p] = min(max(preference[0, h, p], 0.0), float(horizon))
                plan(
                    world, data, law, joint, balls, kl, agent, b, ranks, preference, weight, optimistic, policy, nothing
                )
                for p in range(n_pairs):
                    kept.visits[b, p] = data.visits[b, p]
                kept.upper[b] = np.dot(optimistic[0, 0], world.start)
                kept.measured[b] = False
                kept.due[b] = kept.growth == 0.0
                kept.n_plans[b] += 1
                if has_budget and kl is not None:
                    upper_values(world, data, law, kl, b, budget.tuned[b], optimistic[0], values[0])
                    for s in range(n_states):
                        budget.lack[b, s] = optimistic[0, 0, s] - values[0, 0, s]
                    budget.turn[b] += 1
            played_policy = policy[0]
            if has_budget:
                is_tuned = _chooses_tuned(world, budget, b, horizon)
                if is_tuned != budget.is_tuned[b]:
                    budget.is_tuned[b] = is_tuned
                    kept.measured[b] = False
                if is_tuned:
                    played_policy = budget.tuned[b]
            played.upper[b, i] = kept.upper[b]
            if certifies:
                played.certified[b, i, 0] = lower_value(world, data, law, balls, kl, b, played_policy, values[0])
                plan(world, data, law, joint, balls, kl, proven, b, no_ties, nothing, 0.0, values, other, nothing)
                played.certified[b, i, 1] = np.dot(values[0, 0], world.start)
            if world.every > 0 and (began + i) % max(world.every, 1) == 0:
                if not kept.measured[b]:
                    kept.regret[b] = _regret(world, played_policy, values[0])
                    kept.measured[b] = True
                played.regret[b, i] = kept.regret[b]
            if not learns:
                continue
            states, actions = played.states[b, i], played.actions[b, i]
            _draw(world, played_policy, uniforms[b, i], states, actions)
            if has_budget and kl is not None:
                _settle(world, data, law, joint, balls, kl, budget, b, optimistic[0], states, actions)
            coins = uniforms[b, i, horizon + 1 :]
            played.returns[b, i], played.lengths[b, i] = _learn(
                world, data, law, joint, kept, b, states, actions, coins
            )
        at[1] = 0
    return True
