"""Uniformly random play: what every algorithm must beat."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.baselines.base import BaselineEngine
from matrixrl.records import FloatArray, IntArray, Plan

__all__ = ["RandomPlay"]


class RandomPlay(BaselineEngine):
    """Each episode plays a table whose every action was drawn uniformly, so each step is uniformly random.

    It learns nothing and believes nothing; the values of its plans are 0.

    >>> from matrixrl.problems import tabular
    >>> world = tabular(n_states=3, n_actions=2, horizon=4)
    >>> engine = RandomPlay(world.mdp.task, world.features, RandomPlay.settings_class(), seeds=[0, 1])
    >>> engine.next_plan().policy.shape
    (2, 4, 3)
    """

    name: ClassVar[str] = "random"

    def plan(self) -> Plan:
        """Return a freshly drawn table for each replica."""
        task, n = self.task, self.n_replicas
        shape = (task.horizon, task.n_states)
        policy = np.stack([rng.integers(task.n_actions, size=shape) for rng in self._agents])
        values = np.zeros((n, task.horizon + 1, task.n_states))
        small = np.min_scalar_type(task.n_actions - 1)
        return Plan(policy=policy.astype(small), values=values, empty=np.zeros(n, dtype=np.int64))

    def learn(
        self, states: IntArray, actions: IntArray, next_states: IntArray, weights: FloatArray, rewards: FloatArray
    ) -> None:
        """Learn nothing."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return how many plans were made: nothing else changes."""
        return {"plans": self.plans}

    def restore_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned."""
        self.plans = arrays["plans"].copy()
