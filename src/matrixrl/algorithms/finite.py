"""What algorithms on numbered states share: unit rewards, tables as plans, backward induction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Algorithm, Arrays
from matrixrl.core.backup import Frame, greedy_plan
from matrixrl.core.greedy import random_rankings
from matrixrl.errors import InvalidInput
from matrixrl.features import Features
from matrixrl.problems import Task
from matrixrl.records import FloatArray, IntArray, Plan

__all__ = ["FiniteAlgorithm", "plan_from_arrays", "start_values"]


class FiniteAlgorithm(Algorithm):
    """An algorithm whose plan is one deterministic table for each replica.

    Values inside are of unit rewards in [0, 1]. An algorithm that acts at random draws the table anew for each episode,
    which is the same, because an episode asks each (stage, state) at most once.
    """

    @property
    def task(self) -> Task:
        """Description of the problem, as far as an agent may know it."""
        return self.problem.finite_task

    @property
    def features(self) -> Features:
        """φ and ψ."""
        assert self.problem.features is not None
        return self.problem.features

    @property
    def unit_reward(self) -> FloatArray:
        """(A, S) known rewards, mapped to [0, 1]."""
        return self._unit_reward

    @property
    def frame(self) -> Frame:
        """Horizon and sizes of a plan."""
        return self._frame

    def begin(self) -> None:
        """Prepare what follows from the task; subclasses allocate what they learn after calling this."""
        self.use_task()
        self._replica = np.arange(self.n_replicas)

    def use_task(self) -> None:
        """Map the rewards of the task to [0, 1]."""
        task = self.task
        self._unit_reward: FloatArray = np.ascontiguousarray(task.unit_reward.T)
        end_reward = (0.0 - task.reward_range[0]) / task.unit
        self._frame = Frame(task.horizon, task.n_actions, task.n_states, task.end_state, end_reward)

    def act(self, plan: Plan, stage: int, states: NDArray[Any], *, explore: bool = True) -> IntArray:
        """Return the actions of the table: states (B,) → (B,)."""
        del explore
        actions: IntArray = plan.policy[self._replica, stage, states]
        return actions

    def upper(self, plan: Plan, first_states: NDArray[Any] | None = None) -> FloatArray:
        """Return what the plan expects an episode to be worth, in the environment's unit: (B,)."""
        return self.task.to_own_unit(start_values(plan.values, self.task, first_states))

    def policy_table(self, plan: Plan) -> IntArray:
        """Return the table: (B, H, S)."""
        return plan.policy

    def plan_to_arrays(self, plan: Plan) -> Arrays:
        """Return the tables of a plan."""
        return plan.arrays()

    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Plan:
        """Return the plan of one replica that `plan_to_arrays` wrote."""
        return plan_from_arrays(arrays, self._frame, n_replicas=1)

    def to_unit(self, rewards: FloatArray) -> FloatArray:
        """Return rewards in the environment's unit mapped to [0, 1]."""
        unit: FloatArray = (rewards - self.task.reward_range[0]) / self.task.unit
        return unit

    def induct(
        self,
        q_of: Callable[[int, FloatArray], FloatArray],
        *,
        cap: bool = True,
        rankings: FloatArray | None = None,
    ) -> Plan:
        """Return the plan that is greedy in Q by backward induction.

        Args:
            q_of: (stage, V of the next stage (B, S)) → Q of this stage (B, A, S), which may be changed afterwards.
            cap: Keep V_h in [0, H − h], as rewards are in [0, 1].
            rankings: (B, A) rankings of the actions that break ties; drawn by default.
        """
        high = np.arange(self._frame.horizon, 0, -1.0) if cap else None
        return greedy_plan(q_of, self._frame, self.draw_rankings() if rankings is None else rankings, high=high)

    def draw_rankings(self) -> FloatArray:
        """Return one random ranking of the actions for each replica, which breaks ties: (B, A)."""
        return random_rankings(self.streams["ties"], self.task.n_actions)


def start_values(values: FloatArray, task: Task, first_states: NDArray[Any] | None) -> FloatArray:
    """Return first-stage values (B, H+1, S) at given states (B,), or averaged over the task's start: (B,)."""
    if first_states is None:
        averaged: FloatArray = values[:, 0] @ task.start
        return averaged
    at: FloatArray = values[np.arange(len(values)), 0, np.asarray(first_states)]
    return at


def plan_from_arrays(arrays: Mapping[str, NDArray[Any]], frame: Frame, *, n_replicas: int) -> Plan:
    """Return the plan of saved tables, or raise if they do not fit."""
    plan = Plan(arrays["policy"], arrays["values"], arrays["empty"])
    fits = (
        plan.policy.shape == (n_replicas, frame.horizon, frame.n_states)
        and plan.policy.dtype.kind in "iu"
        and plan.values.shape == (n_replicas, frame.horizon + 1, frame.n_states)
        and plan.values.dtype == np.float64
        and plan.empty.shape == (n_replicas,)
        and plan.empty.dtype.kind == "i"
        and set(arrays) == {"policy", "values", "empty"}
        and 0 <= plan.policy.min() <= plan.policy.max() < frame.n_actions
        and not plan.values[:, -1].any()
        and bool((plan.empty >= 0).all())
    )
    if not fits:
        raise InvalidInput("the plan does not fit the problem")
    return plan
