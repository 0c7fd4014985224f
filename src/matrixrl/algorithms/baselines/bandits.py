"""Contextual bandits, where an episode is one step: LinUCB (OFUL) and KernelUCB."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.baselines.base import BaselineEngine, BaselineSettings
from matrixrl.algorithms.baselines.linear_model import norm_bound, oful_radius, progress_arrays, restore_progress
from matrixrl.checks import choice, fail, number
from matrixrl.features import Features, kernel_features
from matrixrl.problems import Task
from matrixrl.records import FloatArray, IntArray, Plan

__all__ = ["KernelUCB", "KernelUCBSettings", "LinUCB", "LinUCBSettings", "line_points", "rbf"]


def rbf(x: FloatArray, y: FloatArray, length_scale: float) -> FloatArray:
    """Return exp(−‖x − y‖²/2ℓ²) of all pairs of rows: (n, p), (m, p) → (n, m).

    >>> rbf(np.zeros((1, 2)), np.ones((1, 2)), length_scale=1.0).round(6)
    array([[0.367879]])
    """
    distance_sq = ((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2)
    similar: FloatArray = np.exp(-0.5 * distance_sq / length_scale**2)
    return similar


def line_points(points: FloatArray | None, n_states: int) -> FloatArray:
    """Return where states lie: as given (S, p), else evenly on a line from −1 to 1.

    >>> line_points(None, 3).ravel()
    array([-1.,  0.,  1.])
    """
    return np.linspace(-1.0, 1.0, n_states)[:, None] if points is None else np.asarray(points, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class LinUCBSettings(BaselineSettings):
    """What LinUCB can be told.

    Attributes:
        known_reward: always false: the reward is all that a bandit learns.
        ridge: λ.
        delta: δ.
        norm: S, a bound on ‖θ*‖; by default the one that |φᵀθ*| ≤ 1 implies.
        radius: "oful" (Abbasi-Yadkori et al. 2011), or "constant".
        scale: the radius is multiplied by it; with "constant" it is the radius, α.
    """

    ridge: float = 1.0
    delta: float = 0.1
    norm: float | None = None
    radius: str = "oful"
    scale: float = 1.0

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        # Abbasi-Yadkori et al. 2011, Theorem 2, with R = ½ for rewards in [0, 1] (Hoeffding's lemma).
        "paper": {"ridge": 1.0, "delta": 0.1, "radius": "oful", "scale": 1.0},
        # One α for a linear and a smooth bandit with noisy rewards, the best of 0.1, 0.3, 0.6 and 1 over both.
        "tuned": {"ridge": 1.0, "radius": "constant", "scale": 1.0},
    }

    def __post_init__(self) -> None:
        BaselineSettings.__post_init__(self)
        object.__setattr__(self, "known_reward", False)
        choice("radius", self.radius, ("oful", "constant"))
        self.positive("ridge")
        self.positive("delta", high=1.0)
        self.positive("scale", zero=True)
        if self.norm is not None:
            self.positive("norm")


class LinUCB(BaselineEngine):
    """LinUCB: plays the action with the largest φᵀθ̂ + α√(φᵀA⁻¹φ) at every state.

    >>> from matrixrl.problems import low_rank
    >>> task = low_rank(n_states=6, horizon=1).mdp.task
    >>> engine = LinUCB(task, task.features, LinUCBSettings(), seeds=[0])
    >>> engine.next_plan().policy.shape, engine.guarantee
    ((1, 1, 6), True)
    """

    name = "lin-ucb"
    settings_class: ClassVar[type[BaselineSettings]] = LinUCBSettings
    is_optimistic = True

    def __init__(
        self,
        task: Task,
        features: Features,
        settings: Any,
        seeds: Sequence[int],
        points: FloatArray | None = None,
    ) -> None:
        if task.horizon != 1:
            fail("horizon", f"must be 1 for {self.name}, a bandit algorithm", task.horizon, "Use lsvi-ucb instead.")
        super().__init__(task, features, settings, seeds, points)
        self.design = features.phi.design(self.n_replicas, settings.ridge)
        self.reward_moment = np.zeros((self.n_replicas, features.phi.d))
        given = getattr(settings, "norm", None)
        self.norm = norm_bound(features.phi) if given is None else given

    @property
    def guarantee(self) -> Literal[True] | str:
        """True with the OFUL radius, if expected rewards are linear in φ and ‖θ*‖ ≤ S."""
        if self.settings.radius == "constant":
            return f"tuned: the radius is {self.settings.scale:g} at all times"
        if self.settings.scale < 1.0:
            return f"tuned: the radius was scaled by {self.settings.scale:g}"
        if self.norm < norm_bound(self.features.phi):
            return f"proven only if ‖θ*‖ <= norm, as given ({self.norm:g})"
        return True

    def radius(self) -> FloatArray:
        """Return the radius of the ellipsoid around θ: (B,)."""
        chosen = self.settings
        if chosen.radius == "constant":
            return np.full(self.n_replicas, chosen.scale)
        full = oful_radius(self.design.logdet, delta=chosen.delta, noise=0.5, ridge=chosen.ridge, norm=self.norm)
        scaled: FloatArray = chosen.scale * full
        return scaled

    def estimate(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean φᵀθ and the width √(φᵀA⁻¹φ) of every pair, each (B, A, S)."""
        mean = self.features.phi.dot(self.design.solve(self.reward_moment[:, :, None])[:, :, 0])
        return mean, np.sqrt(np.maximum(self.design.width_sq, 0.0)).reshape(mean.shape)

    def plan(self) -> Plan:
        """Be greedy in mean plus radius times width."""
        mean, width = self.estimate()
        upper = mean + self.radius()[:, None, None] * width
        # Values are kept in [0, 1], choices are not: a bound above 1 still says which action is less known.
        return self.induct(lambda _, __: upper)

    def learn(
        self, states: IntArray, actions: IntArray, next_states: IntArray, weights: FloatArray, rewards: FloatArray
    ) -> None:
        """Add the one step of the episode."""
        del next_states
        pairs = self.features.phi.pairs(states, actions)
        self.design.update(pairs, weights)
        self.features.phi.accumulate_rewards(self.reward_moment, pairs, rewards)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the design, the moment of rewards and the progress."""
        kept = {"reward_moment": self.reward_moment, **self.design.arrays()}
        return {**{name: array.copy() for name, array in kept.items()}, **progress_arrays(self)}

    def restore_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned."""
        kept = {name: arrays[name].copy() for name in self.arrays()}
        self.reward_moment = kept["reward_moment"]
        self.design.restore(kept)
        restore_progress(self, arrays)


