"""The watch over given rewards: are they the expected ones (docs/proofs.md, section 5)?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.possible import Shapes, check_range, check_whole, impossible
from matrixrl.checks import shown
from matrixrl.core.given_rewards import N_BETS, bet_limits, log_bets, log_evidence
from matrixrl.problems import Problem, Task
from matrixrl.records import BoolArray, FloatArray, IntArray, Steps

__all__ = ["GivenRewards"]

_NAMES = ("given_codes", "given_data", "given_refuted")
_COLUMNS = 2 + N_BETS  # visits, sum of unit rewards, gains of the bets


class GivenRewards:
    """Compares observed rewards with given ones, pair by pair, in B replicas.

    It watches where rewards are given for numbered states and no transition table generates them. If they are the
    expected ones, it ever refutes them with probability at most δ in each replica.

    Args:
        problem: The problem.
        n_replicas: Number of replicas B.
        delta: Probability δ of a false alarm.
        known_reward: Whether the agent is given the rewards.
        may_watch: False keeps what was found and adds nothing.

    Attributes:
        is_on: Whether rewards are watched.
        refuted: (B,) First pair whose given reward was refuted; -1 if none was. It is never taken back.
    """

    def __init__(
        self, problem: Problem, n_replicas: int, *, delta: float, known_reward: bool, may_watch: bool = True
    ) -> None:
        self._problem, self._delta = problem, delta
        self._has_rewards = known_reward and problem.kind == "finite"
        self.is_on = self._has_rewards and problem.mdp is None and may_watch
        self.refuted: IntArray = np.full(n_replicas, -1, dtype=np.int64)
        self._replica = np.arange(n_replicas)[:, None]
        self._given: FloatArray = np.empty(0)
        self._data: FloatArray = np.empty((n_replicas, 0, _COLUMNS))
        """(B, P, 2 + N_BETS) Visits, sums and gains of each pair; empty before the first reward."""

    @property
    def _task(self) -> Task:
        return self._problem.finite_task

    @property
    def _n_pairs(self) -> int:
        return self._task.n_states * self._task.n_actions

    @property
    def alarm(self) -> BoolArray:
        """Whether given rewards were refuted: (B,)."""
        found: BoolArray = self.refuted >= 0
        return found

    def add(self, steps: Steps) -> None:
        """Add the rewards of an episode in each replica and compare those pairs with what was given."""
        if not self.is_on:
            return
        self._allocate()
        rows = self._replica, np.asarray(steps.actions, dtype=np.int64) * self._task.n_states + steps.states
        given, taken = self._given[rows[1]], steps.weights > 0.0
        unit = np.clip((steps.rewards - self._task.reward_range[0]) / self._task.unit, 0.0, 1.0)
        new = np.concatenate([np.ones((*unit.shape, 1)), unit[..., None], log_bets(unit, given)], axis=-1)
        np.add.at(self._data, rows, new * steps.weights[..., None])
        found = self._evidence(self._data[rows], given, taken) > self._threshold
        if found.any():
            first = np.take_along_axis(rows[1], found.argmax(axis=1)[:, None], axis=1)[:, 0]
            self.refuted = np.where(found.any(axis=1) & ~self.alarm, first, self.refuted)

    @property
    def _threshold(self) -> float:
        """ln(P/δ): each of P pairs has its part of δ."""
        return math.log(self._n_pairs / self._delta)

    @staticmethod
    def _evidence(data: FloatArray, given: FloatArray, has_data: BoolArray) -> FloatArray:
        visits = np.where(has_data, data[..., 0], 1.0)
        found: FloatArray = log_evidence(visits, data[..., 1], data[..., 2:], given)
        return np.where(has_data, found, -np.inf)

    def _allocate(self) -> None:
        if not self._given.size:
            self._given = _unit_rewards(self._task)
            self._data = np.zeros((len(self.refuted), self._n_pairs, _COLUMNS))

    def words(self) -> str | None:
        """Return why nothing is proven any more; None if no given reward was refuted."""
        replicas = np.flatnonzero(self.alarm)
        if not len(replicas):
            return None
        b, pair = int(replicas[0]), int(self.refuted[replicas[0]])
        action, state = divmod(pair, self._task.n_states)
        visits, paid = self._data[b, pair, :2].tolist()
        mean = self._task.reward_range[0] + self._task.unit * paid / visits
        return (
            f"the given rewards are refuted: pair (state {self._problem.shown_state(state)}, action "
            f"{shown(self._problem.own_action(action))}) was given {self._task.reward[state, action]:.6g} and earned "
            f"{mean:.6g} on average in {visits:.0f} visit{'s' * (visits > 1)} (or a δ event)"
        )

    def rescale(self, problem: Problem) -> None:
        """Use another range of rewards from now on; bets are set to the least that they can have gained in it."""
        old, self._problem = self._task, problem
        if not self._given.size:
            return
        self._given = _unit_rewards(self._task)
        visits, sums = self._data[..., 0], self._data[..., 1]
        moved = sums * old.unit + (old.reward_range[0] - self._task.reward_range[0]) * visits
        self._data[..., 1] = moved / self._task.unit
        self._data[..., 2:] = bet_limits(visits, self._data[..., 1], np.broadcast_to(self._given, visits.shape))[0]

    @staticmethod
    def shapes(n_replicas: int) -> Shapes:
        """Return the shapes of `arrays` where rewards are given: lists of any length."""
        return dict(zip(_NAMES, ((None,), (None, _COLUMNS), (n_replicas,)), strict=True))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the pairs with data (n,), their data (n, 2 + N_BETS) and what was refuted (B,), for saving."""
        if not self._has_rewards:
            return {}
        flat = self._data.reshape(-1, _COLUMNS)
        codes = np.flatnonzero(flat[:, 0])
        return dict(zip(_NAMES, (codes, flat[codes], self.refuted), strict=True))

    def check(self, arrays: Mapping[str, NDArray[Any]], problem: Problem, most: int) -> None:
        """Refuse arrays that rewards of at most so many steps of a problem cannot have led to."""
        if not self._has_rewards:
            return
        codes, data, refuted = (arrays[name] for name in _NAMES)
        n_replicas, n_pairs = len(self.refuted), self._n_pairs
        fits = codes.shape == (len(data),) and data.shape[1:] == (_COLUMNS,) and refuted.shape == (n_replicas,)
        types = (codes, np.int64), (data, np.float64), (refuted, np.int64)
        if not fits or any(array.dtype != kind for array, kind in types):
            impossible("given_data", f"must have {_COLUMNS} numbers for each of the pairs in given_codes")
        if len(codes) and ((np.diff(codes) <= 0).any() or codes[0] < 0 or codes[-1] >= n_replicas * n_pairs):
            impossible("given_codes", "must be different pairs of this problem, in order")
        replica, pairs = np.divmod(codes, n_pairs)
        visits, sums = data[:, 0], data[:, 1]
        check_whole("given_data", visits)
        if (visits < 1.0).any() or (np.bincount(replica, visits, minlength=n_replicas) > most).any():
            impossible("given_data", f"must count from 1 to {most} visits")
        check_range("given_data", sums, 0.0, visits)
        given = _unit_rewards(problem.finite_task)[pairs]
        least, largest = bet_limits(visits, sums, given)
        slack = 1e-6 * (1.0 + np.abs(least) + np.abs(largest))
        if ((data[:, 2:] < least - slack) | (data[:, 2:] > largest + slack)).any():
            impossible("given_data", "must be gains of rewards with these sums")
        self._check_refuted(refuted, replica, pairs, self._evidence(data, given, visits > 0.0))

    def _check_refuted(self, refuted: IntArray, replica: IntArray, pairs: IntArray, evidence: FloatArray) -> None:
        """Refuse a refuted pair without data, and none where the evidence of a pair is beyond the threshold."""
        for b, pair in enumerate(refuted.tolist()):
            mine = replica == b
            if pair != -1 and pair not in pairs[mine]:
                impossible("given_refuted", "must be a pair with data, or -1")
            if pair == -1 and (evidence[mine] > self._threshold).any():
                impossible("given_refuted", "must be a pair, as data refute a given reward")

    def restore(self, arrays: Mapping[str, NDArray[Any]], problem: Problem) -> None:
        """Take back what `arrays` returned on a problem, whose range of rewards may be another one; it was checked."""
        if not self._has_rewards:
            return
        self._problem = problem
        codes, data, refuted = (arrays[name] for name in _NAMES)
        self.refuted = refuted.copy()
        self._given, self._data = np.empty(0), np.empty((len(refuted), 0, _COLUMNS))
        if len(codes):
            self._allocate()
            self._data.reshape(-1, _COLUMNS)[codes] = data


def _unit_rewards(task: Task) -> FloatArray:
    """Return the given rewards of all pairs a·S + s, in [0, 1]: (P,)."""
    return np.clip(task.unit_reward.T.ravel(), 0.0, 1.0)
