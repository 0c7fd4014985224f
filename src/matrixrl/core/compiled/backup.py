"""Optimistic backward induction for any features, compiled: all stages of a plan in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.core.compiled.jit import compiled

__all__ = ["plan_all"]


@compiled
def _split(centre: int, norm: int, constant: float, v: Any, total: Any) -> tuple[float, float]:
    """Return shift and scale of one member of the set for v (d_psi,); `total` is u = Ψᵀ1."""
    shift = 0.0
    if centre == 1:
        shift = np.dot(v, total) / np.dot(total, total)
    elif centre == 2:
        shift = 0.5 * (v.min() + v.max()) / total[0]
    off = v - shift * total
    if norm == 0:
        return shift, float(np.sqrt(np.dot(off, off)))
    if norm == 1:
        return shift, float(np.abs(off).max())
    return shift, constant


@compiled
def plan_all(
    rows: Any,
    psi: Any,
    total: Any,
    core: Any,
    slack: Any,
    half_width: Any,
    centre: Any,
    norm: Any,
    constant: Any,
    is_normalised: bool,
    reward: Any,
    ties: Any,
    end_state: int,
    end_reward: float,
    values: Any,
    policy: Any,
    preference: Any,
    preference_weight: float,
    q_out: Any,
) -> None:
    """Fill in the optimistic values (B, H + 1, S) and the policy (B, H, S) of every replica (YW19 (4)).

    The inner loops run over states, and write to arrays that are made here, which nothing else can overlap: so the
    compiler takes four states at a time.

    Args:
        rows: (d, P) the features φ of all pairs, one column each; (0, 0) if they are one-hot.
        psi: (S, d_psi), weighted as in ΨᵀV; (0, 0) if it is one-hot.
        total: (d_psi,) u.
        core: (B, d, d_psi) M_n.
        slack: (B, P) 1 − φᵀM_n u, or (B, 0) if the set is not normalised.
        half_width: (m, B, P) of each member of the set.
        centre: (m,) what is taken from v: 0 nothing, 1 its share along u, 2 the middle of its range (u constant).
        norm: (m,) of what is left: 0 the two-norm, 1 the largest entry, 2 the constant.
        constant: (m,).
        is_normalised: whether bounds are clipped to the range of V, else V to [0, H].
        reward: (B, P) the largest unit rewards that are believed.
        ties: (B, A) what breaks ties.
        end_state: whose value is known, or -1.
        end_reward: its unit reward.
        values: filled in; values[:, H] is read.
        policy: filled in.
        preference: (B, H, P) what breaks ties first, in [0, H]; or (0, 0, 0).
        preference_weight: what it is multiplied with.
        q_out: (B, H, P) filled in with the optimistic Q; or (0, 0, 0).
    """
    n_replicas, horizon, n_states = policy.shape
    n_members, d, n_actions = len(centre), rows.shape[0], ties.shape[1]
    weights = np.empty((n_replicas, core.shape[1]))
    shift, scale = np.empty((n_replicas, n_members)), np.empty((n_replicas, n_members))
    low, high = np.empty(n_replicas), np.empty(n_replicas)
    mean, q = np.empty(n_states), np.empty(n_states)
    best, score = np.empty((n_replicas, n_states)), np.empty((n_replicas, n_states))
    chosen = np.empty((n_replicas, n_states))  # actions as floats: all lanes of one width
    for h in range(horizon - 1, -1, -1):
        for b in range(n_replicas):
            following = values[b, h + 1]
            low[b], high[b] = following.min(), following.max()
            v = np.dot(following, psi) if len(psi) > 0 else following
            weights[b] = np.dot(core[b], v)
            for m in range(n_members):
                shift[b, m], scale[b, m] = _split(centre[m], norm[m], constant[m], v, total)
        best[:] = -np.inf
        score[:] = -np.inf
        for a in range(n_actions):
            first = a * n_states
            for b in range(n_replicas):  # inside, so that the features of an action are read from memory once
                q[:] = 0.0
                if h < horizon - 1:
                    if d > 0:
                        mean[:] = 0.0
                        for j in range(0, d - d % 4, 4):  # four at a time: the sums stay in registers
                            w, x, y, z = weights[b, j], weights[b, j + 1], weights[b, j + 2], weights[b, j + 3]
                            for s in range(n_states):
                                p = first + s
                                two = w * rows[j, p] + x * rows[j + 1, p]
                                mean[s] += two + (y * rows[j + 2, p] + z * rows[j + 3, p])
                        for j in range(d - d % 4, d):
                            w = weights[b, j]
                            for s in range(n_states):
                                mean[s] += w * rows[j, first + s]
                    else:
                        mean[:] = weights[b, first : first + n_states]
                    q[:] = np.inf
                    for m in range(n_members):
                        c, z = shift[b, m], scale[b, m]
                        if is_normalised:
                            for s in range(n_states):
                                mean_here = mean[s] + c * slack[b, first + s]
                                q[s] = min(q[s], mean_here + z * half_width[m, b, first + s])
                        else:
                            for s in range(n_states):
                                q[s] = min(q[s], mean[s] + z * half_width[m, b, first + s])
                    if is_normalised:
                        least, most = low[b], high[b]
                        for s in range(n_states):
                            q[s] = min(max(q[s], least), most)
                for s in range(n_states):
                    q[s] += reward[b, first + s]
                    best[b, s] = max(best[b, s], q[s])
                if len(q_out) > 0:
                    q_out[b, h, first : first + n_states] = q
                if len(preference) > 0:
                    for s in range(n_states):
                        q[s] += preference_weight * preference[b, h, first + s]
                tie = ties[b, a]
                for s in range(n_states):
                    x = q[s] + tie
                    chosen[b, s] = a if x > score[b, s] else chosen[b, s]
                    score[b, s] = max(score[b, s], x)
        for b in range(n_replicas):
            for s in range(n_states):
                values[b, h, s] = best[b, s] if is_normalised else min(max(best[b, s], 0.0), float(horizon))
            for s in range(n_states):
                policy[b, h, s] = int(chosen[b, s])
            if end_state >= 0:
                values[b, h, end_state] = (horizon - h) * end_reward
