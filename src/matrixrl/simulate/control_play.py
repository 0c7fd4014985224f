"""One seed of an agent on a control task, as columns of numbers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from matrixrl.agents import KernelMatrixRL
from matrixrl.checks import choice
from matrixrl.envs import make_continuous
from matrixrl.records import Episode, FloatArray
from matrixrl.seeding import generator, stream_seed

__all__ = ["CONTROL_AGENTS", "ControlSeed", "play_control"]

_RANDOM = "random"
CONTROL_AGENTS = (KernelMatrixRL.name, _RANDOM)
"""Agents that play continuous states."""


@dataclass(frozen=True)
class ControlSeed:
    """What one seed did.

    Attributes:
        returns: (N,).
        seconds: (N,) planning included.
        horizon: H.
        guarantee: why nothing is proven.
        kept_bytes: what the agent has learned, in bytes.
    """

    returns: FloatArray
    seconds: FloatArray
    horizon: int
    guarantee: str
    kept_bytes: int


def play_control(
    env: str, env_settings: dict[str, Any], agent: str, settings: dict[str, Any], *, n_episodes: int, seed: int
) -> ControlSeed:
    """Play N episodes of one seed.

    >>> played = play_control("cart-pole", {}, "random", {}, n_episodes=3, seed=0)
    >>> played.returns.shape, played.horizon
    ((3,), 200)
    """
    world = make_continuous(env, **env_settings)
    returns, clock = np.zeros(n_episodes), np.zeros(n_episodes + 1)
    clock[0] = time.perf_counter()

    def record(episode: Episode) -> None:
        returns[episode.index] = episode.episode_return
        clock[episode.index + 1] = time.perf_counter()

    # None must not hide the value that a task declares
    given = {key: value for key, value in settings.items() if value is not None}
    is_random = choice("agent", agent, CONTROL_AGENTS) == _RANDOM
    learner = KernelMatrixRL(world, seed=seed, **({} if is_random else given))  # it reads the horizon in any case
    horizon = learner.task.horizon
    if is_random:
        _play_at_random(world, horizon, seed, returns, clock)
        return ControlSeed(returns, np.diff(clock), horizon, "random play learns nothing", 0)
    learner.learn(n_episodes, callback=record)
    kept = sum(array.nbytes for array in learner.engine.arrays().values())
    return ControlSeed(returns, np.diff(clock), horizon, learner.guarantee, kept)


def _play_at_random(world: gym.Env[Any, Any], horizon: int, seed: int, returns: FloatArray, clock: FloatArray) -> None:
    rng = generator(seed, "agent")
    count = int(world.action_space.n)  # type: ignore[attr-defined]  # KernelMatrixRL has refused other spaces
    for n in range(len(returns)):
        world.reset(seed=stream_seed(seed, "env") if n == 0 else None)
        for _ in range(horizon):
            _, reward, terminated, truncated, _ = world.step(int(rng.integers(count)))
            returns[n] += float(reward)
            if terminated or truncated:
                break
        clock[n + 1] = time.perf_counter()
