"""Contextual bandits, where an episode is one step: LinUCB (OFUL) and KernelUCB."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from matrixrl.algorithms.base import Algorithm, Arrays
from matrixrl.algorithms.baselines.base import POSITIVE, Baseline, Presets
from matrixrl.algorithms.baselines.gaussian import rbf
from matrixrl.algorithms.baselines.linear_model import EllipsoidSettings, RewardRegression, norm_bound, oful_radius
from matrixrl.algorithms.possible import Shapes, check_regression, design_shapes
from matrixrl.checks import fail
from matrixrl.features import kernel_features
from matrixrl.linalg import lost_digits
from matrixrl.problems import Problem
from matrixrl.records import FloatArray, Plan, Steps
from matrixrl.settings import one_of, optional, real, setting

__all__ = ["KernelUCB", "KernelUCBSettings", "LinUCB", "LinUCBSettings", "LinearBandit"]


@dataclass(frozen=True)
class BanditSettings(EllipsoidSettings):
    """Settings of a linear bandit; `known_reward` is always False, since only rewards are learned."""

    def check_together(self) -> None:
        """Learn rewards whatever was requested."""
        self.replace_value("known_reward", False)


class LinearBandit(Baseline):
    """A bandit that plays the action with the largest φᵀθ̂ + radius · √(φᵀA⁻¹φ) at every state."""

    learned_parts = ("regression",)
    settings: BanditSettings

    def check_problem(self, problem: Problem) -> None:
        """Refuse a problem whose episodes have more than one step."""
        super().check_problem(problem)
        horizon = problem.task.horizon
        if horizon != 1:
            fail("horizon", f"must be 1 for {self.name}, a bandit algorithm", horizon, "Use lsvi-ucb instead.")

    def begin(self) -> None:
        """Allocate the regression of rewards."""
        super().begin()
        self.regression = RewardRegression(self.features.phi, self.n_replicas, self.settings.ridge)

    def learned_shapes(self, problem: Problem, n_replicas: int) -> Shapes:
        """Return the shapes of the regression."""
        assert problem.features is not None
        phi = problem.features.phi
        return {"reward_moment": (n_replicas, phi.d), **design_shapes(phi, n_replicas)}

    def check_learned(self, arrays: Arrays, episode: int) -> None:
        """Refuse moments that so many episodes cannot have."""
        super().check_learned(arrays, episode)
        check_regression(self.features.phi, self.settings.ridge, arrays, {"reward_moment": 1.0}, episode)

    @abstractmethod
    def radius(self) -> FloatArray:
        """Return the radius of the ellipsoid around θ̂: (B,)."""

    def make_plan(self) -> Plan:
        """Return the plan that is greedy in mean plus radius times width."""
        mean, width = self.regression.estimate()
        upper = mean + self.radius()[:, None, None] * width
        # Values are clipped to [0, 1], choices are not: bounds above 1 still rank actions by how little is known.
        return self.induct(lambda _, __: upper)

    @property
    def steps_at_once(self) -> int:
        """Number of steps that are added together."""
        return max(1, (1 << 22) // self.features.phi.d)

    def learn_episode(self, steps: Steps) -> None:
        """Add the one step of the episode, or those of several."""
        self.regression.update(steps)


@dataclass(frozen=True)
class LinUCBSettings(BanditSettings):
    """Settings of LinUCB."""

    norm: float | None = setting(
        None, "Bound S on ‖θ*‖; by default the bound that follows from |φᵀθ*| ≤ 1.", optional(POSITIVE)
    )
    radius: str = setting(
        "oful",
        'Radius of the ellipsoid: "oful" (Abbasi-Yadkori et al. 2011), or "constant", which is `scale` at all times.',
        one_of(("oful", "constant")),
    )

    PRESETS: ClassVar[Presets] = {
        # Abbasi-Yadkori et al. 2011, Theorem 2, with R = ½ for rewards in [0, 1] (Hoeffding's lemma).
        "paper": {"ridge": 1.0, "delta": 0.1, "radius": "oful", "scale": 1.0},
        # One α for a linear and a smooth bandit with noisy rewards, the best of 0.1, 0.3, 0.6 and 1 over both.
        "tuned": {"ridge": 1.0, "radius": "constant", "scale": 1.0},
    }


class LinUCB(LinearBandit):
    """LinUCB: a linear bandit with the radius of OFUL, or with a constant one.

    >>> from matrixrl.problems import Problem, low_rank
    >>> bandit = LinUCB().start(Problem.of(low_rank(n_states=6, horizon=1).mdp), seeds=[0])
    >>> bandit.plan().policy.shape, bandit.guarantee
    ((1, 1, 6), True)
    """

    name = "lin-ucb"
    settings_class = LinUCBSettings
    settings: LinUCBSettings

    def begin(self) -> None:
        """Allocate the regression and bound the norm of θ*."""
        super().begin()
        self._implied_norm = norm_bound(self.part.phi)
        self.norm = self._implied_norm if self.settings.norm is None else self.settings.norm

    @property
    def guarantee(self) -> Literal[True] | str:
        """True with the OFUL radius, if expected rewards are linear in φ and ‖θ*‖ ≤ S; else the reason."""
        if self.settings.radius == "constant":
            return f"tuned: the radius is {self.settings.scale:g} at all times"
        if self.settings.scale < 1.0:
            return f"tuned: the radius was scaled by {self.settings.scale:g}"
        if self.norm < self._implied_norm:
            return f"proven only if ‖θ*‖ <= norm, as given ({self.norm:g})"
        return self.departs() or lost_digits(self.regression.design.rounding) or True

    def radius(self) -> FloatArray:
        """Return the radius of the ellipsoid around θ̂: (B,)."""
        chosen = self.settings
        if chosen.radius == "constant":
            return np.full(self.n_replicas, chosen.scale)
        full = oful_radius(
            self.regression.design.logdet, delta=chosen.delta, noise=0.5, ridge=chosen.ridge, norm=self.norm
        )
        more = self.regression.design.moment_error  # docs/proofs.md, section 18
        scaled: FloatArray = chosen.scale * full if more is None else chosen.scale * full + more
        return scaled


@dataclass(frozen=True)
class KernelUCBSettings(BanditSettings):
    """Settings of KernelUCB; `ridge` is γ of the paper."""

    radius: str = setting(
        "valko",
        'Radius of the ellipsoid: "valko", which is √(2 ln(2TA/δ)) with T = n_episodes or the number of the episode, '
        'and A the largest number of allowed actions, or "constant", which is `scale` at all times.',
        one_of(("valko", "constant")),
    )
    length_scale: float = setting(0.5, "Length scale ℓ of the RBF kernel, in the unit of the points.", POSITIVE)
    action_correlation: float = setting(
        0.0, "Correlation of the rewards of different actions, from 0 to below 1.", real(high=0.999, remedy="Try 0.")
    )

    PRESETS: ClassVar[Presets] = {
        # Valko et al. 2013, Theorem 1: η = √(2 ln(2TN/δ)) with N actions; width σ/√γ as in their Algorithm 1.
        "paper": {"ridge": 1.0, "delta": 0.1, "radius": "valko", "scale": 1.0},
        # One α for a linear and a smooth bandit with noisy rewards, the best of 0.1, 0.3, 0.6 and 1 over both.
        "tuned": {"ridge": 1.0, "radius": "constant", "scale": 1.0},
    }


class KernelUCB(LinearBandit):
    """KernelUCB: a linear bandit on coordinates whose inner products are the kernel of pairs.

    >>> from matrixrl.problems import Problem, tabular
    >>> bandit = KernelUCB(n_episodes=10).start(Problem.of(tabular(n_states=6, horizon=1).mdp), seeds=[0])
    >>> bandit.plan().policy.shape
    (1, 1, 6)
    """

    name = "kernel-ucb"
    settings_class = KernelUCBSettings
    settings: KernelUCBSettings

    def start(self, problem: Problem, seeds: Sequence[int]) -> Algorithm:
        """Return a copy that plays in coordinates of the kernel, in place of the features of the problem."""
        self.check_problem(problem)
        settings, task = self.settings, problem.finite_task
        features = kernel_features(
            problem.state_points(),
            problem.task.n_actions,
            k_phi=lambda x, y: rbf(x, y, settings.length_scale),
            action_correlation=settings.action_correlation,
        ).cover(task.n_states, task.n_actions, task.end_state, task.end_words)
        return self.start_prepared(replace(problem, features=features, pseudo=features.psi.pseudo), seeds)

    def start_prepared(self, problem: Problem, seeds: Sequence[int]) -> Algorithm:
        """Start on a problem whose features are those of the kernel."""
        return super().start(problem, seeds)

    @property
    def guarantee(self) -> str:
        """The reason why there is none: the theorem is about a variant that splits its data."""
        if self.settings.radius == "constant" or self.settings.scale < 1.0:
            return f"tuned: the radius is {self.settings.radius}, times {self.settings.scale:g}"
        return "the theorem is about SupKernelUCB, which splits its data so that rewards are independent"

    def radius(self) -> FloatArray:
        """Return η: (B,)."""
        chosen = self.settings
        if chosen.radius == "constant":
            return np.full(self.n_replicas, chosen.scale)
        rounds = chosen.n_episodes or self.episode + 1
        most = self.task.n_actions if self.allowed is None else int(self.allowed.sum(axis=0).max())
        eta = math.sqrt(2.0 * math.log(2.0 * rounds * most / chosen.delta))
        return np.full(self.n_replicas, chosen.scale * eta)
