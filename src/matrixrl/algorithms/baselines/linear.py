"""Linear regression on φ: least-squares value iteration without a pass over past data, LSVI-UCB and RLSVI."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.baselines.base import POSITIVE, Baseline, BonusSettings, Presets, StagedSettings
from matrixrl.algorithms.baselines.tabular_model import STEPS_AT_ONCE
from matrixrl.core.greedy import lowest_first
from matrixrl.features import OneHotPhi, OneHotPsi, Phi
from matrixrl.linalg import DensePairs, DiagonalPairs
from matrixrl.problems import Problem
from matrixrl.records import FloatArray, Plan, Steps
from matrixrl.settings import flag, one_of, setting

__all__ = ["LSVIUCB", "RLSVI", "EllipsoidSettings", "LinearModel", "norm_bound"]

_ENTRIES = 1 << 22  # numbers of the features of steps that are added together


@dataclass(frozen=True)
class LinearSettings(StagedSettings):
    """Settings of least-squares value iteration."""

    ridge: float = setting(1.0, "Regularisation λ of the regression.", POSITIVE)
    clip: bool = setting(False, "Whether values are clipped to [0, H − h].", flag)


@dataclass(frozen=True)
class EllipsoidSettings(BonusSettings):
    """Settings of an algorithm with an ellipsoid that contains the true weights."""

    ridge: float = setting(1.0, "Regularisation λ of the regression.", POSITIVE)

    def oful_radius(self, logdet: FloatArray, *, noise: float, norm: float) -> FloatArray:
        r"""Return \(R\sqrt{2\ln(1/\delta) + \ln\det(A/\lambda)} + \sqrt{\lambda}\,S\): (B,).

        This is Theorem 2 of Abbasi-Yadkori et al. 2011 for noise of sub-Gaussian size R and weights of norm at most S.
        """
        most: FloatArray = noise * np.sqrt(2.0 * math.log(1.0 / self.delta) + logdet) + math.sqrt(self.ridge) * norm
        return most


class LinearModel:
    r"""Ridge regression of r + V(s') on φ(s, a), for every V at once, or of r alone.

    There are finitely many states, so \(\sum_\tau \phi_\tau V(s'_\tau) = C V\) with the cross moment
    \(C = \sum_\tau \phi_\tau e_{s'_\tau}^\top\) of one-hot next states. Weights
    \(w = A^{-1}(\sum \phi r + C V)\) therefore never need the past transitions again: the cost of an episode does not
    depend on how many came before.

    A replica has `n_groups` regressions: H if each stage has its own, else 1. With `rewards_only`, C is left out.

    >>> from matrixrl.features import OneHotPhi
    >>> model = LinearModel(OneHotPhi(n_states=2, n_actions=1), n_replicas=1)
    >>> states, after = np.array([[0, 1]]), np.array([[1, 0]])
    >>> model.update(Steps.of(states, np.zeros((1, 2), dtype=int), np.array([[0.0, 1.0]]), after))
    >>> model.weights(0, np.array([[2.0, 4.0]]), with_reward=True)  # (0 + 4) / 2 and (1 + 2) / 2
    array([[2. , 1.5]])
    """

    def __init__(
        self, phi: Phi, n_replicas: int, n_groups: int = 1, *, ridge: float = 1.0, rewards_only: bool = False
    ) -> None:
        self.phi, self.n_replicas, self.n_groups = phi, n_replicas, n_groups
        # To the linear algebra a stage with its own data is one more replica.
        self.design = phi.design(n_replicas * n_groups, ridge)
        self.reward_moment = np.zeros((n_replicas * n_groups, phi.d))  # Σ φr
        self.cross_moment = np.zeros((*self.reward_moment.shape, 0 if rewards_only else phi.n_states))  # C
        self._psi = OneHotPsi(phi.n_states)
        self.steps_at_once = STEPS_AT_ONCE if isinstance(phi, OneHotPhi) else max(1, _ENTRIES // phi.d)

    def update(self, steps: Steps) -> None:
        """Add steps with unit rewards, those of one episode if stages have regressions of their own.

        The reward of a step that was not taken must be 0.
        """
        every = self.phi.pairs(steps.states, steps.actions), steps.next_states, steps.rewards, steps.weights
        pairs, following, rewards, weights = (part.reshape(len(self.reward_moment), -1) for part in every)
        self.design.update(pairs, weights)
        self.phi.accumulate_rewards(self.reward_moment, pairs, rewards)
        if self.cross_moment.shape[2]:
            self.phi.accumulate(self.cross_moment, self._psi, pairs, following, weights)

    def reward_estimate(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean φᵀθ̂ of the reward and the width √(φᵀA⁻¹φ) of every pair, each (B, A, S)."""
        return self.phi.dot(self.design.solve(self.reward_moment[:, :, None])[:, :, 0]), self.widths(0)

    def weights(self, stage: int, values: FloatArray, *, with_reward: bool) -> FloatArray:
        """Return A⁻¹(Σφr + CV), or A⁻¹CV without the reward: values (B, S) → (B, d)."""
        moment: FloatArray = (self._of(stage, self.cross_moment) @ values[:, :, None])[:, :, 0]
        if with_reward:
            moment = moment + self._of(stage, self.reward_moment)
        if isinstance(self.design, DiagonalPairs):
            return moment * self._of(stage, self.design.width_sq)
        assert isinstance(self.design, DensePairs)
        solved: FloatArray = (self._of(stage, self.design.inverse) @ moment[:, :, None])[:, :, 0]
        return solved

    def widths(self, stage: int) -> FloatArray:
        """Return √(φᵀA⁻¹φ) of every pair: (B, A, S)."""
        width_sq = np.maximum(self._of(stage, self.design.width_sq), 0.0)
        return np.sqrt(width_sq).reshape(self.n_replicas, self.phi.n_actions, self.phi.n_states)

    def scatter(self, normals: FloatArray) -> FloatArray:
        """Turn standard normal numbers (B, H, d) into draws of N(0, A⁻¹), one of each stage: (B, H, d)."""
        if isinstance(self.design, DiagonalPairs):
            return normals * np.sqrt(self.design.width_sq).reshape(self.n_replicas, self.n_groups, -1)
        assert isinstance(self.design, DensePairs)
        # A = LLᵀ, so L⁻ᵀz has covariance A⁻¹; from A itself, whose rounding does not build up.
        factorised, matrix = self.design.is_factorised, self.design.matrix
        upper = self.design.factor.upper if factorised else np.linalg.cholesky(matrix).transpose(0, 2, 1)
        z = normals.reshape(len(upper), -1, self.phi.d).transpose(0, 2, 1)
        drawn: FloatArray = np.linalg.solve(upper, z).transpose(0, 2, 1).reshape(normals.shape)
        return drawn

    def _of(self, stage: int, array: FloatArray) -> FloatArray:
        """Return the part of a stage: (B·groups, …) → (B, …)."""
        if self.n_groups == 1:
            return array
        return array.reshape(self.n_replicas, self.n_groups, *array.shape[1:])[:, stage]

    def state_dict(self) -> Arrays:
        moments: Arrays = {"reward_moment": self.reward_moment}
        if self.cross_moment.shape[2]:  # none of a model of rewards only
            moments["cross_moment"] = self.cross_moment
        return {**moments, **self.design.arrays()}

    def load_state_dict(self, arrays: Arrays) -> None:
        own = {name: arrays[name].copy() for name in self.state_dict()}
        self.design.restore(own)
        self.reward_moment = own["reward_moment"]
        self.cross_moment = own.get("cross_moment", self.cross_moment)


def norm_bound(phi: Phi) -> float:
    """Return a bound on ‖θ‖ of any θ with |φᵀθ| ≤ 1 at all pairs: λ_min(Σ w φφᵀ)^(−½) with weights that sum to one."""
    return 1.0 / math.sqrt(phi.smallest_design_eigenvalue())


class LeastSquares(Baseline):
    """Least-squares value iteration: Q of every stage is linear in φ."""

    settings: LinearSettings
    model: LinearModel

    def make_model(self) -> LinearModel:
        n_groups = self.settings.n_groups(self.task.horizon)
        return LinearModel(self.features.phi, self.n_replicas, n_groups, ridge=self.settings.ridge)

    def _start_size(self, problem: Problem) -> float:
        d, n_groups = problem.dimensions[0], self.settings.n_groups(problem.task.horizon)
        return float(n_groups * d * max(d, problem.finite_task.n_states))

    def q(self, h: int, values: FloatArray, shift: FloatArray | float = 0.0) -> FloatArray:
        """Return the estimate of Q_h, whose weights are shifted by (B, d): values (B, S) → (B, A, S)."""
        known = self.settings.known_reward
        q = self.features.phi.dot(self.model.weights(h, values, with_reward=not known) + shift)
        return q + self.unit_reward if known else q

    def estimated_plan(self) -> Plan:
        """Return the plan that is greedy in the least-squares estimate of Q, without bonus or noise."""
        rankings = lowest_first(self.task.n_actions, self.n_replicas)
        return self.induct(self.q, cap=self.settings.clip, rankings=rankings)


@dataclass(frozen=True)
class LSVIUCBSettings(LinearSettings, BonusSettings):
    """Settings of LSVI-UCB; `scale` is c of the bonus β = c·d·H·√ι, and `delta` is p."""

    PRESETS: ClassVar[Presets] = {
        # Jin et al. 2020, Theorem 3.1: λ = 1, β = c·d·H·√ι, ι = ln(2dT/p), "an absolute constant c > 0"; we take c = 1.
        "paper": {},
        "tuned": {"stages": "pooled", "ridge": 0.01, "scale": 0.0006, "clip": True},
    }


class LSVIUCB(LeastSquares):
    """Least-squares value iteration that adds β√(φᵀA⁻¹φ) to every Q, which is then at most H.

    >>> from matrixrl.problems import Problem, tabular
    >>> lsvi = LSVIUCB(n_episodes=10).start(Problem.of(tabular(n_states=3, horizon=4).mdp), seeds=[0, 1])
    >>> float(lsvi.plan().values.max())  # the largest possible return: H
    4.0
    """

    name = "lsvi-ucb"
    settings_class = LSVIUCBSettings
    no_proof = "the theorem holds for some absolute constant c that the paper leaves open; 1 is a choice"

    def beta(self) -> float:
        """Return β = c·d·H·√ι with ι = ln(2dT/p)."""
        d = self._part.phi.d
        return self.settings.scale * d * self.task.horizon * math.sqrt(self.log_term(2.0 * d))

    def make_plan(self) -> Plan:
        """Return the plan of Q = min(wᵀφ + β√(φᵀA⁻¹φ), H) (Jin et al. 2020, Algorithm 1, lines 4 to 7)."""
        phi, known, beta, most = self.model.phi, self.settings.known_reward, self.beta(), float(self.task.horizon)

        def q_of(h: int, values: FloatArray) -> FloatArray:
            q = beta * self.model.widths(h) + phi.dot(self.model.weights(h, values, with_reward=not known))
            return np.minimum(q + self.unit_reward if known else q, most)

        return self.induct(q_of, cap=self.settings.clip)


@dataclass(frozen=True)
class RLSVISettings(LinearSettings):
    """Settings of RLSVI; `scale` is a factor of σ, and before any data the weights have variance σ²/λ."""

    noise: str = setting(
        "worst-case",
        'Standard deviation σ of the draws: "worst-case" grows as in the proof of Russo 2019, "horizon" is H.',
        one_of(("worst-case", "horizon")),
    )

    PRESETS: ClassVar[Presets] = {
        # One regression a stage, values not clipped: Osband et al. 2016, Algorithm 1. It leaves σ and λ open; the
        # published values with a proof for a fixed problem are λ = 1 and β_k of Russo 2019, Theorem 1.
        "paper": {},
        "tuned": {"stages": "pooled", "ridge": 0.01, "noise": "horizon", "scale": 0.02, "clip": True},
    }


class RLSVI(LeastSquares):
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
    no_proof = None

    def objections(self) -> tuple[str | None, ...]:
        """Russo 2019 is about one-hot features, learned rewards and his constants; the bound is in expectation."""
        chosen = self.settings
        paper = RLSVISettings(chosen.preset, chosen.known_reward, chosen.n_episodes)
        return (
            None if chosen == paper else "tuned: the constants are not those of the proof (Russo 2019)",
            None if isinstance(self.features.phi, OneHotPhi) else "the proof (Russo 2019) is for one-hot features",
            "the proof (Russo 2019) is for rewards that are learned" if chosen.known_reward else None,
        )

    def sigma(self) -> float:
        """Return the standard deviation σ that scales A^(−½)."""
        horizon = self.task.horizon
        if self.settings.noise == "horizon":
            return self.settings.scale * horizon
        # Russo 2019, Theorem 1: σ² = ½ S H³ ln(2 H S A k). Where features are not one-hot, d stands for S and for S·A.
        phi = self.features.phi
        size = self.task.n_states if isinstance(phi, OneHotPhi) else self._part.phi.d
        variance = 0.5 * size * horizon**3 * math.log(2.0 * horizon * self._part.phi.d * (self.episode + 1))
        return self.settings.scale * math.sqrt(variance)

    def make_plan(self) -> Plan:
        """Draw the weights of every stage and return the plan that is greedy in them."""
        task, known = self.task, self.settings.known_reward
        normals = np.stack([rng.standard_normal((task.horizon, self.model.phi.d)) for rng in self.streams["agent"]])
        noise = self.sigma() * self.model.scatter(normals)

        def q_of(h: int, values: FloatArray) -> FloatArray:
            if known and h == task.horizon - 1:  # nothing is uncertain about the last step
                return np.tile(self.unit_reward, (self.n_replicas, 1, 1))
            return self.q(h, values, noise[:, h])  # Osband et al. 2016, Algorithm 1, lines 4 to 6

        return self.induct(q_of, cap=self.settings.clip)
