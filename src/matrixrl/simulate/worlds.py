"""Worlds that replicas are played in: a known MDP for many of them at once, or a Gymnasium environment for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from gymnasium.utils import seeding as gym_seeding
from numpy.typing import NDArray

from matrixrl.agents import Agent, OpenEpisode
from matrixrl.agents.playing import first_observation, play_through
from matrixrl.algorithms import Algorithm
from matrixrl.errors import InvalidInput
from matrixrl.problems import FiniteMDP, Problem
from matrixrl.records import Steps
from matrixrl.seeding import restore, state_of, stream_from_array, stream_seed, stream_to_array

__all__ = ["EnvWorld", "TableWorld", "World"]


class World(Protocol):
    """Plays episodes of all replicas and owns the randomness of the problem."""

    def play(self, algorithm: Algorithm, plan: Any) -> Steps:
        """Play one episode in every replica."""
        ...

    def mark(self) -> Any:
        """Return the state of the random streams, to go back to."""
        ...

    def rewind(self, mark: Any) -> None:
        """Go back to what `mark` returned."""
        ...

    def to_array(self) -> NDArray[Any]:
        """Return the state of the random streams, for saving."""
        ...

    def from_array(self, array: NDArray[Any]) -> None:
        """Take the state that `to_array` returned."""
        ...


class TableWorld:
    """A known MDP, simulated for B replicas side by side.

    One uniform number for each step and one for the first state are drawn before an episode, as `MDPEnv` does.
    """

    def __init__(self, mdp: FiniteMDP, seeds: Sequence[int]) -> None:
        self._mdp = mdp
        self.streams = [gym_seeding.np_random(stream_seed(seed, "env"))[0] for seed in seeds]

    def play(self, algorithm: Algorithm, plan: Any) -> Steps:
        """Play one episode in every replica."""
        uniforms = np.stack([stream.random(self._mdp.draws_per_episode) for stream in self.streams])
        return self._mdp.rollout(uniforms, lambda h, states: algorithm.act(plan, h, states))

    def mark(self) -> list[dict[str, Any]]:
        """Return the state of every stream."""
        return [state_of(stream) for stream in self.streams]

    def rewind(self, mark: list[dict[str, Any]]) -> None:
        """Go back to what `mark` returned."""
        for stream, state in zip(self.streams, mark, strict=True):
            restore(stream, state)

    def to_array(self) -> NDArray[Any]:
        """Return the state of every stream: (B, 6)."""
        return np.stack([stream_to_array(stream) for stream in self.streams])

    def from_array(self, array: NDArray[Any]) -> None:
        """Take the states that `to_array` returned."""
        if array.shape != (len(self.streams), 6):
            raise InvalidInput("the streams of the environment must be one for each seed")
        for stream, words in zip(self.streams, array, strict=True):
            restore(stream, state_of(stream_from_array(words)))


class EnvWorld:
    """A Gymnasium environment, played by one replica."""

    def __init__(self, problem: Problem, seed: int) -> None:
        assert problem.env is not None
        self._problem, self._env, self._seed = problem, problem.env, seed
        self._is_seeded = False
        self._agent: Agent | None = None

    def play(self, algorithm: Algorithm, plan: Any) -> Steps:
        """Play one episode."""
        obs, info = first_observation(self._env, None if self._is_seeded else stream_seed(self._seed, "env"))
        self._is_seeded = True
        if self._agent is None:
            self._agent = Agent.around(algorithm)
        episode = OpenEpisode(self._agent, plan)
        play_through(episode, self._env, obs, info, self._problem.task.horizon)
        return episode.steps()

    @property
    def _stream(self) -> np.random.Generator:
        return self._env.unwrapped.np_random

    def mark(self) -> Any:
        """Return the state of the environment's stream, if it was seeded."""
        return state_of(self._stream) if self._is_seeded else None

    def rewind(self, mark: Any) -> None:
        """Go back to what `mark` returned."""
        self._is_seeded = mark is not None
        if mark is not None:
            restore(self._stream, mark)

    def to_array(self) -> NDArray[Any]:
        """Return the state of the environment's stream; empty before the first episode."""
        return stream_to_array(self._stream)[None] if self._is_seeded else np.empty((0, 6), dtype=np.uint64)

    def from_array(self, array: NDArray[Any]) -> None:
        """Take the state that `to_array` returned."""
        self._is_seeded = len(array) > 0
        if self._is_seeded:
            self._env.unwrapped.np_random = stream_from_array(array[0])
