"""Whole episodes of UC-MatrixRL with one-hot features, compiled: plan, play, measure regret, learn, certify.

One-hot pairs make A_n diagonal, so everything that a confidence set says of a pair follows from its number of visits:
the caller tabulates it (`core.HalfWidthTable`), and only sums, maxima and draws are left for these loops. Arrays of
pairs are action-major, as everywhere. Each replica is played from the first to the last episode in turn, so that
what it has learned stays in the cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matrixrl.compiling.jit import compiled
from matrixrl.core.compiled.backup import fill_plan, split_all
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
    ONES,
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

__all__ = ["LOOPS_DIGEST", "Bounds", "Learned", "play_episodes", "refresh_all"]

LOOPS_DIGEST = "0c8b196938d597da"
"""Digest of the files of the loops that are called. numba notices changes of this file only, so it changes with the
others; a test compares it."""


class Bounds(NamedTuple):
    """Tables that turn visits into bounds, and the bounds of the visits so far.

    Attributes:
        centre: (m,) centre of each member of the set, as in `core.compiled.backup.split_all`.
        norm: (m,) its norm.
        constant: (m,) its constant scale.
        is_normalised: Whether bounds are clipped to the range of V, else V at `core.backup.Frame.ceilings`.
        by_visits: (m, T) half-widths by visits.
        learns_reward: Whether rewards are estimated.
        reward_by_visits: (T,) half-widths of rewards by visits.
        half_width: (B, m, P) half-width of every pair.
        most: (B, P) the largest unit reward that is believed.
        least: (B, P) the smallest.
    """

    centre: Any
    norm: Any
    constant: Any
    is_normalised: bool
    by_visits: Any
    learns_reward: bool
    reward_by_visits: Any
    half_width: Any
    most: Any
    least: Any


class Learned(NamedTuple):
    """Data of B replicas; the successors of a pair are in ascending order.

    Attributes:
        ridge: λ.
        visits: (B, P) visits of each pair.
        n_successors: (B, P) number of different successors seen.
        widest: (B,) the largest of these numbers.
        successors: (B, K, P) the successors.
        times: (B, K, P) how often each was seen; 0 beyond the last.
        shares: (B, K, P) times/(λ + visits), the entries of M_n.
        counts: (B, P) visits again, the algorithm's own array.
        moment: (B, P, S) `times` again, likewise.
        reward_moment: (B, P) sums of unit rewards, likewise.
        shrink: (B, P) 1/(λ + visits).
        slack: (B, P) λ/(λ + visits).
    """

    ridge: float
    visits: Any
    n_successors: Any
    widest: Any
    successors: Any
    times: Any
    shares: Any
    counts: Any
    moment: Any
    reward_moment: Any
    shrink: Any
    slack: Any


# The loops take plain tuples, as core.compiled.backup explains; fields are found by their place.
(CENTRE, NORM, CONSTANT, IS_NORMALISED, BY_VISITS, LEARNS_REWARD, REWARD_BY_VISITS) = range(7)
(HALF_WIDTH, MOST, LEAST) = range(7, 10)
(RIDGE, VISITS, N_SUCCESSORS, WIDEST, SUCCESSORS, TIMES, SHARES, COUNTS, MOMENT, REWARD_MOMENT) = range(10)
(SHRINK, SLACK) = range(10, 12)


@compiled
def _plan(
    world: Any,
    bounds: Any,
    known: Any,
    b: int,
    ties: Any,
    preference: Any,
    weight: float,
    values: Any,
    policy: Any,
    q_out: Any,
) -> None:
    """Fill in the optimistic values (1, H + 1, S) and the policy (1, H, S) of replica b (YW19 (4)).

    `preference`, which counts `weight` times, and `q_out` are (1, H, P), or (0, 0, 0) for none.
    """
    nothing = np.zeros((0, 0))
    estimate = (
        nothing,
        nothing,
        world[ONES],
        np.zeros((1, 0, 0)),
        known[SHARES],
        known[SUCCESSORS],
        known[WIDEST],
    )
    bound = (
        known[SLACK],
        bounds[HALF_WIDTH],
        bounds[CENTRE],
        bounds[NORM],
        bounds[CONSTANT],
        bounds[IS_NORMALISED],
    )
    fill_plan(
        estimate,
        bound,
        bounds[MOST],
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
def _pessimistic_value(world: Any, bounds: Any, known: Any, b: int, policy: Any, values: Any) -> float:
    """Return a lower bound on the value of a policy (H, S), in unit reward; `values` (H + 1, S) is overwritten."""
    horizon, n_states = policy.shape
    shares, successors, n_successors = known[SHARES][b], known[SUCCESSORS][b], known[N_SUCCESSORS][b]
    slack, half_width, least = known[SLACK][b], bounds[HALF_WIDTH][b], bounds[LEAST][b]
    n_members = len(bounds[CENTRE])
    shift, scale = np.empty(n_members), np.empty(n_members)
    form = (slack, half_width, bounds[CENTRE], bounds[NORM], bounds[CONSTANT], bounds[IS_NORMALISED])
    ceiling = 0.0
    for h in range(horizon - 1, -1, -1):
        ceiling = float(horizon) if world[DISCOUNT] == 1.0 else 1.0 + world[DISCOUNT] * ceiling  # Frame.ceilings
        v = world[DISCOUNT] * values[h + 1]
        low, high = split_all(form, v, world[ONES], shift, scale)
        for s in range(n_states):
            p = policy[h, s] * n_states + s
            worth = least[p]
            if h < horizon - 1:
                mean = 0.0
                for k in range(n_successors[p]):
                    mean += shares[k, p] * v[successors[k, p]]
                bound = -np.inf
                for m in range(n_members):
                    here = mean + shift[m] * slack[p] - scale[m] * half_width[m, p]
                    bound = max(bound, here)
                worth += min(max(bound, low), high) if bounds[IS_NORMALISED] else bound
            values[h, s] = min(max(worth, 0.0), ceiling)
        if world[END_STATE] >= 0:
            values[h, world[END_STATE]] = world[END_VALUES][h]
    return float(np.dot(values[0], world[START]))


@compiled
def _place(known: Any, b: int, pair: int, successor: int) -> int:
    """Return where the successor of a pair is kept; a new one is put in its place, those above it move up."""
    n = known[N_SUCCESSORS][b, pair]
    k = 0
    while k < n and known[SUCCESSORS][b, k, pair] < successor:
        k += 1
    if k < n and known[SUCCESSORS][b, k, pair] == successor:
        return k
    for i in range(n, k, -1):
        known[SUCCESSORS][b, i, pair] = known[SUCCESSORS][b, i - 1, pair]
        known[TIMES][b, i, pair] = known[TIMES][b, i - 1, pair]
    known[SUCCESSORS][b, k, pair] = successor
    known[TIMES][b, k, pair] = 0.0
    known[N_SUCCESSORS][b, pair] = n + 1
    known[WIDEST][b] = max(known[WIDEST][b], n + 1)
    return k


@compiled
def _learn(
    world: Any, learns_reward: bool, known: Any, b: int, states: Any, actions: Any, coins: Any
) -> tuple[float, int]:
    """Count the steps of one episode (Algorithm 1, lines 11, 12); return its return and its length."""
    n_states = len(world[START])
    earned, length, weight = 0.0, 0, 1.0
    for h in range(len(actions)):
        if states[h] == world[END_STATE]:  # steps after the end were not taken
            continue
        p = actions[h] * n_states + states[h]
        paid = reward_of(world, p, coins[h] if world[NOISY] else 0.0)
        earned += weight * paid
        weight *= world[DISCOUNT]
        length += 1
        known[VISITS][b, p] += 1
        known[COUNTS][b, p] += 1.0
        known[MOMENT][b, p, states[h + 1]] += 1.0
        known[TIMES][b, _place(known, b, p, states[h + 1]), p] += 1.0
        known[SHRINK][b, p] = 1.0 / (known[RIDGE] + known[VISITS][b, p])
        known[SLACK][b, p] = known[RIDGE] * known[SHRINK][b, p]
        for k in range(known[N_SUCCESSORS][b, p]):
            known[SHARES][b, k, p] = known[TIMES][b, k, p] * known[SHRINK][b, p]
        if learns_reward:
            known[REWARD_MOMENT][b, p] += (paid - world[LOW]) / (world[HIGH] - world[LOW])
    return earned, length


@compiled
def _refresh(bounds: Any, known: Any, b: int, pair: int) -> None:
    """Bring the bounds of a pair up to date."""
    n = known[VISITS][b, pair]
    for m in range(len(bounds[CENTRE])):
        bounds[HALF_WIDTH][b, m, pair] = bounds[BY_VISITS][m, n]
    if bounds[LEARNS_REWARD]:
        mean = known[REWARD_MOMENT][b, pair] * known[SHRINK][b, pair]
        bounds[MOST][b, pair] = min(max(mean + bounds[REWARD_BY_VISITS][n], 0.0), 1.0)
        bounds[LEAST][b, pair] = min(max(mean - bounds[REWARD_BY_VISITS][n], 0.0), 1.0)


@compiled
def refresh_all(bounds: Any, known: Any) -> None:
    """Bring the bounds of every pair up to date."""
    for b in range(known[VISITS].shape[0]):
        for pair in range(known[VISITS].shape[1]):
            _refresh(bounds, known, b, pair)


@compiled
def play_episodes(
    world: Any,
    agent: Any,
    tied: Any,
    proven: Any,
    known: Any,
    ties: Any,
    uniforms: Any,
    weight: float,
    certifies: bool,
    learns: bool,
    began: int,
    played: Any,
) -> None:
    """Play and learn n episodes in every replica.

    Args:
        world: The MDP.
        agent: Bounds at the agent's radius.
        tied: Bounds at the small radius that breaks ties.
        proven: Bounds at the proven radius, for certificates.
        known: What was learned; changed in place, as are the bounds.
        ties: (B, n, A) what breaks the ties that are left.
        uniforms: (B, n, D) random numbers: first state, next states, and coins for noisy rewards.
        weight: Factor of the small-radius Q in breaking ties; 0 if it is not used.
        certifies: Whether every episode is certified.
        learns: False leaves everything that was learned unchanged.
        began: Number of episodes that were played before.
        played: Filled in.
    """
    n_replicas, n_episodes, horizon = played[ACTIONS].shape
    n_states, n_pairs = len(world[START]), len(world[REWARD])
    values = np.zeros((1, horizon + 1, n_states))
    policy, other = np.zeros((1, horizon, n_states), dtype=np.int32), np.zeros((1, horizon, n_states), dtype=np.int32)
    nothing, no_ties, prefers = np.zeros((0, 0, 0)), np.zeros(ties.shape[2]), weight > 0.0
    preference = np.zeros((1, horizon, n_pairs)) if prefers else nothing
    for b in range(n_replicas):
        for i in range(n_episodes):
            if prefers:
                _plan(world, tied, known, b, no_ties, nothing, 0.0, values, other, preference)
                for h in range(horizon):
                    for p in range(n_pairs):
                        preference[0, h, p] = min(max(preference[0, h, p], 0.0), float(horizon))
            _plan(world, agent, known, b, ties[b, i], preference, weight, values, policy, nothing)
            played[UPPER][b, i] = np.dot(values[0, 0], world[START])
            if certifies:
                played[CERTIFIED][b, i, 0] = _pessimistic_value(world, proven, known, b, policy[0], values[0])
                _plan(world, proven, known, b, no_ties, nothing, 0.0, values, other, nothing)
                played[CERTIFIED][b, i, 1] = np.dot(values[0, 0], world[START])
            if is_measured(world, began + i):
                played[REGRET][b, i] = regret_of(world, policy[0], values[0])
            if not learns:
                continue
            states, actions = played[STATES][b, i], played[ACTIONS][b, i]
            play_one(world, policy[0], uniforms[b, i], states, actions)
            coins = uniforms[b, i, horizon + 1 :]
            earned, length = _learn(world, agent[LEARNS_REWARD], known, b, states, actions, coins)
            played[RETURNS][b, i], played[LENGTHS][b, i] = earned, length
            for h in range(horizon):
                p = actions[h] * n_states + states[h]
                _refresh(agent, known, b, p)
                if prefers:
                    _refresh(tied, known, b, p)
                if certifies:
                    _refresh(proven, known, b, p)
