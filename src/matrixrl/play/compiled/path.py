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

__all__ = ["PathArrays", "PathStart", "fill_index", "play_on_path"]

_MIX = np.int64(0x9E3779B97F4A7C1)  # spreads the numbers of neighbouring states over the hash table


class PathArrays(NamedTuple):
    """Upper values of one replica; n states were seen, and there is room for m of them."""

    keys: Any  # (M,) States in a hash table with open addressing, M a power of 2; -1 where there is none
    numbers: Any  # (M,) Their numbers
    states: Any  # (m,) The states seen, by their numbers
    sizes: Any  # (2,) n, and the number of episodes that were learned from
    values: Any  # (H + 1, m) Upper values
    tops: Any  # (H + 1,) Largest value of a stage when all states were seen, as it was when it was looked up
    top_numbers: Any  # (H + 1,) The state that has it
    stamps: Any  # (m,) The last episode that visited each state


class PathStart(NamedTuple):
    """What does not change."""

    unit: Any  # (P,) Unit rewards of pairs a·S + s; −∞ if they are not allowed
    ceilings: Any  # (H + 1,) What can still be earned
    states: Any  # (k,) Possible first states
    weights: Any  # (k,) Their probabilities
    no_table: Any  # (3, 0) For `largest_mean`


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
def _initial_value(world: Any, start: Any, state: int, h: int) -> float:
    """Return the value that a state starts with at a stage."""
    n_states, best = len(world.start), -np.inf
    for a in range(world.choices[h, 0], world.choices[h, 1]):
        best = max(best, start.unit[a * n_states + state])
    return min(best + world.discount * start.ceilings[h + 1], start.ceilings[h])


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
        path.values[h, number] = _initial_value(world, start, state, h)
    path.values[horizon, number] = 0.0
    return int(number)


@lean
def _top(path: Any, start: Any, n_states: int, h: int) -> float:
    """Return an upper bound on the values of all states at a stage: what can still be earned until all were seen."""
    if path.sizes[0] < n_states:
        return float(start.ceilings[h])
    row, at = path.values[h], path.top_numbers[h]
    if row[at] != path.tops[h]:  # values only fall, so the largest one is where it was unless it fell
        at = 0
        for i in range(n_states):
            if row[i] > row[at]:
                at = i
        path.top_numbers[h], path.tops[h] = at, row[at]
    return float(row[at])


@inlined
def _q(
    law: Any,
    kl: Any,
    pair: int,
    row: Any,
    top: float,
    discount: float,
    guess: float,
    enough: float,
    gaps: Any,
    no_table: Any,
) -> tuple[float, float]:
    """Return the upper bound on Q of a pair, and where the search for it ended; `enough` is a Q that is not wanted.

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
        kl.upper[0, 0, pair],
        kl.top[0, 0, pair],
        guess,
        least,
        gaps,
    )
    return reward + discount * bound, found


@lean
def _act(
    world: Any, start: Any, path: Any, law: Any, kl: Any, number: int, h: int, ties: Any, gaps: Any
) -> tuple[int, float]:
    """Return the action of a state, given by its number, at a stage, and the largest Q."""
    n_actions, top = len(ties), _top(path, start, len(world.start), h + 1)
    best, score, action = -np.inf, -np.inf, 0
    for a in range(world.choices[h, 0], world.choices[h, 1]):
        pair, row = number * n_actions + a, path.values[h + 1]
        q, _ = _q(law, kl, pair, row, top, world.discount, 0.0, -np.inf, gaps, start.no_table)
        best = max(best, q)
        if q + ties[a] > score:
            score, action = q + ties[a], a
    return action, best


@lean
def _back_up(world: Any, start: Any, path: Any, law: Any, kl: Any, chosen: Any, n: int, guess: Any, gaps: Any) -> None:
    """Lower all stages of n states to max_a Q, the last stage first; an action as good as the value ends a backup."""
    horizon, n_states = len(path.values) - 1, len(world.start)
    n_actions = len(start.unit) // n_states
    for j in range(n * n_actions):
        guess[j] = 0.0
    for h in range(horizon - 1, -1, -1):
        top, row = _top(path, start, n_states, h + 1), path.values[h + 1]
        for i in range(n):
            number = chosen[i]
            if path.states[number] == world.end_state:
                continue
            value, best = path.values[h, number], -np.inf
            for a in range(world.choices[h, 0], world.choices[h, 1]):
                j = i * n_actions + a
                pair = number * n_actions + a
                q, guess[j] = _q(law, kl, pair, row, top, world.discount, guess[j], best, gaps, start.no_table)
                best = max(best, q)
                if best >= value:
                    break
            path.values[h, number] = min(value, best)


@internal
def _fill_policy(world: Any, start: Any, path: Any, law: Any, kl: Any, ties: Any, gaps: Any, policy: Any) -> None:
    """Fill in the actions (H, S) that all stages and states have."""
    horizon, n_states = policy.shape
    for h in range(horizon):
        for s in range(n_states):
            place = _place(path.keys, s)
            if path.keys[place] >= 0:
                policy[h, s], _ = _act(world, start, path, law, kl, path.numbers[place], h, ties, gaps)
                continue
            score = -np.inf
            for a in range(world.choices[h, 0], world.choices[h, 1]):
                q = start.unit[a * n_states + s] + world.discount * _top(path, start, n_states, h + 1)
                if q + ties[a] > score:
                    score, policy[h, s] = q + ties[a], a


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
    numbers, chosen = np.zeros(horizon + 1, dtype=np.int64), np.zeros(horizon, dtype=np.int64)
    guess = np.zeros(horizon * n_actions)
    for i in range(first, n_episodes):
        n = path.sizes[0]
        if n + horizon + 1 > len(path.states) or 2 * (n + horizon + 1) > len(path.keys) or not has_room(law, horizon):
            return i
        gaps, states, actions = np.empty(law.sizes[1] + 1), played.states[b, i], played.actions[b, i]
        if measures and (began + i) % world.every == 0:
            _fill_policy(world, start, path, law, kl, ties[i], gaps, policy)
            played.regret[b, i] = _regret(world, policy, values)
        upper = 0.0
        for k in range(len(start.states)):
            place = _place(path.keys, start.states[k])
            if path.keys[place] >= 0:
                upper += start.weights[k] * path.values[0, path.numbers[place]]
            else:
                upper += start.weights[k] * _initial_value(world, start, start.states[k], 0)
        played.upper[b, i] = upper
        states[0] = _invert(world.start_cdf, 0, n_states, uniforms[i, 0])
        numbers[0] = _see(world, start, path, kl, states[0])
        for h in range(horizon):
            actions[h], best = _act(world, start, path, law, kl, numbers[h], h, ties[i], gaps)
            if states[h] != world.end_state:
                path.values[h, numbers[h]] = min(path.values[h, numbers[h]], best)
            pair = states[h] * n_actions + actions[h]
            low, high = np.int64(world.lists[pair]), np.int64(world.lists[pair + 1])
            states[h + 1] = world.following[_invert(world.cdf, low, high, uniforms[i, h + 1])]
            numbers[h + 1] = _see(world, start, path, kl, states[h + 1])
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
        if path.sizes[1] & (path.sizes[1] - 1):
            _back_up(world, start, path, law, kl, chosen, n_chosen, guess, gaps)
        else:
            n = path.sizes[0]
            _back_up(world, start, path, law, kl, np.arange(n), n, np.zeros(n * n_actions), gaps)
    return n_episodes
