"""The loop between an agent and a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from threadpoolctl import threadpool_limits

from matrixrl.progress import EpisodeProgress
from matrixrl.records import Episode
from matrixrl.seeding import stream_seed

if TYPE_CHECKING:
    from matrixrl.agents.matrix_rl import MatrixRL

__all__ = ["play_episodes"]


def play_episodes(
    agent: MatrixRL,
    env: gym.Env[Any, Any],
    n_episodes: int,
    callback: Callable[[Episode], bool | None] | None,
    progress: bool,
    blas_threads: int | None,
    *,
    certify: bool = False,
    until_gap: float | None = None,
) -> None:
    """Play whole episodes; an interrupt or error leaves the agent as after the last finished one."""
    threads = nullcontext() if blas_threads is None else threadpool_limits(blas_threads)
    with threads, EpisodeProgress(agent.name, n_episodes, visible=progress) as bar:
        for _ in range(n_episodes):
            try:
                episode = _play_one(agent, env, certify=certify or until_gap is not None)
            except BaseException:
                agent.abandon_episode()
                raise
            bar.advance(f"return {episode.episode_return:.3g}")
            if callback is not None and callback(episode) is False:
                return
            reached = episode.certificate
            if until_gap is not None and reached is not None and reached.gap <= until_gap:
                return


def _play_one(agent: MatrixRL, env: gym.Env[Any, Any], *, certify: bool) -> Episode:
    seed = None if agent.env_is_seeded else stream_seed(agent.seed, "env")
    obs, _ = env.reset(seed=seed)
    agent.env_is_seeded = True
    agent.begin_episode()
    if certify and agent.running is not None:
        agent.running.certificate = agent.certificate()
    for _ in range(agent.task.horizon):
        action = agent.act(obs)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        agent.observe(obs, action, float(reward), next_obs, bool(terminated))
        obs = next_obs
        if terminated or truncated:
            break
    return agent.end_episode()
