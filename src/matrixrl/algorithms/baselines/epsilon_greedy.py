"""ε-greedy on the empirical model: exploration without direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from matrixrl.algorithms.baselines.base import NON_NEGATIVE, BaselineSettings, Presets
from matrixrl.algorithms.baselines.tabular_model import TabularBaseline
from matrixrl.records import Plan
from matrixrl.settings import real, setting

__all__ = ["EpsilonGreedy", "EpsilonGreedySettings"]


@dataclass(frozen=True)
class EpsilonGreedySettings(BaselineSettings):
    """Settings of ε-greedy."""

    epsilon: float = setting(
        0.1, "Probability of a uniformly random action at each step of the first episode.", real(high=1.0)
    )
    half_life: float = setting(
        0.0,
        "Number of episodes after which ε has halved, as ε / (1 + k / half_life); 0 keeps it constant.",
        NON_NEGATIVE,
    )

    # There is no paper to follow: a constant 0.1 is the customary choice. tuned: one value for RiverSwim, DeepSea,
    # FourRooms, a random tabular and a linear MDP.
    PRESETS: ClassVar[Presets] = {
        "paper": {"epsilon": 0.1, "half_life": 0.0},
        "tuned": {"epsilon": 1.0, "half_life": 10.0},
    }


class EpsilonGreedy(TabularBaseline):
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
        plan = self.greedy_plan()
        shape, epsilon = plan.policy.shape[1:], self.epsilon
        for policy, rng in zip(plan.policy, self.streams["agent"], strict=True):
            explores = rng.random(shape) < epsilon
            if self.allowed is None and self.frame.stages is None:
                policy[explores] = rng.integers(self.task.n_actions, size=int(np.count_nonzero(explores)))
            else:
                policy[explores] = self.draw_actions(rng)[explores]
        return plan

    def greedy_plan(self) -> Plan:
        """Return the best plan of the empirical model."""
        reward = self.mean_reward()
        return self.induct(lambda _, values: self.model.next_value(values) + reward)

    def advice(self) -> Plan:
        """Return the greedy plan, without exploration; no random stream moves."""
        mark = self.mark()
        try:
            return self.greedy_plan()
        finally:
            self.rewind(mark)
