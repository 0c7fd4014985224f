"""Least-squares value iteration without a pass over past data, and what the algorithms that use it share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.baselines.base import (
    NON_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    STEPS_AT_ONCE,
    Baseline,
    BaselineSettings,
)
from matrixrl.algorithms.possible import (
    Shapes,
    check_range,
    check_regression,
    check_steps,
    check_whole,
    design_shapes,
    impossible,
)
from matrixrl.checks import choice
from matrixrl.features import OneHotPhi, OneHotPsi, Phi
from matrixrl.linalg import DensePairs, DiagonalPairs
from matrixrl.problems import Problem
from matrixrl.records import FloatArray, IntArray, Steps
from matrixrl.settings import flag, one_of, setting

__all__ = [
    "STAGES",
    "EllipsoidSettings",
    "LinearBaseline",
    "LinearModel",
    "LinearSettings",
    "RewardRegression",
    "norm_bound",
    "oful_radius",
]

STAGES = ("pooled", "separate")
"""One regression for all stages (P is the same at each), or one for each stage as in papers where it may differ."""


@dataclass(frozen=True)
class LinearSettings(BaselineSettings):
    """Settings of least-squares value iteration."""

    stages: str = setting(
        "separate",
        'Whether each stage has its own regression ("separate") or all share one ("pooled").',
        one_of(STAGES),
    )
    ridge: float = setting(1.0, "Regularisation λ of the regression.", POSITIVE)
    clip: bool = setting(False, "Whether values are clipped to [0, H − h].", flag)


@dataclass(frozen=True)
class EllipsoidSettings(BaselineSettings):
    """Settings of an algorithm with an ellipsoid that contains the true weights."""

    ridge: float = setting(1.0, "Regularisation λ of the regression.", POSITIVE)
    delta: float = setting(0.1, "Probability with which the radius may fail.", PROBABILITY)
    scale: float = setting(1.0, "Factor of the radius.", NON_NEGATIVE)


class LinearModel:
    r"""Ridge regression of r + V(s') on φ(s, a), for every V at once.

    There are finitely many states, so \(\sum_\tau \phi_\tau V(s'_\tau) = C V\) with the cross moment
    \(C = \sum_\tau \phi_\tau e_{s'_\tau}^\top\) of one-hot next states. Weights
    \(w = A^{-1}(\sum \phi r + C V)\) therefore never need the past transitions again: the cost of an episode does not
    depend on how many came before.

    Args:
        phi: Features φ of pairs.
        n_replicas: Number of replicas B.
        horizon: Horizon H.
        ridge: Regularisation λ of A = λI + Σ φφᵀ.
        stages: "pooled" or "separate".

    >>> from matrixrl.features import OneHotPhi
    >>> model = LinearModel(OneHotPhi(n_states=2, n_actions=1), n_replicas=1, horizon=2)
    >>> pairs, after = np.array([[0, 1]]), np.array([[1, 0]])
    >>> model.update(pairs, after, np.ones((1, 2)), rewards=np.array([[0.0, 1.0]]))
    >>> model.weights(0, np.array([[2.0, 4.0]]), with_reward=True)  # (0 + 4) / 2 and (1 + 2) / 2
    array([[2. , 1.5]])
    """

    def __init__(self, phi: Phi, n_replicas: int, horizon: int, *, ridge: float = 1.0, stages: str = "pooled") -> None:
        self.phi, self.n_replicas = phi, n_replicas
        self.n_groups = 1 if choice("stages", stages, STAGES) == "pooled" else horizon
        rows = n_replicas * self.n_groups  # to the linear algebra a stage with its own data is one more replica
        self.design = phi.design(rows, ridge)
        self.cross_moment = np.zeros((rows, phi.d, phi.n_states))
        self.reward_moment = np.zeros((rows, phi.d))
        self._psi = OneHotPsi(phi.n_states)

    def update(self, pairs: IntArray, next_states: IntArray, weights: FloatArray, rewards: FloatArray) -> None:
        """Add one episode of H steps, or any number of steps if all stages share one regression.

        Args:
            pairs: (B, H) pairs that were visited.
            next_states: (B, H) states after each step.
            weights: (B, H) 1, or 0 for a step that was not taken.
            rewards: (B, H) unit rewards; 0 for a step that was not taken.
        """
        shape = (len(self.cross_moment), -1)
        pairs, next_states, weights = pairs.reshape(shape), next_states.reshape(shape), weights.reshape(shape)
        self.design.update(pairs, weights)
        self.phi.accumulate(self.cross_moment, self._psi, pairs, next_states, weights)
        self.phi.accumulate_rewards(self.reward_moment, pairs, rewards.reshape(shape))

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
        factorised, matrix = self.design.is_factorised, self.design.design.matrix
        upper = self.design.factor.upper if factorised else np.linalg.cholesky(matrix).transpose(0, 2, 1)
        z = normals.reshape(len(upper), -1, self.phi.d).transpose(0, 2, 1)
        drawn: FloatArray = np.linalg.solve(upper, z).transpose(0, 2, 1).reshape(normals.shape)
        return drawn

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that was learned."""
        return {"cross_moment": self.cross_moment, "reward_moment": self.reward_moment, **self.design.arrays()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned."""
        own = {name: arrays[name].copy() for name in self.arrays()}
        self.design.restore(own)
        self.cross_moment, self.reward_moment = own["cross_moment"], own["reward_moment"]

    def _of(self, stage: int, array: FloatArray) -> FloatArray:
        """Return the part of a stage: (B·groups, …) → (B, …)."""
        if self.n_groups == 1:
            return array
        return array.reshape(self.n_replicas, self.n_groups, *array.shape[1:])[:, stage]


class LinearBaseline(Baseline):
    """A baseline that learns a `LinearModel`."""

    learned_parts = ("model",)
    settings: LinearSettings

    def begin(self) -> None:
        """Allocate the regression."""
        super().begin()
        sizes = (self.features.phi, self.n_replicas, self.task.horizon)
        self.model = LinearModel(*sizes, ridge=self.settings.ridge, stages=self.settings.stages)

    def learned_shapes(self, problem: Problem, n_replicas: int) -> Shapes:
        """Return the shapes of the regression."""
        assert problem.features is not None
        phi, horizon = problem.features.phi, problem.task.horizon
        rows = n_replicas * (1 if self.settings.stages == "pooled" else horizon)
        return {
            "cross_moment": (rows, phi.d, phi.n_states),
            "reward_moment": (rows, phi.d),
            **design_shapes(phi, rows),
        }

    def n_steps(self) -> FloatArray | None:
        """Return the number of visits, (B,), for one-hot features."""
        design = self.model.design
        if not isinstance(design, DiagonalPairs):
            return None
        total: FloatArray = design.counts.reshape(self.n_replicas, -1).sum(axis=1)
        return total

    def check_learned(self, arrays: Arrays, episode: int) -> None:
        """Refuse moments that so many episodes cannot have."""
        super().check_learned(arrays, episode)
        most = episode * (self.task.horizon if self.model.n_groups == 1 else 1)
        targets = {"cross_moment": 1.0, "reward_moment": 1.0}
        check_regression(self.features.phi, self.settings.ridge, arrays, targets, most)
        if isinstance(self.features.phi, OneHotPhi):
            counts = arrays["counts"]
            check_whole("cross_moment", arrays["cross_moment"])
            if not np.array_equal(arrays["cross_moment"].sum(axis=2), counts):
                impossible("cross_moment", "must sum to the counts")
            check_range("reward_moment", arrays["reward_moment"], 0.0, counts)
            check_steps("counts", counts.reshape(self.n_replicas, -1).sum(axis=1), episode, self.task.horizon)

    @property
    def steps_at_once(self) -> int:
        """Number of steps that are added together; an episode at a time if every stage has its own regression."""
        if self.model.n_groups > 1:
            return 1
        one_hot = isinstance(self.features.phi, OneHotPhi)
        return STEPS_AT_ONCE if one_hot else max(1, (1 << 22) // self.features.phi.d)

    def learn_episode(self, steps: Steps) -> None:
        """Add the episode to the regression."""
        pairs = self.features.phi.pairs(steps.states, steps.actions)
        self.model.update(pairs, steps.next_states, steps.weights, steps.rewards)


class RewardRegression:
    """Ridge regression of unit rewards on φ(s, a).

    Args:
        phi: Features φ of pairs.
        n_replicas: Number of replicas B.
        ridge: Regularisation λ of A = λI + Σ φφᵀ.

    >>> from matrixrl.features import OneHotPhi
    >>> regression = RewardRegression(OneHotPhi(n_states=2, n_actions=1), n_replicas=1, ridge=1.0)
    >>> start = np.zeros((1, 3), dtype=int)
    >>> regression.update(Steps.of(start, start, np.ones((1, 3)), start))
    >>> regression.estimate()  # 3 / (1 + 3) and 1 / √(1 + 3) at the pair that was visited
    (array([[[0.75, 0.  ]]]), array([[[0.5, 1. ]]]))
    """

    def __init__(self, phi: Phi, n_replicas: int, ridge: float) -> None:
        self.phi = phi
        self.design = phi.design(n_replicas, ridge)
        self.moment = np.zeros((n_replicas, phi.d))

    def update(self, steps: Steps) -> None:
        """Add steps with unit rewards; the reward of a step that was not taken must be 0."""
        pairs = self.phi.pairs(steps.states, steps.actions)
        self.design.update(pairs, steps.weights)
        self.phi.accumulate_rewards(self.moment, pairs, steps.rewards)

    def estimate(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean φᵀθ̂ and the width √(φᵀA⁻¹φ) of every pair, each (B, A, S)."""
        mean = self.phi.dot(self.design.solve(self.moment[:, :, None])[:, :, 0])
        return mean, np.sqrt(np.maximum(self.design.width_sq, 0.0)).reshape(mean.shape)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that was learned."""
        return {"reward_moment": self.moment, **self.design.arrays()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned."""
        own = {name: arrays[name].copy() for name in self.arrays()}
        self.design.restore(own)
        self.moment = own["reward_moment"]


def oful_radius(logdet: FloatArray, *, delta: float, noise: float, ridge: float, norm: float) -> FloatArray:
    r"""Return \(R\sqrt{2\ln(1/\delta) + \ln\det(A/\lambda)} + \sqrt{\lambda}\,S\) (Abbasi-Yadkori et al. 2011, Thm 2).

    Args:
        logdet: (B,) ln det(A/λ).
        delta: Probability δ with which the radius may fail.
        noise: Sub-Gaussian size R of the noise.
        ridge: Regularisation λ.
        norm: Bound S on the norm of the true weights.

    >>> float(oful_radius(np.zeros(1), delta=math.exp(-2.0), noise=0.5, ridge=4.0, norm=1.0)[0])
    3.0
    """
    radius: FloatArray = noise * np.sqrt(2.0 * math.log(1.0 / delta) + logdet) + math.sqrt(ridge) * norm
    return radius


def norm_bound(phi: Phi) -> float:
    """Return a bound on ‖θ‖ of any θ with |φᵀθ| ≤ 1 at all pairs: λ_min(Σ w φφᵀ)^(−½) with weights that sum to one.

    >>> from matrixrl.features import OneHotPhi
    >>> round(norm_bound(OneHotPhi(n_states=8, n_actions=2)), 12)
    4.0
    """
    return 1.0 / math.sqrt(phi.smallest_design_eigenvalue())
