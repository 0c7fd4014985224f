"""Optimistic backward induction that computes the bounds of those pairs only that may be the best of their state.

A pair that was never tried is worth the top and its reward, so all such pairs of a state cost as much as one. The
bound of a pair grows from one stage to the next by no more than the largest growth of any value, because it grows with
the values and an amount that is added to all of them is added to it. Pairs whose bound cannot reach the largest one of
their state by this are left out. The plan is that of computing all bounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matrixrl.compiling.jit import compiled
from matrixrl.core.compiled.kl_ball import (
    CODES,
    EPSILON,
    EXTRAS,
    FIRSTS,
    LASTS,
    PAID,
    SHARES,
    STATES,
    TOP_EPSILON,
    fill_table,
    largest_mean,
)

__all__ = ["LOOPS_DIGEST", "fill_pruned_plan", "new_table"]

LOOPS_DIGEST = "92f8fea364127234"
"""Digest of the files of the loops that are called, which numba does not watch; a test compares it."""

_SLACK = 1e-10  # relative, of bounds that are compared: larger than their rounding errors
_SMALL = 1 << 17  # outcomes of a table


class Candidates(NamedTuple):
    """The pairs of each state that were tried, and the best one of those that were not.

    Stages may choose from different actions, so there is a cell for each block of actions and each state: number
    block · S + state, n cells in all.

    Attributes:
        firsts: (n cells + 1,) Position of the first tried pair of each cell.
        actions: (n,) Action of each of them.
        limits: (n,) Upper bound on Q, in excess of the growth of values since the last stage.
        of_law: (n,) Place of the search of the bound on next values, of the last stage that computed it.
        of_joint: (n,) The same for the joint law.
        most: (n cells,) Largest reward of a tried pair.
        fresh: (n cells,) Largest reward of an untried one; -∞ if there is none.
        fresh_action: (n cells,) Untried action that is chosen among them.
        longest: (1,) Largest number of outcomes of a pair.
    """

    firsts: Any
    actions: Any
    limits: Any
    of_law: Any
    of_joint: Any
    most: Any
    fresh: Any
    fresh_action: Any
    longest: Any


(FIRST, ACTION, LIMIT, OF_LAW, OF_JOINT, MOST, FRESH, FRESH_ACTION, LONGEST) = range(9)


@compiled
def _candidates(law: Any, joint: Any, groups: Any, reward: Any, r: int, ties: Any, n_states: int, width: int) -> Any:
    """Return the candidates of every cell of replica r; blocks have `width` actions."""
    n_cells = len(ties) // width * n_states
    firsts, fresh, most = np.zeros(n_cells + 1, dtype=np.int64), np.full(n_cells, -np.inf), np.full(n_cells, -np.inf)
    fresh_action, score, longest = np.zeros(n_cells, dtype=np.int64), np.full(n_cells, -np.inf), 0
    of_law, has_joint = law[LASTS][r] - law[FIRSTS][r], joint[FIRSTS].shape[1] > 0
    for a in range(len(ties)):
        for s in range(n_states):
            p, c = a * n_states + s, a // width * n_states + s
            if of_law[groups[p]] > 0:
                firsts[c + 1] += 1
                longest = max(longest, of_law[groups[p]])
                if has_joint:
                    longest = max(longest, joint[LASTS][r, groups[p]] - joint[FIRSTS][r, groups[p]])
                most[c] = max(most[c], reward[r, p])
            else:
                fresh[c] = max(fresh[c], reward[r, p])
                if reward[r, p] + ties[a] > score[c]:
                    fresh_action[c], score[c] = a, reward[r, p] + ties[a]
    for c in range(n_cells):
        firsts[c + 1] += firsts[c]
    actions, limits = np.empty(firsts[-1], dtype=np.int64), np.empty(firsts[-1])
    place = firsts[:-1].copy()
    for a in range(len(ties)):
        for s in range(n_states):
            p, c = a * n_states + s, a // width * n_states + s
            if of_law[groups[p]] > 0:
                actions[place[c]], limits[place[c]] = a, reward[r, p]
                place[c] += 1
    nothing = np.zeros(len(actions))
    return firsts, actions, limits, nothing, nothing.copy(), most, fresh, fresh_action, np.array([longest])


@compiled
def new_table(law: Any, r: int, n_states: int) -> Any:
    """Return room for the table of a law, (n outcomes, 3); (0, 3) if fewer outcomes were seen than it has."""
    if law[FIRSTS].shape[1] == 0:
        return np.empty((0, 3))
    n_codes, used, seen = n_states * law[PAID].shape[1], 0, 0
    for level in range(law[PAID].shape[1]):
        used += law[PAID][r, level] >= 0.0
    for g in range(law[FIRSTS].shape[1]):
        seen += law[LASTS][r, g] - law[FIRSTS][r, g]
    return np.empty((n_codes if n_codes <= _SMALL and 2 * used * n_states <= seen else 0, 3))


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
    end_values: Any,
    discount: float,
    choices: Any,
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
        end_values: (H,) Its unit value at every stage.
        discount: Factor of the values of the next stage.
        choices: (H, 2) First action of each stage, and the one after its last; blocks of equal width that begin at
            multiples of it.
        values: Filled in; values[H] must be 0.
        policy: Filled in.
    """
    horizon, n_states = policy.shape
    has_joint, uses_law = joint[FIRSTS].shape[1] > 0, not joint_is_less
    width = choices[0, 1] - choices[0, 0]
    tried = _candidates(law, joint, groups, reward, r, ties, n_states, width)
    firsts, actions, limits, most, fresh = tried[FIRST], tried[ACTION], tried[LIMIT], tried[MOST], tried[FRESH]
    table, joint_table = new_table(law, r, n_states), new_table(joint, r, n_states)
    gaps, lead, grown = np.empty(tried[LONGEST][0]), np.full(len(most), -1, dtype=np.int64), 0.0
    paid = joint[PAID][r] if has_joint else law[PAID][r]
    for h in range(horizon - 1, -1, -1):
        following, growth, first_cell = discount * values[h + 1], -np.inf, choices[h, 0] // width * n_states
        top = following.max()
        slack = _SLACK * (1.0 + abs(top)) + ties.max()
        if len(table) > 0 and uses_law:
            fill_table(law[PAID][r], following, 1.0, top, table)
        if len(joint_table) > 0:
            fill_table(paid, following, 1.0, top + 1.0, joint_table)
        for s in range(n_states):
            c = first_cell + s
            best, score, chosen, leader = -np.inf, -np.inf, choices[h, 0], -1
            if fresh[c] > -np.inf:
                chosen = tried[FRESH_ACTION][c]
                best, score = top + fresh[c], (top + reward[r, chosen * n_states + s]) + ties[chosen]
            if most[c] + top + slack >= best:
                for k in range(firsts[c] - 1, firsts[c + 1]):  # the best one of the last stage, then the others
                    i = lead[c] if k < firsts[c] else k
                    if i < 0 or (k >= firsts[c] and k == lead[c]):
                        continue
                    a = actions[i]
                    p = a * n_states + s
                    if reward[r, p] == -np.inf or min(limits[i] + grown, reward[r, p] + top) + slack < best:
                        continue
                    g, q, limit = groups[p], reward[r, p], reward[r, p]
                    if uses_law and h < horizon - 1:
                        bound, wider, tried[OF_LAW][i] = largest_mean(
                            law[FIRSTS][r, g],
                            law[LASTS][r, g],
                            law[SHARES],
                            law[STATES],
                            law[EXTRAS],
                            law[CODES],
                            following,
                            table,
                            1.0,
                            top,
                            law[EPSILON][r, g],
                            law[TOP_EPSILON][r, g],
                            tried[OF_LAW][i],
                            gaps,
                        )
                        q, limit = bound + q, wider + limit
                    if has_joint:
                        bound, wider, tried[OF_JOINT][i] = largest_mean(
                            joint[FIRSTS][r, g],
                            joint[LASTS][r, g],
                            joint[SHARES],
                            joint[STATES],
                            joint[EXTRAS],
                            joint[CODES],
                            following,
                            joint_table,
                            1.0,
                            top + 1.0,
                            joint[EPSILON][r, g],
                            joint[TOP_EPSILON][r, g],
                            tried[OF_JOINT][i],
                            gaps,
                        )
                        q, limit = (min(q, bound), min(limit, wider)) if uses_law else (bound, wider)
                    limits[i], best = limit - grown, max(best, q)
                    if q + ties[a] > score or (q + ties[a] == score and a < chosen):
                        score, chosen, leader = q + ties[a], a, i
            values[h, s], policy[h, s], lead[c] = best, chosen, leader
            if s == end_state:
                values[h, s] = end_values[h]
            growth = max(growth, discount * (values[h, s] - values[h + 1, s]))
        grown += growth
