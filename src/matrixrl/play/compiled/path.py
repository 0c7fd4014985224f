"""Whole episodes of planning on the path, compiled: act, draw, count and back up; as `core.path.PathTable` does.

States have numbers in the order in which they were seen, and pair number i is action i % A of state number i // A.
Arrays have room for the states seen alone, and a hash table finds the number of a state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matrixrl.compilation import compiled, inlined, internal, lean
from matrixrl.core.compiled.kl_ball import largest_mean
from matrixrl.play.compiled.bounds import refresh_changed
from matrixrl.play.compiled.episodes import _invert, _regret
from matrixrl.play.compiled.lists import count_outcome, has_room

__all__ = ["TUNED", "VALUES", "PathArrays", "PathStart", "certify_on_path", "fill_index", "play_on_path"]

VALUES, TUNED = range(2)  # tables, and levels of their radii
_MIX = np.int64(0x9E3779B97F4A7C1)  # spreads the numbers of neighbouring states over the hash table


class PathArrays(NamedTuple):
    """Upper values of one replica; n states were seen, and there is room for m of them."""

    keys: Any  # (M,) States in a hash table with open addressing, M a power of 2; -1 where there is none
    numbers: Any  # (M,) Their numbers
    states: Any  # (m,) The states seen, by their numbers
    sizes: Any  # (4,) n, episodes learned from, states backed up since all of them were, first states of `order` seen
    values: Any  # (H + 1, m) Upper values
    tuned: Any  # (H + 1, m) Values of the tuned plan; (H + 1, 0) without an optimism budget
    tops: Any  # (2, H + 1) Upper bounds on the upper and tuned values of all states
    largest: Any  # (2, H + 1) Largest upper and tuned value of the states seen
    top_numbers: Any  # (2, H + 1) The states that have them
    lows: Any  # (H + 1,) Smallest upper value of the states seen
    accounts: Any  # (2,) Λ and Ω of the budget
    stamps: Any  # (m,) The last episode that visited each state


class PathStart(NamedTuple):
    """What does not change."""

    unit: Any  # (P,) Unit rewards of pairs a·S + s; −∞ if they are not allowed
    ceilings: Any  # (H + 1,) What can still be earned
    best: Any  # (S,) Largest unit reward of each state, or (1,) of all of them
    order: Any  # (S,) States in the order of these; (0,) if they are not sorted
    states: Any  # (k,) Possible first states
    weights: Any  # (k,) Their probabilities
    no_table: Any  # (3, 0) For `largest_mean`
    alpha: float  # α of the optimism budget; 0 for none
    lefts: Any  # (H,) Σ γ^k over the steps from each stage on


@lean
def _place(keys: Any, state: int) -> int:
    """Return where the hash table has a state, or the free place where it belongs."""
    mask = len(keys) - 1
    place = ((state * _MIX) >> 20) & mask
    while keys[place] >= 0 and keys[place] != state:
        place = (place + 1) & mask
    return int(place)


@compiled
def fill_index(states: Any, keys: Any, numbers: Any) -> None:
    """Fill an empty hash table with states and their numbers."""
    for i in range(len(states)):
        place = _place(keys, states[i])
        keys[place], numbers[place] = states[i], i


@lean
def _initial_value(world: Any, start: Any, path: Any, table: int, state: int, h: int) -> float:
    """Return the value that a state starts with at a stage."""
    n_states, best = len(world.start), -np.inf
    for a in range(world.choices[h, 0], world.choices[h, 1]):
        best = max(best, start.unit[a * n_states + state])
    return float(min(best + world.discount * path.tops[table, h + 1], start.ceilings[h]))


@lean
def _set(path: Any, h: int, number: int, value: float, table: int) -> None:
    """Lower an upper value to at most a number, or replace a tuned one."""
    if table == VALUES:
        value = min(path.values[h, number], value)
        path.values[h, number], path.lows[h] = value, min(path.lows[h], value)
    else:
        path.tuned[h, number] = value
    if value > path.largest[table, h]:
        path.largest[table, h], path.top_numbers[table, h] = value, number


@lean
def _see(world: Any, start: Any, path: Any, kl: Any, state: int) -> int:
    """Return the number of a state; a new one gets the next number."""
    place = _place(path.keys, state)
    if path.keys[place] >= 0:
        return int(path.numbers[place])
    number, n_states = path.sizes[0], len(world.start)
    path.sizes[0] = number + 1
    path.keys[place], path.numbers[place], path.states[number] = state, number, state
    n_actions, horizon = len(start.unit) // n_states, len(path.values) - 1
    for a in range(n_actions):
        kl.most[0, 0, number * n_actions + a] = start.unit[a * n_states + state]
    for h in range(horizon):
        path.values[h, number] = np.inf
        _set(path, h, number, _initial_value(world, start, path, np.int64(VALUES), state, h), np.int64(VALUES))
        if start.alpha > 0.0:
            _set(path, h, number, _initial_value(world, start, path, np.int64(TUNED), state, h), np.int64(TUNED))
    return int(number)


@lean
def _best_unseen(start: Any, path: Any, n_states: int) -> float:
    """Return the largest unit reward of states that were not seen; −∞ if there are none."""
    if path.sizes[0] == n_states:
        return -np.inf
    if len(start.order) == 0:
        return float(start.best[0])
    state = start.order[path.sizes[3]]
    while path.keys[_place(path.keys, state)] >= 0:
        path.sizes[3] += 1
        state = start.order[path.sizes[3]]
    return float(start.best[state])


@lean
def _bound_stage(world: Any, start: Any, path: Any, table: int, h: int, unseen: float) -> None:
    """Compute the upper bound on the values of all states at a stage from that of the next one."""
    bound = min(unseen + world.discount * path.tops[table, h + 1], start.ceilings[h])
    if bound < start.ceilings[h]:
        row = path.tuned[h] if table == TUNED else path.values[h]
        largest, numbers = path.largest[table], path.top_numbers[table]
        if row[numbers[h]] != largest[h]:  # the largest value is where it was, unless it fell
            at = 0
            for i in range(path.sizes[0]):
                if row[i] > row[at]:
                    at = i
            numbers[h], largest[h] = at, row[at]
        bound = max(bound, largest[h])
    path.tops[table, h] = bound


@inlined
def _q(
    law: Any,
    kl: Any,
    table: int,
    pair: int,
    row: Any,
    top: float,
    discount: float,
    guess: float,
    enough: float,
    gaps: Any,
    no_table: Any,
) -> tuple[float, float]:
    """Return the bound on Q of a pair, and where the search for it ended; a Q below `enough` need not be exact.

    `row` has the values of the next stage. The largest mean of γV is γ times that of V.
    """
    reward, first, last = kl.most[0, 0, pair], law.firsts[0, pair], law.lasts[0, pair]
    if first == last or reward == -np.inf:
        return reward + discount * top, 0.0
    least = (enough - reward) / discount
    bound, _, found = largest_mean(
        first,
        last,
        law.shares,
        law.states,
        law.extras,
        law.states,
        row,
        no_table,
        1.0,
        top,
        kl.upper[table, 0, pair],
        kl.top[table, 0, pair],
        guess,
        least,
        gaps,
    )
    return reward + discount * bound, found


@inlined
def _mean(start: Any, law: Any, kl: Any, pair: int, row: Any, sign: float, end: float, gaps: Any) -> float:
    """Return the largest (sign 1) or smallest mean of values by the law of a pair, at the radius for all values.

    `end` is the largest or smallest value of any state; it is the mean of a pair without data.
    """
    bound, _, _ = largest_mean(
        law.firsts[0, pair],
        law.lasts[0, pair],
        law.shares,
        law.states,
        law.extras,
        law.states,
        row,
        start.no_table,
        sign,
        sign * end,
        kl.lower[0, pair],
        np.inf,
        0.0,
        -np.inf,
        gaps,
    )
    return float(sign * bound)


@lean
def _settle(
    world: Any,
    start: Any,
    path: Any,
    law: Any,
    kl: Any,
    number: int,
    h: int,
    pair: int,
    best: float,
    is_charged: bool,
    is_whole: bool,
    gaps: Any,
) -> None:
    """Add the width of the bounds of a played pair to Ω, and its gap to Λ in an episode of the tuned plan."""
    table = np.int64(VALUES)
    weight, top = world.discount**h, path.tops[table, h + 1]
    low, row = path.lows[h + 1], path.values[h + 1]
    if not is_whole and h + 1 < len(start.lefts):
        low = min(low, world.discount * path.tops[table, h + 2])
    if is_charged:
        q, _ = _q(law, kl, table, pair, row, top, world.discount, 0.0, -np.inf, gaps, start.no_table)
        path.accounts[0] += weight * max(min(path.values[h, number], best) - max(q, 0.0), 0.0)
    width = _mean(start, law, kl, pair, row, 1.0, top, gaps) - _mean(start, law, kl, pair, row, -1.0, low, gaps)
    path.accounts[1] += weight * min(max(world.discount * width, 0.0), start.lefts[h])


@lean
def _act(
    world: Any,
    start: Any,
    path: Any,
    law: Any,
    kl: Any,
    table: int,
    number: int,
    h: int,
    ties: Any,
    gaps: Any,
) -> tuple[int, float]:
    """Return the action of a state, given by its number, at a stage, and the largest Q."""
    n_actions, top = len(ties), path.tops[table, h + 1]
    row = path.tuned[h + 1] if table == TUNED else path.values[h + 1]
    best, score, action = -np.inf, -np.inf, 0
    for a in range(world.choices[h, 0], world.choices[h, 1]):
        pair = number * n_actions + a
        q, _ = _q(law, kl, table, pair, row, top, world.discount, 0.0, -np.inf, gaps, start.no_table)
        best = max(best, q)
        if q + ties[a] > score:
            score, action = q + ties[a], a
    return action, best


@lean
def _back_up(
    world: Any, start: Any, path: Any, law: Any, kl: Any, table: int, chosen: Any, n: int, guess: Any, gaps: Any
) -> None:
    """Back up all stages of n states, the last stage first; an action as good as an upper value ends its backup."""
    horizon, n_states = len(path.values) - 1, len(world.start)
    n_actions, unseen = len(start.unit) // n_states, _best_unseen(start, path, n_states)
    for j in range(n * n_actions):
        guess[j] = 0.0
    for h in range(horizon - 1, -1, -1):
        top = path.tops[table, h + 1]
        row = path.tuned[h + 1] if table == TUNED else path.values[h + 1]
        for i in range(n):
            number = chosen[i]
            if path.states[number] == world.end_state:
                continue
            value = start.ceilings[h] if table == TUNED else path.values[h, number]
            best = -np.inf
            for a in range(world.choices[h, 0], world.choices[h, 1]):
                j, pair = i * n_actions + a, number * n_actions + a
                q, guess[j] = _q(law, kl, table, pair, row, top, world.discount, guess[j], best, gaps, start.no_table)
                best = max(best, q)
                if best >= value:
                    break
            _set(path, h, number, min(value, best), table)
        _bound_stage(world, start, path, table, h, unseen)


@internal
def _fill_policy(
    world: Any, start: Any, path: Any, law: Any, kl: Any, table: int, ties: Any, gaps: Any, policy: Any
) -> None:
    """Fill in the actions (H, S) that all stages and states have."""
    horizon, n_states = policy.shape
    for h in range(horizon):
        for s in range(n_states):
            place = _place(path.keys, s)
            if path.keys[place] >= 0:
                number = path.numbers[place]
                policy[h, s], _ = _act(world, start, path, law, kl, table, number, h, ties, gaps)
                continue
            score = -np.inf
            for a in range(world.choices[h, 0], world.choices[h, 1]):
                q = start.unit[a * n_states + s] + world.discount * path.tops[table, h + 1]
                if q + ties[a] > score:
                    score, policy[h, s] = q + ties[a], a


@compiled
def certify_on_path(
    world: Any, start: Any, path: Any, swept: Any, law: Any, kl: Any, table: int, ties: Any, bounds: Any
) -> None:
    """Fill in bounds (2,): a lower one on the value of the policy of a table, and the upper one on V*(s0).

    `swept` are the arrays of `path` with copies of what a backup of all states seen changes.
    """
    horizon, n_states, n, n_actions = len(path.values) - 1, len(world.start), path.sizes[0], len(ties)
    gaps, low, is_whole = np.empty(law.sizes[1] + 1), np.zeros((horizon + 1, n)), n == n_states
    _back_up(world, start, swept, law, kl, np.int64(VALUES), np.arange(n), n, np.zeros(n * n_actions), gaps)
    for h in range(horizon - 1, -1, -1):
        least = low[h + 1].min() if is_whole else 0.0
        for i in range(n):
            if path.states[i] == world.end_state:
                low[h, i] = world.end_values[h]
                continue
            action, _ = _act(world, start, path, law, kl, table, i, h, ties, gaps)
            pair = i * n_actions + action
            worth = kl.most[0, 0, pair] + world.discount * _mean(start, law, kl, pair, low[h + 1], -1.0, least, gaps)
            low[h, i] = min(max(worth, 0.0), start.ceilings[h])
    for k in range(len(start.states)):
        place = _place(path.keys, start.states[k])
        if path.keys[place] >= 0:
            bounds[0] += start.weights[k] * low[0, path.numbers[place]]
            bounds[1] += start.weights[k] * swept.values[0, path.numbers[place]]
        else:
            bounds[1] += start.weights[k] * _initial_value(world, start, path, np.int64(VALUES), start.states[k], 0)


@compiled
def play_on_path(
    world: Any,
    start: Any,
    path: Any,
    data: Any,
    law: Any,
    joint: Any,
    kl: Any,
    ties: Any,
    uniforms: Any,
    began: int,
    first: int,
    b: int,
    played: Any,
) -> int:
    """Play and learn episodes of one replica; return how many were played when arrays need more room, or all.

    Args:
        world: The MDP.
        start: What can be earned, and where episodes begin.
        path: Upper values; changed in place, as are the next four arguments.
        data: Visits, (1, pairs) each.
        law: Laws of next states by their numbers.
        joint: No lists.
        kl: Radii of the pairs.
        ties: (n, A) Numbers that break ties.
        uniforms: (n, D) Random numbers.
        began: Number of episodes that were played before.
        first: Episode to begin with.
        b: Replica of `played`.
        played: Filled in.
    """
    n_episodes, horizon, n_states = len(ties), len(path.values) - 1, len(world.start)
    n_actions = ties.shape[1]
    measures = world.every > 0
    policy = np.zeros((horizon if measures else 0, n_states if measures else 0), dtype=np.int32)
    values = np.zeros((horizon + 1 if measures else 0, n_states if measures else 0))
    values_table, tuned_table = np.int64(VALUES), np.int64(TUNED)  # not literals, as in `play_episodes`
    numbers, chosen = np.zeros(horizon + 1, dtype=np.int64), np.zeros(horizon, dtype=np.int64)
    guess = np.zeros(horizon * n_actions)
    for i in range(first, n_episodes):
        n = path.sizes[0]
        if n + horizon + 1 > len(path.states) or 2 * (n + horizon + 1) > len(path.keys) or not has_room(law, horizon):
            return i
        gaps, states, actions = np.empty(law.sizes[1] + 1), played.states[b, i], played.actions[b, i]
        is_whole = n == n_states  # states that this episode is the first to see are known after it
        pays = start.alpha > 0.0 and path.accounts[0] <= start.alpha * (path.accounts[1] + horizon)
        table = tuned_table if pays else values_table
        if measures and (began + i) % world.every == 0:
            _fill_policy(world, start, path, law, kl, table, ties[i], gaps, policy)
            played.regret[b, i] = _regret(world, policy, values)
        upper = 0.0
        for k in range(len(start.states)):
            place = _place(path.keys, start.states[k])
            if path.keys[place] >= 0:
                upper += start.weights[k] * path.values[0, path.numbers[place]]
            else:
                upper += start.weights[k] * _initial_value(world, start, path, np.int64(VALUES), start.states[k], 0)
        played.upper[b, i] = upper
        charged, paid_for = path.accounts[0], path.accounts[1]
        states[0] = _invert(world.start_cdf, 0, n_states, uniforms[i, 0])
        numbers[0] = _see(world, start, path, kl, states[0])
        for h in range(horizon):
            number = numbers[h]
            actions[h], best = _act(world, start, path, law, kl, values_table, number, h, ties[i], gaps)
            if pays:
                actions[h], _ = _act(world, start, path, law, kl, table, number, h, ties[i], gaps)
            if states[h] != world.end_state:
                if start.alpha > 0.0:
                    of_actions = number * n_actions + actions[h]
                    _settle(world, start, path, law, kl, number, h, of_actions, best, pays, is_whole, gaps)
                _set(path, h, number, best, values_table)
            pair = states[h] * n_actions + actions[h]
            low, high = np.int64(world.lists[pair]), np.int64(world.lists[pair + 1])
            states[h + 1] = world.following[_invert(world.cdf, low, high, uniforms[i, h + 1])]
            numbers[h + 1] = _see(world, start, path, kl, states[h + 1])
        if pays:  # an episode of the tuned plan earns no more than pays for itself
            path.accounts[1] = min(path.accounts[1], paid_for + (path.accounts[0] - charged) / start.alpha)
        earned, length, weight, n_chosen = 0.0, 0, 1.0, 0
        path.sizes[1] += 1
        for h in range(horizon):
            if states[h] == world.end_state:
                continue
            of_world, number = actions[h] * n_states + states[h], numbers[h]
            paid = world.reward[of_world]
            if world.noisy:
                paid = world.high if uniforms[i, horizon + 1 + h] < world.pays[of_world] else world.low
            earned += weight * paid
            weight *= world.discount
            length += 1
            pair = number * n_actions + actions[h]
            data.visits[0, pair] += 1
            count_outcome(law, 0, pair, numbers[h + 1], numbers[h + 1], 0.0, 1.0)
            if not data.is_changed[0, pair]:
                data.is_changed[0, pair] = True
                data.changed[0, data.n_changed[0]] = pair
                data.n_changed[0] += 1
            if path.stamps[number] != path.sizes[1]:
                path.stamps[number], chosen[n_chosen] = path.sizes[1], number
                n_chosen += 1
        played.returns[b, i], played.lengths[b, i] = earned, length
        refresh_changed(data, law, joint, None, kl, 0, n_states)
        gaps = np.empty(law.sizes[1] + 1)
        backed_up, n, room = chosen, n_chosen, guess
        path.sizes[2] += n_chosen
        if path.sizes[2] >= path.sizes[0]:
            n, path.sizes[2] = path.sizes[0], 0
            backed_up, room = np.arange(n), np.zeros(n * n_actions)
        _back_up(world, start, path, law, kl, values_table, backed_up, n, room, gaps)
        if start.alpha > 0.0:
            _back_up(world, start, path, law, kl, tuned_table, backed_up, n, room, gaps)
    return n_episodes
