"""Optimistic backward induction, YW19 (4), for B replicas at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.core.compiled.arguments import fill_in_compiled, has_compiled_form
from matrixrl.core.sets import ConfidenceSet, Reach, Split
from matrixrl.features import Phi, Psi
from matrixrl.linalg import PairDesign
from matrixrl.records import FloatArray, IntArray, Plan
from matrixrl.tolerances import TIE

__all__ = ["Belief", "form_belief", "next_value_bound", "optimistic_plan", "pessimistic_values", "rank_weight"]

_RANK_SHARE = 1e-3  # coarser than rounding, finer than what a preference is about


@dataclass(frozen=True, slots=True)
class Belief:
    """What is known after some data: everything that bounds on next values need, for B replicas.

    Attributes:
        phi: features of the pairs that are asked about: all of them, or a few.
        psi: features of next states: all of them, or a weighted sample.
        core: (B, d, d_psi) M_n.
        confidence_set: the set around it.
        reaches: for each member of the set, how far it reaches at every pair.
        slack: (B, P) ε = 1 − φᵀM_n u, for normalised sets.
    """

    phi: Phi
    psi: Psi
    core: FloatArray
    confidence_set: ConfidenceSet
    reaches: tuple[Reach, ...]
    slack: FloatArray | None = None

    @property
    def empty(self) -> IntArray:
        """(B,) how many pairs have no probability in the ball (the misspecification alarm)."""
        counts = np.zeros(len(self.core), dtype=np.int64)
        for reach in self.reaches:
            if reach.empty is not None:
                counts = np.maximum(counts, reach.empty.sum(axis=1))
        return counts

    def bound(self, values: FloatArray, *, sign: float = 1.0) -> FloatArray:
        """Return the largest (sign 1) or smallest (sign -1) expected next value, for all pairs.

        Args:
            values: (B, S) the values of the next states of ψ.
            sign: 1 for an upper bound, -1 for a lower one.

        Returns:
            (B, A, S).
        """
        v = self.psi.project(values)
        pick = np.minimum if sign > 0 else np.maximum
        result: FloatArray | None = None
        for member, reach in zip(self.confidence_set.members, self.reaches, strict=True):
            bound = next_value_bound(self.phi, self.psi, self.core, member.split(v), reach, sign=sign)
            result = bound if result is None else pick(result, bound, out=result)
        assert result is not None
        if self.confidence_set.is_normalised:  # P is a distribution: an average of V (docs/proofs.md, 2)
            np.maximum(result, values.min(axis=1)[:, None, None], out=result)
            np.minimum(result, values.max(axis=1)[:, None, None], out=result)
        return result


def form_belief(
    phi: Phi,
    psi: Psi,
    confidence_set: ConfidenceSet,
    design: PairDesign,
    core: FloatArray,
    radius: FloatArray,
    alarm_radius: FloatArray,
) -> Belief:
    """Return the belief of M_n, A_n and radii of shape (B, 1) or (B, P)."""
    slack = None
    if confidence_set.is_normalised:
        mass = phi.dot(core @ psi.total)
        slack = 1.0 - mass.reshape(design.width_sq.shape)
    reaches = tuple(m.reach(design, radius, alarm_radius, slack) for m in confidence_set.members)
    return Belief(phi, psi, core, confidence_set, reaches, slack)


def next_value_bound(
    phi: Phi, psi: Psi, core: FloatArray, split: Split, reach: Reach, *, sign: float = 1.0
) -> FloatArray:
    """Return the largest (sign 1) or smallest (sign -1) φᵀMv over the set, for all pairs: (B, A, S)."""
    weights = (core @ split.direction[:, :, None])[:, :, 0]
    bound = phi.dot(weights)  # φᵀ M_n direction
    flat = bound.reshape(reach.half_width.shape)
    flat += (sign * split.scale)[:, None] * reach.half_width
    flat += split.shift[:, None]
    if reach.empty is not None:
        assert reach.slack is not None
        assert reach.ball is not None
        # design 4.1: no probability in the ball; bound by the uncut ball, φᵀM_n v ± √β w ‖v‖, there.
        u_sq = float(psi.total @ psi.total)
        norm = np.sqrt(split.scale**2 + split.shift**2 * u_sq)[:, None]
        centre = flat - sign * split.scale[:, None] * reach.half_width - split.shift[:, None] * reach.slack
        np.copyto(flat, centre + sign * norm * reach.ball, where=reach.empty)
    return bound


def rank_weight(horizon: int, *, prefers: bool) -> float:
    """Return what the random ranking of actions, in [0, 1], counts for: little where a preference comes first."""
    return TIE * horizon * (_RANK_SHARE if prefers else 1.0)


def optimistic_plan(
    belief: Belief,
    *,
    unit_reward: FloatArray,
    horizon: int,
    priority: FloatArray,
    end_state: int | None = None,
    end_reward: float = 0.0,
    compiled: bool = False,
    preference: FloatArray | None = None,
    q_out: FloatArray | None = None,
) -> Plan:
    """Return the optimistic values and the policy that is greedy in them (YW19 (4), Algorithm 1 line 6).

    Args:
        belief: M_n and the set around it.
        unit_reward: (A, S) rewards in [0, 1], or (B, A, S) optimistic ones.
        horizon: H.
        priority: (B, A) a ranking of actions in [0, 1] that breaks ties.
        end_state: an absorbing state whose value is known: `end_reward` for each step that is left.
        end_reward: the unit reward of the end state.
        compiled: take the compiled loops where they know the form of the bound.
        preference: (B, H, A, S) in [0, H]; breaks ties before `priority` does: the larger, the better.
        q_out: (B, H, A, S) where to write the optimistic Q, if it is wanted.
    """
    n_replicas = len(belief.core)
    n_actions, n_states = unit_reward.shape[-2:]
    is_normalised = belief.confidence_set.is_normalised
    values = np.zeros((n_replicas, horizon + 1, n_states))
    policy = np.empty((n_replicas, horizon, n_states), dtype=np.min_scalar_type(n_actions - 1))
    tie_break = rank_weight(horizon, prefers=preference is not None) * priority
    if compiled and has_compiled_form(belief):
        ends = (-1 if end_state is None else end_state, end_reward)
        fill_in_compiled(belief, unit_reward, tie_break, ends, values, policy, preference, q_out)
        return Plan(policy=policy, values=values, empty=belief.empty)
    for h in reversed(range(horizon)):
        v_next = values[:, h + 1]
        if h == horizon - 1:
            q = np.broadcast_to(unit_reward, (n_replicas, n_actions, n_states)).copy()
        else:
            q = belief.bound(v_next)
            q += unit_reward
        q.max(axis=1, out=values[:, h])
        if not is_normalised:
            np.clip(values[:, h], 0.0, float(horizon), out=values[:, h])  # Π_[0,H] of YW19 (4)
        if q_out is not None:
            q_out[:, h] = q
        if preference is not None:
            q += TIE * preference[:, h]
        q += tie_break[:, :, None]
        policy[:, h] = q.argmax(axis=1)
        if end_state is not None:
            values[:, h, end_state] = (horizon - h) * end_reward
    return Plan(policy=policy, values=values, empty=belief.empty)


def pessimistic_values(
    belief: Belief,
    policy: IntArray,
    *,
    unit_reward: FloatArray,
    horizon: int,
    end_state: int | None = None,
    end_reward: float = 0.0,
) -> FloatArray:
    """Return lower bounds on the values of a policy: the same backup with the smallest member (design 4.2).

    Args:
        belief: M_n and the set around it.
        policy: (B, H, S) the actions that are played.
        unit_reward: (A, S) rewards in [0, 1], or (B, A, S) pessimistic ones.
        horizon: H.
        end_state: an absorbing state whose value is known.
        end_reward: the unit reward of the end state.

    Returns:
        (B, H+1, S).
    """
    n_replicas, _, n_states = policy.shape
    rewards = np.broadcast_to(unit_reward, (n_replicas, *unit_reward.shape[-2:]))
    values = np.zeros((n_replicas, horizon + 1, n_states))
    for h in reversed(range(horizon)):
        q = rewards.copy() if h == horizon - 1 else belief.bound(values[:, h + 1], sign=-1.0)
        if h < horizon - 1:
            q += rewards
        chosen = policy[:, h].astype(np.int64)[:, None, :]
        values[:, h] = np.take_along_axis(q, chosen, axis=1)[:, 0]
        np.clip(values[:, h], 0.0, float(horizon), out=values[:, h])
        if end_state is not None:
            values[:, h, end_state] = (horizon - h) * end_reward
    return values
