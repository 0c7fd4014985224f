"""Counts of the outcomes of known dynamics, with likelihood sets around their laws (docs/proofs.md, section 19)."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from matrixrl.core.likelihood.bounds import LikelihoodBounds
from matrixrl.core.likelihood.outcomes import OutcomeBounds
from matrixrl.core.models.base import ModelContext
from matrixrl.core.models.counts import CountModel
from matrixrl.core.sets import LikelihoodConfidence, LikelihoodSet
from matrixrl.features import LatentPsi, OneHotPsi
from matrixrl.problems import OutcomeTables
from matrixrl.records import IntArray

__all__ = ["OutcomeConfidence", "OutcomeModel"]


class OutcomeConfidence(LikelihoodConfidence):
    """The likelihood set of laws of outcomes, and what determines its size.

    Pairs whose next state and reward do not depend on the outcome are known, and count nowhere.
    """

    def __init__(self, chosen: LikelihoodSet, context: ModelContext, dynamics: OutcomeTables) -> None:
        super().__init__(chosen, context, dynamics.laws, dynamics.n_outcomes)
        self._is_unknown &= dynamics.matters
        self.n_groups = max(len(np.unique(dynamics.laws[self._is_unknown])), 1)

    @cached_property
    def n_targets(self) -> tuple[int, int]:
        """Number of functions that β₁ holds for: on one fixed optimal policy, and for all actions.

        Pairs that share a law have different functions of the outcome, one for each stage.
        """
        optimal, every = int(self._is_unknown.any(axis=0).sum()), int(self._is_unknown.sum())
        return max(self.horizon * optimal, 1), max(self.horizon * every, 1)


class OutcomeModel(CountModel):
    """Counts of the outcomes of each law of known dynamics, for B replicas.

    Steps are given to `update` with their outcomes in place of next states. Rewards follow from outcomes, and are not
    learned.

    Args:
        likelihood_set: Confidence set.
        context: Problem and agent, with `dynamics`.
    """

    def __init__(self, likelihood_set: LikelihoodSet, context: ModelContext) -> None:
        assert context.dynamics is not None
        self.dynamics = context.dynamics
        super().__init__(likelihood_set, replace(context, known_reward=True))

    def _counted(self) -> tuple[IntArray, LatentPsi | OneHotPsi]:
        return self.dynamics.laws, OneHotPsi(self.dynamics.n_outcomes)

    @property
    def confidence(self) -> OutcomeConfidence:
        if self._confidence is None:
            self._confidence = OutcomeConfidence(self.likelihood_set, self.context, self.dynamics)
        assert isinstance(self._confidence, OutcomeConfidence)
        return self._confidence

    def _with_values(self, law: LikelihoodBounds) -> OutcomeBounds:
        return OutcomeBounds(self.dynamics, law)
