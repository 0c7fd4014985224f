"""Optimistic backward induction that computes the bounds of those pairs only that may be the best of their state.

A pair that was never tried is worth the top and its reward, so all such pairs of a state cost as much as one. The
bound of a pair grows from one stage to the next by no more than the largest growth of any value, because it grows with
the values and an amount that is added to all of them is added to it. Pairs whose bound cannot reach the largest one of
their state by this are left out. The others begin with the cheap bound at ν = max V, where logarithms are tabulated,
and end their search as soon as it is below the largest bound of the state. The plan is that of computing all bounds.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from matrixrl.compilation import inlined, internal, lean, merged
from matrixrl.core.compiled.backup import maximum
from matrixrl.core.compiled.kl_ball import (
    FIRSTS,
    LASTS,
    fill_table,
    gather,
    largest_mean_at_top,
    largest_mean_of,
    log_mean,
)

__all__ = ["fill_pruned_plan"]

_SLACK = 1e-10  # relative, of bounds that are compared: larger than their rounding errors


class Candidates(NamedTuple):
    """The pairs of each state that were tried, and the best one of those that were not.

    Stages may choose from different actions, so there is a cell for each block of actions and each state: number
    block · S + state, n cells in all.

    Attributes:
        firsts: (n cells + 1,) Position of the first tried pair of each cell.
        actions: (n,) Action of each of them.
        groups: (n,) Group of each of them.
        paid: (n,) Largest reward of each of them.
        limits: (n,) Upper bound on Q, in excess of the growth of values since the last stage.
        of_law: (n,) Place of the search of the bound on next values, of the last stage that computed it.
        of_joint: (n,) The same for the joint law.
        most: (n cells,) Largest reward of a tried pair.
        fresh: (n cells,) Largest reward of an untried one; -∞ if there is none.
        fresh_action: (n cells,) Untried action that is chosen among them.
        fresh_reward: (n cells,) Its reward.
        longest: Largest number of outcomes of a pair.
    """

    firsts: Any
    actions: Any
    groups: Any
    paid: Any
    limits: Any
    of_law: Any
    of_joint: Any
    most: Any
    fresh: Any
    fresh_action: Any
    fresh_reward: Any
    longest: int


@internal
def _candidates(law: Any, joint: Any, groups: Any, reward: Any, r: int, ties: Any, n_states: int, width: int) -> Any:
    """Return the candidates of every cell of replica r; blocks have `width` actions."""
    n_cells = len(ties) // width * n_states
    firsts, fresh_action, longest = np.zeros(n_cells + 1, dtype=np.int64), np.zeros(n_cells, dtype=np.int64), 0
    fresh, most, score, fresh_reward = np.empty(n_cells), np.empty(n_cells), np.empty(n_cells), np.empty(n_cells)
    for c in range(n_cells):
        fresh[c] = most[c] = score[c] = fresh_reward[c] = -np.inf
    of_law, has_joint = law[LASTS][r] - law[FIRSTS][r], joint[FIRSTS].shape[1] > 0
    for a in range(len(ties)):
        for s in range(n_states):
            p, c = a * n_states + s, a // width * n_states + s
            if reward[r, p] == -np.inf:  # the pair is excluded
                continue
            if of_law[groups[p]] > 0:
                firsts[c + 1] += 1
                longest = max(longest, of_law[groups[p]])
                if has_joint:
                    longest = max(longest, joint[LASTS][r, groups[p]] - joint[FIRSTS][r, groups[p]])
                most[c] = max(most[c], reward[r, p])
            else:
                fresh[c] = max(fresh[c], reward[r, p])
                if reward[r, p] + ties[a] > score[c]:
                    fresh_action[c], fresh_reward[c], score[c] = a, reward[r, p], reward[r, p] + ties[a]
    for c in range(n_cells):
        firsts[c + 1] += firsts[c]
    actions, paid, limits = np.empty(firsts[-1], dtype=np.int64), np.empty(firsts[-1]), np.empty(firsts[-1])
    chosen = np.empty(firsts[-1], dtype=np.int64)
    place = np.empty(n_cells, dtype=np.int64)
    for c in range(n_cells):
        place[c] = firsts[c]
    for a in range(len(ties)):
        for s in range(n_states):
            p, c = a * n_states + s, a // width * n_states + s
            if of_law[groups[p]] > 0 and reward[r, p] > -np.inf:
                actions[place[c]], chosen[place[c]] = a, groups[p]
                paid[place[c]] = limits[place[c]] = reward[r, p]
                place[c] += 1
    at_law, at_joint = np.zeros(len(actions)), np.zeros(len(actions))
    tried = firsts, actions, chosen, paid, limits, at_law, at_joint
    return Candidates(*tried, most, fresh, fresh_action, fresh_reward, longest)


@inlined
def _largest(
    seen: Any, i: int, following: Any, table: Any, top: float, enough: float, x: Any, gaps: Any
) -> tuple[float, float]:
    """Return the largest mean of candidate i, and without the radius at the top; its place x[i] of the search moves."""
    if table.shape[1] > 0 and seen.top_radii[i] == np.inf:
        first, last = seen.firsts[i], seen.firsts[i + 1]
        is_best, bound = largest_mean_at_top(first, last, seen.shares, seen.numbers, table, top, seen.radii[i])
        if is_best:
            x[i] = 0.0
            return bound, bound
    bound, wider, x[i] = largest_mean_of(seen, i, following, table, 1.0, top, x[i], enough, gaps)
    return bound, wider


@merged
def _is_below(seen: Any, i: int, table: Any, barrier: float) -> bool:
    """Return whether the bound of candidate i at ν = top is below top − exp(barrier); False without a table."""
    if table.shape[1] == 0:
        return False
    first, last = seen.firsts[i], seen.firsts[i + 1]
    return bool(log_mean(first, last, seen.shares, seen.numbers, table) > seen.radii[i] + barrier)


@merged
def _best_pair(
    tried: Any, of_law: Any, of_joint: Any, rooms: Any, uses: Any, c: int, stage: Any, following: Any, ties: Any
) -> tuple[float, int, int]:
    """Return the largest bound on Q of a cell, the action with it, and its candidate; -1 if it was never tried.

    Args:
        tried: Candidates.
        of_law: Outcomes of their laws.
        of_joint: Outcomes of their joint laws.
        rooms: Table of the law, that of the joint law, candidates that were the best at the last stage (n cells,), room
            for the outcomes of a candidate, and for values.
        uses: Whether the law is used, and the joint law.
        c: Cell.
        stage: Largest value of a next state, slack of comparisons, and growth of values since the first stage.
        following: (S,) Discounted values of next states.
        ties: (A,) Numbers that break ties.
    """
    table, joint_table, lead, gaps, _ = rooms
    uses_law, has_joint = uses
    top, slack, grown = stage
    firsts, limits, fresh = tried.firsts, tried.limits, tried.fresh[c]
    best, score, chosen, leader = -np.inf, -np.inf, 0, -1
    if fresh > -np.inf:
        chosen = tried.fresh_action[c]
        best, score = top + fresh, (top + tried.fresh_reward[c]) + ties[chosen]
    if tried.most[c] + top + slack < best:
        return best, chosen, leader
    barrier, barrier_of = 0.0, np.inf
    for k in range(firsts[c] - 1, firsts[c + 1]):  # the best one of the last stage, then the others
        i = lead[c] if k < firsts[c] else k
        if i < 0 or (k >= firsts[c] and k == lead[c]):
            continue
        paid, enough = tried.paid[i], best - slack
        if min(limits[i] + grown, paid + top) < enough:
            continue
        if enough > -np.inf:  # the cheap bound at ν = max V
            needed = enough if has_joint else enough - paid
            if needed != barrier_of:
                barrier, barrier_of = math.log((top + 1.0 if has_joint else top) - needed), needed
            if has_joint:
                if _is_below(of_joint, i, joint_table, barrier):
                    continue
            elif _is_below(of_law, i, table, barrier):
                continue
        q, limit = np.inf, np.inf
        if has_joint:
            q, limit = _largest(of_joint, i, following, joint_table, top + 1.0, enough, tried.of_joint, gaps)
        if uses_law and q >= enough:
            bound, wider = _largest(of_law, i, following, table, top, enough - paid, tried.of_law, gaps)
            q, limit = min(q, bound + paid), min(limit, wider + paid)
        a = tried.actions[i]
        limits[i], best = limit - grown, max(best, q)
        if q + ties[a] > score or (q + ties[a] == score and a < chosen):
            score, chosen, leader = q + ties[a], a, i
    return best, chosen, leader


@lean
def _fill_stages(
    tried: Any, of_law: Any, of_joint: Any, rooms: Any, uses: Any, ties: Any, ends: Any, values: Any, policy: Any
) -> None:
    """Fill in values and policy, from the last stage to the first."""
    end_state, end_values, discount, choices = ends
    horizon, n_states = policy.shape
    grown, most = 0.0, maximum(ties)
    for h in range(horizon - 1, -1, -1):
        following, growth = rooms[4], -np.inf
        for s in range(n_states):
            following[s] = discount * values[h + 1, s]
        first_cell = choices[h, 0] // (choices[h, 1] - choices[h, 0]) * n_states
        top = maximum(following)
        stage = top, _SLACK * (1.0 + abs(top)) + most, grown
        fill_table(of_law.listed_states, of_law.listed_extras, following, 1.0, top, rooms[0])
        fill_table(of_joint.listed_states, of_joint.listed_extras, following, 1.0, top + 1.0, rooms[1])
        for s in range(n_states):
            c = first_cell + s
            best, chosen, leader = _best_pair(tried, of_law, of_joint, rooms, uses, c, stage, following, ties)
            values[h, s], policy[h, s], rooms[2][c] = best, chosen, leader
            if s == end_state:
                values[h, s] = end_values[h]
            growth = max(growth, discount * (values[h, s] - values[h + 1, s]))
        grown += growth


@merged
def fill_pruned_plan(
    law: Any,
    joint: Any,
    joint_is_less: bool,
    groups: Any,
    reward: Any,
    r: int,
    ties: Any,
    ends: Any,
    values: Any,
    policy: Any,
) -> None:
    """Fill in the optimistic values (H + 1, S) and the policy (H, S) of one replica.

    The arguments are those of `core.compiled.likelihood.fill_plan`, of one replica, except for:
        r: Replica.
        ties: (A,) Numbers that break ties, at least 0.
        ends: End state, its values, discount and choices; blocks of choices have equal width and begin at multiples
            of it.
    """
    n_states, has_joint, uses_law = policy.shape[1], joint[FIRSTS].shape[1] > 0, not joint_is_less
    choices = ends[3]
    width = choices[0, 1] - choices[0, 0]
    tried = _candidates(law, joint, groups, reward, r, ties, n_states, width)
    nobody = tried.groups[:0]
    of_law = gather(law, r, tried.groups if uses_law else nobody, n_states)
    of_joint = gather(joint, r, tried.groups if has_joint else nobody, n_states)
    tables = np.empty((3, len(of_law.listed_states))), np.empty((3, len(of_joint.listed_states)))
    lead = np.empty(len(tried.most), dtype=np.int64)
    lead[:] = -1
    rooms = (*tables, lead, np.empty(tried.longest), np.empty(n_states))
    _fill_stages(tried, of_law, of_joint, rooms, (uses_law, has_joint), ties, ends, values, policy)
