"""Visit counts of a finite problem for B replicas, and the empirical model they give."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy import sparse

from matrixrl.algorithms.base import Arrays
from matrixrl.linalg import OutcomeCounts, SeenRows
from matrixrl.problems import Task
from matrixrl.records import FloatArray, IntArray, Steps

__all__ = ["LARGEST_TABLE", "STEPS_AT_ONCE", "ListModel", "PairCounts", "TabularModel", "count_model"]

STEPS_AT_ONCE = 1 << 16
"""Number of steps of a log that a baseline adds at once, where it adds them up."""

LARGEST_TABLE = 1 << 20
"""Number of entries A·S·S from which on next states are kept as lists."""


def count_model(task: Task, n_replicas: int, *, by_stage: bool = False) -> PairCounts:
    """Return empty counts, also of states by stage: tables, or lists of next states where a table would be large."""
    kind = ListModel if task.n_actions * task.n_states**2 >= LARGEST_TABLE else TabularModel
    return kind(n_replicas, task.n_actions, task.n_states, horizon=task.horizon if by_stage else None)


class PairCounts(ABC):
    """Visits and rewards of every pair, and visits of states by stage; a model adds what followed.

    P is the same at all stages, so visits at all stages count together.

    Args:
        n_replicas: Number of replicas B.
        n_actions: Number of actions A.
        n_states: Number of states S.
        horizon: Horizon H, to count visits by stage as well.

    Attributes:
        counts: (B, P) visits, P = A·S.
        reward_sums: (B, P) sums of unit rewards.
        stage_visits: (B, H, S) visits of states by stage, or None.
        steps_at_once: Number of steps that may be counted together; one episode if stages are counted.
    """

    def __init__(self, n_replicas: int, n_actions: int, n_states: int, *, horizon: int | None = None) -> None:
        self.n_states = n_states
        n_pairs = n_actions * n_states
        self.shape = (n_replicas, n_actions, n_states)
        self.counts = np.zeros((n_replicas, n_pairs))
        self.reward_sums = np.zeros((n_replicas, n_pairs))
        self.stage_visits = None if horizon is None else np.zeros((n_replicas, horizon, n_states))
        self.steps_at_once = STEPS_AT_ONCE if horizon is None else 1
        self._replica = np.arange(n_replicas)[:, None]

    @abstractmethod
    def update(self, steps: Steps) -> None:
        """Count steps with unit rewards; the reward of a step that was not taken must be 0."""

    @abstractmethod
    def next_values(self, values: FloatArray) -> FloatArray:
        """Return expected next values under P̂ of several functions, for all pairs: (B, S, k) → (B, P, k)."""

    def next_value(self, values: FloatArray) -> FloatArray:
        """Return the expected value of the next state under P̂, for all pairs: (B, S) → (B, A, S)."""
        return self.next_values(values[:, :, None]).reshape(self.shape)

    def count(self, steps: Steps) -> IntArray:
        """Count visits and rewards of steps with unit rewards, and return the pair of each step: (B, T)."""
        pairs: IntArray = steps.actions * self.n_states + steps.states
        flat, weights = (self._replica * self.counts.shape[1] + pairs).ravel(), steps.weights
        # One flat index each: numpy adds at a single index about ten times faster than at several.
        np.add.at(self.counts.reshape(-1), flat, weights.ravel())
        np.add.at(self.reward_sums.reshape(-1), flat, steps.rewards.ravel())
        if self.stage_visits is not None:
            self.stage_visits[self._replica, np.arange(weights.shape[1]), steps.states] += weights
        return pairs

    def reward_mean(self) -> FloatArray:
        """Return the mean of the observed rewards: (B, A, S)."""
        mean: FloatArray = self.reward_sums / np.maximum(self.counts, 1.0)
        return mean.reshape(self.shape)

    def visits(self) -> FloatArray:
        """Return the counts as (B, A, S)."""
        return self.counts.reshape(self.shape)

    def state_dict(self) -> Arrays:
        """Return visits and rewards; subclasses add next states."""
        arrays = {"counts": self.counts, "reward_sums": self.reward_sums}
        return arrays if self.stage_visits is None else {**arrays, "stage_visits": self.stage_visits}

    def load_state_dict(self, arrays: Arrays) -> None:
        """Copy what `state_dict` returned."""
        self.counts, self.reward_sums = arrays["counts"].copy(), arrays["reward_sums"].copy()
        if self.stage_visits is not None:
            self.stage_visits = arrays["stage_visits"].copy()


class TabularModel(PairCounts):
    """Counts of visits and transitions, and sums of rewards, of every pair.

    A pair that was never visited has the uniform distribution as its P̂ and 0 as its mean reward. P̂ is kept up to date
    from the time when it is first read. Arguments are those of `PairCounts`.

    Attributes:
        transitions: (B, P, S) visits by next state.

    >>> model = TabularModel(n_replicas=1, n_actions=1, n_states=2)
    >>> start = np.zeros((1, 4), dtype=int)
    >>> model.update(Steps.of(start, start, np.full((1, 4), 0.5), np.array([[1, 1, 1, 0]])))
    >>> model.counts, model.transition_mean
    (array([[4., 0.]]), array([[[0.25, 0.75], [0.5 , 0.5 ]]]))
    """

    def __init__(self, n_replicas: int, n_actions: int, n_states: int, *, horizon: int | None = None) -> None:
        super().__init__(n_replicas, n_actions, n_states, horizon=horizon)
        self.transitions = np.zeros((*self.counts.shape, n_states))
        self._mean: FloatArray | None = None

    def update(self, steps: Steps) -> None:
        """Count steps with unit rewards; the reward of a step that was not taken must be 0."""
        flat = (self._replica * self.counts.shape[1] + self.count(steps)).ravel()
        places = flat * self.n_states + steps.next_states.ravel()
        np.add.at(self.transitions.reshape(-1), places, steps.weights.ravel())
        if self._mean is not None:
            self._average(self._mean, np.unique(flat) if len(flat) > len(self.counts[0]) else flat)  # steps of a log

    @property
    def transition_mean(self) -> FloatArray:
        """P̂ of all pairs: (B, P, S)."""
        if self._mean is None:
            self._mean = np.empty(self.transitions.shape)
            self._average(self._mean, np.arange(self.counts.size))
        return self._mean

    def _average(self, mean: FloatArray, flat: IntArray) -> None:
        """Fill in P̂ of some pairs of replicas, from their counts."""
        n = self.counts.reshape(-1)[flat][:, None]
        rows = self.transitions.reshape(-1, self.n_states)[flat] / np.maximum(n, 1.0)
        rows[n[:, 0] == 0.0] = 1.0 / self.n_states
        mean.reshape(-1, self.n_states)[flat] = rows

    def next_values(self, values: FloatArray) -> FloatArray:
        """Return expected next values under P̂ of several functions, for all pairs: (B, S, k) → (B, P, k)."""
        expected: FloatArray = np.matmul(self.transition_mean, values)
        return expected

    def state_dict(self) -> Arrays:
        """Return all counts; the means follow from them."""
        return {**super().state_dict(), "transitions": self.transitions}

    def load_state_dict(self, arrays: Arrays) -> None:
        """Copy what `state_dict` returned."""
        super().load_state_dict(arrays)
        self.transitions, self._mean = arrays["transitions"].copy(), None


class ListModel(PairCounts):
    """The same counts with lists of the next states seen, whose memory and time are those of what was seen.

    Attributes:
        transitions: Counts of the next states of each pair.

    >>> model = ListModel(n_replicas=1, n_actions=1, n_states=2)
    >>> start = np.zeros((1, 4), dtype=int)
    >>> model.update(Steps.of(start, start, np.full((1, 4), 0.5), np.array([[1, 1, 1, 0]])))
    >>> model.next_value(np.array([[0.0, 1.0]]))
    array([[[0.75, 0.5 ]]])
    """

    def __init__(self, n_replicas: int, n_actions: int, n_states: int, *, horizon: int | None = None) -> None:
        super().__init__(n_replicas, n_actions, n_states, horizon=horizon)
        self.transitions = OutcomeCounts(n_replicas, n_actions * n_states, n_states)
        self._mean: tuple[SeenRows, sparse.csr_array] | None = None

    def update(self, steps: Steps) -> None:
        """Count steps with unit rewards; the reward of a step that was not taken must be 0."""
        self.transitions.add(self.count(steps), steps.next_states, steps.weights)

    def next_values(self, values: FloatArray) -> FloatArray:
        """Return expected next values under P̂ of several functions, for all pairs: (B, S, k) → (B, P, k)."""
        n_replicas, n_states, n_functions = values.shape
        seen = self.transitions.seen
        if self._mean is None or self._mean[0] is not seen:
            replica = (seen.ids // self.counts.shape[1])[seen.places]
            places = np.append(seen.firsts, len(seen.outcomes))
            entries = seen.shares, replica * n_states + seen.outcomes, places
            self._mean = seen, sparse.csr_array(entries, shape=(len(seen.ids), n_replicas * n_states))
        expected = np.repeat(values.mean(axis=1), self.counts.shape[1], axis=0)
        expected[seen.ids] = self._mean[1] @ values.reshape(-1, n_functions)
        return expected.reshape(*self.counts.shape, n_functions)

    def state_dict(self) -> Arrays:
        """Return all counts; the means follow from them."""
        lists = self.transitions.arrays()
        return {**super().state_dict(), **{f"transition_{name}": array for name, array in lists.items()}}

    def load_state_dict(self, arrays: Arrays) -> None:
        """Copy what `state_dict` returned."""
        self.transitions.restore(arrays["transition_codes"], arrays["transition_times"])
        super().load_state_dict(arrays)
        self._mean = None
