"""KernelControl in an environment of dm_env whose observations are vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from matrixrl.agents import KernelControl
from scorecards.probe import Seen
from scorecards.timesteps import SteppedEnv, flat, number_of_actions, reward_of

__all__ = ["LONGEST_EPISODE", "SteppedGym", "VectorLearner"]

LONGEST_EPISODE = 1024
"""Time limit of every environment; bsuite's episodes end earlier by themselves."""


class SteppedGym(gym.Env[NDArray[np.float64], np.int64]):
    """An environment of dm_env as one of Gymnasium; observations are vectors without bounds.

    Args:
        env: Environment of dm_env; its random numbers are its own, so seeds are ignored.
        n_coordinates: Number of coordinates of an observation.
    """

    def __init__(self, env: SteppedEnv, n_coordinates: int) -> None:
        self._env = env
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (n_coordinates,), dtype=np.float64)
        self.action_space = gym.spaces.Discrete(number_of_actions(env))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed, options=options)
        return flat(self._env.reset()), {}

    def step(self, action: Any) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Take an action."""
        step = self._env.step(int(action))
        return flat(step), reward_of(step), step.last(), False, {}


class VectorLearner:
    """Plays KernelControl, with its one configuration, after it learned from the first random episodes.

    Args:
        env: Environment of dm_env.
        episodes: Random episodes.
        seed: Seed of the agent.
    """

    def __init__(self, env: SteppedEnv, episodes: Sequence[Seen], seed: int) -> None:
        adapter = SteppedGym(env, episodes[0].observations[0].size)
        self.agent = KernelControl(adapter, horizon=LONGEST_EPISODE, seed=seed, keep_log=False)
        self.agent.learn_from(as_log(episodes), verbose=False)

    def play(self) -> float:
        """Play and learn one episode, and return the sum of its rewards."""
        return float(self.agent.learn(n_episodes=1).returns[-1])


def as_log(episodes: Sequence[Seen]) -> dict[str, NDArray[Any]]:
    """Return episodes as the columns of a log; the last step of each is terminated."""
    lengths = [len(episode.actions) for episode in episodes]
    before = np.concatenate([np.stack(episode.observations[:-1]) for episode in episodes]).reshape(sum(lengths), -1)
    after = np.concatenate([np.stack(episode.observations[1:]) for episode in episodes]).reshape(sum(lengths), -1)
    terminated = np.zeros(sum(lengths), dtype=np.bool_)
    terminated[np.cumsum(lengths) - 1] = True
    columns: dict[str, NDArray[Any]] = {
        "episode": np.repeat(np.arange(len(lengths)), lengths),
        "action": np.concatenate([episode.actions for episode in episodes]),
        "reward": np.concatenate([episode.rewards for episode in episodes]),
        "terminated": terminated,
    }
    columns |= {f"obs_{k}": before[:, k].astype(np.float64) for k in range(before.shape[1])}
    return columns | {f"next_obs_{k}": after[:, k].astype(np.float64) for k in range(after.shape[1])}
