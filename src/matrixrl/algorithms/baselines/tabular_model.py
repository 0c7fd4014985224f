"""Counts of a finite problem for B replicas, the empirical model they make, and what its users share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.baselines.base import BaselineEngine
from matrixrl.features import Features
from matrixrl.problems import Task
from matrixrl.records import FloatArray, IntArray

__all__ = ["TabularEngine", "TabularModel", "log_term"]


class TabularModel:
    """How often each pair was visited, where it led and what it earned: all that tabular algorithms remember.

    P is the same at all stages, so visits at all stages count together. A pair that was never visited has the uniform
    distribution as its P̂ and 0 as its mean reward.

    Args:
        n_replicas: B.
        n_actions: A.
        n_states: S.
        horizon: H, to count visits by stage as well.
        empirical: keep P̂ up to date; who never reads it saves the work.

    >>> model = TabularModel(n_replicas=1, n_actions=1, n_states=2)
    >>> steps = np.array([[0, 0, 0, 0]]), np.array([[0, 0, 0, 0]]), np.array([[1, 1, 1, 0]])
    >>> model.update(*steps, np.ones((1, 4)), np.full((1, 4), 0.5))
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
        """(B, P, S) P̂; one row for each pair."""
        self._keeps_mean = empirical
        self._replica = np.arange(n_replicas)[:, None]

    def update(
        self, states: IntArray, actions: IntArray, next_states: IntArray, weights: FloatArray, rewards: FloatArray
    ) -> None:
        """Count the steps: all (B, k); a step of weight 0 was not taken and its reward is 0."""
        pairs = actions * self.n_states + states
        flat = (self._replica * self.counts.shape[1] + pairs).ravel()
        mass = weights.ravel()
        # One flat index each: numpy adds at a single index about ten times faster than at several.
        np.add.at(self.counts.reshape(-1), flat, mass)
        np.add.at(self.reward_sums.reshape(-1), flat, rewards.ravel())
        np.add.at(self.transitions.reshape(-1), flat * self.n_states + next_states.ravel(), mass)
        if self.stage_visits is not None:
            self.stage_visits[self._replica, np.arange(states.shape[1]), states] += weights
        if self._keeps_mean:
            n = self.counts.reshape(-1)[flat][:, None]
            rows = self.transitions.reshape(-1, self.n_states)[flat] / np.maximum(n, 1.0)
            rows[n[:, 0] == 0.0] = 1.0 / self.n_states
            self.transition_mean.reshape(-1, self.n_states)[flat] = rows  # only visited rows change

    def next_value(self, values: FloatArray) -> FloatArray:
        """Return the expected value of the next state under P̂, for all pairs: (B, S) → (B, A, S)."""
        expected: FloatArray = np.matmul(self.transition_mean, values[:, :, None])
        return expected.reshape(self.shape)

    def reward_mean(self) -> FloatArray:
        """Return the mean of the rewards seen: (B, A, S)."""
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
        """Take back what `arrays` returned."""
        counts, transitions = arrays["counts"], arrays["transitions"]
        if (transitions < 0.0).any() or not np.array_equal(transitions.sum(axis=2), counts):
            raise ValueError("counts and transitions do not belong together")
        if (arrays["reward_sums"] < 0.0).any() or (arrays["reward_sums"] > counts * (1.0 + 1e-9)).any():
            raise ValueError("reward_sums do not belong to the counts")
        self.counts, self.transitions = counts.copy(), transitions.copy()
        self.reward_sums = arrays["reward_sums"].copy()
        if self.stage_visits is not None:
            self.stage_visits = arrays["stage_visits"].copy()
        if self._keeps_mean:
            self.transition_mean = transitions / np.maximum(counts, 1.0)[:, :, None]
            self.transition_mean[counts == 0.0] = 1.0 / self.n_states


class TabularEngine(BaselineEngine):
    """A baseline that learns nothing but a `TabularModel`.

    Args:
        task, features, settings, seeds: as in `BaselineEngine`.
    """

    reads_mean: ClassVar[bool] = True
    """Whether P̂ is read."""

    def __init__(self, task: Task, features: Features, settings: Any, seeds: Sequence[int]) -> None:
        super().__init__(task, features, settings, seeds)
        horizon = task.horizon if self.counts_stages else None
        sizes = (self.n_replicas, task.n_actions, task.n_states)
        self.model = TabularModel(*sizes, horizon=horizon, empirical=self.reads_mean)

    @property
    def counts_stages(self) -> bool:
        """Whether visits are needed by stage."""
        return False

    def mean_reward(self) -> FloatArray:
        """Return the rewards (A, S) if they are known, else the means of those seen, (B, A, S)."""
        return self.unit_reward if self.settings.known_reward else self.model.reward_mean()

    def learn(
        self, states: IntArray, actions: IntArray, next_states: IntArray, weights: FloatArray, rewards: FloatArray
    ) -> None:
        """Count the steps of one episode."""
        self.model.update(states, actions, next_states, weights, rewards)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the counts."""
        return {"plans": self.plans, **self.model.arrays()}

    def restore_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned."""
        self.model.restore(arrays)
        self.plans = arrays["plans"].copy()


def log_term(factor: float, n_episodes: int | None, episode: int, horizon: int, delta: float) -> float:
    """Return ln(factor · T / δ), with T = NH, or without N the steps until the end of the coming episode.

    Args:
        factor: what the paper puts before T, such as 5SA.
        n_episodes: N, if it is known.
        episode: how many episodes are finished.
        horizon: H.
        delta: δ.

    >>> round(log_term(60.0, 1000, 0, 24, 0.1), 3)
    16.483
    """
    planned = episode + 1 if n_episodes is None else n_episodes
    return float(np.log(factor * planned * horizon / delta))
