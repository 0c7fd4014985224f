"""Visit counts of a finite problem for B replicas, the empirical model they give, and the baselines that use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.baselines.base import STEPS_AT_ONCE, Baseline
from matrixrl.algorithms.possible import Shapes, check_range, check_steps, check_whole
from matrixrl.core.greedy import lowest_first
from matrixrl.linalg import OutcomeCounts, SeenRows
from matrixrl.problems import Problem
from matrixrl.records import FloatArray, IntArray, Plan, Steps

__all__ = ["ListModel", "TabularBaseline", "TabularModel"]


class PairCounts:
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
    """

    def __init__(self, n_replicas: int, n_actions: int, n_states: int, horizon: int | None) -> None:
        self.n_states = n_states
        n_pairs = n_actions * n_states
        self.shape = (n_replicas, n_actions, n_states)
        self.counts = np.zeros((n_replicas, n_pairs))
        self.reward_sums = np.zeros((n_replicas, n_pairs))
        self.stage_visits = None if horizon is None else np.zeros((n_replicas, horizon, n_states))
        self._replica = np.arange(n_replicas)[:, None]

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

    def pair_arrays(self) -> dict[str, NDArray[Any]]:
        """Return visits and rewards."""
        arrays = {"counts": self.counts, "reward_sums": self.reward_sums}
        return arrays if self.stage_visits is None else {**arrays, "stage_visits": self.stage_visits}

    def restore_pairs(self, arrays: dict[str, NDArray[Any]], followed: FloatArray) -> None:
        """Take back what `pair_arrays` returned.

        Args:
            arrays: The arrays.
            followed: (B, P) Number of next states that were counted.

        Raises:
            InvalidInput, ValueError: Counts are not the sums of transitions, or rewards are not in [0, 1].
        """
        counts = arrays["counts"]
        if not np.array_equal(followed, counts):
            raise ValueError("counts and transitions do not belong together")
        check_range("reward_sums", arrays["reward_sums"], 0.0, counts)
        if self.stage_visits is not None:
            visits = arrays["stage_visits"]
            check_whole("stage_visits", visits)
            if not np.array_equal(visits.sum(axis=1), counts.reshape(self.shape).sum(axis=1)):
                raise ValueError("stage_visits do not belong to the counts")
            self.stage_visits = visits.copy()
        self.counts, self.reward_sums = counts.copy(), arrays["reward_sums"].copy()


