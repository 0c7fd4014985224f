"""UC-MatrixRL for B independent replicas: what is learned, planned and saved, without any protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from matrixrl.agents.settings import MatrixRLSettings
from matrixrl.core import (
    RadiusInputs,
    SelfNormalisedRadius,
    core_matrix,
    optimistic_plan,
    regularity,
)
from matrixrl.core.sets import SETS
from matrixrl.features import Features
from matrixrl.mdp import Task
from matrixrl.records import FloatArray, IntArray, Plan
from matrixrl.seeding import generator, restore, state_of

__all__ = ["MatrixRLEngine"]


class MatrixRLEngine:
    """The state of Algorithm 1 with a leading replica axis; one replica is the ordinary agent.

    Replicas share features and rewards and nothing else, so B of them cost little more than one (design 4.5).

    Args:
        task: what may be known of the problem.
        features: φ and ψ.
        settings: set, radius, exploration and the rest.
        seeds: one seed for each replica.
    """

    def __init__(self, task: Task, features: Features, settings: MatrixRLSettings, seeds: Sequence[int]) -> None:
        self.task = task
        self.features = features.check(task.n_states, task.n_actions)
        self.settings = settings
        self.seeds = list(seeds)
        self.regularity = regularity(features, c_core=settings.c_core, ridge=settings.ridge)
        self.radius = settings.make_radius()
        self.set = SETS[settings.set](features.psi.total)
        self.design = features.phi.design(len(self.seeds), settings.ridge)
        self.cross_moment = np.zeros((len(self.seeds), features.phi.d, features.psi.d_psi))
        self.episode = 0
        self._unit_reward = np.ascontiguousarray(task.unit_reward.T)
        self._end_reward = (0.0 - task.reward_range[0]) / task.unit
        self._ties = [generator(seed, "ties") for seed in self.seeds]

    @property
    def n_replicas(self) -> int:
        """B."""
        return len(self.seeds)

    def radii(self) -> tuple[FloatArray, FloatArray]:
        """Return √β_n of the set, and the proven √β_n that the alarm is judged with: (B,), (B,)."""
        inputs = RadiusInputs(
            regularity=self.regularity,
            horizon=self.task.horizon,
            episode=self.episode + 1,
            n_episodes=self.settings.n_episodes,
            delta=self.settings.delta,
            logdet=self.design.logdet,
        )
        chosen = self.settings.exploration * self.radius(inputs)
        return chosen, np.maximum(chosen, SelfNormalisedRadius()(inputs))

    def core(self) -> FloatArray:
        """Return M_n of every replica: (B, d, d_psi)."""
        return core_matrix(self.design, self.cross_moment, self.features.psi)

    def plan(self, *, break_ties_at_random: bool = True) -> Plan:
        """Return the optimistic plan of the next episode (Algorithm 1, line 6).

        One random ranking of the actions for each plan and replica breaks all its ties; without it the lowest
        action wins and no random stream moves.
        """
        radius, alarm_radius = self.radii()
        n_actions = self.task.n_actions
        if break_ties_at_random:
            ranks = np.stack([rng.permutation(n_actions) for rng in self._ties])
        else:
            ranks = np.tile(np.arange(n_actions)[::-1], (self.n_replicas, 1))
        return optimistic_plan(
            self.features,
            self.set,
            core=self.core(),
            width_sq=self.design.width_sq,
            radius=radius,
            alarm_radius=alarm_radius,
            unit_reward=self._unit_reward,
            horizon=self.task.horizon,
            priority=ranks / n_actions,
            end_state=self.task.end_state,
            end_reward=self._end_reward,
        )

    def upper(self, plan: Plan) -> FloatArray:
        """Return the optimistic value of the start in the environment's unit: (B,)."""
        return self.task.to_own_unit(plan.values[:, 0] @ self.task.start)

    def update(self, states: IntArray, actions: IntArray, next_states: IntArray, weights: FloatArray) -> None:
        """Learn from one episode (lines 11, 12): all (B, k); weight 0 marks a step not taken."""
        pairs = self.features.phi.pairs(states, actions)
        self.design.update(pairs, weights)
        self.features.phi.accumulate(self.cross_moment, self.features.psi, pairs, next_states, weights)
        self.episode += 1

    def arrays(self) -> dict[str, FloatArray]:
        """Return the learned arrays, for saving."""
        return {"cross_moment": self.cross_moment, **self.design.arrays()}

    def restore_arrays(self, arrays: dict[str, FloatArray]) -> None:
        """Take back what `arrays` returned."""
        self.cross_moment = arrays["cross_moment"]
        self.design.restore(arrays)

    def random_states(self) -> list[dict[str, Any]]:
        """Return the state of every replica's tie-breaking stream."""
        return [state_of(rng) for rng in self._ties]

    def restore_random_states(self, states: Sequence[object]) -> None:
        """Take back what `random_states` returned."""
        for rng, state in zip(self._ties, states, strict=True):
            restore(rng, state)
