"""Uniformly random play, the reference that a learning algorithm must beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.baselines.base import Baseline
from matrixrl.errors import InvalidInput
from matrixrl.records import FloatArray, IntArray, Plan, Steps

__all__ = ["RandomActions", "RandomPlay"]


@dataclass(frozen=True, slots=True)
class RandomActions:
    """Plan of random play where states are vectors: each action is drawn when it is played.

    Attributes:
        empty: (B,) zeros: there is no confidence set that could be empty.
    """

    empty: IntArray


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
    kinds = ("finite", "continuous")

    @property
    def guarantee(self) -> str:
        """The reason why there is none."""
        return "random play learns nothing"

    def begin(self) -> None:
        """Prepare tables where states are numbered."""
        if self._has_tables:
            super().begin()

    @property
    def _has_tables(self) -> bool:
        return self.problem.kind == "finite"

    @property
    def has_policy_table(self) -> bool:
        """Whether actions are drawn for all states at once, which they are not on vectors."""
        return self._has_tables

    def make_plan(self) -> Plan | RandomActions:
        """Return a newly drawn table for each replica, or a plan without tables on vectors."""
        if not self._has_tables:
            return RandomActions(np.zeros(self.n_replicas, dtype=np.int64))
        task, n = self.task, self.n_replicas
        policy = np.stack([self.draw_actions(rng) for rng in self.streams["agent"]])
        values = np.zeros((n, task.horizon + 1, task.n_states))
        small = np.min_scalar_type(task.n_actions - 1)
        return Plan(policy=policy.astype(small), values=values, empty=np.zeros(n, dtype=np.int64))

    def learn(self, steps: Steps) -> None:
        """Learn nothing."""

    learn_episode = learn

    def act(self, plan: Plan | RandomActions, stage: int, states: NDArray[Any], *, explore: bool = True) -> IntArray:
        """Return the actions of the table, or drawn ones on vectors, which are 0 without `explore`: (B,)."""
        if isinstance(plan, Plan):
            return super().act(plan, stage, states, explore=explore)
        if not explore:
            return np.zeros(self.n_replicas, dtype=np.int64)
        n_actions = self.problem.task.n_actions
        return np.array([int(rng.integers(n_actions)) for rng in self.streams["agent"]], dtype=np.int64)

    def action_values(
        self, plan: Plan | RandomActions, stage: int, states: NDArray[Any], *, explore: bool = True
    ) -> FloatArray:
        """Return random numbers, by which any of the actions may be the best; zeros without `explore`: (B, A)."""
        del plan, stage, states
        n_actions = self.problem.task.n_actions
        if not explore:
            return np.zeros((self.n_replicas, n_actions))
        return np.stack([rng.random(n_actions) for rng in self.streams["agent"]])

    def upper(self, plan: Plan | RandomActions, first_states: NDArray[Any] | None = None) -> FloatArray:
        """Return the smallest possible return, or NaN on vectors: (B,)."""
        if isinstance(plan, Plan):
            return super().upper(plan, first_states)
        return np.full(self.n_replicas, np.nan)

    def policy_table(self, plan: Plan | RandomActions) -> IntArray:
        """Return the table: (B, H, S)."""
        if isinstance(plan, Plan):
            return super().policy_table(plan)
        self.problem.refuse("must have numbered states for a table of actions")

    def plan_to_arrays(self, plan: Plan | RandomActions) -> Arrays:
        """Return the tables of a plan, if it has any."""
        return super().plan_to_arrays(plan) if isinstance(plan, Plan) else {}

    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Any:
        """Return the plan of one replica that `plan_to_arrays` wrote."""
        if self._has_tables:
            return super().plan_from_arrays(arrays)
        if arrays:
            raise InvalidInput("the plan does not fit the problem")
        return RandomActions(np.zeros(1, dtype=np.int64))
