"""What is known after some data: bounds on expected next values and on rewards, for B replicas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.core.sets import ConfidenceSet, Reach, Split
from matrixrl.features import Phi, Psi
from matrixrl.linalg import PairDesign
from matrixrl.records import FloatArray, IntArray

__all__ = ["Belief", "form_belief", "next_value_bound"]


@dataclass(frozen=True, slots=True)
class Belief:
    """Everything that bounds on Q need.

    Attributes:
        phi: Features of the pairs that are asked about: all of them, or a few.
        psi: Features of next states: all of them, or a weighted sample.
        core_matrix: (B, d, d_psi) M_n.
        confidence_set: The set around it.
        reaches: For each member of the set, how far it reaches at every pair.
        slack: (B, P) ε = 1 − φᵀM_n u, for normalised sets.
        most: (A, S) or (B, A, S) the largest unit rewards that are believed.
        least: The smallest, of the same shape.
    """

    phi: Phi
    psi: Psi
    core_matrix: FloatArray
    confidence_set: ConfidenceSet
    reaches: tuple[Reach, ...]
    slack: FloatArray | None
    most: FloatArray
    least: FloatArray

    @property
    def n_replicas(self) -> int:
        """Number of replicas B."""
        return len(self.core_matrix)

    @property
    def is_normalised(self) -> bool:
        """Whether bounds on next values lie in the range of the values."""
        return self.confidence_set.is_normalised

    @property
    def empty(self) -> IntArray:
        """(B,) number of pairs with no probability in the ball (the misspecification alarm)."""
        counts = np.zeros(self.n_replicas, dtype=np.int64)
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
            bound = next_value_bound(self.phi, self.psi, self.core_matrix, member.split(v), reach, sign=sign)
            result = bound if result is None else pick(result, bound, out=result)
        assert result is not None
        if self.is_normalised:  # P is a distribution: an average of V (docs/proofs.md, 2)
            np.maximum(result, values.min(axis=1)[:, None, None], out=result)
            np.minimum(result, values.max(axis=1)[:, None, None], out=result)
        return result

    def q(self, values: FloatArray | None, *, sign: float = 1.0) -> FloatArray:
        """Return reward plus bounded next value, YW19 (4): (B, A, S).

        Args:
            values: (B, S) values of the next stage, or None at the last stage, after which nothing is earned.
            sign: 1 for an upper bound, -1 for a lower one.
        """
        reward = self.most if sign > 0 else self.least
        if values is None:
            return np.broadcast_to(reward, (self.n_replicas, *reward.shape[-2:])).copy()
        q = self.bound(values, sign=sign)
        q += reward
        return q


def form_belief(
    phi: Phi,
    psi: Psi,
    confidence_set: ConfidenceSet,
    design: PairDesign,
    core_matrix: FloatArray,
    radii: tuple[FloatArray, FloatArray],
    rewards: tuple[FloatArray, FloatArray],
) -> Belief:
    """Return the belief of M_n and A_n.

    Args:
        phi: Features of the pairs.
        psi: Features of next states.
        confidence_set: The set, bound to ψ.
        design: A_n with the widths of the pairs.
        core_matrix: (B, d, d_psi) M_n.
        radii: √β of the set and of the alarm, each (B, 1) or (B, P).
        rewards: Upper and lower bounds on unit rewards.
    """
    slack = None
    if confidence_set.is_normalised:
        mass = phi.dot(core_matrix @ psi.total)
        slack = 1.0 - mass.reshape(design.width_sq.shape)
    reaches = tuple(member.reach(design, *radii, slack) for member in confidence_set.members)
    return Belief(phi, psi, core_matrix, confidence_set, reaches, slack, *rewards)


def next_value_bound(
    phi: Phi, psi: Psi, core_matrix: FloatArray, split: Split, reach: Reach, *, sign: float = 1.0
) -> FloatArray:
    """Return the largest (sign 1) or smallest (sign -1) φᵀMv over one set, for all pairs: (B, A, S)."""
    weights = (core_matrix @ split.direction[:, :, None])[:, :, 0]
    bound = phi.dot(weights)  # φᵀ M_n direction
    flat = bound.reshape(reach.half_width.shape)
    flat += (sign * split.scale)[:, None] * reach.half_width
    flat += split.shift[:, None]
    if reach.empty is not None:
        assert reach.slack is not None
        assert reach.ball is not None
        # docs/proofs.md, 2: where no probability is in the ball, use the uncut ball, φᵀM_n v ± √β w ‖v‖.
        u_sq = float(psi.total @ psi.total)
        norm = np.sqrt(split.scale**2 + split.shift**2 * u_sq)[:, None]
        centre = flat - sign * split.scale[:, None] * reach.half_width - split.shift[:, None] * reach.slack
        np.copyto(flat, centre + sign * norm * reach.ball, where=reach.empty)
    return bound
