"""Likelihood sets for indicator features: laws near the empirical one, and how near (docs/proofs.md, section 9)."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from matrixrl.checks import flag
from matrixrl.core.likelihood.radii import dirichlet_excess, log_bet_gain
from matrixrl.core.regularity import regularity
from matrixrl.core.sets.base import ConfidenceSet
from matrixrl.linalg import SeenRows
from matrixrl.records import FloatArray, Guarantee, IntArray
from matrixrl.tolerances import TIE

if TYPE_CHECKING:
    from matrixrl.core.models import CountModel, ModelContext

__all__ = ["LIKELIHOOD_SETS", "LikelihoodConfidence", "LikelihoodSet", "ValueTargetedSet"]


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
    guarantee = Guarantee(True)
    targeted: ClassVar[bool] = False

    def __init__(self, *, tuned: bool = False) -> None:
        self.tuned = flag("tuned", tuned)

    def excess(self, seen: SeenRows, n_outcomes: int) -> FloatArray:
        """Return the radius for all values, n·KL, of each row with data, without ln(K/δ): β_D − ln(K/δ₂), (R,)."""
        return dirichlet_excess(seen, n_outcomes)

    def make_model(self, context: ModelContext) -> CountModel:
        from matrixrl.core.models import CountModel, OutcomeModel  # which need this class

        return CountModel(self, context) if context.dynamics is None else OutcomeModel(self, context)


class ValueTargetedSet(LikelihoodSet):
    """The likelihood set whose upper bounds use a radius for V* alone, β₁, wherever it is smaller."""

    name = "value-targeted"
    summary = "laws near the empirical one, at a radius for V* alone (indicator features)"
    guarantee = Guarantee(True)
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
    """The likelihood set of an agent and what determines its size, for groups (A, S) of pairs that share a law.

    A law is over so many outcomes: next states, or latent ones. `sizes` (K,) are the numbers of those that are declared
    to be possible, if there are any.

    Attributes:
        deterministic: Whether next state and reward of each group are declared to be always the same.
        n_groups: Number of groups K of allowed pairs whose law is not known.
        regularity: Constants of the features, which the theorems of the paper use; these sets do not.
        blocks: Blocks of the features, likewise.
        left_out: None: indicator features leave nothing out.
    """

    left_out: str | None = None
    deterministic = False

    def __init__(
        self,
        chosen: LikelihoodSet,
        context: ModelContext,
        groups: IntArray,
        n_outcomes: int,
        sizes: IntArray | None = None,
    ) -> None:
        self.deterministic = context.structure is not None and context.structure.deterministic
        self.n_outcomes = n_outcomes if sizes is None else int(sizes.max())
        self.groups, self.targeted, self.tuned = groups, chosen.targeted, chosen.tuned
        self._claim, self._has_own_radius = chosen.guarantee, type(chosen).excess is not LikelihoodSet.excess
        self.horizon, self.delta, self.exploration = context.horizon, context.delta, context.exploration
        self.known_reward, self._choices = context.known_reward, context.choices
        learned = context.learned_part
        self._reward = context.unit_reward if context.known_reward else None if learned is None else learned[0]
        self._reward_width = 1.0 if learned is None else float(learned[1].max())
        self._is_unknown = is_unknown = context.part.mask().reshape(groups.shape)
        self._of_allowed = np.where(is_unknown, groups, -1)
        if context.end_state is not None:
            is_unknown[:, context.end_state] = False
        if sizes is not None and context.known_reward:
            is_unknown &= sizes[groups] > 1
        self.n_groups = max(len(np.unique(groups[is_unknown])), 1)
        self.regularity, self.blocks = regularity(context.part.features(context.features)), context.part.blocks()

    @cached_property
    def n_targets(self) -> tuple[int, int]:
        """Numbers of pairs of a group and a function that β₁ holds for: of one optimal policy, and of all actions.

        At a stage a policy uses at most one group for all states that are alike in groups and in what is known of
        rewards. The functions are V*_2 … V*_H, or r + V*_2 … r + V*_{H+1} if r is learned.
        """
        stages, times = np.unique(self._choices[: self.horizon - self.known_reward], axis=0, return_counts=True)
        optimal = every = 0
        for (first, stop), n_stages in zip(stages, times.tolist(), strict=True):
            unknown = self._is_unknown[first:stop]
            n_groups = len(np.unique(self.groups[first:stop][unknown]))
            at = unknown.any(axis=0)
            n_states = int(at.sum())
            if n_groups < int(unknown.sum()):  # else no two states are alike
                alike = self._of_allowed[first:stop, at]
                if self._reward is not None:
                    alike = np.concatenate([alike, self._reward[first:stop, at]])
                n_states = np.unique(alike, axis=1).shape[1]
            optimal += n_stages * min(n_states, n_groups)
            every += n_stages * n_groups
        return max(optimal, 1), max(every, 1)

    @property
    def watches_rewards(self) -> bool:
        """Whether rewards are learned and pairs that share a group may have different ones."""
        return not self.known_reward and self.groups.max() + 1 < self.groups.size

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
        rewards, returns = 0.0 if self.known_reward else 0.125, 0.05
        return DeltaParts(optimal, 1.0 - optimal - 2.0 * rewards - returns, rewards, returns)

    @property
    def returns_delta(self) -> float:
        """Part of δ for bounds from the returns of frozen policies."""
        return self.parts.returns * self.delta

    @property
    def guarantee(self) -> Guarantee:
        """Whether the regret bound is proven."""
        if not self._claim:
            return self._claim
        if self.tuned:
            words = f"tuned: the radius of the confidence set has no δ (exploration {self.exploration:g})"
            return Guarantee(False, words)
        if self.exploration < 1.0:
            return Guarantee(False, f"exploration {self.exploration:g} is below 1: the confidence set was shrunk")
        return Guarantee(True)

    @property
    def certificate_guarantee(self) -> Guarantee:
        """Whether the bounds at the proven radius hold with probability 1 − δ, whatever the exploration."""
        return self._claim

    def log_events(self, part: float, shares: int = 1) -> float:
        """Return ln(K / what a part of δ is in one of so many shares)."""
        return math.log(self.n_groups * shares / (part * self.delta))

    def log_targets(self, shares: int = 1, *, every_action: bool = False) -> float:
        """Return ln(`n_targets` / the part of δ of β₁ in one of so many shares)."""
        return math.log(self.n_targets[every_action] * shares / (self.parts.optimal * self.delta))

    def regret_bound(self, n_episodes: int, *, switch_growth: float, path_delta: float, delay: int = 0) -> float | None:
        """Return what the regret of N episodes exceeds with probability at most δ + δ' (docs/proofs.md, section 9.5).

        It is known before any data, in unit rewards, and None for a radius of a user's own, whose largest value is not
        known. Arguments are those of `Confidence.regret_bound`.
        """
        if self._has_own_radius:
            return None
        k, horizon, steps = self.n_groups, self.horizon, n_episodes * self.horizon
        ties = 2.0 * TIE * horizon * steps  # preference and ranking together are below 2 TIE H
        path = horizon * math.sqrt(0.5 * steps * math.log(1.0 / path_delta))
        if self.deterministic:  # only an episode that visits a new group is charged (docs/proofs.md, section 9.9)
            return (1.0 + delay) * horizon * k + ties + path
        half, s = 0.5, self.n_outcomes
        redundancy = (
            math.lgamma(steps + half * s) - math.lgamma(half * s) - math.lgamma(steps + half) + math.lgamma(half)
        )
        beta = self.log_events(self.parts.all_functions) + redundancy + math.log(s * (s + 1) / (1.0 + 1.0 / s))
        root, each = horizon * math.sqrt(beta), float(horizon)
        if not self.known_reward:
            of_reward = self.log_events(self.parts.rewards) + float(log_bet_gain(steps))
            root, each = root + self._reward_width * math.sqrt(of_reward), each + self._reward_width
        first = (2.0 + delay) * horizon * k * each  # visits that a plan with fewer than H of them does not know of
        known = 2.0 if delay == 0 else 3.0  # at the j-th visit of a group, data of at least j/known visits were there
        later = 2.0 * math.sqrt(2.0 * known) * self.exploration * root * math.sqrt((1.0 + switch_growth) * k * steps)
        late = 0.0 if delay == 0 else (delay + 1.0) * horizon * k * math.log2(max(n_episodes, 1))
        return first + later + late + ties + path
