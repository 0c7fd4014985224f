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

from matrixrl.compiling.jit import compiled
from matrixrl.core.compiled.kl_ball import (
    AT,
    EPSILON,
    FIRSTS,
    LASTS,
    LISTED,
    LISTED_WITH,
    NUMBERS,
    OF,
    TO,
    TOP_EPSILON,
    WITH,
    fill_table,
    gather,
    largest_mean,
    log_mean,
)

__all__ = ["LOOPS_DIGEST", "fill_pruned_plan"]

LOOPS_DIGEST = "bb0e2351b4a7cf33"
"""Digest of the files of the loops that are called, which numba does not watch; a test compares it."""

_SLACK = 1e-10  # relative, of bounds that are compared: larger than their rounding errors


class Candidates(NamedTuple):
    """The pairs of each state that were tried, and the best one of those that were not.

    Attributes:
        firsts: (S + 1,) Position of the first tried pair of each state.
        actions: (n,) Action of each of them.
        groups: (n,) Group of each of them.
        limits: (n,) Upper bound on Q, in excess of the growth of values since the last stage.
        of_law: (n,) Place of the search of the bound on next values, of the last stage that computed it.
        of_joint: (n,) The same for the joint law.
        most: (S,) Largest reward of a tried pair.
        fresh: (S,) Largest reward of an untried one; -∞ if there is none.
        fresh_action: (S,) Untried action that is chosen among them.
        longest: (1,) Largest number of outcomes of a pair.
    """

    firsts: Any
    actions: Any
    groups: Any
    limits: Any
    of_law: Any
    of_joint: Any
    most: Any
    fresh: Any
    fresh_action: Any
    longest: Any


(FIRST, ACTION, GROUP, LIMIT, OF_LAW, OF_JOINT, MOST, FRESH, FRESH_ACTION, LONGEST) = range(10)


@compiled
def _candidates(law: Any, joint: Any, groups: Any, reward: Any, r: int, ties: Any, n_states: int) -> Any:
    """Return the candidates of every state of replica r."""
    firsts, fresh, most = np.zeros(n_states + 1, dtype=np.int64), np.full(n_states, -np.inf), np.full(n_states, -np.inf)
    fresh_action, score, longest = np.zeros(n_states, dtype=np.int64), np.full(n_states, -np.inf), 0
    of_law, has_joint = law[LASTS][r] - law[FIRSTS][r], joint[FIRSTS].shape[1] > 0
    for a in range(len(ties)):
        for s in range(n_states):
            p = a * n_states + s
            if of_law[groups[p]] > 0:
                firsts[s + 1] += 1
                longest = max(longest, of_law[groups[p]])
                if has_joint:
                    longest = max(longest, joint[LASTS][r, groups[p]] - joint[FIRSTS][r, groups[p]])
                most[s] = max(most[s], reward[r, p])
            else:
                fresh[s] = max(fresh[s], reward[r, p])
                if reward[r, p] + ties[a] > score[s]:
                    fresh_action[s], score[s] = a, reward[r, p] + ties[a]
    for s in range(n_states):
        firsts[s + 1] += firsts[s]
    actions, limits = np.empty(firsts[-1], dtype=np.int64), np.empty(firsts[-1])
    chosen = np.empty(firsts[-1], dtype=np.int64)
    place = firsts[:-1].copy()
    for a in range(len(ties)):
        for s in range(n_states):
            p = a * n_states + s
            if of_law[groups[p]] > 0:
                actions[place[s]], limits[place[s]], chosen[place[s]] = a, reward[r, p], groups[p]
                place[s] += 1
    nothing = np.zeros(len(actions))
    return firsts, actions, chosen, limits, nothing, nothing.copy(), most, fresh, fresh_action, np.array([longest])


@compiled
def _largest(
    law: Any,
    seen: Any,
    r: int,
    g: int,
    i: int,
    following: Any,
    table: Any,
    top: float,
    enough: float,
    x: Any,
    gaps: Any,
) -> tuple[float, float]:
    """Return the largest mean of candidate i, and without the radius at the top; its place x of the search is changed.

    Args:
        law: Laws, for their radii.
        seen: Outcomes of the candidates.
        r: Replica.
        g: Group of the candidate.
        i: Candidate.
        following: (S,) Values of next states.
        table: Table of the different outcomes; (3, 0) for none.
        top: Largest value of an outcome.
        enough: A bound below this number may be any valid one.
        x: (n,) Places of the search.
        gaps: Room for the outcomes of a candidate.
    """
    bound, wider, x[i] = largest_mean(
        seen[AT][i],
        seen[AT][i + 1],
        seen[OF],
        seen[TO],
        seen[WITH],
        seen[NUMBERS],
        following,
        table,
        1.0,
        top,
        law[EPSILON][r, g],
        law[TOP_EPSILON][r, g],
        x[i],
        enough,
        gaps,
    )
    return bound, wider