@dataclass(frozen=True, slots=True)
class KernelUCBSettings(BaselineSettings):
    """What KernelUCB can be told.

    Attributes:
        known_reward: always false: the reward is all that a bandit learns.
        ridge: γ, the regularisation of kernel regression.
        delta: δ.
        radius: "valko" (η = √(2 ln(2TA/δ)), which needs n_episodes), or "constant".
        scale: the radius is multiplied by it; with "constant" it is the radius.
        length_scale: ℓ of the RBF kernel, in the unit of the points.
        action_correlation: what actions share, from 0 to below 1.
    """

    ridge: float = 1.0
    delta: float = 0.1
    radius: str = "valko"
    scale: float = 1.0
    length_scale: float = 0.5
    action_correlation: float = 0.0

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        # Valko et al. 2013, Theorem 1: η = √(2 ln(2TN/δ)) with N actions; width σ/√γ as in their Algorithm 1.
        "paper": {"ridge": 1.0, "delta": 0.1, "radius": "valko", "scale": 1.0},
        # One α for a linear and a smooth bandit with noisy rewards, the best of 0.1, 0.3, 0.6 and 1 over both.
        "tuned": {"ridge": 1.0, "radius": "constant", "scale": 1.0},
    }

    def __post_init__(self) -> None:
        BaselineSettings.__post_init__(self)
        object.__setattr__(self, "known_reward", False)
        choice("radius", self.radius, ("valko", "constant"))
        for name in ("ridge", "length_scale"):
            self.positive(name)
        self.positive("delta", high=1.0)
        self.positive("scale", zero=True)
        rho = number("action_correlation", self.action_correlation, low=0.0, high=0.999, remedy="Try 0.")
        object.__setattr__(self, "action_correlation", rho)


class KernelUCB(LinUCB):
    """KernelUCB: LinUCB on coordinates whose inner products are the kernel of pairs, which is the same algorithm.

    >>> from matrixrl.problems import tabular
    >>> task = tabular(n_states=6, horizon=1).mdp.task
    >>> KernelUCB(task, task.features, KernelUCBSettings(n_episodes=10), seeds=[0]).next_plan().policy.shape
    (1, 1, 6)
    """

    name = "kernel-ucb"
    settings_class = KernelUCBSettings
    uses_points = True
    is_optimistic = False

    def __init__(
        self,
        task: Task,
        features: Features,
        settings: Any,
        seeds: Sequence[int],
        points: FloatArray | None = None,
    ) -> None:
        features.check(task.n_states, task.n_actions)
        made = kernel_features(
            line_points(points, task.n_states),
            task.n_actions,
            k_phi=lambda x, y: rbf(x, y, settings.length_scale),
            action_correlation=settings.action_correlation,
        )
        super().__init__(task, made, settings, seeds, points)

    @property
    def guarantee(self) -> Literal[True] | str:
        """Why there is none: the theorem is about a variant that splits its data."""
        if self.settings.radius == "constant" or self.settings.scale < 1.0:
            return f"tuned: the radius is {self.settings.radius}, times {self.settings.scale:g}"
        return "the theorem is about SupKernelUCB, which splits its data so that rewards are independent"

    def radius(self) -> FloatArray:
        """Return η."""
        chosen = self.settings
        if chosen.radius == "constant":
            return np.full(self.n_replicas, chosen.scale)
        rounds = chosen.n_episodes or self.episode + 1
        eta = math.sqrt(2.0 * math.log(2.0 * rounds * self.task.n_actions / chosen.delta))
        return np.full(self.n_replicas, chosen.scale * eta)
