"""The loop between an agent and a Gymnasium environment."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from matrixrl.checks import fail, flag, real_numbers, shown
from matrixrl.errors import ProtocolError
from matrixrl.progress import EpisodeProgress
from matrixrl.records import Episode
from matrixrl.seeding import restore, state_of, stream_seed
from matrixrl.threads import limited_threads

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent
    from matrixrl.agents.episodes import OpenEpisode

_LOOK_GROWTH = 1.02  # of the number of episodes between two looks at the gap: it falls like 1/√n

__all__ = ["first_observation", "play_episodes", "play_through", "take_step"]


def play_episodes(
    agent: Agent,
    env: gym.Env[Any, Any],
    n_episodes: int,
    *,
    callback: Callable[[Episode], bool | None] | None = None,
    progress: bool = False,
    blas_threads: int | None = 1,
    certify: bool = False,
    until_gap: float | None = None,
) -> None:
    """Play whole episodes; an interrupt or an error leaves the agent as after the last finished one."""
    next_look = agent.n_episodes + 1
    with limited_threads(blas_threads), EpisodeProgress(agent.algorithm.name, n_episodes, visible=progress) as bar:
        for _ in range(n_episodes):
            mark = _Mark(agent, env)
            try:
                episode = _play_one(agent, env, certify)
            except BaseException as error:
                mark.rewind(error)
                raise
            bar.advance(f"return {episode.episode_return:.3g}")
            if callback is not None and callback(episode) is False:
                return
            if until_gap is not None and agent.n_episodes >= next_look:
                shown_bounds = agent.recommend().certificate
                if shown_bounds.guarantee is True and shown_bounds.gap <= until_gap:
                    return
                next_look = max(agent.n_episodes + 1, int(agent.n_episodes * _LOOK_GROWTH))


class _Mark:
    """The random streams before an episode, so that an episode that is not finished leaves no trace."""

    def __init__(self, agent: Agent, env: gym.Env[Any, Any]) -> None:
        self._agent, self._env = agent, env
        self._episode, self._seeded = agent.n_episodes, agent._env_is_seeded
        self._first_state = agent._first_state
        self._planning = agent.algorithm.mark()
        self._stream = state_of(env.unwrapped.np_random) if self._seeded else None

    def rewind(self, error: BaseException) -> None:
        """Go back, unless the episode was learned from; an error may be due to what was observed."""
        if self._agent.n_episodes > self._episode:
            return
        for episode in self._agent.open_episodes:
            if isinstance(error, Exception):
                self._agent._note_selection(f"an episode ended in an error after {episode.stage} of its steps")
            self._agent._abandon(episode)
        self._agent.algorithm.rewind(self._planning)
        self._agent._env_is_seeded, self._agent._first_state = self._seeded, self._first_state
        if self._stream is not None:
            restore(self._env.unwrapped.np_random, self._stream)


def _play_one(agent: Agent, env: gym.Env[Any, Any], certify: bool) -> Episode:
    obs = first_observation(env, None if agent._env_is_seeded else stream_seed(agent.seed, "env"))
    agent._env_is_seeded = True
    episode = agent.begin_episode()
    if certify:
        agent._certify_from(episode, obs)
    play_through(episode, env, obs, agent.problem.task.horizon)
    return episode.end()


def first_observation(env: gym.Env[Any, Any], seed: int | None) -> Any:
    """Reset an environment and return its first observation, as it was then."""
    answer: Any = env.reset(seed=seed)
    if not isinstance(answer, tuple) or len(answer) != 2:
        fail("env.reset", "must return (observation, info)", shown(answer), "Follow the interface of gymnasium.Env.")
    return _kept(answer[0])


def take_step(env: gym.Env[Any, Any], action: Any) -> tuple[Any, Any, bool, bool]:
    """Take an action and return next observation, reward, terminated and truncated, checked as far as they can be."""
    answer: Any = env.step(action)
    if not isinstance(answer, tuple) or len(answer) != 5:
        rule = "must return (observation, reward, terminated, truncated, info)"
        fail("env.step", rule, shown(answer), "Follow the interface of gymnasium.Env.")
    next_obs, reward, terminated, truncated, _ = answer
    if isinstance(reward, (bool, np.bool_)) or (isinstance(reward, np.ndarray) and reward.size == 1):
        numbers = real_numbers(reward).ravel()
        reward = float(numbers[0]) if len(numbers) else reward
    remedy = "env.step returns it."
    return next_obs, reward, flag("terminated", terminated, remedy=remedy), flag("truncated", truncated, remedy=remedy)


def play_through(episode: OpenEpisode, env: gym.Env[Any, Any], obs: Any, horizon: int) -> None:
    """Play an episode in an environment from its first observation to its last step."""
    obs = _kept(obs)
    for stage in range(horizon):
        action = episode.act(obs)
        next_obs, reward, terminated, truncated = take_step(env, action)
        episode.observe(obs, action, reward, next_obs, terminated)
        obs = _kept(next_obs)
        if terminated:
            return
        if truncated and stage < horizon - 1:
            raise ProtocolError(
                f"the environment truncated an episode after {stage + 1} steps, before the horizon of {horizon}; "
                "make it with a longer time limit or give a smaller horizon"
            )


def _kept(obs: Any) -> Any:
    """Return an observation that the environment cannot change any more: some reuse one array or dictionary."""
    return copy.deepcopy(obs) if isinstance(obs, (np.ndarray, tuple, list, dict)) else obs
