"""Optimistic and pessimistic backward induction with likelihood sets of outcomes, compiled with numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.compilation import compiled, internal
from matrixrl.core.compiled.backup import choose
from matrixrl.core.compiled.likelihood import bounded_mean

__all__ = ["fill_plan", "policy_values"]


@internal
def _q(
    law: Any, next_states: Any, unit_rewards: Any, laws: Any, r: int, p: int, following: Any, sign: float, worth: Any
) -> float:
    """Return the bound on the mean of g + V(f) of pair p of replica r; `worth` (W,) and its gaps are overwritten."""
    top = -np.inf
    for w in range(next_states.shape[1]):
        worth[0, w] = unit_rewards[p, w] + following[next_states[p, w]]
        top = max(top, sign * worth[0, w])
    return float(bounded_mean(law, r, laws[p], worth[0], sign, top, worth[1]))


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
    worth = np.empty((2, next_states.shape[1]))
    q, best, score, chosen = np.empty(n_states), np.empty(n_states), np.empty(n_states), np.empty(n_states)
    for b in range(n_replicas):
        r = first_replica + b
        for h in range(horizon - 1, -1, -1):
            following = discount * values[b, h + 1]
            best[:] = -np.inf
            score[:] = -np.inf
            if len(q_out) > 0:
                q_out[b, h] = -np.inf
            for a in range(choices[h, 0], choices[h, 1]):
                for s in range(n_states):
                    p = a * n_states + s
                    q[s] = -np.inf
                    if reward[r, p] > -np.inf:
                        q[s] = _q(law, next_states, unit_rewards, laws, r, p, following, sign, worth)
                    best[s] = max(best[s], q[s])
                    if len(q_out) > 0:
                        q_out[b, h, p] = q[s]
                    if len(preference) > 0:
                        q[s] += preference_weight * preference[b, h, p]
                choose(a, q, ties[b, a], score, chosen)
            for s in range(n_states):
                values[b, h, s] = best[s] if sign > 0.0 else min(max(best[s], 0.0), float(horizon))
                policy[b, h, s] = int(chosen[s])
            if end_state >= 0:
                values[b, h, end_state] = end_values[h]


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
    worth = np.empty((2, next_states.shape[1]))
    for h in range(horizon - 1, -1, -1):
        following = discount * values[h + 1]
        for s in range(n_states):
            p = policy[h, s] * n_states + s
            bound = _q(law, next_states, unit_rewards, laws, r, p, following, sign, worth)
            most = ceiling[h, s] if len(ceiling) > 0 else float(horizon)
            values[h, s] = min(max(bound, 0.0), most)
        if end_state >= 0:
            values[h, end_state] = end_values[h]
