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
from matrixrl.linalg import OutcomeCounts, SeenRows
from matrixrl.problems import OutcomeTables
from matrixrl.records import FloatArray, IntArray

__all__ = ["OutcomeConfidence", "OutcomeModel"]


class OutcomeConfidence(LikelihoodConfidence):
    """The likelihood set of laws of outcomes, and what determines its size.

    Pairs whose next state and reward do not depend on the outcome are known, and count nowhere.
    """

    def __init__(self, chosen: LikelihoodSet, context: ModelContext, dynamics: OutcomeTables) -> None:
        super().__init__(chosen, context, dynamics.groups, dynamics.n_outcomes)
        self._is_unknown &= dynamics.matters
        self.n_groups = max(len(np.unique(dynamics.groups[self._is_unknown])), 1)

    @cached_property
    def n_targets(self) -> tuple[int, int]:
        """Number of functions that β₁ holds for: on one fixed optimal policy, and for all actions.

        Pairs that share a law have different functions of the outcome, one for each stage.
        """
        optimal, every = int(self._is_unknown.any(axis=0).sum()), int(self._is_unknown.sum())
        return max(self.horizon * optimal, 1), max(self.horizon * every, 1)


class OutcomeModel(CountModel):
    """Counts of the outcomes of each law of known dynamics, for B replicas.

    Of censored outcomes, cells are counted, for each group of `OutcomeTables.groups` from the steps of all groups that
    serve it (docs/proofs.md, section 19).

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
        return self.dynamics.groups, OneHotPsi(self.dynamics.n_outcomes)

    def update(self, pairs: IntArray, next_states: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        if self.dynamics.is_censored:  # what is seen of an outcome is its cell
            next_states = self.dynamics.partitions.cells[self.groups.ravel()[pairs], next_states]
        super().update(pairs, next_states, rewards, weights)

    def observed(
        self, pairs: IntArray, outcomes: IntArray, weights: FloatArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        if not self.dynamics.is_censored:
            return super().observed(pairs, outcomes, weights)
        own = self._served[self.groups.ravel()[pairs]]  # (B, T, n)
        rows, flat = np.maximum(own, 0), (len(pairs), -1)
        cells = self.dynamics.partitions.cells[rows, outcomes[..., None]]
        counted = np.where(own < 0, 0.0, weights[..., None])
        return rows.reshape(flat), cells.reshape(flat), counted.reshape(flat)

    @cached_property
    def _served(self) -> IntArray:
        """Groups that a step of each group says something of, filled up with −1: (J, n)."""
        serves = self.dynamics.partitions.serves
        numbers = np.where(serves, np.arange(len(serves)), len(serves))
        numbers = np.sort(numbers, axis=1)[:, : max(int(serves.sum(axis=1).max()), 1)]
        return np.where(numbers < len(serves), numbers, -1)

    def _compared(self) -> SeenRows:
        """Return the counts of the pairs of each group without those of others that serve it."""
        if not self.dynamics.is_censored or self.pair_counts is None:
            return super()._compared()
        n, n_pairs, n_outcomes = self.context.n_replicas, self.groups.size, self.psi.d_psi
        arrays, counts = self.pair_counts.arrays(), OutcomeCounts(n, self.n_rows, n_outcomes)
        row, outcome = np.divmod(arrays["codes"], n_outcomes)
        replica, pair = np.divmod(row, n_pairs)
        codes, places = np.unique(
            (replica * self.n_rows + self.groups.ravel()[pair]) * n_outcomes + outcome, return_inverse=True
        )
        times = np.bincount(places, arrays["times"], minlength=len(codes)).astype(np.float64)
        counts.take(codes, times)
        return counts.seen

    @property
    def confidence(self) -> OutcomeConfidence:
        if self._confidence is None:
            self._confidence = OutcomeConfidence(self.likelihood_set, self.context, self.dynamics)
        assert isinstance(self._confidence, OutcomeConfidence)
        return self._confidence

    def _with_values(self, law: LikelihoodBounds) -> OutcomeBounds:
        return OutcomeBounds(self.dynamics, law)
