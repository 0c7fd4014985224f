"""The confidence region of indicator features: likelihood set, radii, division of δ and exploration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from matrixrl.core.confidence import FACTORS, Clock, Level
from matrixrl.core.likelihood.belief import JointLaw, LikelihoodBelief
from matrixrl.core.likelihood.radii import log_mixture_gain, targeted_beta, top_beta
from matrixrl.core.regularity import Regularity, regularity
from matrixrl.core.reward import rewards_misfit
from matrixrl.features import AllowedPart, Blocks, Features, Phi, allowed_part
from matrixrl.linalg import OutcomeCounts, SeenRows
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["LikelihoodConfidence", "Parts"]


class Parts(NamedTuple):
    """Parts of δ that add up to 1.

    Attributes:
        optimal: Part of β₁, for optimism; 0 if it is not used.
        all_functions: Part of β_D, for all values at once.
        rewards: Part of each of the two sides of the bounds on rewards; 0 if rewards are known.
        returns: Part of the bounds from the returns of frozen policies.
    """

    optimal: float
    all_functions: float
    rewards: float
    returns: float


@dataclass(frozen=True)
class LikelihoodConfidence:
    """The likelihood set of an agent and what determines its size.

    Attributes:
        groups: (A, S) Group of each pair; pairs of a group share a law.
        n_groups: Number of groups K of allowed pairs whose law is not known.
        horizon: Number of steps H of an episode.
        delta: Probability δ with which any of the bounds may fail.
        exploration: Factor of √β; below 1 nothing is proven.
        known_reward: Whether rewards are known.
        targeted: Whether upper bounds use the smaller of β₁ and β_D, else β_D only.
        tuned: Whether the agent explores with the part of β₁ that grows with n alone, without δ and the number of
            events: not proven. Certificates do not depend on it.
        most_stages: Largest number of stages at which a group is used.
        n_states: Number of next states S.
        regularity: Constants of the features, which the theorems of the paper use; these sets do not.
        blocks: Blocks of the features, likewise.
    """

    groups: IntArray
    n_groups: int
    horizon: int
    delta: float
    exploration: float
    known_reward: bool
    targeted: bool
    tuned: bool
    most_stages: int
    n_states: int
    regularity: Regularity
    blocks: Blocks

    @classmethod
    def of(
        cls,
        features: Features,
        groups: IntArray,
        *,
        horizon: int,
        end_state: int | None,
        delta: float,
        exploration: float,
        known_reward: bool,
        targeted: bool,
        tuned: bool = False,
        part: AllowedPart | None = None,
        most_stages: int | None = None,
    ) -> LikelihoodConfidence:
        """Return the confidence region for indicator features.

        Args:
            features: Features φ and ψ.
            groups: (A, S) Group of each pair.
            horizon: Number of steps H of an episode.
            end_state: State whose law is known, or None.
            delta: Probability δ with which any of the bounds may fail.
            exploration: Factor of √β.
            known_reward: Whether rewards are known.
            targeted: Whether upper bounds use the smaller of β₁ and β_D.
            tuned: Whether the agent explores without δ and the number of events in its radius.
            part: φ of the allowed pairs, whose groups alone count; φ of all pairs by default.
            most_stages: Largest number of stages at which a group is used; H by default.
        """
        part = allowed_part(features.phi, None) if part is None else part
        is_unknown = part.mask().reshape(groups.shape)
        if end_state is not None:
            is_unknown[:, end_state] = False
        return cls(
            groups=groups,
            n_groups=max(len(np.unique(groups[is_unknown])), 1),
            horizon=horizon,
            delta=delta,
            exploration=exploration,
            known_reward=known_reward,
            targeted=targeted,
            tuned=tuned,
            most_stages=horizon if most_stages is None else most_stages,
            n_states=groups.shape[1],
            regularity=regularity(part.features(features)),
            blocks=part.blocks(),
        )

    @property
    def n_functions(self) -> int:
        """Number of functions that β₁ of a group holds for: V*_2 … V*_H, or r + V*_2 … r + V*_{H+1} if r is learned."""
        return max(min(self.horizon - self.known_reward, self.most_stages), 1)

    @property
    def left_out(self) -> str | None:
        """Nothing is left out of indicator features."""
        return None

    @property
    def watches_rewards(self) -> bool:
        """Whether rewards are learned and pairs that share a group may have different ones."""
        return not self.known_reward and self.groups.max() + 1 < self.groups.size

    def rewards_misfit(self, phi: Phi, counts: FloatArray, sums: FloatArray, clock: Clock) -> BoolArray:
        """Return whether rewards refute that pairs of a group share them (B,); false with probability at most δ/2.

        Args:
            phi: Features φ of all pairs.
            counts: (B, P) Number of visits of each pair.
            sums: (B, P) Sum of the unit rewards of each pair.
            clock: Number of the episode and of the run.
        """
        return rewards_misfit(phi, counts, sums, delta=self.delta / (2.0 * clock.shares))

    @property
    def alarm_part(self) -> float:
        """Part of δ of the alarm on laws; that on rewards, where they are watched, has the other half."""
        return 0.5 if self.watches_rewards else 1.0

    @property
    def parts(self) -> Parts:
        """Parts of δ: a quarter for β₁, an eighth for each side of rewards, if they are used, a twentieth for returns.

        The rest is for β_D.
        """
        optimal = 0.25 if self.targeted else 0.0
        rewards = 0.0 if self.known_reward else 0.125
        returns = 0.05
        return Parts(optimal, 1.0 - optimal - 2.0 * rewards - returns, rewards, returns)

    @property
    def guarantee(self) -> Literal[True] | str:
        """True if the regret bound is proven, else the reason why it is not."""
        if self.tuned:
            return f"tuned: the radius of the confidence set has no δ (exploration {self.exploration:g})"
        if self.exploration < 1.0:
            return f"exploration {self.exploration:g} is below 1: the confidence set was shrunk"
        return True

    @property
    def certificate_guarantee(self) -> Literal[True] | str:
        """The bounds at the proven radius hold with probability 1 − δ, whatever the exploration."""
        return True

    def log_events(self, part: float, n_functions: int = 1, shares: int = 1) -> float:
        """Return ln(K times the number of functions / what a part of δ is in one of so many shares)."""
        return math.log(self.n_groups * n_functions * shares / (part * self.delta))

    def needs_excess(self, level: Level) -> bool:
        """Return whether bounds at a level need more than the number of visits; those of tuned plans do not."""
        return not self.tuned or level in ("proven", "estimate")

    def believe(
        self,
        counts: OutcomeCounts,
        excess: FloatArray | None,
        *,
        reward: FloatArray,
        bound_rewards: Callable[[float | None, float], tuple[FloatArray, FloatArray]] | None = None,
        joint: tuple[SeenRows, FloatArray] | None = None,
        level: Level = "agent",
        shares: int = 1,
        empty: IntArray | None = None,
    ) -> LikelihoodBelief:
        """Return the bounds that follow from counts.

        Args:
            counts: Counts of the next states of each group.
            excess: (B, K) `dirichlet_excess` of each group, read only where there are data; None where `needs_excess`
                is False, and the radius of lower bounds is then infinite, or 0 for the estimate.
            reward: (A, S) Unit rewards; used only if rewards are known.
            bound_rewards: Function of ln(number of rows / δ) and of a factor of the radius that returns upper and lower
                bounds (B, K) on the mean rewards of groups, as `reward_bounds` does; used only if they are not known.
            joint: Joint counts of reward level and next state, and the levels (B, L); likewise.
            level: Choice of the radius.
            shares: Number of shares of δ of which the data have one, where data are forgotten between runs.
            empty: (B,) Number of groups whose pairs cannot share a law.
        """
        seen, n = counts.seen, counts.seen.totals
        scale = FACTORS[level] ** 2 * (1.0 if level == "proven" else self.exploration**2)
        parts = self.parts
        lower = np.full(len(n), np.inf if scale > 0.0 else 0.0)  # the centre of the set has no radius
        if excess is not None:
            of_all = self.log_events(parts.all_functions, shares=shares) + excess.ravel()[seen.ids]
            lower = scale * of_all / n
        upper, is_tuned = lower, self.tuned and level != "proven"
        targeted, top = None, None
        if self.targeted and not is_tuned:  # V*_2 … V*_H; with learned rewards r + V*_2 … r + V*_{H+1}
            functions = self.n_functions
            log_events = self.log_events(parts.optimal, functions, shares)
            targeted, top = scale * targeted_beta(n, log_events) / n, scale * top_beta(log_events) / n
        if is_tuned:
            upper = scale * log_mixture_gain(n) / n
            targeted = upper if self.targeted else None
        if self.known_reward and targeted is not None:
            upper = np.minimum(upper, targeted)
        most = least = reward
        law = None
        if not self.known_reward:
            assert bound_rewards is not None
            log_rewards = None if is_tuned else self.log_events(parts.rewards, shares=shares)
            most, least = (side[:, self.groups] for side in bound_rewards(log_rewards, scale))
            if targeted is not None and joint is not None:
                law = JointLaw(*joint, targeted, top, is_less=is_tuned)
        return LikelihoodBelief(
            groups=self.groups,
            n_groups=counts.n_rows,
            batch=counts.n_replicas,
            seen=seen,
            upper=upper,
            top=top if self.known_reward else None,
            lower=lower,
            most=most,
            least=least,
            joint=law,
            contradicted=np.zeros(counts.n_replicas, dtype=np.int64) if empty is None else empty,
        )
