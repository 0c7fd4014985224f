"""Optimistic backward induction, YW19 (4), for B replicas at once."""

from __future__ import annotations

import numpy as np

from matrixrl.core.sets import ConfidenceSet, Reach, Split
from matrixrl.features import Features
from matrixrl.records import FloatArray, Plan
from matrixrl.tolerances import TIE

__all__ = ["optimistic_next_value", "optimistic_plan", "pair_reach"]


def pair_reach(
    features: Features,
    confidence_set: ConfidenceSet,
    core: FloatArray,
    width_sq: FloatArray,
    radius: FloatArray,
    alarm_radius: FloatArray,
) -> Reach:
    """Return how far the set reaches at every pair; arguments as in `optimistic_plan`."""
    slack = None
    if confidence_set.is_normalised:
        mass = features.phi.dot(core @ features.psi.total)
        slack = 1.0 - mass.reshape(width_sq.shape)
    return confidence_set.reach(width_sq, radius, alarm_radius, slack)


def optimistic_next_value(
    features: Features, core: FloatArray, split: Split, reach: Reach, *, sign: float = 1.0
) -> FloatArray:
    """Return the largest (sign 1) or smallest (sign -1) φᵀMv over the set, for all pairs: (B, A, S)."""
    weights = (core @ split.direction[:, :, None])[:, :, 0]
    bound = features.phi.dot(weights)  # φᵀ M_n direction
    flat = bound.reshape(reach.half_width.shape)
    flat += (sign * split.scale)[:, None] * reach.half_width
    flat += split.shift[:, None]
    if reach.empty is not None:
        assert reach.slack is not None
        assert reach.ball is not None
        # design 4.1: no probability in the ball; bound by the uncut ball, φᵀM_n v ± √β w ‖v‖, there.
        u_sq = float(features.psi.total @ features.psi.total)
        norm = np.sqrt(split.scale**2 + split.shift**2 * u_sq)[:, None]
        centre = flat - sign * split.scale[:, None] * reach.half_width - split.shift[:, None] * reach.slack
        np.copyto(flat, centre + sign * norm * reach.ball, where=reach.empty)
    return bound


def optimistic_plan(
    features: Features,
    confidence_set: ConfidenceSet,
    *,
    core: FloatArray,
    width_sq: FloatArray,
    radius: FloatArray,
    alarm_radius: FloatArray,
    unit_reward: FloatArray,
    horizon: int,
    priority: FloatArray,
    end_state: int | None = None,
    end_reward: float = 0.0,
) -> Plan:
    """Return the optimistic values and the policy that is greedy in them (YW19 (4), Algorithm 1 line 6).

    Args:
        features: φ and ψ.
        confidence_set: whose largest member is taken at every pair.
        core: (B, d, d_psi) M_n.
        width_sq: (B, P) squared widths.
        radius: (B,) √β_n times exploration.
        alarm_radius: (B,) a proven √β_n: the misspecification alarm is judged with it.
        unit_reward: (A, S) rewards in [0, 1].
        horizon: H.
        priority: (B, A) a ranking of actions in [0, 1] that breaks ties.
        end_state: an absorbing state whose value is known: `end_reward` for each step that is left.
        end_reward: the unit reward of the end state.
    """
    n_replicas = len(core)
    n_actions, n_states = unit_reward.shape
    reach = pair_reach(features, confidence_set, core, width_sq, radius, alarm_radius)
    values = np.zeros((n_replicas, horizon + 1, n_states))
    policy = np.empty((n_replicas, horizon, n_states), dtype=np.min_scalar_type(n_actions - 1))
    tie_break = (TIE * horizon) * priority[:, :, None]
    for h in reversed(range(horizon)):
        v_next = values[:, h + 1]
        if h == horizon - 1:
            q = np.broadcast_to(unit_reward, (n_replicas, n_actions, n_states)).copy()
        else:
            split = confidence_set.split(features.psi.project(v_next))
            q = optimistic_next_value(features, core, split, reach)
            if confidence_set.is_normalised:  # P is a distribution: an average of V
                np.maximum(q, v_next.min(axis=1)[:, None, None], out=q)
                np.minimum(q, v_next.max(axis=1)[:, None, None], out=q)
            q += unit_reward
        q.max(axis=1, out=values[:, h])
        if not confidence_set.is_normalised:
            np.clip(values[:, h], 0.0, float(horizon), out=values[:, h])  # Π_[0,H] of YW19 (4)
        q += tie_break
        policy[:, h] = q.argmax(axis=1)
        if end_state is not None:
            values[:, h, end_state] = (horizon - h) * end_reward
    empty = np.zeros(n_replicas, dtype=np.int64)
    if reach.empty is not None:
        empty = reach.empty.sum(axis=1)
    return Plan(policy=policy, values=values, empty=empty)
