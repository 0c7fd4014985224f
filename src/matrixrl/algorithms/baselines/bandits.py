"""Contextual bandits, where an episode is one step: LinUCB (OFUL) and KernelUCB."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from matrixrl.algorithms.baselines.base import POSITIVE, Baseline, Presets
from matrixrl.algorithms.baselines.kernel_ucbvi import rbf
from matrixrl.algorithms.baselines.linear import EllipsoidSettings, LinearModel, norm_bound
from matrixrl.checks import fail
from matrixrl.features import kernel_features
from matrixrl.linalg import lost_digits
from matrixrl.problems import Problem
from matrixrl.records import FloatArray, Plan
from matrixrl.settings import one_of, optional, real, setting

__all__ = ["KernelUCB", "LinUCB"]


@dataclass(frozen=True)
class BanditSettings(EllipsoidSettings):
    """Settings of a linear bandit; `known_reward` is always False, since only rewards are learned."""

    # One α for a linear and a smooth bandit with noisy rewards, the best of 0.1, 0.3, 0.6 and 1 over both.
    PRESETS: ClassVar[Presets] = {"paper": {}, "tuned": {"radius": "constant", "scale": 1.0}}

    def check_together(self) -> None:
        """Learn rewards whatever was requested."""
        self.replace_value("known_reward", False)


class LinearBandit(Baseline):
    """Greedy in φᵀθ̂ + radius · √(φᵀA⁻¹φ), where episodes have one step."""

    model: LinearModel

    def _check_problem(self, problem: Problem) -> None:
        """Refuse a problem whose episodes have more than one step."""
        super()._check_problem(problem)
        horizon = problem.task.horizon
        if horizon != 1:
            fail("horizon", f"must be 1 for {self.name}, a bandit algorithm", horizon, "Use lsvi-ucb instead.")

    def make_model(self) -> LinearModel:
        return LinearModel(self.features.phi, self.n_replicas, ridge=self.settings.ridge, rewards_only=True)

    def _start_size(self, problem: Problem) -> float:
        d, _ = problem.dimensions
        return 0.0 if d == problem.finite_task.n_pairs else float(d * d)

    def make_plan(self) -> Plan:
        """Return the plan that is greedy in mean plus radius times width.

        Its values are clipped to [0, 1], choices are not: bounds above 1 still rank actions by how little is known.
        """
        mean, width = self.model.reward_estimate()
        upper = mean + np.reshape(self.radius(), (-1, 1, 1)) * width
        return self.induct(lambda _, __: upper)

    def radius(self) -> FloatArray | float:
        """Return the radius of the ellipsoid around θ̂: one of each replica (B,), or one for all."""
        return self.settings.scale if self.settings.radius == "constant" else self.paper_radius()

    @abstractmethod
    def paper_radius(self) -> FloatArray | float:
        """Return the radius of the paper, times the factor `scale`."""


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


class LinUCB(LinearBandit):
    """LinUCB: a linear bandit with the radius of OFUL, or with a constant one.

    >>> from matrixrl.problems import Problem, low_rank
    >>> bandit = LinUCB().start(Problem.of(low_rank(n_states=6, horizon=1).mdp), seeds=[0])
    >>> bandit.plan().policy.shape, bool(bandit.guarantee)
    ((1, 1, 6), True)
    """

    name = "lin-ucb"
    settings_class = LinUCBSettings
    settings: LinUCBSettings
    no_proof = None

    def begin(self) -> None:
        super().begin()
        self._implied_norm = norm_bound(self._part.phi)
        self.norm = self._implied_norm if self.settings.norm is None else self.settings.norm

    def objections(self) -> tuple[str | None, ...]:
        """Theorem 2 is about the OFUL radius, expected rewards that are linear in φ, and ‖θ*‖ ≤ S."""
        constant, given = self.settings.radius == "constant", self.norm < self._implied_norm
        return (
            f"tuned: the radius is {self.settings.scale:g} at all times" if constant else None,
            f"proven only if ‖θ*‖ <= norm, as given ({self.norm:g})" if given else None,
            self.features_refuted(rewards=True),
            lost_digits(self.model.design.rounding),
        )

    def paper_radius(self) -> FloatArray:
        """Return the radius of Theorem 2 with R = ½, as rewards are in [0, 1] (Hoeffding's lemma): (B,)."""
        radius = self.settings.scale * self.settings.oful_radius(self.model.design.logdet, noise=0.5, norm=self.norm)
        more = self.model.design.moment_error  # docs/proofs.md, section 18
        return radius if more is None else radius + more


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
    no_proof = "the theorem is about SupKernelUCB, which splits its data so that rewards are independent"

    def _with_features(self, problem: Problem) -> Problem:
        """Return the problem in coordinates of the kernel, in place of its own features."""
        settings, task = self.settings, problem.finite_task
        features = kernel_features(
            problem.state_points(),
            problem.task.n_actions,
            k_phi=lambda x, y: rbf(x, y, settings.length_scale),
            action_correlation=settings.action_correlation,
        ).cover(task.n_states, task.n_actions, task.end_state, task.end_words)
        return replace(problem, features=features, pseudo=features.psi.pseudo)

    def paper_radius(self) -> float:
        """Return η = √(2 ln(2TA/δ)) of Theorem 1 (Valko et al. 2013); widths are σ/√γ as in their Algorithm 1."""
        most = self.task.n_actions if self.frame.allowed is None else int(self.frame.allowed.sum(axis=0).max())
        return self.settings.scale * math.sqrt(2.0 * self.log_term(2.0 * most))
