"""Exact backward induction on lists of next states, compiled with numba.

Sums have the order of SciPy's products, so results are the same bit for bit. Positions are unsigned numbers: numba
then leaves out the test for negative ones, which takes as long as the sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.compilation import compiled

__all__ = ["fill_in_optimum", "fill_in_values"]


@compiled
def fill_in_optimum(
    firsts: Any,
    states: Any,
    chance: Any,
    reward: Any,
    first_actions: Any,
    n_actions: int,
    discount: float,
    values: Any,
    policy: Any,
) -> None:
    """Fill in the optimal values (H + 1, S) and the lowest optimal actions (H, S); values[H] is read.

    Next states (E,) and their chances are lists, that of the pair (s, a) from position `firsts[s·A + a]` on. Actions
    count from the first one of their stage, (H,), and each stage has `n_actions`.
    """
    horizon, n_states = policy.shape
    one, others = np.uint32(1), np.uint32(reward.shape[1] - n_actions)
    for h in range(horizon - 1, -1, -1):
        following, first = values[h + 1], first_actions[h]
        if discount != 1.0:
            following = discount * following
        pair = np.uint32(first)
        for s in range(n_states):
            best, chosen = -np.inf, 0
            for a in range(n_actions):
                total = 0.0
                for e in range(firsts[pair], firsts[pair + one]):
                    total += chance[e] * following[states[e]]
                total += reward[s, first + a]
                if total > best:
                    best, chosen = total, a
                pair += one
            pair += others
            values[h, s] = best
            policy[h, s] = chosen


@compiled
def fill_in_values(
    firsts: Any, states: Any, chance: Any, reward: Any, discount: float, policy: Any, values: Any
) -> None:
    """Fill in the values (H + 1, S) of a policy (H, S); values[H] is read, and other arguments are as above."""
    horizon, n_states = policy.shape
    n_actions, one = np.uint32(reward.shape[1]), np.uint32(1)
    for h in range(horizon - 1, -1, -1):
        following = values[h + 1]
        if discount != 1.0:
            following = discount * following
        for s in range(n_states):
            pair = np.uint32(s) * n_actions + np.uint32(policy[h, s])
            total = 0.0
            for e in range(firsts[pair], firsts[pair + one]):
                total += chance[e] * following[states[e]]
            values[h, s] = total + reward[s, policy[h, s]]
