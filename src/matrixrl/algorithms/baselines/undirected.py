"""Undirected exploration: random play, which a learning algorithm must beat, and ε-greedy on the empirical model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.baselines.base import Baseline, BaselineSettings, Presets
from matrixrl.archive import check_arrays
from matrixrl.records import FloatArray, IntArray, Plan, Steps
from matrixrl.settings import real, setting

__all__ = ["EpsilonGreedy", "RandomPlay"]


class RandomPlay(Baseline):
    """Random play: every action is drawn uniformly.

    On numbered states a plan is a table of drawn actions, new for each episode, and its values are 0. On vectors each
    step draws one number from the stream "agent" of each replica.

    >>> from matrixrl.problems import Problem, tabular
    >>> random = RandomPlay().start(Problem.of(tabular(n_states=3, horizon=4).mdp), seeds=[0, 1])
    >>> random.plan().policy.shape
    (2, 4, 3)
    """

    name = "random"
    learned_parts = ()
    kinds = ("finite", "continuous")
    no_proof = "random play learns nothing"
    model = None

    def begin(self) -> None:
        self.has_policy_table = self.problem.kind == "finite"  # else actions are drawn one by one
        if self.has_policy_table:
            super().begin()

    def make_plan(self) -> Plan:
        """Return a newly drawn table for each replica; it is empty on vectors."""
        n, horizon = self.n_replicas, self.problem.task.horizon
        if self.has_policy_table:
            drawn = np.stack([self._draw_actions(rng) for rng in self.streams["agent"]])
            policy = drawn.astype(np.min_scalar_type(self.task.n_actions - 1))
        else:
            policy = np.zeros((n, horizon, 0), dtype=np.uint8)
        return Plan(policy, np.zeros((n, horizon + 1, policy.shape[2])), np.zeros(n, dtype=np.int64))

    def learn(self, steps: Steps) -> None:
        """Learn nothing."""

    def act(self, plan: Plan, stage: int, states: NDArray[Any], *, explore: bool = True) -> IntArray:
        """Return the actions of the table, or drawn ones on vectors, which are 0 without `explore`: (B,)."""
        if self.has_policy_table:
            return super().act(plan, stage, states, explore=explore)
        if not explore:
            return np.zeros(self.n_replicas, dtype=np.int64)
        n_actions = self.problem.task.n_actions
        return np.array([int(rng.integers(n_actions)) for rng in self.streams["agent"]], dtype=np.int64)

    def action_values(self, plan: Plan, stage: int, states: NDArray[Any], *, explore: bool = True) -> FloatArray:
        """Return random numbers, by which any of the actions may be the best; zeros without `explore`: (B, A)."""
        del plan, stage, states
        n_actions = self.problem.task.n_actions
        if not explore:
            return np.zeros((self.n_replicas, n_actions))
        return np.stack([rng.random(n_actions) for rng in self.streams["agent"]])

    def upper(self, plan: Plan, first_states: NDArray[Any] | None = None) -> FloatArray:
        """Return the smallest possible return, or NaN on vectors: (B,)."""
        return super().upper(plan, first_states) if self.has_policy_table else np.full(self.n_replicas, np.nan)

    def policy_table(self, plan: Plan) -> IntArray:
        if not self.has_policy_table:
            self.problem.refuse("must have numbered states for a table of actions")
        return super().policy_table(plan)

    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Plan:
        if self.has_policy_table:
            return super().plan_from_arrays(arrays)
        plan = self.make_plan()
        check_arrays(arrays, plan.arrays())
        return plan


@dataclass(frozen=True)
class EpsilonGreedySettings(BaselineSettings):
    """Settings of ε-greedy."""

    epsilon: float = setting(
        0.1, "Probability of a uniformly random action at each step of the first episode.", real(high=1.0)
    )
    half_life: float = setting(
        0.0,
        "Number of episodes after which ε has halved, as ε / (1 + k / half_life); 0 keeps it constant.",
        real(),
    )

    # There is no paper to follow: a constant 0.1 is the customary choice.
    PRESETS: ClassVar[Presets] = {"paper": {}, "tuned": {"epsilon": 1.0, "half_life": 10.0}}


class EpsilonGreedy(Baseline):
    """The best policy of the empirical model, with a random action at each step with probability ε.

    A pair that was never visited leads to every state with equal probability and, where rewards are unknown, earns 0.

    >>> from matrixrl.problems import Problem, tabular
    >>> mdp = tabular(n_states=3, n_actions=2, horizon=4).mdp
    >>> greedy = EpsilonGreedy(epsilon=0.0).start(Problem.of(mdp), seeds=[0])
    >>> bool((greedy.plan().policy == mdp.task.reward.argmax(axis=1)).all())
    True
    """

    name = "epsilon-greedy"
    settings_class = EpsilonGreedySettings
    settings: EpsilonGreedySettings

    @property
    def epsilon(self) -> float:
        """ε of the next episode."""
        settings = self.settings
        if settings.half_life == 0.0:
            return settings.epsilon
        return settings.epsilon / (1.0 + self.episode / settings.half_life)

    def make_plan(self) -> Plan:
        """Return the greedy plan with some actions replaced by random ones; its values are those of the greedy plan."""
        plan = self._greedy_in_counts()
        shape, epsilon = plan.policy.shape[1:], self.epsilon
        for policy, rng in zip(plan.policy, self.streams["agent"], strict=True):
            explores = rng.random(shape) < epsilon
            if self.frame.allowed is None and self.frame.has_all:
                policy[explores] = rng.integers(self.task.n_actions, size=int(np.count_nonzero(explores)))
            else:
                policy[explores] = self._draw_actions(rng)[explores]
        return plan

    def advice(self) -> Plan:
        """Return the greedy plan, without exploration; no random stream moves."""
        undo = self.mark()
        try:
            return self._greedy_in_counts()
        finally:
            undo()
