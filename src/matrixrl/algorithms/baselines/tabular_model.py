"""Visit counts of a finite problem for B replicas, and the empirical model they give."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from matrixrl.algorithms.base import Arrays
from matrixrl.linalg import OutcomeCounts, SeenRows
from matrixrl.records import FloatArray, IntArray, Steps

__all__ = ["LARGEST_TABLE", "STEPS_AT_ONCE", "PairCounts"]

STEPS_AT_ONCE = 1 << 16
"""Number of steps of a log that a baseline adds at once, where it adds them up."""

LARGEST_TABLE = 1 << 20
"""Number of entries A·S·S from which on next states are kept as lists."""


class PairCounts:
    """Visits, rewards and next states of every pair.

    P is the same at all stages, so visits at all stages count together. A pair that was never visited has the uniform
    distribution as its P̂ and 0 as its mean reward.

    With `horizon`, visits of states are counted by stage as well. With `as_lists`, next states are kept as lists of
    those seen, whose memory and time are those of what was seen; by default they are where a table would be large.

    >>> model = PairCounts(n_replicas=1, n_actions=1, n_states=2)
    >>> start = np.zeros((1, 4), dtype=int)
    >>> model.update(Steps.of(start, start, np.full((1, 4), 0.5), np.array([[1, 1, 1, 0]])))
    >>> model.counts, model.transition_mean
    (array([[4., 0.]]), array([[[0.25, 0.75], [0.5 , 0.5 ]]]))
    """

    def __init__(
        self,
        n_replicas: int,
        n_actions: int,
        n_states: int,
        *,
        horizon: int | None = None,
        as_lists: bool | None = None,
    ) -> None:
        n_pairs = n_actions * n_states
        as_lists = n_pairs * n_states >= LARGEST_TABLE if as_lists is None else as_lists
        self.n_states, self.shape = n_states, (n_replicas, n_actions, n_states)
        self.counts = np.zeros((n_replicas, n_pairs))  # visits of every pair, P = A·S
        self.reward_sums = np.zeros((n_replicas, n_pairs))  # of unit rewards
        self.stage_visits = None if horizon is None else np.zeros((n_replicas, horizon, n_states))
        self.steps_at_once = STEPS_AT_ONCE if horizon is None else 1
        self.transitions = np.zeros((n_replicas, 0 if as_lists else n_pairs, n_states))  # visits by next state
        self.lists = OutcomeCounts(n_replicas, n_pairs, n_states) if as_lists else None
        self._replica = np.arange(n_replicas)[:, None]
        self._mean: FloatArray | None = None  # P̂, kept up to date from the time when it is first read
        self._sparse_mean: tuple[SeenRows, sparse.csr_array] | None = None

    def update(self, steps: Steps) -> None:
        """Count steps with unit rewards; the reward of a step that was not taken must be 0.

        Steps of fewer replicas, each of several groups of stages, are taken apart: a group is one more replica.
        """
        shape = (len(self.counts), -1)
        pairs: IntArray = (steps.actions * self.n_states + steps.states).reshape(shape)
        following, weights = steps.next_states.reshape(shape), steps.weights.reshape(shape)
        flat = (self._replica * self.counts.shape[1] + pairs).ravel()
        # One flat index each: numpy adds at a single index about ten times faster than at several.
        np.add.at(self.counts.reshape(-1), flat, weights.ravel())
        np.add.at(self.reward_sums.reshape(-1), flat, steps.rewards.ravel())
        if self.stage_visits is not None:
            self.stage_visits[self._replica, np.arange(weights.shape[1]), steps.states] += weights
        if self.lists is not None:
            self.lists.add(pairs, following, weights)
            return
        np.add.at(self.transitions.reshape(-1), flat * self.n_states + following.ravel(), weights.ravel())
        if self._mean is not None:
            self._average(self._mean, np.unique(flat) if len(flat) > len(self.counts[0]) else flat)  # steps of a log

    @property
    def transition_mean(self) -> FloatArray:
        """P̂ of all pairs, if there are no lists: (B, P, S)."""
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
        if self.lists is None:
            expected: FloatArray = np.matmul(self.transition_mean, values)
            return expected
        n_replicas, n_states, n_functions = values.shape
        seen = self.lists.seen
        if self._sparse_mean is None or self._sparse_mean[0] is not seen:
            replica = (seen.ids // self.counts.shape[1])[seen.places]
            places = np.append(seen.firsts, len(seen.outcomes))
            entries = seen.shares, replica * n_states + seen.outcomes, places
            self._sparse_mean = seen, sparse.csr_array(entries, shape=(len(seen.ids), n_replicas * n_states))
        expected = np.repeat(values.mean(axis=1), self.counts.shape[1], axis=0)
        expected[seen.ids] = self._sparse_mean[1] @ values.reshape(-1, n_functions)
        return expected.reshape(*self.counts.shape, n_functions)

    def next_value(self, values: FloatArray) -> FloatArray:
        """Return the expected value of the next state under P̂, for all pairs: (B, S) → (B, A, S)."""
        return self.next_values(values[:, :, None]).reshape(self.shape)

    def reward_mean(self) -> FloatArray:
        """Return the mean of the observed rewards: (B, A, S)."""
        mean: FloatArray = self.reward_sums / np.maximum(self.counts, 1.0)
        return mean.reshape(self.shape)

    def visits(self) -> FloatArray:
        """Return the counts as (B, A, S)."""
        return self.counts.reshape(self.shape)

    def state_dict(self) -> Arrays:
        """Return all counts; the means follow from them."""
        arrays: Arrays = {"counts": self.counts, "reward_sums": self.reward_sums}
        if self.stage_visits is not None:
            arrays["stage_visits"] = self.stage_visits
        if self.lists is None:
            return arrays | {"transitions": self.transitions}
        return arrays | {f"transition_{name}": array for name, array in self.lists.arrays().items()}

    def load_state_dict(self, arrays: Arrays) -> None:
        if self.lists is None:
            self.transitions, self._mean = arrays["transitions"].copy(), None
        else:
            self.lists.restore(arrays["transition_codes"], arrays["transition_times"])
        self.counts, self.reward_sums = arrays["counts"].copy(), arrays["reward_sums"].copy()
        if self.stage_visits is not None:
            self.stage_visits = arrays["stage_visits"].copy()
