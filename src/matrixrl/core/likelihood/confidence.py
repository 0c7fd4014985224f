"""The confidence region of indicator features: likelihood set, radii, division of δ and exploration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from matrixrl.core.confidence import TIE_EXPLORATION, Level
from matrixrl.core.likelihood.belief import JointLaw, LikelihoodBelief
from matrixrl.core.likelihood.radii import targeted_beta
from matrixrl.core.likelihood.reward import reward_bounds
from matrixrl.linalg import OutcomeCounts, SeenRows
from matrixrl.records import FloatArray, IntArray

__all__ = ["LikelihoodConfidence"]


@dataclass(frozen=True)
class LikelihoodConfidence:
    """The likelihood set of an agent and what determines its size.

    Attributes:
        groups: (A, S) Group of each pair; pairs of a group share a law.
        n_groups: Number of groups K whose law is not known.
        horizon: Number of steps H of an episode.
        delta: Probability δ with which any of the bounds may fail.
        exploration: Factor of √β; below 1 nothing is proven.
        known_reward: Whether rewards are known.
        targeted: Whether upper bounds use the smaller of β₁ and β_D, else β_D only.
    """

    groups: IntArray
    n_groups: int
    horizon: int
    delta: float
    exploration: float
    known_reward: bool
    targeted: bool

    @property
    def shares(self) -> int:
        """Number of equal parts of δ: for β_D, and where they are used, for β₁ and the two sides of rewards."""
        return 1 + self.targeted + (0 if self.known_reward else 2)

    @property
    def guarantee(self) -> Literal[True] | str:
        """True if the regret bound is proven, else the reason why it is not."""
        if self.exploration < 1.0:
            return f"exploration {self.exploration:g} is below 1: the confidence set was shrunk"
        return True

    @property
    def certificate_guarantee(self) -> Literal[True] | str:
        """The bounds at the proven radius hold with probability 1 − δ, whatever the exploration."""
        return True

    def log_events(self, n_functions: int = 1) -> float:
        """Return ln(K times the number of functions / share of δ)."""
        return math.log(self.n_groups * n_functions * self.shares / self.delta)

    def believe(
        self,
        counts: OutcomeCounts,
        excess: FloatArray,
        *,
        reward: FloatArray,
        reward_sums: FloatArray | None = None,
        joint: tuple[SeenRows, FloatArray] | None = None,
        level: Level = "agent",
        empty: IntArray | None = None,
    ) -> LikelihoodBelief:
        """Return the bounds that follow from counts.

        Args:
            counts: Counts of the next states of each group.
            excess: (B, K) `dirichlet_excess` of each group; read only where there are data.
            reward: (A, S) Unit rewards; used only if rewards are known.
            reward_sums: (B, K) Sums of the unit rewards of each group; used only if rewards are not known.
            joint: Joint counts of reward level and next state, and the levels (B, L); likewise.
            level: Choice of the radius.
            empty: (B,) Number of groups whose pairs cannot share a law.
        """
        seen, n = counts.seen, counts.seen.totals
        scale = 1.0 if level == "proven" else self.exploration**2
        if level == "ties":
            scale *= TIE_EXPLORATION**2
        of_all = self.log_events() + excess.ravel()[seen.ids]
        # V*_2 … V*_H; with learned rewards r + V*_2 … r + V*_{H+1}
        of_optimal = targeted_beta(n, self.log_events(max(self.horizon - self.known_reward, 1)))
        lower = scale * of_all / n
        separate = self.known_reward and self.targeted
        upper = scale * np.minimum(of_all, of_optimal) / n if separate else lower
        most = least = reward
        law = None
        if not self.known_reward:
            assert reward_sums is not None
            assert joint is not None
            most, least = (
                side[:, self.groups] for side in reward_bounds(counts.totals(), reward_sums, self.log_events(), scale)
            )
            if self.targeted:
                law = JointLaw(*joint, scale * of_optimal / n)
        return LikelihoodBelief(
            groups=self.groups,
            n_groups=counts.n_rows,
            batch=counts.n_replicas,
            seen=seen,
            upper=upper,
            lower=lower,
            most=most,
            least=least,
            joint=law,
            contradicted=np.zeros(counts.n_replicas, dtype=np.int64) if empty is None else empty,
        )
