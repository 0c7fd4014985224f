"""The alarms on rewards: learned ones that are not linear in φ, given ones that are refuted (docs/proofs.md, 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.finite import FiniteAlgorithm
from matrixrl.algorithms.matrix_rl.learner import MatrixRLLearner
from matrixrl.algorithms.possible import check_range, check_steps, check_whole
from matrixrl.logs import StepLog
from matrixrl.records import BoolArray, FloatArray, IntArray, Plan

__all__ = ["WATCHED", "RewardWatch"]

WATCHED = ("pair_visits", "pair_rewards", "reward_alarm")
"""Names of the arrays that are kept for the alarm."""


class RewardWatch(MatrixRLLearner, FiniteAlgorithm):
    """Keeps visits and rewards of pairs, and compares them with what features can represent.

    Attributes:
        pair_visits: (B, P) Visits of each pair; (B, 0) if rewards are known or every pair has its own feature.
        pair_rewards: (B, P) Sums of unit rewards, likewise.
        reward_alarm: (B,) Whether rewards have refuted that they are linear in φ; it is never taken back.
    """

    def begin(self) -> None:
        """Start without an alarm."""
        FiniteAlgorithm.begin(self)
        MatrixRLLearner.begin(self)
        self.reward_alarm: BoolArray = np.zeros(self.n_replicas, dtype=np.bool_)

    def forget_rewards(self) -> None:
        """Start without data; an alarm stays."""
        watched = self.task.n_states * self.task.n_actions if self.confidence.watches_rewards else 0
        self.pair_visits: FloatArray = np.zeros((self.n_replicas, watched))
        self.pair_rewards: FloatArray = np.zeros((self.n_replicas, watched))

    def watch_rewards(self, pairs: IntArray, weights: FloatArray, paid: FloatArray) -> None:
        """Add visits and unit rewards of pairs; compare them with φ after 1, 2, 3, 4, 6, 8, 12, … episodes.

        The test holds at all times, so a subset of them is valid, and the cost does not grow with the data.

        Args:
            pairs: (B, T) Visited pairs.
            weights: (B, T) 1 for a step that was taken, else 0.
            paid: (B, T) Unit rewards, 0 for a step that was not taken.
        """
        if not self.confidence.watches_rewards:
            return
        self.pair_visits, self.pair_rewards = self.pair_visits.copy(), self.pair_rewards.copy()
        np.add.at(self.pair_visits, (self._replica[:, None], pairs), weights)
        np.add.at(self.pair_rewards, (self._replica[:, None], pairs), paid)
        played = self.episode + 1
        if played.bit_count() == 1 or (played.bit_count() == 2 and played & (played >> 1)):
            self.reward_alarm = self.contradictions()

    def update_from_log(self, log: StepLog) -> None:
        """Learn from episodes that others recorded, and compare rewards with φ at the end."""
        super().update_from_log(log)
        if self.confidence.watches_rewards:
            self.reward_alarm = self.contradictions()

    def contradictions(self) -> BoolArray:
        """Return whether rewards, now or before, refuted that they are linear in φ, or as given: (B,)."""
        if not self.confidence.watches_rewards:
            return self.given.alarm
        now = self.confidence.rewards_misfit(self.features.phi, self.pair_visits, self.pair_rewards, self.clock)
        either: BoolArray = self.reward_alarm | now
        return either

    def noting_alarms(self, plan: Plan) -> Plan:
        """Return a plan that also counts the alarms on rewards, as one pair."""
        alarm = self.reward_alarm | self.given.alarm
        return replace(plan, empty=plan.empty + alarm) if alarm.any() else plan

    def watched_arrays(self) -> Arrays:
        """Return what is kept for the alarms, for saving."""
        of_learned = {name: getattr(self, name) for name in WATCHED} if self.confidence.watches_rewards else {}
        return of_learned | self.given.arrays()

    def check_watched(self, arrays: Mapping[str, NDArray[Any]], episode: int) -> None:
        """Refuse visits and rewards that so many episodes cannot have."""
        self.given.check(arrays, self.problem, episode * self.task.horizon)
        if self.confidence.watches_rewards:
            visits = arrays["pair_visits"]
            check_whole("pair_visits", visits)
            if self.settings.doubling != "restart":  # which forgets visits
                check_steps("pair_visits", visits.sum(axis=1), episode, self.task.horizon)
            check_range("pair_rewards", arrays["pair_rewards"], 0.0, visits)

    def load_watched(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `watched_arrays` returned."""
        for name in WATCHED if self.confidence.watches_rewards else ():
            setattr(self, name, arrays[name])
        self.given.restore(arrays, self.problem)
