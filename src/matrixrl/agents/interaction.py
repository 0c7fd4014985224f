"""The loop between an agent and a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from threadpoolctl import threadpool_limits

from matrixrl.errors import ProtocolError
from matrixrl.progress import EpisodeProgress
from matrixrl.records import Episode
from matrixrl.seeding import restore, state_of, stream_seed

if TYPE_CHECKING:
    from matrixrl.agents.continuous import KernelMatrixRL
    from matrixrl.agents.matrix_rl import MatrixRL

__all__ = ["play_episodes"]


def play_episodes(
    agent: MatrixRL | KernelMatrixRL,
    env: gym.Env[Any, Any],
    n_episodes: int,
    callback: Callable[[Episode], bool | None] | None,
    progress: bool,
    blas_threads: int | None,
    *,
    prepare: Callable[[Any], None] | None = None,
    until_gap: float | None = None,
) -> None:
    """Play whole episodes; an interrupt or error leaves the agent as after the last finished one.

    `prepare` is called with the first observation of each episode, once it is planned.
    """
    threads = nullcontext() if blas_threads is None else threadpool_limits(blas_threads)
    with threads, EpisodeProgress(agent.name, n_episodes, visible=progress) as bar:
        for _ in range(n_episodes):
            mark = _Mark(agent, env)
            try:
                episode = _play_one(agent, env, prepare)
            except BaseException:
                mark.rewind()
                raise
            bar.advance(f"return {episode.episode_return:.3g}")
            if callback is not None and callback(episode) is False:
                return
            reached = episode.certificate
            if until_gap is not None and reached is not None and reached.gap <= until_gap:
                return


class _Mark:
    """The random streams before an episode: an episode that is not finished leaves no trace."""

    def __init__(self, agent: MatrixRL | KernelMatrixRL, env: gym.Env[Any, Any]) -> None:
        self._agent, self._env = agent, env
        self._episode, self._seeded = agent.n_episodes, agent.env_is_seeded
        self._planning = agent.engine.planning_state()
        self._stream = state_of(env.unwrapped.np_random) if self._seeded else None

    def rewind(self) -> None:
        """Put the streams back, unless the episode was learned from after all."""
        if self._agent.n_episodes > self._episode:
            return
        self._agent.abandon_episode()
        self._agent.engine.restore_planning(self._planning)
        self._agent.env_is_seeded = self._seeded
        if self._stream is not None:
            restore(self._env.unwrapped.np_random, self._stream)


def _play_one(
    agent: MatrixRL | KernelMatrixRL, env: gym.Env[Any, Any], prepare: Callable[[Any], None] | None
) -> Episode:
    seed = None if agent.env_is_seeded else stream_seed(agent.seed, "env")
    obs, _ = env.reset(seed=seed)
    agent.env_is_seeded = True
    obs = _kept(obs)
    agent.begin_episode()
    if prepare is not None:
        prepare(obs)
    for stage in range(agent.task.horizon):
        action = agent.act(obs)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        agent.observe(obs, action, float(reward), next_obs, bool(terminated))
        obs = _kept(next_obs)
        if terminated:
            break
        if truncated and stage < agent.task.horizon - 1:
            raise ProtocolError(
                f"the environment truncated an episode after {stage + 1} steps, before the horizon of "
                f"{agent.task.horizon}; make it with a longer time limit or give a smaller horizon"
            )
    return agent.end_episode()


def _kept(obs: Any) -> Any:
    """Return an observation that the environment cannot change any more: some reuse one array."""
    return obs.copy() if isinstance(obs, np.ndarray) else obs