class TabularModel(PairCounts):
    """Counts of visits and transitions, and sums of rewards, of every pair.

    A pair that was never visited has the uniform distribution as its P̂ and 0 as its mean reward.

    Args:
        n_replicas: Number of replicas B.
        n_actions: Number of actions A.
        n_states: Number of states S.
        horizon: Horizon H, to count visits by stage as well.
        empirical: Whether P̂ is kept up to date; False saves the work where it is not read.

    Attributes:
        transitions: (B, P, S) visits by next state.
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
        super().__init__(n_replicas, n_actions, n_states, horizon)
        self.transitions = np.zeros((*self.counts.shape, n_states))
        self.transition_mean: FloatArray = np.full(self.transitions.shape if empirical else (0,), 1.0 / n_states)
        self._keeps_mean = empirical

    def update(self, steps: Steps) -> None:
        """Count steps with unit rewards; the reward of a step that was not taken must be 0."""
        flat = (self._replica * self.counts.shape[1] + self.count(steps)).ravel()
        places = flat * self.n_states + steps.next_states.ravel()
        np.add.at(self.transitions.reshape(-1), places, steps.weights.ravel())
        if self._keeps_mean:
            flat = np.unique(flat) if len(flat) > len(self.counts[0]) else flat  # steps of a log
            n = self.counts.reshape(-1)[flat][:, None]
            rows = self.transitions.reshape(-1, self.n_states)[flat] / np.maximum(n, 1.0)
            rows[n[:, 0] == 0.0] = 1.0 / self.n_states
            self.transition_mean.reshape(-1, self.n_states)[flat] = rows  # only visited rows change

    def next_values(self, values: FloatArray) -> FloatArray:
        """Return expected next values under P̂ of several functions, for all pairs: (B, S, k) → (B, P, k)."""
        expected: FloatArray = np.matmul(self.transition_mean, values)
        return expected

    def next_value(self, values: FloatArray) -> FloatArray:
        """Return the expected value of the next state under P̂, for all pairs: (B, S) → (B, A, S)."""
        return self.next_values(values[:, :, None]).reshape(self.shape)

    def expectation(self) -> Callable[[FloatArray], FloatArray]:
        """Return `next_value`, whether P̂ is kept up to date or not."""
        law, shape = self.law(), self.shape
        return lambda values: np.matmul(law, values[:, :, None]).reshape(shape)

    def law(self) -> FloatArray:
        """Return P̂ from the counts, whether it is kept up to date or not: (B, P, S)."""
        law: FloatArray = self.transitions / np.maximum(self.counts, 1.0)[:, :, None]
        law[self.counts == 0.0] = 1.0 / self.n_states
        return law

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all counts; the means follow from them."""
        return {**self.pair_arrays(), "transitions": self.transitions}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned.

        Raises:
            InvalidInput, ValueError: Counts are not the sums of transitions, or rewards are not in [0, 1].
        """
        transitions = arrays["transitions"]
        check_whole("transitions", transitions)
        self.restore_pairs(arrays, transitions.sum(axis=2))
        self.transitions = transitions.copy()
        if self._keeps_mean:
            self.transition_mean = self.law()


class ListModel(PairCounts):
    """The same counts with lists of the next states seen, whose memory and time are those of what was seen.

    Args:
        n_replicas: Number of replicas B.
        n_actions: Number of actions A.
        n_states: Number of states S.
        horizon: Horizon H, to count visits by stage as well.

    Attributes:
        transitions: Counts of the next states of each pair.

    >>> model = ListModel(n_replicas=1, n_actions=1, n_states=2)
    >>> start = np.zeros((1, 4), dtype=int)
    >>> model.update(Steps.of(start, start, np.full((1, 4), 0.5), np.array([[1, 1, 1, 0]])))
    >>> model.next_value(np.array([[0.0, 1.0]]))
    array([[[0.75, 0.5 ]]])
    """

    def __init__(self, n_replicas: int, n_actions: int, n_states: int, *, horizon: int | None = None) -> None:
        super().__init__(n_replicas, n_actions, n_states, horizon)
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

    def next_value(self, values: FloatArray) -> FloatArray:
        """Return the expected value of the next state under P̂, for all pairs: (B, S) → (B, A, S)."""
        return self.next_values(values[:, :, None]).reshape(self.shape)

    def expectation(self) -> Callable[[FloatArray], FloatArray]:
        """Return `next_value`."""
        return self.next_value

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all counts; the means follow from them."""
        lists = self.transitions.arrays()
        return {**self.pair_arrays(), **{f"transition_{name}": array for name, array in lists.items()}}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned.

        Raises:
            InvalidInput, ValueError: Counts are not the sums of transitions, or rewards are not in [0, 1].
        """
        check_whole("transition_times", arrays["transition_times"])
        mine = self.transitions
        read = OutcomeCounts(mine.n_replicas, mine.n_rows, mine.n_outcomes)
        read.restore(arrays["transition_codes"], arrays["transition_times"])
        self.restore_pairs(arrays, read.totals())
        self.transitions, self._mean = read, None


class TabularBaseline(Baseline):
    """A baseline that learns a `TabularModel`.

    Attributes:
        model: What was counted; lists where a table would be large.
        reads_mean: Whether P̂ is read.
        largest_table: Number of entries A·S·S from which on next states are kept as lists; None always keeps a table.
    """

    learned_parts = ("model",)
    list_names = ("transition_codes", "transition_times")
    reads_mean: ClassVar[bool] = True
    largest_table: ClassVar[int | None] = 1 << 20
    model: TabularModel | ListModel

    def begin(self) -> None:
        """Allocate the counts."""
        super().begin()
        task = self.task
        horizon = task.horizon if self.counts_stages else None
        sizes = (self.n_replicas, task.n_actions, task.n_states)
        if self._keeps_lists(self.problem):
            self.model = ListModel(*sizes, horizon=horizon)
        else:
            self.model = TabularModel(*sizes, horizon=horizon, empirical=self.reads_mean)

    def _keeps_lists(self, problem: Problem) -> bool:
        task, largest = problem.finite_task, self.largest_table
        return largest is not None and task.n_actions * task.n_states**2 >= largest

    def learned_shapes(self, problem: Problem, n_replicas: int) -> Shapes:
        """Return the shapes of the counts."""
        task = problem.finite_task
        n_pairs = task.n_actions * task.n_states
        pairs = (n_replicas, n_pairs)
        shapes: Shapes = {"counts": pairs, "reward_sums": pairs}
        if self._keeps_lists(problem):
            shapes |= dict.fromkeys(self.list_names, (None,))
        else:
            shapes["transitions"] = (*pairs, task.n_states)
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
        reward, next_value = self.mean_reward(), self.model.expectation()
        rankings = lowest_first(self.task.n_actions, self.n_replicas)
        return self.induct(lambda _, values: reward + next_value(values), rankings=rankings)

    def learn_episode(self, steps: Steps) -> None:
        """Count the steps of one episode."""
        self.model.update(steps)
