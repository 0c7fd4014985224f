"""The loop between an agent and a Gymnasium environment."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import gymnasium as gym
import numpy as np

from matrixrl.agents.heeding import MaskReader
from matrixrl.checks import fail, flag, real_numbers, shown
from matrixrl.errors import ProtocolError
from matrixrl.problems import MDPEnv
from matrixrl.problems.wrappers import current_mask
from matrixrl.progress import EpisodeProgress
from matrixrl.records import Episode
from matrixrl.seeding import restore, state_of, stream_seed
from matrixrl.threads import limited_threads

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent
    from matrixrl.agents.episodes import OpenEpisode

_LOOK_GROWTH = 1.02  # of the number of episodes between two looks at the gap: it falls like 1/√n

__all__ = ["Audience", "first_observation", "kept", "play_episodes", "play_through", "refuse_truncation", "take_step"]


class Audience:
    """Those who follow the episodes of `Agent.learn`: the bar, the callback, and the gap to stop at.

    Args:
        agent: The agent.
        bar: Progress bar.
        callback: Called with each episode; returning False stops.
        until_gap: Gap of the recommended policy to stop at.
    """

    def __init__(
        self,
        agent: Agent,
        bar: EpisodeProgress,
        callback: Callable[[Episode], bool | None] | None,
        until_gap: float | None,
    ) -> None:
        self._agent, self._bar, self._callback, self._until_gap = agent, bar, callback, until_gap
        self._next_look = agent.n_episodes + 1

    def goes_on(self, episode: Episode) -> bool:
        """Show an episode that was learned from, and say whether to begin more."""
        self._bar.advance(f"return {episode.episode_return:.3g}")
        if self._callback is not None and self._callback(episode) is False:
            return False
        if self._until_gap is None or self._agent.n_episodes < self._next_look:
            return True
        _, found = self._agent._safest()
        self._next_look = max(self._agent.n_episodes + 1, int(self._agent.n_episodes * _LOOK_GROWTH))
        return not (found.guarantee is True and found.gap <= self._until_gap)


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
    with limited_threads(blas_threads), EpisodeProgress(agent.algorithm.name, n_episodes, visible=progress) as bar:
        audience = Audience(agent, bar, callback, until_gap)
        for _ in range(n_episodes):
            mark = _Mark(agent, env)
            try:
                episode = _play_one(agent, env, certify)
            except BaseException as error:
                mark.rewind(error)
                raise
            if not audience.goes_on(episode):
                return


class _Mark:
    """The random streams before an episode, so that an episode that is not finished leaves no trace."""

    def __init__(self, agent: Agent, env: gym.Env[Any, Any]) -> None:
        self._agent, self._env = agent, env
        self._episode, self._seeded = agent.n_episodes, agent._env_is_seeded
        self._planning = agent.algorithm.mark()
        self._stream = state_of(env.unwrapped.np_random) if self._seeded else None

    def rewind(self, error: BaseException) -> None:
        """Go back, unless the episode was learned from; an error may be due to what was observed."""
        if self._agent.n_episodes > self._episode:
            return
        self._agent._drop_episodes(error)
        self._agent.algorithm.rewind(self._planning)
        self._agent._env_is_seeded = self._seeded
        if self._stream is not None:
            restore(self._env.unwrapped.np_random, self._stream)


def _play_one(agent: Agent, env: gym.Env[Any, Any], certify: bool) -> Episode:
    obs, info = first_observation(env, None if agent._env_is_seeded else stream_seed(agent.seed, "env"))
    agent._env_is_seeded = True
    agent._first.check(agent.problem.state("obs", obs))  # before anything is begun
    episode = agent.begin_episode()
    episode._is_drawn = draws_first_states(env)
    if certify:
        agent._certify(episode, obs)
    play_through(episode, env, obs, info, agent.problem.task.horizon)
    return agent.end_episode()


def draws_first_states(env: gym.Env[Any, Any]) -> bool:
    """Say whether an environment is an `MDPEnv`, which draws first states from the start of its MDP."""
    own = env.unwrapped
    return isinstance(own, MDPEnv) and type(own).reset is MDPEnv.reset


def first_observation(env: gym.Env[Any, Any], seed: int | None) -> tuple[Any, Any]:
    """Reset an environment and return its first observation, as it was then, and the info."""
    answer: Any = env.reset(seed=seed)
    if not isinstance(answer, tuple) or len(answer) != 2:
        fail("env.reset", "must return (observation, info)", shown(answer), "Follow the interface of gymnasium.Env.")
    return kept(answer[0]), answer[1]


def take_step(env: gym.Env[Any, Any], action: Any) -> tuple[Any, Any, bool, bool, Any]:
    """Take an action and return next observation, reward, terminated, truncated and info, checked where they can be."""
    answer: Any = env.step(action)
    if not isinstance(answer, tuple) or len(answer) != 5:
        rule = "must return (observation, reward, terminated, truncated, info)"
        fail("env.step", rule, shown(answer), "Follow the interface of gymnasium.Env.")
    next_obs, reward, terminated, truncated, info = answer
    if isinstance(reward, (bool, np.bool_)) or (isinstance(reward, np.ndarray) and reward.size == 1):
        numbers = real_numbers(reward).ravel()
        reward = float(numbers[0]) if len(numbers) else reward
    remedy = "env.step returns it."
    ended, cut = flag("terminated", terminated, remedy=remedy), flag("truncated", truncated, remedy=remedy)
    return next_obs, reward, ended, cut, info


def play_through(episode: OpenEpisode, env: gym.Env[Any, Any], obs: Any, info: Any, horizon: int) -> None:
    """Play an episode in an environment from its first observation, and the info with it, to its last step."""
    obs, masks = kept(obs), MaskReader(episode.algorithm, current_mask(env))
    for stage in range(horizon):
        action = episode.act_in_environment(obs, info, masks)
        next_obs, reward, terminated, truncated, info = take_step(env, action)
        episode.observe(obs, action, reward, next_obs, terminated)
        obs = kept(next_obs)
        if terminated:
            return
        if truncated and stage < horizon - 1:
            refuse_truncation(stage + 1, horizon)
    masks.note_last(episode._next_states[-1], info)


def refuse_truncation(n_steps: int, horizon: int) -> NoReturn:
    """Raise the error of an environment that truncates an episode before the horizon."""
    raise ProtocolError(
        f"the environment truncated an episode after {n_steps} steps, before the horizon of {horizon}; "
        "make it with a longer time limit or give a smaller horizon"
    )


def kept(obs: Any) -> Any:
    """Return an observation that the environment cannot change any more: some reuse one array or dictionary."""
    return copy.deepcopy(obs) if isinstance(obs, (np.ndarray, tuple, list, dict)) else obs
