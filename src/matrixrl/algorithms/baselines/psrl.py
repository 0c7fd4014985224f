"""Posterior sampling (PSRL): play the best policy of a model that the posterior drew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from matrixrl.algorithms.baselines.base import POSITIVE, BaselineSettings, Presets
from matrixrl.algorithms.baselines.tabular_model import TabularBaseline
from matrixrl.records import FloatArray, Plan
from matrixrl.settings import setting

__all__ = ["PSRL", "PSRLSettings", "draw_distributions"]


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
        """Draw P from its posterior: (B, P, S)."""
        weights = self.model.transitions + self.settings.prior / self.task.n_states
        return draw_distributions(weights, self.streams["agent"])

    def draw_rewards(self) -> FloatArray:
        """Draw expected rewards from their posterior: (B, A, S)."""
        model, prior = self.model, self.settings.reward_prior
        successes = prior + model.reward_sums
        failures = prior + np.maximum(model.counts - model.reward_sums, 0.0)
        draws = [rng.beta(a, b) for a, b, rng in zip(successes, failures, self.streams["agent"], strict=True)]
        return np.stack(draws).reshape(model.shape)

    def make_plan(self) -> Plan:
        """Draw a model and return its best plan (Algorithm 1, lines 3 and 4)."""
        transitions, shape = self.draw_transitions(), self.model.shape
        reward = self.unit_reward if self.settings.known_reward else self.draw_rewards()
        return self.induct(lambda _, values: np.matmul(transitions, values[:, :, None]).reshape(shape) + reward)


def draw_distributions(weights: FloatArray, rngs: Sequence[np.random.Generator]) -> FloatArray:
    """Draw one distribution from the Dirichlet law of each row of weights: (B, n, S).

    Args:
        weights: (B, n, S) parameters, all positive.
        rngs: One generator for each replica.

    >>> draw_distributions(np.array([[[1e9, 1e9]]]), [np.random.default_rng(0)]).round(3)
    array([[[0.5, 0.5]]])
    """
    draws = np.empty(weights.shape)
    for b, rng in enumerate(rngs):
        rng.standard_gamma(weights[b], out=draws[b])
    total = draws.sum(axis=2, keepdims=True)
    lost = total[:, :, 0] < np.finfo(np.float64).tiny
    for b in np.flatnonzero(lost.any(axis=1)).tolist():
        # All of a row underflowed, so every weight is tiny; such a Dirichlet law puts all on one state, which is
        # state i with probability proportional to weight i.
        rows = np.flatnonzero(lost[b])
        chances = np.cumsum(weights[b, rows], axis=1)
        level = rngs[b].random((rows.size, 1)) * chances[:, -1:]
        draws[b, rows] = 0.0
        draws[b, rows, np.minimum((chances <= level).sum(axis=1), weights.shape[2] - 1)] = 1.0
        total[b, rows] = 1.0
    draws /= total
    return draws
