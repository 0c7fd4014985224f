"""Bounds on expected next values and on rewards, given the data of B replicas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.core.compiled import fill_in_compiled, has_compiled_form
from matrixrl.core.sets import ConfidenceSet, Reach, Split
from matrixrl.core.value_bounds import PlanArrays, ValueBounds
from matrixrl.features import Phi, Psi
from matrixrl.linalg import PairDesign
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["Belief", "form_belief", "next_value_bound"]


@dataclass(frozen=True, slots=True)
class Belief(ValueBounds):
    """The estimate, its confidence set and the bounds on rewards, from which bounds on Q are computed.

    Attributes:
        phi: Features φ of the pairs: of all pairs, or of a selection.
        psi: Features ψ of the next states: of all states, or of a weighted sample.
        core_matrix: (B, d, d_psi) Estimate M_n.
        confidence_set: Confidence set around M_n.
        reaches: For each member of the confidence set, the part of the bound that depends on the pair.
        slack: (B, P) ε = 1 − φᵀM_n u for normalised sets, else None.
        most: (A, S) or (B, A, S) Upper bounds on unit rewards.
        least: (A, S) or (B, A, S) Lower bounds on unit rewards.
        allowed: (A, S) Allowed actions; the features of others need no model. None if all are allowed.
    """

    phi: Phi
    psi: Psi
    core_matrix: FloatArray
    confidence_set: ConfidenceSet
    reaches: tuple[Reach, ...]
    slack: FloatArray | None
    most: FloatArray
    least: FloatArray
    allowed: BoolArray | None = None

    @property
    def n_replicas(self) -> int:
        """Number of replicas B."""
        return len(self.core_matrix)

    @property
    def is_normalised(self) -> bool:
        """Whether bounds on expected next values are clipped to the range of the values."""
        return self.confidence_set.is_normalised

    @property
    def empty(self) -> IntArray:
        """Number (B,) of pairs whose confidence set contains no probability distribution (misspecification alarm)."""
        counts = np.zeros(self.n_replicas, dtype=np.int64)
        for reach in self.reaches:
            if reach.empty is not None:
                counts = np.maximum(counts, reach.empty.sum(axis=1))
        return counts

    def bound(self, values: FloatArray, *, sign: float = 1.0) -> FloatArray:
        """Return upper (sign 1) or lower (sign -1) bounds on the expected next value of all pairs.

        Args:
            values: (B, S) Values of the next states of ψ.
            sign: 1 for upper bounds, -1 for lower bounds.

        Returns:
            Bounds (B, A, S).
        """
        v = self.psi.project(values)
        tightest = np.minimum if sign > 0 else np.maximum
        result: FloatArray | None = None
        for member, reach in zip(self.confidence_set.members, self.reaches, strict=True):
            bound = next_value_bound(self.phi, self.core_matrix, v, member.split(v), reach, sign=sign)
            result = bound if result is None else tightest(result, bound, out=result)
        assert result is not None
        if self.is_normalised:  # P V is an average of V (docs/proofs.md, section 2)
            np.maximum(result, values.min(axis=1)[:, None, None], out=result)
            np.minimum(result, values.max(axis=1)[:, None, None], out=result)
        return result

    def reward_bound(self, *, sign: float = 1.0) -> FloatArray:
        """Return upper (sign 1) or lower (sign -1) bounds on unit rewards: (A, S) or (B, A, S)."""
        return self.most if sign > 0 else self.least

    def q(self, values: FloatArray | None, *, sign: float = 1.0) -> FloatArray:
        """Return bounds on Q (B, A, S): the bound on the reward plus the bound on the expected next value (YW19 (4)).

        Args:
            values: (B, S) Values of the next stage, or None at the last stage, whose next values are 0.
            sign: 1 for upper bounds, -1 for lower bounds.
        """
        reward = self.reward_bound(sign=sign)
        if values is None:
            return np.broadcast_to(reward, (self.n_replicas, *reward.shape[-2:])).copy()
        q = self.bound(values, sign=sign)
        q += reward
        return q

    def has_compiled_form(self, *, sign: float = 1.0) -> bool:
        """Return whether there is a compiled backup for these bounds that is faster than NumPy."""
        return sign > 0 and has_compiled_form(self)

    def fill_in_compiled(self, plan: PlanArrays, *, sign: float = 1.0) -> None:
        """Fill in optimistic values and policy with the compiled backup."""
        assert sign > 0.0
        fill_in_compiled(self, plan)


def form_belief(
    phi: Phi,
    psi: Psi,
    confidence_set: ConfidenceSet,
    design: PairDesign,
    core_matrix: FloatArray,
    radii: tuple[FloatArray, FloatArray],
    rewards: tuple[FloatArray, FloatArray],
    allowed: BoolArray | None = None,
) -> Belief:
    """Return the bounds that follow from M_n, A_n and a confidence set.

    Args:
        phi: Features φ of the pairs.
        psi: Features ψ of the next states.
        confidence_set: Confidence set, bound to ψ.
        design: A_n with the widths of the pairs.
        core_matrix: (B, d, d_psi) Estimate M_n.
        radii: Radii √β of the confidence set and of the alarm, each (B, 1) or (B, P).
        rewards: Upper and lower bounds on unit rewards, each (A, S) or (B, A, S).
        allowed: (A, S) Allowed actions, of whose confidence sets alone the alarm is raised; None if all are.
    """
    slack = None
    if confidence_set.is_normalised:
        mass = phi.dot(core_matrix @ psi.total)
        slack = 1.0 - mass.reshape(design.width_sq.shape)
    reaches = tuple(member.reach(design, *radii, slack) for member in confidence_set.members)
    if allowed is not None:
        reaches = tuple(reach.only(allowed.ravel()) for reach in reaches)
    return Belief(phi, psi, core_matrix, confidence_set, reaches, slack, *rewards, allowed)


def next_value_bound(
    phi: Phi, core_matrix: FloatArray, v: FloatArray, split: Split, reach: Reach, *, sign: float = 1.0
) -> FloatArray:
    """Return the largest (sign 1) or smallest (sign -1) φᵀMv over one confidence set, for all pairs.

    Args:
        phi: Features φ of the pairs.
        core_matrix: (B, d, d_psi) Estimate M_n.
        v: (B, d_psi) Values ΨᵀV.
        split: Part of the bound that depends on v.
        reach: Part of the bound that depends on the pair.
        sign: 1 for upper bounds, -1 for lower bounds.

    Returns:
        Bounds (B, A, S).
    """
    weights = (core_matrix @ split.direction[:, :, None])[:, :, 0]
    bound = phi.dot(weights)  # φᵀM_n direction
    flat = bound.reshape(reach.half_width.shape)
    flat += (sign * split.scale)[:, None] * reach.half_width
    flat += split.shift[:, None]
    if reach.empty is not None:
        assert reach.ball is not None
        # docs/proofs.md, section 2: if the set is empty, use the ball without the constraint, φᵀM_n v ± √β w ‖v‖.
        centre = phi.dot((core_matrix @ v[:, :, None])[:, :, 0]).reshape(flat.shape)
        norm = np.sqrt(np.vecdot(v, v))[:, None]
        np.copyto(flat, centre + sign * norm * reach.ball, where=reach.empty)
    return bound