@compiled
def fill_pruned_plan(
    law: Any,
    joint: Any,
    joint_is_less: bool,
    groups: Any,
    reward: Any,
    r: int,
    ties: Any,
    end_state: int,
    end_reward: float,
    values: Any,
    policy: Any,
) -> None:
    """Fill in the optimistic values (H + 1, S) and the policy (H, S) of one replica.

    Args:
        law: As in `core.compiled.likelihood.fill_plan`.
        joint: Likewise.
        joint_is_less: Likewise.
        groups: Likewise.
        reward: Likewise.
        r: Replica.
        ties: (A,) Numbers that break ties, at least 0.
        end_state: State whose value is known, or -1.
        end_reward: Its unit reward.
        values: Filled in; values[H] must be 0.
        policy: Filled in.
    """
    horizon, n_states = policy.shape
    has_joint, uses_law = joint[FIRSTS].shape[1] > 0, not joint_is_less
    tried = _candidates(law, joint, groups, reward, r, ties, n_states)
    firsts, actions, limits, most, fresh = tried[FIRST], tried[ACTION], tried[LIMIT], tried[MOST], tried[FRESH]
    nobody = tried[GROUP][:0]
    of_law = gather(law, r, tried[GROUP] if uses_law else nobody, n_states)
    of_joint = gather(joint, r, tried[GROUP] if has_joint else nobody, n_states)
    table, joint_table = np.empty((3, len(of_law[LISTED]))), np.empty((3, len(of_joint[LISTED])))
    first_law, first_seen = (joint, of_joint) if has_joint else (law, of_law)
    first_table, is_tested = joint_table if has_joint else table, len(first_seen[LISTED]) > 0
    gaps, lead, grown = np.empty(tried[LONGEST][0]), np.full(n_states, -1, dtype=np.int64), 0.0
    for h in range(horizon - 1, -1, -1):
        following, growth = values[h + 1], -np.inf
        top = following.max()
        slack, first_top = _SLACK * (1.0 + abs(top)) + ties.max(), top + 1.0 if has_joint else top
        barrier, barrier_of = 0.0, np.inf
        fill_table(of_law[LISTED], of_law[LISTED_WITH], following, 1.0, top, table)
        fill_table(of_joint[LISTED], of_joint[LISTED_WITH], following, 1.0, top + 1.0, joint_table)
        for s in range(n_states):
            best, score, chosen, leader = -np.inf, -np.inf, 0, -1
            if fresh[s] > -np.inf:
                chosen = tried[FRESH_ACTION][s]
                best, score = top + fresh[s], (top + reward[r, chosen * n_states + s]) + ties[chosen]
            if most[s] + top + slack >= best:
                for k in range(firsts[s] - 1, firsts[s + 1]):  # the best one of the last stage, then the others
                    i = lead[s] if k < firsts[s] else k
                    if i < 0 or (k >= firsts[s] and k == lead[s]):
                        continue
                    a, g = actions[i], tried[GROUP][i]
                    paid, enough = reward[r, a * n_states + s], best - slack
                    if paid == -np.inf or min(limits[i] + grown, paid + top) < enough:
                        continue
                    if is_tested and enough > -np.inf:
                        needed = enough if has_joint else enough - paid
                        if needed != barrier_of:
                            barrier, barrier_of = math.log(first_top - needed), needed
                        logs = log_mean(
                            first_seen[AT][i], first_seen[AT][i + 1], first_seen[OF], first_seen[NUMBERS], first_table
                        )
                        if logs > first_law[EPSILON][r, g] + barrier:
                            continue
                    q, limit = np.inf, np.inf
                    if has_joint:
                        q, limit = _largest(
                            joint, of_joint, r, g, i, following, joint_table, top + 1.0, enough, tried[OF_JOINT], gaps
                        )
                    if uses_law and q >= enough:
                        bound, wider = 0.0, 0.0
                        if h < horizon - 1:
                            bound, wider = _largest(
                                law, of_law, r, g, i, following, table, top, enough - paid, tried[OF_LAW], gaps
                            )
                        q, limit = min(q, bound + paid), min(limit, wider + paid)
                    limits[i], best = limit - grown, max(best, q)
                    if q + ties[a] > score or (q + ties[a] == score and a < chosen):
                        score, chosen, leader = q + ties[a], a, i
            values[h, s], policy[h, s], lead[s] = best, chosen, leader
            if s == end_state:
                values[h, s] = (horizon - h) * end_reward
            growth = max(growth, values[h, s] - following[s])
        grown += growth
