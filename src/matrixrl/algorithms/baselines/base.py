"""What all baselines share: settings with two presets, a model of full episodes of unit rewards, and claims."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.baselines.tabular_model import PairCounts
from matrixrl.algorithms.finite import FiniteAlgorithm
from matrixrl.algorithms.plug_ins import is_plug_in
from matrixrl.core.embedding import refuted_assumption, refuted_rewards
from matrixrl.core.greedy import lowest_first
from matrixrl.records import FloatArray, Guarantee, Plan, Steps
from matrixrl.settings import Settings, flag, one_of, optional, real, setting, whole

__all__ = ["POSITIVE", "Baseline", "BaselineSettings", "BonusSettings", "Presets", "ScaledSettings", "StagedSettings"]

Presets = Mapping[str, Mapping[str, Any]]
"""Values of settings by the name of a preset."""

POSITIVE = real(open_ends=True)
"""Check for a number above 0."""


@dataclass(frozen=True)
class BaselineSettings(Settings):
    """Settings of every baseline; defaults are the constants of its paper.

    Those of `tuned` are one choice for all problems, after RiverSwim (4, 6, 12 states), DeepSea(6), FourRooms(5), a
    random tabular and a linear MDP. For linear and kernel baselines the scale is the smallest one tried with which no
    seed stayed on a bad policy of two further problems, those of the tests.
    """

    preset: str = setting(
        "paper",
        'Named choice of constants: "paper" for those of the paper, "tuned" for those of docs/baselines.md.',
        one_of(("paper", "tuned")),
    )
    known_reward: bool | None = setting(
        None,
        "Whether the algorithm is given the rewards; otherwise it learns them. By default it learns them where the "
        "problem has none.",
        optional(flag),
    )
    n_episodes: int | None = setting(
        None,
        "Number of episodes N, used where the constants of the paper depend on it.",
        optional(whole(remedy="Give N or leave it out.")),
    )

    PRESETS: ClassVar[Presets] = {"paper": {}, "tuned": {}}


@dataclass(frozen=True)
class ScaledSettings(BaselineSettings):
    """Settings of an algorithm whose bonus, radius or noise has a factor."""

    scale: float = setting(1.0, "Factor of the bonus, the radius or the noise; 1 in the paper.", real())


@dataclass(frozen=True)
class StagedSettings(ScaledSettings):
    """Settings of an algorithm whose paper lets P depend on the stage."""

    stages: str = setting(
        "separate",
        'Whether each stage has its own data ("separate") or all share them ("pooled").',
        one_of(("pooled", "separate")),
    )

    def n_groups(self, horizon: int) -> int:
        """Return the number of models of one replica."""
        return 1 if self.stages == "pooled" else horizon


@dataclass(frozen=True)
class BonusSettings(ScaledSettings):
    """Settings of an algorithm whose bonus or radius may fail with a small probability."""

    delta: float = setting(
        0.1, "Probability with which the bonus or the radius may fail.", real(high=1.0, open_ends=True)
    )


class Baseline(FiniteAlgorithm):
    """An algorithm of another paper: a model of what was seen, and a rule that plans with it.

    A subclass plans in `make_plan`. Its model is `PairCounts` unless it overrides `make_model`; an algorithm without a
    model has no `learned_parts` and overrides `learn_episode`.

    Attributes:
        features: φ and ψ.
        model: What is learned: an object with `update(steps)`, `steps_at_once`, `state_dict` and `load_state_dict`.
        learned_parts: Attributes that hold models; they are saved together with the arrays of `learned_names`.
        no_proof: Why no setting has a proven bound, empty if nothing is known of one; None if some have.
        stages_are_proven: Whether what is proven holds for laws that depend on the stage.
    """

    settings_class = BaselineSettings
    learned_parts: ClassVar[tuple[str, ...]] = ("model",)
    no_proof: ClassVar[str | None] = ""
    stages_are_proven: ClassVar[bool] = False
    model: Any
    _refutation: tuple[str | None] | None = None  # computed when a claim is asked for

    def begin(self) -> None:
        """Make the model; a subclass may allocate more."""
        super().begin()
        self.model = self.make_model() if "model" in self.learned_parts else None

    @property
    def steps_at_once(self) -> int:
        """Number of steps of several episodes that are learned from together; 1 if stages have data of their own."""
        is_staged = isinstance(self.settings, StagedSettings) and self.settings.stages == "separate"
        return 1 if self.model is None or is_staged else int(self.model.steps_at_once)

    def make_model(self) -> Any:
        """Return the model without data."""
        return PairCounts(self.n_replicas, self.task.n_actions, self.task.n_states)

    @property
    def guarantee(self) -> Guarantee:
        """Whether the bound of the paper is proven for this problem and these settings, or why not."""
        if is_plug_in(type(self)):
            name = type(self).__name__
            return Guarantee(False, f"{name} is a subclass of {self.name}, and the proof is not about its methods")
        scale = getattr(self.settings, "scale", 1.0)
        if scale < 1.0:
            return Guarantee(False, f"tuned: the constants of the paper were scaled by {scale:g}")
        if self.no_proof is None:
            staged = self.task.is_staged and not self.stages_are_proven
            discounted = self.task.discount < 1.0
            return Guarantee.unless(
                *self.objections(),
                "the proof of the paper is about rewards that are not discounted" if discounted else None,
                "the proof of the paper is about laws that all stages share" if staged else None,
            )
        return Guarantee(False, self.no_proof or f"{self.name} has no proof here")

    def objections(self) -> tuple[str | None, ...]:
        """Return, for each further condition of the proof, in words why it does not hold; None if it does."""
        return ()

    def features_refuted(self, *, transitions: bool = False, rewards: bool = False) -> str | None:
        """Return why features cannot represent P = φᵀMψ, or rewards linear in φ, as a proof needs; None if they can."""
        if self._refutation is None:
            mdp, features = self.problem.mdp, self.features
            words = features.phi.left_out or (features.psi.left_out if transitions else None)
            if words is None and mdp is not None and transitions:
                words = refuted_assumption(mdp.transitions, None, features, mdp.allowed)
            if words is None and mdp is not None and rewards:
                words = refuted_rewards(mdp.task.unit_reward, features.phi, mdp.allowed)
            self._refutation = (words,)
        return self._refutation[0]

    def beyond_plan(self) -> str | None:
        """Return why the number of episodes leaves a theorem about N episodes without force, or None."""
        planned = self.settings.n_episodes
        if planned is None:
            return "the bonuses of the paper need n_episodes"
        return f"more than the {planned} episodes of n_episodes were played" if self.episode > planned else None

    def log_term(self, factor: float) -> float:
        """Return ln(factor · T / δ) with T = NH, or the number of steps until the end of the next episode without N."""
        n_steps = self.task.horizon * (self.settings.n_episodes or self.episode + 1)
        return math.log(factor * n_steps / self.settings.delta)

    def learn(self, steps: Steps) -> None:
        """Learn from one episode of up to H steps, with rewards in the environment's unit."""
        full = steps.padded(self.task.horizon)
        self.learn_episode(replace(full, rewards=self.to_unit(full.rewards) * full.weights))

    def learn_episode(self, steps: Steps) -> None:
        """Learn from H steps in each replica, whose rewards are in [0, 1], and 0 for a step that was not taken."""
        self.model.update(steps)

    def estimated_plan(self) -> Plan:
        """Return the plan that is greedy in P̂ and the mean rewards of counts, ties to the lowest action."""
        if not isinstance(self.model, PairCounts):
            plan: Plan = super().estimated_plan()  # which refuses
            return plan
        return self._greedy_in_counts(lowest_first(self.task.n_actions, self.n_replicas))

    def reward_bound(self, radius: FloatArray) -> FloatArray:
        """Return the rewards (A, S) if they are known, else their means plus radii (B, A, S), at most 1."""
        if self.settings.known_reward:
            return self.unit_reward
        bound: FloatArray = np.minimum(self.model.reward_mean() + radius, 1.0)
        return bound

    def _greedy_in_counts(self, rankings: FloatArray | None = None) -> Plan:
        """Return the best plan of P̂ and the rewards, known or observed; ties by rankings, drawn by default.

        A pair that was never visited leads to every state with the same probability.
        """
        model: PairCounts = self.model
        reward = self.unit_reward if self.settings.known_reward else model.reward_mean()
        return self.induct(lambda _, values: model.next_value(values) + reward, rankings=rankings)

    def learned(self) -> Arrays:
        arrays = super().learned()
        for part in self.learned_parts:
            arrays.update(getattr(self, part).state_dict())
        return arrays

    def load_learned(self, arrays: Arrays) -> None:
        for part in self.learned_parts:
            getattr(self, part).load_state_dict(arrays)
        super().load_learned(arrays)
