"""Whole episodes of agents with likelihood sets on one-hot pairs, compiled with numba.

Between two plans an episode costs its steps only: shares, radii and bounds of the pairs that were visited are brought
up to date before the next plan. Arrays of pairs are action-major, as everywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matrixrl.compiling.jit import compiled, inlined
from matrixrl.core.compiled.likelihood import fill_plan, pessimistic_values
from matrixrl.simulate.compiled.likelihood_bounds import (
    CHANGED,
    IS_CHANGED,
    JOINT_EPSILON,
    LEARNS_REWARD,
    LEAST,
    LEVELS,
    LOWER_EPSILON,
    MOST,
    N_CHANGED,
    NO_TOP,
    PAID,
    PROVEN,
    REWARD_SUMS,
    TOP_EPSILON,
    TUNED,
    UPPER_EPSILON,
    VISITS,
    levels_of,
    refresh_changed,
)
from matrixrl.simulate.compiled.outcome_lists import (
    EXTRAS,
    FIRSTS,
    LASTS,
    NEXT,
    OUTCOMES,
    SHARES,
    count_outcome,
    has_room,
)
from matrixrl.simulate.compiled.world import (
    ACTIONS,
    CERTIFIED,
    CHOICES,
    DISCOUNT,
    END_STATE,
    END_VALUES,
    HIGH,
    LENGTHS,
    LOW,
    NOISY,
    REGRET,
    RETURNS,
    REWARD,
    START,
    STATES,
    UPPER,
    is_measured,
    play_one,
    regret_of,
    reward_of,
)

__all__ = ["LOOPS_DIGEST", "Kept", "play_episodes"]

LOOPS_DIGEST = "18b2db7de52e8fa4"
"""Digest of the files of the loops that are called, which numba does not watch; a test compares it."""


class Kept(NamedTuple):
    """The plan that each replica plays, until some pair has grown by 1 + κ since it was made.

    Attributes:
        policy: (B, H, S) Its policy.
        values: (B, H + 1, S) Its optimistic values.
        visits: (B, P) Visits of each pair when it was made; -1 before the first plan.
        due: (B,) Whether the next episode has a new plan.
        upper: (B,) Optimistic value of the start.
        regret: (B,) Regret of its policy, where it was measured.
        measured: (B,) Whether it was; a flag, because the loops assume that there is no NaN.
        n_plans: (B,) Number of plans made by these loops.
        growth: κ; 0 plans before every episode.
    """

    policy: Any
    values: Any
    visits: Any
    due: Any
    upper: Any
    regret: Any
    measured: Any
    n_plans: Any
    growth: float


(POLICY, VALUES, KEPT_VISITS, DUE, KEPT_UPPER, KEPT_REGRET, MEASURED, N_PLANS, GROWTH) = range(9)


@inlined
def _count_step(
    world: Any, known: Any, law: Any, joint: Any, kept: Any, b: int, pair: int, following: int, paid: float
) -> None:
    """Count one step, and note whether a plan is due: a pair was visited for the first time, or it grew by 1 + κ."""
    known[VISITS][b, pair] += 1
    count_outcome(law, b, pair, following, following, 0.0, 1.0)
    if known[LEARNS_REWARD]:
        unit = (paid - world[LOW]) / (world[HIGH] - world[LOW])
        known[REWARD_SUMS][b, pair] += unit
        if joint[FIRSTS].shape[1] > 0:
            below, above, share = levels_of(known, b, unit)
            code, levels = following * known[PAID].shape[1], known[PAID][b]
            count_outcome(joint, b, pair, code + below, following, levels[below], 1.0 - share)
            if share > 0.0:
                count_outcome(joint, b, pair, code + above, following, levels[above], share)
    if not known[IS_CHANGED][b, pair]:
        known[IS_CHANGED][b, pair] = True
        known[CHANGED][b, known[N_CHANGED][b]] = pair
        known[N_CHANGED][b] += 1
    if known[VISITS][b, pair] >= kept[KEPT_VISITS][b, pair] * (1.0 + kept[GROWTH]):
        kept[DUE][b] = True


@inlined
def _learn(
    world: Any, known: Any, law: Any, joint: Any, kept: Any, b: int, states: Any, actions: Any, coins: Any
) -> Any:
    """Count the steps of one episode; return its return and its length."""
    n_states = len(world[START])
    earned, length, weight = 0.0, 0, 1.0
    for h in range(len(actions)):
        if states[h] == world[END_STATE]:  # steps after the end were not taken
            continue
        pair = actions[h] * n_states + states[h]
        paid = reward_of(world, pair, coins[h] if world[NOISY] else 0.0)
        earned += weight * paid
        weight *= world[DISCOUNT]
        length += 1
        _count_step(world, known, law, joint, kept, b, pair, states[h + 1], paid)
    return earned, length


@compiled
def _law(law: Any, epsilon: Any, top_epsilon: Any, paid: Any) -> Any:
    """Return lists and radii as `core.compiled.likelihood` takes them."""
    return (
        law[FIRSTS],
        law[LASTS],
        law[SHARES],
        law[NEXT],
        law[EXTRAS],
        epsilon,
        top_epsilon,
        law[OUTCOMES],
        paid,
    )


@compiled
def _plan(
    world: Any,
    known: Any,
    law: Any,
    joint: Any,
    groups: Any,
    m: int,
    b: int,
    ties: Any,
    preference: Any,
    weight: float,
    values: Any,
    policy: Any,
    q_out: Any,
) -> None:
    """Fill in the optimistic values (1, H + 1, S) and the policy (1, H, S) of replica b at level m of the radius."""
    at_top = known[NO_TOP] if known[LEARNS_REWARD] else known[TOP_EPSILON][m]
    of_states = _law(law, known[UPPER_EPSILON][m], at_top, np.zeros((len(known[VISITS]), 1)))
    of_both = _law(joint, known[JOINT_EPSILON][m], known[TOP_EPSILON][m], known[PAID])
    joint_is_less = joint[FIRSTS].shape[1] > 0 and known[TUNED] and known[LEVELS][m] != PROVEN
    fill_plan(
        of_states,
        of_both,
        joint_is_less,
        groups,
        known[MOST][m],
        b,
        ties.reshape((1, len(ties))),
        world[END_STATE],
        world[END_VALUES],
        world[DISCOUNT],
        world[CHOICES],
        values,
        policy,
        preference,
        weight,
        q_out,
    )


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
    began: int,
    at: Any,
    played: Any,
) -> bool:
    """Play and learn n episodes in every replica; return False if the lists need more room before going on.

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
        began: Number of episodes that were played before.
        at: (2,) Replica and episode to begin with; changed to those to go on with.
        played: Filled in.
    """
    n_replicas, n_episodes, horizon = played[ACTIONS].shape
    n_states, n_pairs = len(world[START]), len(world[REWARD])
    groups = np.arange(n_pairs)
    values, other = np.zeros((1, horizon + 1, n_states)), np.zeros((1, horizon, n_states), dtype=np.int32)
    nothing, no_ties, prefers = np.zeros((0, 0, 0)), np.zeros(ties.shape[2]), weight > 0.0
    preference = np.zeros((1, horizon, n_pairs)) if prefers else nothing
    lower = _law(law, known[LOWER_EPSILON], known[NO_TOP], np.zeros((n_replicas, 1)))
    # Not literals, for each of which numba would compile the plan again.
    agent, tied, proven = np.int64(0), np.int64(1), len(known[LEVELS]) - 1
    has_joint = joint[FIRSTS].shape[1] > 0
    for b in range(at[0], n_replicas):
        policy, optimistic = kept[POLICY][b : b + 1], kept[VALUES][b : b + 1]
        for i in range(at[1], n_episodes):
            if learns and not (has_room(law, horizon) and (not has_joint or has_room(joint, 2 * horizon))):
                at[0], at[1] = b, i
                return False
            if kept[DUE][b] or certifies:
                refresh_changed(known, law, joint, b, n_states)
            if kept[DUE][b]:
                if prefers:
                    _plan(world, known, law, joint, groups, tied, b, no_ties, nothing, 0.0, values, other, preference)
                    for h in range(horizon):
                        for p in range(n_pairs):
                            preference[0, h, p] = min(max(preference[0, h, p], 0.0), float(horizon))
                drawn = ties[b, kept[N_PLANS][b]]
                _plan(
                    world, known, law, joint, groups, agent, b, drawn, preference, weight, optimistic, policy, nothing
                )
                kept[KEPT_VISITS][b] = known[VISITS][b]
                kept[KEPT_UPPER][b] = np.dot(optimistic[0, 0], world[START])
                kept[MEASURED][b] = False
                kept[DUE][b] = kept[GROWTH] == 0.0
                kept[N_PLANS][b] += 1
            played[UPPER][b, i] = kept[KEPT_UPPER][b]
            if certifies:
                pessimistic_values(
                    lower,
                    groups,
                    known[LEAST],
                    b,
                    world[END_STATE],
                    world[END_VALUES],
                    world[DISCOUNT],
                    policy[0],
                    values[0],
                )
                played[CERTIFIED][b, i, 0] = np.dot(values[0, 0], world[START])
                _plan(world, known, law, joint, groups, proven, b, no_ties, nothing, 0.0, values, other, nothing)
                played[CERTIFIED][b, i, 1] = np.dot(values[0, 0], world[START])
            if is_measured(world, began + i):
                if not kept[MEASURED][b]:
                    kept[KEPT_REGRET][b] = regret_of(world, policy[0], values[0])
                    kept[MEASURED][b] = True
                played[REGRET][b, i] = kept[KEPT_REGRET][b]
            if not learns:
                continue
            states, actions = played[STATES][b, i], played[ACTIONS][b, i]
            play_one(world, policy[0], uniforms[b, i], states, actions)
            coins = uniforms[b, i, horizon + 1 :]
            earned, length = _learn(world, known, law, joint, kept, b, states, actions, coins)
            played[RETURNS][b, i], played[LENGTHS][b, i] = earned, length
        at[1] = 0
    return True
