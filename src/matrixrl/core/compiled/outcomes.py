"""Optimistic and pessimistic backward induction with likelihood sets of outcomes, compiled with numba.

Upper bounds of those pairs alone are computed that may be the best of their state, as `core.compiled.pruned` does: a
bound grows from one stage to the next by no more than the largest growth of any value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.compilation import compiled, inlined, lean
from matrixrl.core.compiled.kl_ball import EPSILON, FIRSTS, LASTS, SHARES, STATES, TOP_EPSILON, largest_mean

__all__ = ["fill_plan", "policy_values"]

_SLACK = 1e-10  # relative, of bounds that are compared: larger than their rounding errors


@lean
def _gather(next_states: Any, unit_rewards: Any, p: int, following: Any, sign: float, worth: Any) -> float:
    """Fill in g + V(f) of pair p (W,) and return the largest entry of its product with the sign."""
    top = -np.inf
    for w in range(len(worth)):
        worth[w] = unit_rewards[p, w] + following[next_states[p, w]]
        top = max(top, sign * worth[w])
    return top


@lean
def _growth(next_states: Any, p: int, following: Any, before: Any, discount: float) -> float:
    """Return the largest growth of the values of the next states of pair p."""
    most = -np.inf
    for w in range(next_states.shape[1]):
        s = next_states[p, w]
        most = max(most, following[s] - discount * before[s])
    return most


@inlined
def _bound(
    lists: Any, ball: Any, rooms: Any, r: int, g: int, sign: float, top: float, guess: float, enough: float
) -> tuple[float, float, float]:
    """Return `largest_mean` of sign·worth by law g of replica r.

    `lists` are firsts and lasts of the laws (B, K), shares and outcomes of all entries; `ball` the radii of the laws
    (B, K), and those at the top; `rooms` the worth of the outcomes (W,), room for the entries of a law, and two empty
    arrays.
    """
    firsts, lasts, shares, outcomes = lists
    epsilon, top_epsilon = ball
    worth, gaps, empty, no_table = rooms
    found: tuple[float, float, float] = largest_mean(
        firsts[r, g],
        lasts[r, g],
        shares,
        outcomes,
        empty,
        outcomes,
        worth,
        no_table,
        sign,
        top,
        epsilon[r, g],
        top_epsilon[r, g],
        guess,
        enough,
        gaps,
    )
    return found


@compiled
def fill_plan(
    sign: float,
    law: Any,
    next_states: Any,
    unit_rewards: Any,
    laws: Any,
    reward: Any,
    first_replica: int,
    ties: Any,
    end_state: int,
    end_values: Any,
    discount: float,
    choices: Any,
    values: Any,
    policy: Any,
    preference: Any,
    preference_weight: float,
    q_out: Any,
) -> None:
    """Fill in the optimistic values (B, H + 1, S) and the policy (B, H, S) of every replica; or the pessimistic ones.

    The arguments from `first_replica` to `q_out` are those of `core.compiled.backup.fill_plan`; the others:
        sign: 1 for upper bounds; -1 for lower bounds, which need radii that hold for all values.
        law: Laws of the outcomes of the groups, with firsts, lasts and epsilon (B, K).
        next_states: (P, W) Next state of each pair and outcome.
        unit_rewards: (P, W) Unit rewards.
        laws: (P,) Law of each pair.
        reward: (B, P) -∞ excludes a pair; other numbers are not used.
    """
    n_replicas, horizon, n_states = policy.shape
    n_outcomes, n_pairs = next_states.shape[1], next_states.shape[0]
    lists, ball = (law[FIRSTS], law[LASTS], law[SHARES], law[STATES]), (law[EPSILON], law[TOP_EPSILON])
    worth = np.empty(n_outcomes)
    rooms = worth, np.empty(n_outcomes), np.empty(0), np.empty((3, 0))
    following, lead = np.empty(n_states), np.empty(n_states, dtype=np.int64)
    limits, guess, since = np.empty(n_pairs), np.empty(n_pairs), np.empty(n_pairs, dtype=np.int64)
    gained = np.zeros(horizon + 1)  # sum of the largest growths of values from the last stage on
    prunes, prefers, keeps = sign > 0.0 and len(q_out) == 0, len(preference) > 0, len(q_out) > 0
    for b in range(n_replicas):
        r = first_replica + b
        limits[:] = np.inf
        guess[:] = 0.0
        since[:] = horizon - 1
        lead[:] = -1
        breaking = ties[b].max() + (preference_weight * horizon if prefers else 0.0)
        for h in range(horizon - 1, -1, -1):
            first, last, growth = choices[h, 0], choices[h, 1], -np.inf
            for s in range(n_states):
                following[s] = discount * values[b, h + 1, s]
            if keeps:
                q_out[b, h] = -np.inf
            for s in range(n_states):
                best, score, chosen = -np.inf, -np.inf, first
                for k in range(first - 1, last):  # the best one of the last stage, then the others
                    a = lead[s] if k < first else k
                    if a < first or a >= last or (k >= first and k == lead[s]):
                        continue
                    p = a * n_states + s
                    if reward[r, p] == -np.inf:  # the pair is excluded
                        continue
                    enough = -np.inf
                    if prunes and best > -np.inf:
                        enough = best - _SLACK * (1.0 + abs(best)) - breaking
                        if limits[p] + (gained[h + 1] - gained[since[p] + 1]) < enough:
                            continue
                        before = values[b, since[p] + 1]
                        if limits[p] + _growth(next_states, p, following, before, discount) < enough:
                            continue
                    top = _gather(next_states, unit_rewards, p, following, sign, worth)
                    if top < enough:
                        continue
                    bound, wider, guess[p] = _bound(lists, ball, rooms, r, laws[p], sign, top, guess[p], enough)
                    q, limits[p], since[p] = sign * bound, wider, h
                    best = max(best, q)
                    if keeps:
                        q_out[b, h, p] = q
                    x = q + preference_weight * preference[b, h, p] if prefers else q
                    x += ties[b, a]
                    if x > score or (x == score and a < chosen):
                        score, chosen = x, a
                values[b, h, s] = best if sign > 0.0 else min(max(best, 0.0), float(horizon))
                policy[b, h, s] = lead[s] = chosen
                if s == end_state:
                    values[b, h, s] = end_values[h]
                growth = max(growth, discount * (values[b, h, s] - values[b, h + 1, s]))
            gained[h] = gained[h + 1] + growth


@compiled
def policy_values(
    sign: float,
    law: Any,
    next_states: Any,
    unit_rewards: Any,
    laws: Any,
    r: int,
    end_state: int,
    end_values: Any,
    discount: float,
    policy: Any,
    ceiling: Any,
    values: Any,
) -> None:
    """Fill in bounds (H + 1, S) on the values of a policy (H, S), lower (sign -1) or upper ones; values[H] is read.

    The arguments are those of `fill_plan`, of replica r, except for:
        ceiling: (H, S) Largest values; (0, 0) for H everywhere.
    """
    horizon, n_states = policy.shape
    lists, ball = (law[FIRSTS], law[LASTS], law[SHARES], law[STATES]), (law[EPSILON], law[TOP_EPSILON])
    worth = np.empty(next_states.shape[1])
    rooms = worth, np.empty(len(worth)), np.empty(0), np.empty((3, 0))
    following, guess = np.empty(n_states), np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        for s in range(n_states):
            following[s] = discount * values[h + 1, s]
        for s in range(n_states):
            p = policy[h, s] * n_states + s
            top = _gather(next_states, unit_rewards, p, following, sign, worth)
            bound, _, guess[s] = _bound(lists, ball, rooms, r, laws[p], sign, top, guess[s], -np.inf)
            most = ceiling[h, s] if len(ceiling) > 0 else float(horizon)
            values[h, s] = min(max(sign * bound, 0.0), most)
        if end_state >= 0:
            values[h, end_state] = end_values[h]
