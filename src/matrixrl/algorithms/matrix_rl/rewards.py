"""The alarms on rewards: learned ones that are not linear in φ, given ones that are refuted (docs/proofs.md, 5)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import shown_element
from matrixrl.core import Clock
from matrixrl.core.models import Model
from matrixrl.core.rewards import N_BETS, log_bets, log_evidence, rewards_misfit
from matrixrl.errors import InvalidInput
from matrixrl.problems import Problem, Task
from matrixrl.records import BoolArray, FloatArray, IntArray, Steps

__all__ = ["GivenRewards", "RewardWatch"]

_NAMES = ("given_codes", "given_data", "given_refuted")
_ROOM = 64  # pairs that the first data have room for
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
        self._has_rewards = known_reward and problem.kind == "finite" and problem.finite_task.knows_reward
        self.is_on = self._has_rewards and problem.mdp is None and may_watch
        self.refuted: IntArray = np.full(n_replicas, -1, dtype=np.int64)
        self._replica = np.arange(n_replicas)[:, None]
        self._rows: dict[int, int] = {}
        """Row of each pair that was visited, b·P + pair, in `_data`."""
        self._data: FloatArray = np.zeros((_ROOM, _COLUMNS))
        """(n, 2 + N_BETS) Visits, sums and gains of the pairs that were visited, with room for more."""

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
        actions, taken = np.asarray(steps.actions, dtype=np.int64), steps.weights > 0.0
        pairs = actions * self._task.n_states + steps.states
        rows = self._rows_of(self._replica * self._n_pairs + pairs)
        given, unit = self._unit(self._task.reward[steps.states, actions]), self._unit(steps.rewards)
        new = np.concatenate([np.ones((*unit.shape, 1)), unit[..., None], log_bets(unit, given)], axis=-1)
        np.add.at(self._data, rows, new * steps.weights[..., None])
        data = self._data[rows]
        evidence = log_evidence(np.where(taken, data[..., 0], 1.0), data[..., 1], data[..., 2:], given)
        found = taken & (evidence > math.log(self._n_pairs / self._delta))  # each pair has its part of δ
        if found.any():
            first = np.take_along_axis(pairs, found.argmax(axis=1)[:, None], axis=1)[:, 0]
            self.refuted = np.where(found.any(axis=1) & ~self.alarm, first, self.refuted)

    def _unit(self, rewards: FloatArray) -> FloatArray:
        unit: FloatArray = np.clip((rewards - self._task.reward_range[0]) / self._task.unit, 0.0, 1.0)
        return unit

    def _rows_of(self, codes: IntArray) -> IntArray:
        """Return the rows of pairs b·P + pair (B, T), of which new ones get the next rows."""
        rows = [self._rows.setdefault(code, len(self._rows)) for code in codes.ravel().tolist()]
        more = len(self._rows) - len(self._data)
        if more > 0:
            self._data = np.append(self._data, np.zeros((more + len(self._data), _COLUMNS)), axis=0)
        return np.array(rows, dtype=np.int64).reshape(codes.shape)

    def words(self) -> str | None:
        """Return why nothing is proven any more; None if no given reward was refuted."""
        replicas = np.flatnonzero(self.alarm)
        if not len(replicas):
            return None
        b, pair = int(replicas[0]), int(self.refuted[replicas[0]])
        action, state = divmod(pair, self._task.n_states)
        visits, paid = self._data[self._rows[b * self._n_pairs + pair], :2].tolist()
        mean = self._task.reward_range[0] + self._task.unit * paid / visits
        shown_action = shown_element(self._problem.env_action(action))
        return (
            f"the given rewards are refuted: pair (state {self._problem.shown_state(state)}, action "
            f"{shown_action}) was given {self._task.reward[state, action]:.6g} and earned "
            f"{mean:.6g} on average in {visits:.0f} visit{'s' * (visits > 1)} (or a δ event)"
        )

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the pairs with data (n,), their data (n, 2 + N_BETS) and what was refuted (B,), for saving."""
        if not self._has_rewards:
            return {}
        known = [(code, row) for code, row in sorted(self._rows.items()) if self._data[row, 0]]
        codes, rows = np.array(known, dtype=np.int64).reshape(-1, 2).T
        return dict(zip(_NAMES, (codes.copy(), self._data[rows], self.refuted), strict=True))

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned."""
        if not self._has_rewards:
            return
        codes, data, refuted = (arrays[name] for name in _NAMES)
        n_codes = len(refuted) * self._n_pairs
        if len(codes) != len(data) or (len(codes) and not 0 <= codes.min() <= codes.max() < n_codes):
            raise InvalidInput("given_codes must be pairs of this problem, with data for each")
        if not (refuted < self._n_pairs).all():
            raise InvalidInput("given_refuted must be pairs of this problem")
        self.refuted = refuted.copy()
        self._rows, self._data = {}, np.zeros((_ROOM, _COLUMNS))
        self._data[self._rows_of(codes)] = data


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

    def add(self, steps: Steps, pairs: IntArray, unit: FloatArray, *, played: int, clock: Clock) -> None:
        """Add steps, with their pairs and unit rewards (B, T); compare them with φ after 1, 2, 3, 4, 6, 8, … episodes.

        The test holds at all times, so a subset of them is valid, and the cost does not grow with the data.
        """
        if self._is_on:
            self.visits, self.sums = self.visits.copy(), self.sums.copy()
            np.add.at(self.visits, (self._replica, pairs), steps.weights)
            np.add.at(self.sums, (self._replica, pairs), unit * steps.weights)
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
        delta = self._model.confidence.delta / (2.0 * clock.shares)  # the alarm on laws has the other half
        either: BoolArray = self.refuted | rewards_misfit(self._phi, self.visits, self.sums, delta=delta)
        return either

    @property
    def alarm(self) -> BoolArray:
        """Whether a comparison refuted learned or given rewards: (B,)."""
        either: BoolArray = self.refuted | self.given.alarm
        return either

    def words(self) -> str | None:
        """Return why nothing is proven any more; None if no given reward was refuted."""
        return self.given.words()

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the data and the alarms as named arrays, for saving."""
        if not self._is_on:
            return self.given.state_dict()
        of_learned = {"pair_visits": self.visits, "pair_rewards": self.sums, "reward_alarm": self.refuted}
        return of_learned | self.given.state_dict()

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned."""
        if self._is_on:
            self.visits, self.sums = arrays["pair_visits"].copy(), arrays["pair_rewards"].copy()
            self.refuted = arrays["reward_alarm"].copy()
        self.given.load_state_dict(arrays)
