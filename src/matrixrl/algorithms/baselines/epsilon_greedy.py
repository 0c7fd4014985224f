"""ε-greedy on the empirical model: exploration without direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from matrixrl.algorithms.baselines.base import BaselineSettings
from matrixrl.algorithms.baselines.tabular_model import TabularEngine
from matrixrl.records import Plan

__all__ = ["EpsilonGreedy", "EpsilonGreedySettings"]


@dataclass(frozen=True, slots=True)
class EpsilonGreedySettings(BaselineSettings):
    """What ε-greedy can be told.

    Attributes:
        epsilon: the probability of a uniformly random action at a step of the first episode.
        half_life: after this many episodes ε has halved: ε / (1 + k / half_life); 0 keeps it constant.
    """

    epsilon: float = 0.1
    half_life: float = 0.0

    # There is no paper to follow: a constant 0.1 is the customary choice. tuned: one value for RiverSwim, DeepSea,
    # FourRooms, a random tabular and a linear MDP.
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {"epsilon": 0.1, "half_life": 0.0},
        "tuned": {"epsilon": 1.0, "half_life": 10.0},
    }

    def __post_init__(self) -> None:
        BaselineSettings.__post_init__(self)
        self.positive("epsilon", zero=True, high=1.0)
        self.positive("half_life", zero=True)


class EpsilonGreedy(TabularEngine):
    """Plays the best policy of the empirical model, and at each step a random action with probability ε.

    A pair that was never visited is taken to lead anywhere with equal probability and, where rewards are unknown, to
    earn 0.

    >>> from matrixrl.problems import tabular
    >>> world = tabular(n_states=3, n_actions=2, horizon=4)
    >>> settings = EpsilonGreedySettings(epsilon=0.0)
    >>> engine = EpsilonGreedy(world.mdp.task, world.features, settings, seeds=[0])
    >>> bool((engine.next_plan().policy == world.mdp.task.reward.argmax(axis=1)).all())
    True
    """

    name: ClassVar[str] = "epsilon-greedy"
    settings_class: ClassVar[type[BaselineSettings]] = EpsilonGreedySettings

    @property
    def epsilon(self) -> float:
        """ε of the next episode."""
        settings = self.settings
        if settings.half_life == 0.0:
            return float(settings.epsilon)
        return float(settings.epsilon / (1.0 + self.episode / settings.half_life))

    def plan(self) -> Plan:
        """Return the greedy plan with some of its actions replaced by random ones; values are those of the former."""
        reward = self.mean_reward()
        greedy = self.induct(lambda _, values: self.model.next_value(values) + reward)
        shape, n_actions, epsilon = greedy.policy.shape[1:], self.task.n_actions, self.epsilon
        for policy, rng in zip(greedy.policy, self._agents, strict=True):
            explores = rng.random(shape) < epsilon
            policy[explores] = rng.integers(n_actions, size=int(np.count_nonzero(explores)))
        return greedy
