"""Visit counts of a finite problem for B replicas, the empirical model they give, and the baselines that use it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.baselines.base import STEPS_AT_ONCE, Baseline
from matrixrl.algorithms.possible import Shapes, check_range, check_steps, check_whole
from matrixrl.core.greedy import lowest_first
from matrixrl.problems import Problem
from matrixrl.records import FloatArray, Plan, Steps

__all__ = ["TabularBaseline", "TabularModel"]


class TabularModel:
    """Counts of visits and transitions, and sums of rewards, of every pair.

    P is the same at all stages, so visits at all stages count together. A pair that was never visited has the uniform
    distribution as its P̂ and 0 as its mean reward.

    Args:
        n_replicas: Number of replicas B.
        n_actions: Number of actions A.
        n_states: Number of states S.
        horizon: Horizon H, to count visits by stage as well.
        empirical: Whether P̂ is kept up to date; False saves the work where it is not read.

    Attributes:
        counts: (B, P) visits, P = A·S.
        transitions: (B, P, S) visits by next state.
        reward_sums: (B, P) sums of unit rewards.
        stage_visits: (B, H, S) visits of states by stage, or None.
        transition_mean: (B, P, S) P̂, or empty.

    >>> model = TabularModel(n_replicas=1, n_actions=1, n_states=2)
    >>> start = np.zeros((1, 4), dtype=int)
    >>> model.update(Steps.of(start, start, np.full((1, 4), 0.5), np.array([[1, 1, 1, 0]])))
    >>> model.counts, model.transition_mean
    (array([[4., 0.]]), array([[[0.25, 0.75], [0.5 , 0.5 ]]]))
    """

    def __init__(
        self, n_replicas: int, n_actions: int, n_states: int, *, horizon: int | None = None, empirical: bool = True
    ) -> None:
        self.n_states = n_states
        n_pairs = n_actions * n_states
        self.shape = (n_replicas, n_actions, n_states)
        self.counts = np.zeros((n_replicas, n_pairs))
        self.transitions = np.zeros((n_replicas, n_pairs, n_states))
        self.reward_sums = np.zeros((n_replicas, n_pairs))
        self.stage_visits = None if horizon is None else np.zeros((n_replicas, horizon, n_states))
        self.transition_mean: FloatArray = np.full(self.transitions.shape if empirical else (0,), 1.0 / n_states)
        self._keeps_mean = empirical
        self._replica = np.arange(n_replicas)[:, None]

    def update(self, steps: Steps) -> None:
        """Count steps with unit rewards; the reward of a step that was not taken must be 0."""
        pairs = steps.actions * self.n_states + steps.states
        flat = (self._replica * self.counts.shape[1] + pairs).ravel()
        weights = steps.weights
        mass = weights.ravel()
        # One flat index each: numpy adds at a single index about ten times faster than at several.
        np.add.at(self.counts.reshape(-1), flat, mass)
        np.add.at(self.reward_sums.reshape(-1), flat, steps.rewards.ravel())
        np.add.at(self.transitions.reshape(-1), flat * self.n_states + steps.next_states.ravel(), mass)
        if self.stage_visits is not None:
            self.stage_visits[self._replica, np.arange(weights.shape[1]), steps.states] += weights
        if self._keeps_mean:
            flat = np.unique(flat) if len(flat) > len(self.counts[0]) else flat  # steps of a log
            n = self.counts.reshape(-1)[flat][:, None]
            rows = self.transitions.reshape(-1, self.n_states)[flat] / np.maximum(n, 1.0)
            rows[n[:, 0] == 0.0] = 1.0 / self.n_states
            self.transition_mean.reshape(-1, self.n_states)[flat] = rows  # only visited rows change

    def next_value(self, values: FloatArray) -> FloatArray:
        """Return the expected value of the next state under P̂, for all pairs: (B, S) → (B, A, S)."""
        expected: FloatArray = np.matmul(self.transition_mean, values[:, :, None])
        return expected.reshape(self.shape)

    def law(self) -> FloatArray:
        """Return P̂ from the counts, whether it is kept up to date or not: (B, P, S)."""
        law: FloatArray = self.transitions / np.maximum(self.counts, 1.0)[:, :, None]
        law[self.counts == 0.0] = 1.0 / self.n_states
        return law

    def reward_mean(self) -> FloatArray:
        """Return the mean of the observed rewards: (B, A, S)."""
        mean: FloatArray = self.reward_sums / np.maximum(self.counts, 1.0)
        return mean.reshape(self.shape)

    def visits(self) -> FloatArray:
        """Return the counts as (B, A, S)."""
        return self.counts.reshape(self.shape)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all counts; the means follow from them."""
        arrays = {"counts": self.counts, "transitions": self.transitions, "reward_sums": self.reward_sums}
        return arrays if self.stage_visits is None else {**arrays, "stage_visits": self.stage_visits}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned.

        Raises:
            InvalidInput, ValueError: Counts are not the sums of transitions, or rewards are not in [0, 1].
        """
        counts, transitions = arrays["counts"], arrays["transitions"]
        check_whole("transitions", transitions)
        if not np.array_equal(transitions.sum(axis=2), counts):
            raise ValueError("counts and transitions do not belong together")
        check_range("reward_sums", arrays["reward_sums"], 0.0, counts)
        if self.stage_visits is not None:
            self._check_stages(arrays["stage_visits"], counts)
        self.counts, self.transitions = counts.copy(), transitions.copy()
        self.reward_sums = arrays["reward_sums"].copy()
        if self.stage_visits is not None:
            self.stage_visits = arrays["stage_visits"].copy()
        if self._keeps_mean:
            self.transition_mean = self.law()

    def _check_stages(self, visits: FloatArray, counts: FloatArray) -> None:
        check_whole("stage_visits", visits)
        if not np.array_equal(visits.sum(axis=1), counts.reshape(self.shape).sum(axis=1)):
            raise ValueError("stage_visits do not belong to the counts")


class TabularBaseline(Baseline):
    """A baseline that learns a `TabularModel`.

    Attributes:
        reads_mean: Whether P̂ is read.
    """

    learned_parts = ("model",)
    reads_mean: ClassVar[bool] = True

    def begin(self) -> None:
        """Allocate the counts."""
        super().begin()
        task = self.task
        horizon = task.horizon if self.counts_stages else None
        sizes = (self.n_replicas, task.n_actions, task.n_states)
        self.model = TabularModel(*sizes, horizon=horizon, empirical=self.reads_mean)

    def learned_shapes(self, problem: Problem, n_replicas: int) -> Shapes:
        """Return the shapes of the counts."""
        task = problem.finite_task
        n_pairs = task.n_actions * task.n_states
        pairs = (n_replicas, n_pairs)
        shapes = {"counts": pairs, "transitions": (*pairs, task.n_states), "reward_sums": pairs}
        if self.counts_stages:
            shapes["stage_visits"] = (n_replicas, task.horizon, task.n_states)
        return super().learned_shapes(problem, n_replicas) | shapes

    def n_steps(self) -> FloatArray:
        """Return the number of visits: (B,)."""
        total: FloatArray = self.model.counts.sum(axis=1)
        return total

    def check_learned(self, arrays: Arrays, episode: int) -> None:
        """Refuse counts that so many episodes cannot have."""
        super().check_learned(arrays, episode)
        check_steps("counts", arrays["counts"].sum(axis=1), episode, self.task.horizon)

    @property
    def steps_at_once(self) -> int:
        """Number of steps that are counted together; an episode at a time if stages are counted."""
        return 1 if self.counts_stages else STEPS_AT_ONCE

    @property
    def counts_stages(self) -> bool:
        """Whether visits are counted by stage."""
        return False

    def mean_reward(self) -> FloatArray:
        """Return the rewards (A, S) if they are known, else the means of observed ones (B, A, S)."""
        return self.unit_reward if self.settings.known_reward else self.model.reward_mean()

    def estimated_plan(self) -> Plan:
        """Return the plan that is greedy in P̂ and the mean rewards, ties to the lowest action.

        A pair that was never visited leads to every state with the same probability.
        """
        reward, law = self.mean_reward(), self.model.law()
        rankings = lowest_first(self.task.n_actions, self.n_replicas)

        def q_of(stage: int, values: FloatArray) -> FloatArray:
            del stage
            return reward + (law @ values[:, :, None]).reshape(self.model.shape)

        return self.induct(q_of, rankings=rankings)

    def learn_episode(self, steps: Steps) -> None:
        """Count the steps of one episode."""
        self.model.update(steps)
