"""Episodes of UC-MatrixRL with one-hot features, compiled: plan, play, judge, learn, without leaving the loop.

One-hot pairs make A_n diagonal, so everything a confidence set says of a pair follows from its number of visits: the
caller tabulates it with the library's own sets and radii, and only sums, maxima and draws are left for these loops.
Arrays of pairs are action-major, as everywhere; each replica is played from the first to the last episode in turn,
so that what it has learned stays in the cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matrixrl.core.compiled.jit import compiled, summed

__all__ = ["Learned", "Played", "View", "World", "look_at_all", "play_episodes"]


class World(NamedTuple):
    """The MDP, known to the simulator and the judge.

    Attributes:
        following: (P, K) the successors of each pair.
        chance: (P, K) their probabilities; 0 beyond the last.
        cdf: (P, K) the running sums of them that uniform numbers are compared with.
        start: (S,) the distribution of first states.
        start_cdf: (S,) its running sums.
        reward: (P,) expected rewards in the environment's unit.
        pays: (P,) the chance of the high end of the range, where rewards are noisy.
        low: the low end.
        high: the high end.
        noisy: whether rewards are drawn.
        end_state: where nothing more happens, or -1.
        optimal_value: V*(s0).
        judged: whether regret is measured.
    """

    following: Any
    chance: Any
    cdf: Any
    start: Any
    start_cdf: Any
    reward: Any
    pays: Any
    low: float
    high: float
    noisy: bool
    end_state: int
    optimal_value: float
    judged: bool


class View(NamedTuple):
    """How a radius turns visits into bounds, and the bounds that it makes of what was learned.

    Attributes:
        ridge: λ.
        centre: (m,) for each member of the set what is taken from V: 0 nothing, 1 its mean, 2 the middle of its range.
        norm: (m,) what the half-width is multiplied with: 0 the two-norm, 1 the largest entry, 2 a constant.
        constant: (m,) that constant.
        is_normalised: whether bounds are clipped to the range of V, else V to [0, H].
        by_visits: (m, T) half-widths by visits.
        learns_reward: whether rewards are estimated.
        reward_by_visits: (T,) half-widths of rewards by visits.
        end_reward: the unit reward of the end state.
        half_width: (B, m, P) of every pair.
        most: (B, P) the largest unit reward that is believed.
        least: (B, P) the smallest.
    """

    ridge: float
    centre: Any
    norm: Any
    constant: Any
    is_normalised: bool
    by_visits: Any
    learns_reward: bool
    reward_by_visits: Any
    end_reward: float
    half_width: Any
    most: Any
    least: Any


class Learned(NamedTuple):
    """What B replicas have seen; successors of a pair are kept in ascending order, whoever saw them first.

    Attributes:
        visits: (B, P).
        n_successors: (B, P) how many were seen.
        widest: (B,) the largest of them.
        successors: (B, K, P) which.
        times: (B, K, P) how often; 0 beyond the last.
        counts: (B, P) visits again, as the engine keeps them.
        moment: (B, P, S) `times` again, likewise.
        reward_moment: (B, P) sums of unit rewards.
        shrink: (B, P) 1/(λ + visits).
    """

    visits: Any
    n_successors: Any
    widest: Any
    successors: Any
    times: Any
    counts: Any
    moment: Any
    reward_moment: Any
    shrink: Any


class Played(NamedTuple):
    """What came of n episodes.

    Attributes:
        states: (B, n, H + 1).
        actions: (B, n, H).
        regret: (B, n), in the environment's unit; left alone if it is not measured.
        returns: (B, n), likewise.
        upper: (B, n) the optimistic value of the start, in unit reward.
        certified: (B, n, 2) lower and upper bound of each episode's certificate, likewise.
    """

    states: Any
    actions: Any
    regret: Any
    returns: Any
    upper: Any
    certified: Any


# The loops take plain tuples: numba keeps what it compiled under the types of the arguments, and a class of ours among
# them could not be read back once another version of the library has renamed it. So fields are found by their place.
(FOLLOWING, CHANCE, CDF, START, START_CDF, REWARD, PAYS, LOW, HIGH, NOISY, END_STATE, OPTIMAL_VALUE, JUDGED) = range(13)
(RIDGE, CENTRE, NORM, CONSTANT, IS_NORMALISED, BY_VISITS, LEARNS_REWARD, REWARD_BY_VISITS, END_REWARD) = range(9)
(HALF_WIDTH, MOST, LEAST) = range(9, 12)
(VISITS, N_SUCCESSORS, WIDEST, SUCCESSORS, TIMES, COUNTS, MOMENT, REWARD_MOMENT, SHRINK) = range(9)
(STATES, ACTIONS, REGRET, RETURNS, UPPER, CERTIFIED) = range(6)


@summed
def _mean_and_range(v: Any) -> tuple[float, float, float]:
    total, low, high = 0.0, v[0], v[0]
    for x in v:
        total += x
        low = min(low, x)
        high = max(high, x)
    return total / len(v), low, high


@summed
def _distance(v: Any, centre: float) -> float:
    total = 0.0
    for x in v:
        total += (x - centre) * (x - centre)
    return float(np.sqrt(total))


@compiled
def _split(view: Any, m: int, v: Any, mean: float, low: float, high: float) -> tuple[float, float]:
    """Return shift and scale of one member of the set for the values v."""
    centre = 0.0
    if view[CENTRE][m] == 1:
        centre = mean
    elif view[CENTRE][m] == 2:
        centre = 0.5 * (low + high)
    if view[NORM][m] == 0:
        return centre, _distance(v, centre)
    if view[NORM][m] == 1:
        return centre, max(abs(low - centre), abs(high - centre))
    return centre, view[CONSTANT][m]


@compiled
def _split_all(view: Any, v: Any, shift: Any, scale: Any) -> tuple[float, float]:
    """Fill in shift and scale (m,) of every member of the set, and return the range of v."""
    mean, low, high = _mean_and_range(v)
    for m in range(len(shift)):
        shift[m], scale[m] = _split(view, m, v, mean, low, high)
    return low, high


@compiled
def _plan(
    world: Any,
    view: Any,
    known: Any,
    b: int,
    ties: Any,
    preference: Any,
    weight: float,
    values: Any,
    policy: Any,
    q_out: Any,
) -> None:
    """Fill in the optimistic values (H + 1, S) and the policy (H, S) of replica b (YW19 (4)).

    The inner loops run over states, and write to arrays that are made here, which nothing else can overlap: so the
    compiler gathers and adds four states at a time. `preference`, which counts `weight` times, and `q_out` are (H, P),
    or (0, 0) for none.
    """
    horizon, n_states = policy.shape
    times, successors, widest = known[TIMES][b], known[SUCCESSORS][b], known[WIDEST][b]
    shrink, half_width, most = known[SHRINK][b], view[HALF_WIDTH][b], view[MOST][b]
    ridge, n_members = view[RIDGE], len(view[CENTRE])
    mean, q, chosen = np.empty(n_states), np.empty(n_states), np.empty(n_states)  # actions as floats: one width
    best, score = np.empty(n_states), np.empty(n_states)
    shift, scale = np.empty(n_members), np.empty(n_members)
    for h in range(horizon - 1, -1, -1):
        v = values[h + 1]
        low, high = _split_all(view, v, shift, scale)
        best[:] = -np.inf
        score[:] = -np.inf
        for a in range(len(ties)):
            first, tie = a * n_states, ties[a]
            q[:] = 0.0
            if h < horizon - 1:
                mean[:] = 0.0
                for k in range(widest):
                    for s in range(n_states):
                        mean[s] += times[k, first + s] * v[successors[k, first + s]]
                q[:] = np.inf
                for m in range(n_members):
                    c, z = shift[m] * ridge, scale[m]
                    for s in range(n_states):  # φᵀM_n v + c (1 − φᵀM_n 1) + z · half-width
                        bound = (mean[s] + c) * shrink[first + s] + z * half_width[m, first + s]
                        q[s] = min(q[s], bound)
                if view[IS_NORMALISED]:
                    for s in range(n_states):
                        q[s] = min(max(q[s], low), high)
            for s in range(n_states):
                q[s] += most[first + s]
                best[s] = max(best[s], q[s])
            if len(q_out) > 0:
                for s in range(n_states):
                    q_out[h, first + s] = q[s]
            if len(preference) > 0:
                for s in range(n_states):
                    q[s] += weight * min(max(preference[h, first + s], 0.0), float(horizon))
            for s in range(n_states):
                x = q[s] + tie
                chosen[s] = a if x > score[s] else chosen[s]
                score[s] = max(score[s], x)
        for s in range(n_states):
            values[h, s] = best[s] if view[IS_NORMALISED] else min(max(best[s], 0.0), float(horizon))
        for s in range(n_states):
            policy[h, s] = int(chosen[s])
        if world[END_STATE] >= 0:
            values[h, world[END_STATE]] = (horizon - h) * view[END_REWARD]


@compiled
def _pessimistic_value(world: Any, view: Any, known: Any, b: int, policy: Any, values: Any) -> float:
    """Return a lower bound on the value of a policy (H, S), in unit reward; `values` (H + 1, S) is written over."""
    horizon, n_states = policy.shape
    times, successors, n_successors = known[TIMES][b], known[SUCCESSORS][b], known[N_SUCCESSORS][b]
    shrink, half_width, least = known[SHRINK][b], view[HALF_WIDTH][b], view[LEAST][b]
    n_members = len(view[CENTRE])
    shift, scale = np.empty(n_members), np.empty(n_members)
    for h in range(horizon - 1, -1, -1):
        v = values[h + 1]
        low, high = _split_all(view, v, shift, scale)
        for s in range(n_states):
            p = policy[h, s] * n_states + s
            worth = least[p]
            if h < horizon - 1:
                mean = 0.0
                for k in range(n_successors[p]):
                    mean += times[k, p] * v[successors[k, p]]
                bound = -np.inf
                for m in range(n_members):
                    here = (mean + shift[m] * view[RIDGE]) * shrink[p] - scale[m] * half_width[m, p]
                    bound = max(bound, here)
                worth += min(max(bound, low), high) if view[IS_NORMALISED] else bound
            values[h, s] = min(max(worth, 0.0), float(horizon))
        if world[END_STATE] >= 0:
            values[h, world[END_STATE]] = (horizon - h) * view[END_REWARD]
    return float(np.dot(values[0], world[START]))


@compiled
def _invert(cdf: Any, uniform: float) -> int:
    """Return the first place whose running sum exceeds the uniform; the last sum is 1."""
    k = 0
    while cdf[k] <= uniform:
        k += 1
    return k


@compiled
def _play(world: Any, policy: Any, uniforms: Any, states: Any, actions: Any) -> None:
    """Draw one episode: states (H + 1,) and actions (H,)."""
    horizon, n_states = policy.shape
    states[0] = _invert(world[START_CDF], uniforms[0])
    for h in range(horizon):
        pair = policy[h, states[h]] * n_states + states[h]
        actions[h] = policy[h, states[h]]
        states[h + 1] = world[FOLLOWING][pair, _invert(world[CDF][pair], uniforms[h + 1])]


@compiled
def _judge(world: Any, policy: Any, values: Any) -> float:
    """Return V*(s0) − V^π(s0) in the environment's unit; `values` (H + 1, S) is written over."""
    horizon, n_states = policy.shape
    for h in range(horizon - 1, -1, -1):
        v = values[h + 1]
        for s in range(n_states):
            p = policy[h, s] * n_states + s
            worth = world[REWARD][p]
            for k in range(world[CHANCE].shape[1]):
                worth += world[CHANCE][p, k] * v[world[FOLLOWING][p, k]]
            values[h, s] = worth
    return float(max(world[OPTIMAL_VALUE] - np.dot(values[0], world[START]), 0.0))


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
def _learn(world: Any, view: Any, known: Any, b: int, states: Any, actions: Any, coins: Any) -> float:
    """Count the steps of one episode (Algorithm 1, lines 11, 12) and return what they earned."""
    n_states = len(world[START])
    earned = 0.0
    for h in range(len(actions)):
        if states[h] == world[END_STATE]:  # steps after the end were not taken
            continue
        p = actions[h] * n_states + states[h]
        paid = world[REWARD][p]
        if world[NOISY]:
            paid = world[HIGH] if coins[h] < world[PAYS][p] else world[LOW]
        earned += paid
        known[VISITS][b, p] += 1
        known[COUNTS][b, p] += 1.0
        known[MOMENT][b, p, states[h + 1]] += 1.0
        known[TIMES][b, _place(known, b, p, states[h + 1]), p] += 1.0
        known[SHRINK][b, p] = 1.0 / (view[RIDGE] + known[VISITS][b, p])
        if view[LEARNS_REWARD]:
            known[REWARD_MOMENT][b, p] += (paid - world[LOW]) / (world[HIGH] - world[LOW])
    return earned


