"""Posterior sampling (PSRL): play the best policy of a model that the posterior drew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from matrixrl.algorithms.baselines.base import POSITIVE, BaselineSettings, Presets
from matrixrl.algorithms.baselines.posterior import draw_distributions, draw_expectation
from matrixrl.algorithms.baselines.tabular_model import TabularBaseline, TabularModel
from matrixrl.records import FloatArray, IntArray, Plan
from matrixrl.settings import setting

__all__ = ["PSRL", "PSRLSettings"]


@dataclass(frozen=True)
class PSRLSettings(BaselineSettings):
    """Settings of PSRL."""

    prior: float = setting(
        1.0,
        "Number of visits that the symmetric Dirichlet prior on every row of P counts for: α = prior / S for each next "
        "state.",
        POSITIVE,
    )
    reward_prior: float = setting(
        1.0, "Both parameters of the Beta prior on every expected reward, where rewards are unknown.", POSITIVE
    )

    # Section 6 of the paper: α = 1/S for transitions. Its rewards are Gaussian with a normal-gamma prior; ours are in
    # [0, 1], where the uniform Beta(1, 1) is the counterpart.
    # tuned: one value for RiverSwim (4, 6, 12 states), DeepSea(6), FourRooms(5), a random tabular and a linear MDP.
    PRESETS: ClassVar[Presets] = {
        "paper": {"prior": 1.0, "reward_prior": 1.0},
        "tuned": {"prior": 0.5, "reward_prior": 0.3},
    }


class PSRL(TabularBaseline):
    """Posterior sampling for reinforcement learning (Osband, Russo and Van Roy 2013, Algorithm 1).

    Each episode draws P from its Dirichlet posterior and, where they are unknown, expected rewards from Beta
    posteriors, and plays the best policy of the draw. Rewards in [0, 1] that are not 0 or 1 enter the Beta posterior as
    parts of a success.

    >>> from matrixrl.problems import Problem, tabular
    >>> psrl = PSRL().start(Problem.of(tabular(n_states=3, horizon=4).mdp), seeds=[0])
    >>> psrl.plan().values.shape
    (1, 5, 3)
    """

    name = "psrl"
    settings_class = PSRLSettings
    settings: PSRLSettings
    reads_mean = False

    @property
    def guarantee(self) -> str:
        """The reason why there is none: Theorem 1 of the paper averages over problems drawn from the prior."""
        return "the paper bounds the regret averaged over problems drawn from the prior, not that of one problem"

    def draw_transitions(self) -> FloatArray:
        """Draw P from its posterior as a table: (B, P, S)."""
        assert isinstance(self.model, TabularModel)
        weights = self.model.transitions + self.settings.prior / self.task.n_states
        return draw_distributions(weights, self.streams["agent"])

    def draw_expectation(self) -> Callable[[FloatArray], FloatArray]:
        """Draw P from its posterior and return the product with it, (B, S) → (B, A, S); 0 where it is not needed."""
        model, shape = self.model, self.model.shape
        if isinstance(model, TabularModel):
            table = self.draw_transitions()
            return lambda values: np.matmul(table, values[:, :, None]).reshape(shape)
        pairs = self._drawn_pairs()
        alpha = self.settings.prior / self.task.n_states
        product = draw_expectation(model.transitions, alpha, pairs, self.streams["agent"])

        def expect(values: FloatArray) -> FloatArray:
            expected = np.zeros(model.counts.shape)
            expected[:, pairs] = product(values)
            return expected.reshape(shape)

        return expect

    def draw_rewards(self) -> FloatArray:
        """Draw expected rewards from their posterior: (B, A, S); 0 where they are not needed."""
        model, prior, pairs = self.model, self.settings.reward_prior, self._drawn_pairs()
        successes = prior + model.reward_sums[:, pairs]
        failures = prior + np.maximum(model.counts[:, pairs] - model.reward_sums[:, pairs], 0.0)
        draws = np.zeros(model.counts.shape)
        for b, rng in enumerate(self.streams["agent"]):
            draws[b, pairs] = rng.beta(successes[b], failures[b])
        return draws.reshape(model.shape)

    def _drawn_pairs(self) -> IntArray:
        """Return the pairs whose rewards and, where next states are lists, laws are drawn."""
        if self.allowed is None or isinstance(self.model, TabularModel):
            return np.arange(self.model.counts.shape[1])
        return np.flatnonzero(self.allowed)

    def make_plan(self) -> Plan:
        """Draw a model and return its best plan (Algorithm 1, lines 3 and 4)."""
        expect = self.draw_expectation()
        reward = self.unit_reward if self.settings.known_reward else self.draw_rewards()
        return self.induct(lambda _, values: expect(values) + reward)
