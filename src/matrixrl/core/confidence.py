"""How far M* may be from M_n: the only place where set, radius, shares of δ, exploration and reward bounds meet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from matrixrl.core.belief import Belief, form_belief
from matrixrl.core.radius import BlockRadius, Radius, RadiusInputs
from matrixrl.core.regularity import Regularity, regularity
from matrixrl.core.reward import reward_bounds, reward_regularity
from matrixrl.core.sets import ConfidenceSet, Reach, SetContext
from matrixrl.features import Blocks, Features, Psi
from matrixrl.linalg import PairDesign
from matrixrl.records import FloatArray

__all__ = ["TIE_EXPLORATION", "Clock", "Confidence", "Level", "Radii"]

TIE_EXPLORATION = 0.05
"""Share of the radius of the plan that breaks ties, where the estimate breaks them."""

Level = Literal["agent", "ties", "proven"]
"""Which radius: the agent's own, a small share of it that breaks ties, or the tightest proven one."""

_PROVEN: Radius = BlockRadius()


class Clock(NamedTuple):
    """The time that a radius may depend on.

    Attributes:
        episode: n, counted from 1 since the data begin, of the episode that is planned.
        n_episodes: N where it is known in advance, else None.
    """

    episode: int
    n_episodes: int | None


class Radii(NamedTuple):
    """√β of everything that is bounded, each (B, 1) or (B, P).

    Attributes:
        models: Radius of the confidence set.
        alarm: A proven radius, at which the misspecification alarm is raised; at least `models`.
        rewards: Radius of the estimated rewards; None where rewards are known.
    """

    models: FloatArray
    alarm: FloatArray
    rewards: FloatArray | None


@dataclass(frozen=True)
class Confidence:
    """The confidence set of an agent with everything that decides its size.

    Attributes:
        set: The confidence set, bound to the problem.
        radius: The agent's radius.
        exploration: Factor of √β; below 1 nothing is proven.
        delta: Probability with which the bounds may fail, all shares together.
        known_reward: Whether rewards are known; if not, they take half of δ.
        horizon: H.
        regularity: Constants of the features.
        reward_regularity: Constants of the regression of rewards.
        blocks: Blocks of features.
    """

    set: ConfidenceSet
    radius: Radius
    exploration: float
    delta: float
    known_reward: bool
    horizon: int
    regularity: Regularity
    reward_regularity: Regularity
    blocks: Blocks

    @classmethod
    def of(
        cls,
        features: Features,
        confidence_set: ConfidenceSet,
        radius: Radius,
        *,
        ridge: float,
        exploration: float,
        delta: float,
        known_reward: bool,
        horizon: int,
        c_core: float | None = None,
    ) -> Confidence:
        """Return the confidence for features φ and ψ.

        Args:
            features: φ and ψ.
            confidence_set: The set, not yet bound.
            radius: The agent's radius.
            ridge: λ.
            exploration: Factor of √β.
            delta: δ.
            known_reward: Whether rewards are known.
            horizon: H.
            c_core: C_M if it is known; bounded from the features by default.
        """
        constants = regularity(features, c_core=c_core, ridge=ridge)
        unbound = cls(
            set=confidence_set,
            radius=radius,
            exploration=exploration,
            delta=delta,
            known_reward=known_reward,
            horizon=horizon,
            regularity=constants,
            reward_regularity=reward_regularity(features.phi, ridge),
            blocks=features.phi.blocks(),
        )
        return unbound.rebound(features.psi)

    def rebound(self, psi: Psi) -> Confidence:
        """Return the same confidence with the set bound to another ψ, such as another sample of its columns."""
        context = SetContext(
            total=psi.total,
            d=self.regularity.d,
            horizon=self.horizon,
            c_psi=self.regularity.c_psi,
            c_psi_columns=self.regularity.c_psi_columns,
        )
        return replace(self, set=self.set.bind(context))

    @property
    def shares(self) -> int:
        """Number of parts that δ is divided into: those of the set, and as many for rewards that are learned."""
        return self.set.shares * (1 if self.known_reward else 2)

    @property
    def guarantee(self) -> Literal[True] | str:
        """True if the regret bound is proven with this set, radius and exploration, else why not."""
        if self.exploration < 1.0:
            return f"exploration {self.exploration:g} is below 1: the confidence set was shrunk"
        for claim in (self.set.guarantee, self.radius.guarantee):
            if claim is not True:
                return claim
        return self._given_core or True

    @property
    def certificate_guarantee(self) -> Literal[True] | str:
        """True if bounds at the proven radius hold with probability 1 − δ, else why not."""
        claim = self.set.guarantee
        return self._given_core or claim if claim is True else claim

    @property
    def _given_core(self) -> str | None:
        if self.regularity.core_source != "given":
            return None
        c_core = self.regularity.c_core / self.regularity.ridge
        return f"proven only if ‖M*‖_F² <= c_core·d, as given (c_core = {c_core:g})"

    def inputs(self, design: PairDesign, clock: Clock, blocks: Blocks | None = None) -> RadiusInputs:
        """Return what the radii of the next episode depend on, at the share of δ that each of them has."""
        return RadiusInputs(
            regularity=self.regularity,
            horizon=self.horizon,
            episode=clock.episode,
            n_episodes=clock.n_episodes,
            delta=self.delta / self.shares,
            design=design,
            blocks=self.blocks if blocks is None else blocks,
        )

    def radii(self, design: PairDesign, clock: Clock, *, level: Level = "agent", blocks: Blocks | None = None) -> Radii:
        """Return √β of the set, of the alarm and of rewards, for the pairs of a design.

        Args:
            design: A_n with the widths of the pairs.
            clock: n and N.
            level: Which radius.
            blocks: Blocks of the pairs of the design, where they are not all pairs.
        """
        inputs = self.inputs(design, clock, blocks)
        radius, scale = (_PROVEN, 1.0) if level == "proven" else (self.radius, self.exploration)
        share = TIE_EXPLORATION if level == "ties" else 1.0
        full = radius(inputs)
        proven = full if type(radius) is BlockRadius else _PROVEN(inputs)
        rewards = None
        if not self.known_reward:
            rewards = share * scale * radius(replace(inputs, regularity=self.reward_regularity))
        return Radii(share * (scale * full), np.maximum(scale * full, proven), rewards)

    def believe(
        self,
        features: Features,
        design: PairDesign,
        core_matrix: FloatArray,
        clock: Clock,
        *,
        reward: FloatArray,
        reward_moment: FloatArray,
        level: Level = "agent",
        blocks: Blocks | None = None,
    ) -> Belief:
        """Return bounds on next values and rewards for the pairs of a design.

        Args:
            features: φ of the pairs, and ψ.
            design: A_n with their widths.
            core_matrix: (B, d, d_psi) M_n.
            clock: n and N.
            reward: (A, S) or (B, A, S) unit rewards, read where they are known.
            reward_moment: (B, d) Σ φr, read where they are not.
            level: Which radius.
            blocks: Blocks of the pairs, where they are not all pairs.
        """
        radii = self.radii(design, clock, level=level, blocks=blocks)
        most = least = reward
        if radii.rewards is not None:
            most, least = reward_bounds(features.phi, design, reward_moment, radii.rewards)
        return form_belief(
            features.phi,
            features.psi,
            self.set,
            design,
            core_matrix,
            (radii.models, radii.alarm),
            (most, least),
        )

    def reaches(self, design: PairDesign, slack: FloatArray, radii: Radii) -> list[Reach]:
        """Return, for each member of the set, how far it reaches at the pairs of a design."""
        return [member.reach(design, radii.models, radii.alarm, slack) for member in self.set.members]