@compiled
def _look_again(view: Any, known: Any, b: int, pair: int) -> None:
    """Bring the bounds of a pair up to date."""
    n = known[VISITS][b, pair]
    for m in range(len(view[CENTRE])):
        view[HALF_WIDTH][b, m, pair] = view[BY_VISITS][m, n]
    if view[LEARNS_REWARD]:
        mean = known[REWARD_MOMENT][b, pair] * known[SHRINK][b, pair]
        view[MOST][b, pair] = min(max(mean + view[REWARD_BY_VISITS][n], 0.0), 1.0)
        view[LEAST][b, pair] = min(max(mean - view[REWARD_BY_VISITS][n], 0.0), 1.0)


@compiled
def look_at_all(view: Any, known: Any) -> None:
    """Bring the bounds of every pair up to date."""
    for b in range(known[VISITS].shape[0]):
        for pair in range(known[VISITS].shape[1]):
            _look_again(view, known, b, pair)


@compiled
def play_episodes(
    world: Any,
    agent: Any,
    lean: Any,
    proven: Any,
    known: Any,
    ties: Any,
    uniforms: Any,
    weight: float,
    certifies: bool,
    learns: bool,
    played: Any,
) -> None:
    """Play and learn n episodes in every replica.

    Args:
        world: the MDP.
        agent: what the agent makes of its data.
        lean: the same at a small radius, to break ties.
        proven: the same at the proven radius, for certificates.
        known: what was learned; changed in place, as are the views.
        ties: (B, n, A) what breaks the ties that are left.
        uniforms: (B, n, D) the random numbers: first state, next states, and coins for noisy rewards.
        weight: what the lean view counts for in breaking ties; 0 if it does not.
        certifies: whether every episode is certified.
        learns: False leaves everything that was learned as it is.
        played: filled in.
    """
    n_replicas, n_episodes, horizon = played[ACTIONS].shape
    n_states, n_pairs = len(world[START]), len(world[REWARD])
    values = np.zeros((horizon + 1, n_states))
    policy, other = np.zeros((horizon, n_states), dtype=np.int32), np.zeros((horizon, n_states), dtype=np.int32)
    nothing, no_ties, prefers = np.zeros((0, 0)), np.zeros(ties.shape[2]), weight > 0.0
    preference = np.zeros((horizon, n_pairs)) if prefers else nothing
    for b in range(n_replicas):
        for i in range(n_episodes):
            if prefers:
                _plan(world, lean, known, b, no_ties, nothing, 0.0, values, other, preference)
            _plan(world, agent, known, b, ties[b, i], preference, weight, values, policy, nothing)
            played[UPPER][b, i] = np.dot(values[0], world[START])
            if certifies:
                played[CERTIFIED][b, i, 0] = _pessimistic_value(world, proven, known, b, policy, values)
                _plan(world, proven, known, b, no_ties, nothing, 0.0, values, other, nothing)
                played[CERTIFIED][b, i, 1] = np.dot(values[0], world[START])
            if world[JUDGED]:
                played[REGRET][b, i] = _judge(world, policy, values)
            if not learns:
                continue
            states, actions = played[STATES][b, i], played[ACTIONS][b, i]
            _play(world, policy, uniforms[b, i], states, actions)
            played[RETURNS][b, i] = _learn(world, agent, known, b, states, actions, uniforms[b, i, horizon + 1 :])
            for h in range(horizon):
                p = actions[h] * n_states + states[h]
                _look_again(agent, known, b, p)
                if prefers:
                    _look_again(lean, known, b, p)
                if certifies:
                    _look_again(proven, known, b, p)
