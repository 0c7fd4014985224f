"""The alarms on rewards: learned ones that are not linear in φ, given ones that are refuted (docs/proofs.md, 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.matrix_rl.given_rewards import GivenRewards
from matrixrl.core import Clock
from matrixrl.core.models import Model
from matrixrl.problems import Problem
from matrixrl.records import BoolArray, FloatArray, IntArray, Steps

__all__ = ["RewardWatch"]


class RewardWatch:
    """Keeps visits and rewards of pairs, and compares them with what features can represent.

    Args:
        model: The model, whose bounds on learned rewards assume that they are linear in φ.
        problem: The problem.
        delta: Probability of a false alarm about given rewards.

    Attributes:
        given: What observed rewards say about given ones.
        visits: (B, P) Visits of each pair; (B, 0) if rewards are known or every pair has its own feature.
        sums: (B, P) Sums of unit rewards, likewise.
        refuted: (B,) Whether rewards have refuted that they are linear in φ; it is never taken back.
    """

    def __init__(self, model: Model, problem: Problem, *, delta: float) -> None:
        self._model, self._phi = model, model.context.features.phi
        n_replicas = model.context.n_replicas
        self.given = GivenRewards(problem, n_replicas, delta=delta, known_reward=model.context.known_reward)
        self._replica = np.arange(n_replicas)[:, None]
        self.refuted: BoolArray = np.zeros(n_replicas, dtype=np.bool_)
        self.forget()

    @property
    def _is_on(self) -> bool:
        return bool(self._model.confidence.watches_rewards)

    def forget(self) -> None:
        """Start without data; an alarm stays."""
        shape = self._model.context.n_replicas, self._phi.n_states * self._phi.n_actions if self._is_on else 0
        self.visits: FloatArray = np.zeros(shape)
        self.sums: FloatArray = np.zeros(shape)

    def add(
        self, pairs: IntArray, weights: FloatArray, paid: FloatArray, steps: Steps, *, played: int, clock: Clock
    ) -> None:
        """Add visits and unit rewards of pairs; compare them with φ after 1, 2, 3, 4, 6, 8, 12, … episodes.

        The test holds at all times, so a subset of them is valid, and the cost does not grow with the data.

        Args:
            pairs: (B, T) Visited pairs.
            weights: (B, T) 1 for a step that was taken, else 0.
            paid: (B, T) Unit rewards, 0 for a step that was not taken.
            steps: The same steps, for given rewards.
            played: Number of episodes with these.
            clock: Number of the episode and of the run.
        """
        if self._is_on:
            self.visits, self.sums = self.visits.copy(), self.sums.copy()
            np.add.at(self.visits, (self._replica, pairs), weights)
            np.add.at(self.sums, (self._replica, pairs), paid)
            if played.bit_count() == 1 or (played.bit_count() == 2 and played & (played >> 1)):
                self.compare(clock)
        self.given.add(steps)

    def compare(self, clock: Clock) -> None:
        """Compare the rewards so far with φ, and remember a refutation."""
        if self._is_on:
            self.refuted = self.contradictions(clock)

    def contradictions(self, clock: Clock) -> BoolArray:
        """Return whether rewards, now or before, refuted that they are linear in φ, or as given: (B,)."""
        if not self._is_on:
            return self.given.alarm
        now = self._model.confidence.rewards_misfit(self._phi, self.visits, self.sums, clock)
        either: BoolArray = self.refuted | now
        return either

    @property
    def alarm(self) -> BoolArray:
        """Whether a comparison refuted learned or given rewards: (B,)."""
        either: BoolArray = self.refuted | self.given.alarm
        return either

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the data and the alarms as named arrays, for saving."""
        if not self._is_on:
            return self.given.arrays()
        of_learned = {"pair_visits": self.visits, "pair_rewards": self.sums, "reward_alarm": self.refuted}
        return of_learned | self.given.arrays()

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned."""
        if self._is_on:
            self.visits, self.sums = arrays["pair_visits"].copy(), arrays["pair_rewards"].copy()
            self.refuted = arrays["reward_alarm"].copy()
        self.given.load(arrays)
