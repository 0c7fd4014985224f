"""A finite learner that numbers only the coordinates of an observation that predict anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorecards.coordinates import narrowed, predictive_coordinates
from scorecards.numbered_states import GrowingLearner
from scorecards.probe import Seen
from scorecards.timesteps import SteppedEnv, TimeStep, reward_of

__all__ = ["FactoredLearner"]


@dataclass
class _Narrow:
    """A time step of which only some coordinates are seen."""

    observation: Any
    reward: Any
    discount: Any
    is_last: bool

    def last(self) -> bool:
        return self.is_last


class _Window:
    """An environment of which only some coordinates are seen; whole observations are kept in `seen`.

    Args:
        env: Environment.
    """

    def __init__(self, env: SteppedEnv) -> None:
        self._env = env
        self.coordinates: list[int] = []
        self.seen = Seen([])

    def action_spec(self) -> Any:
        return self._env.action_spec()

    def reset(self) -> TimeStep:
        step = self._env.reset()
        self.seen = Seen([np.array(step.observation)])
        return self._narrow(step)

    def step(self, action: int) -> TimeStep:
        step = self._env.step(action)
        self.seen.observations.append(np.array(step.observation))
        self.seen.actions.append(action)
        self.seen.rewards.append(reward_of(step))
        return self._narrow(step)

    def _narrow(self, step: TimeStep) -> TimeStep:
        part = np.asarray(step.observation).ravel()[self.coordinates]
        return _Narrow(part, step.reward, step.discount, step.last())


Start = Callable[[SteppedEnv, Sequence[Seen]], GrowingLearner]
MOST_STEPS = 50_000
"""Steps after which coordinates are not chosen again."""


class FactoredLearner:
    """Plays a finite algorithm on some coordinates, which are chosen again whenever the steps doubled.

    When the choice changes, the algorithm starts again and learns from all episodes so far.

    Args:
        env: Environment.
        start: Function that returns a learner for an environment, from episodes that were played before.
        episodes: Episodes that were played before, at random.
    """

    def __init__(self, env: SteppedEnv, start: Start, episodes: Sequence[Seen]) -> None:
        self._window, self._start = _Window(env), start
        self._episodes: list[Seen] = list(episodes)
        self._n_steps = sum(len(episode.actions) for episode in episodes)
        self.coordinates: list[int] | None = None
        self._choose()

    def play(self) -> float:
        """Play and learn one episode, and return the sum of its rewards."""
        total = self._learner.play()
        if self._next_choice <= MOST_STEPS:
            self._episodes.append(self._window.seen)
            self._n_steps += len(self._window.seen.actions)
            if self._n_steps >= self._next_choice:
                self._choose()
        return total

    def _choose(self) -> None:
        """Choose the coordinates, and start the learner again if they changed."""
        self._next_choice = 2 * self._n_steps
        chosen = predictive_coordinates(self._episodes)
        if chosen != self.coordinates:
            self.coordinates = self._window.coordinates = chosen
            self._learner = self._start(self._window, [narrowed(episode, chosen) for episode in self._episodes])
        if self._next_choice > MOST_STEPS:
            self._episodes.clear()  # they are not read again
