"""Likelihood sets for indicator features: laws near the empirical one, their radii and parts of δ."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from matrixrl.checks import flag
from matrixrl.core.confidence import FACTORS, Clock, Level
from matrixrl.core.likelihood.bounds import JointLaw, LikelihoodBounds
from matrixrl.core.likelihood.radii import log_bet_gain, log_mixture_gain, targeted_beta, top_beta
from matrixrl.core.regularity import regularity
from matrixrl.core.reward import rewards_misfit
from matrixrl.core.sets import ConfidenceSet
from matrixrl.features import Phi
from matrixrl.linalg import OutcomeCounts, SeenRows
from matrixrl.records import BoolArray, FloatArray, Guarantee, IntArray
from matrixrl.tolerances import TIE

if TYPE_CHECKING:
    from matrixrl.core.models import CountModel, ModelContext

__all__ = ["LIKELIHOOD_SETS", "DeltaParts", "LikelihoodConfidence", "LikelihoodSet", "ValueTargetedSet"]


class LikelihoodSet(ConfidenceSet):
    """Laws near the empirical one of each group of pairs, at the radius β_D, which holds for all values.

    Args:
        tuned: Explore with the part of β₁ that grows with the visits alone, without δ and the number of events: not
            proven. Certificates do not depend on it.

    Attributes:
        targeted: Whether upper bounds use the smaller of β₁ (for V* alone) and β_D (for all values), else β_D.
    """

    name = "likelihood"
    summary = "laws near the empirical one, at a radius for all values (indicator features)"
    targeted: ClassVar[bool] = False

    def __init__(self, *, tuned: bool = False) -> None:
        self.tuned = flag("tuned", tuned)

    def make_model(self, context: ModelContext) -> CountModel:
        """Return counts without data, with this set around their laws."""
        from matrixrl.core.models import CountModel  # which needs this class

        return CountModel(self, context)


class ValueTargetedSet(LikelihoodSet):
    """The likelihood set whose upper bounds use a radius for V* alone, β₁, wherever it is smaller."""

    name = "value-targeted"
    summary = "laws near the empirical one, at a radius for V* alone (indicator features)"
    targeted = True


LIKELIHOOD_SETS: dict[str, type[LikelihoodSet]] = {kind.name: kind for kind in (ValueTargetedSet, LikelihoodSet)}
"""Likelihood sets by their names in Python and on the command line."""


class DeltaParts(NamedTuple):
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


class LikelihoodConfidence:
    """The likelihood set of an agent and what determines its size.

    Args:
        chosen: Confidence set.
        context: Problem and agent, with indicator features.
        groups: (A, S) Group of each pair; pairs of a group share a law.
        most_stages: Largest number of stages at which a group is used; H by default.

    Attributes:
        n_groups: Number of groups K of allowed pairs whose law is not known.
        targeted: Whether upper bounds use the smaller of β₁ and β_D, else β_D only.
        tuned: Whether the agent explores with the part of β₁ that grows with n alone, without δ and the number of
            events: not proven. Certificates do not depend on it.
        regularity: Constants of the features, which the theorems of the paper use; these sets do not.
        blocks: Blocks of the features, likewise.
        left_out: None: indicator features leave nothing out.
    """

    left_out: str | None = None

    def __init__(
        self, chosen: LikelihoodSet, context: ModelContext, groups: IntArray, most_stages: int | None = None
    ) -> None:
        self.groups, self.targeted, self.tuned = groups, chosen.targeted, chosen.tuned
        self.horizon, self.delta, self.exploration = context.horizon, context.delta, context.exploration
        self.known_reward = context.known_reward
        self.most_stages = context.horizon if most_stages is None else most_stages
        is_unknown = context.part.mask().reshape(groups.shape)
        if context.end_state is not None:
            is_unknown[:, context.end_state] = False
        self.n_groups = max(len(np.unique(groups[is_unknown])), 1)
        self.regularity, self.blocks = regularity(context.part.features(context.features)), context.part.blocks()

    @property
    def n_functions(self) -> int:
        """Number of functions that β₁ of a group holds for: V*_2 … V*_H, or r + V*_2 … r + V*_{H+1} if r is learned."""
        return max(min(self.horizon - self.known_reward, self.most_stages), 1)

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
    def parts(self) -> DeltaParts:
        """Parts of δ: a quarter for β₁, an eighth for each side of rewards, if they are used, a twentieth for returns.

        The rest is for β_D.
        """
        optimal = 0.25 if self.targeted else 0.0
        rewards = 0.0 if self.known_reward else 0.125
        returns = 0.05
        return DeltaParts(optimal, 1.0 - optimal - 2.0 * rewards - returns, rewards, returns)

    @property
    def guarantee(self) -> Guarantee:
        """Whether the regret bound is proven."""
        if self.tuned:
            return Guarantee(
                False, f"tuned: the radius of the confidence set has no δ (exploration {self.exploration:g})"
            )
        if self.exploration < 1.0:
            return Guarantee(False, f"exploration {self.exploration:g} is below 1: the confidence set was shrunk")
        return Guarantee(True)

    @property
    def certificate_guarantee(self) -> Guarantee:
        """The bounds at the proven radius hold with probability 1 − δ, whatever the exploration."""
        return Guarantee(True)

    def log_events(self, part: float, n_functions: int = 1, shares: int = 1) -> float:
        """Return ln(K times the number of functions / what a part of δ is in one of so many shares)."""
        return math.log(self.n_groups * n_functions * shares / (part * self.delta))

    def needs_excess(self, level: Level) -> bool:
        """Return whether bounds at a level need more than the number of visits; those of tuned plans do not."""
        return not self.tuned or level in ("proven", "estimate")

    def bounds(
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
    ) -> LikelihoodBounds:
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
        return LikelihoodBounds(
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

    def regret_bound(self, n_episodes: int, *, switch_growth: float, path_delta: float, delay: int = 0) -> float:
        """Return what the regret of N episodes exceeds with probability at most δ + δ' (docs/proofs.md, section 9.5).

        It is known before any data, in unit rewards.

        Args:
            n_episodes: Number of episodes N.
            switch_growth: κ of rare switching.
            path_delta: Probability δ' that is allowed for chance along the played steps.
            delay: Largest number D of earlier episodes that a plan did not know of; 0 if no episodes overlap.
        """
        k, horizon, steps = self.n_groups, self.horizon, n_episodes * self.horizon
        half, s = 0.5, self.groups.shape[1]
        redundancy = (
            math.lgamma(steps + half * s) - math.lgamma(half * s) - math.lgamma(steps + half) + math.lgamma(half)
        )
        beta = self.log_events(self.parts.all_functions) + redundancy + math.log(s * (s + 1) / (1.0 + 1.0 / s))
        root, each = horizon * math.sqrt(beta), float(horizon)
        if not self.known_reward:
            of_reward = self.log_events(self.parts.rewards) + float(log_bet_gain(steps))
            root, each = root + math.sqrt(of_reward), each + 1.0
        first = (2.0 + delay) * horizon * k * each  # visits that a plan with fewer than H of them does not know of
        known = 2.0 if delay == 0 else 3.0  # at the j-th visit of a group, data of at least j/known visits were there
        later = 2.0 * math.sqrt(2.0 * known) * self.exploration * root * math.sqrt((1.0 + switch_growth) * k * steps)
        late = 0.0 if delay == 0 else (delay + 1.0) * horizon * k * math.log2(max(n_episodes, 1))
        ties = 2.0 * TIE * horizon * steps  # preference and ranking together are below 2 TIE H
        return first + later + late + ties + horizon * math.sqrt(0.5 * steps * math.log(1.0 / path_delta))
