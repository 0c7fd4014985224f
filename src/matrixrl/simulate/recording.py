"""A video of one episode, by Gymnasium's own recorder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from matrixrl.algorithms import Algorithm
from matrixrl.envs import make
from matrixrl.errors import MissingExtra

__all__ = ["record_episode", "require_recorder"]


def require_recorder() -> None:
    """Raise a clear error, before any work is done, if videos cannot be written."""
    try:
        import moviepy  # noqa: F401
        import pygame  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            f"videos need {error.name}, which is not installed; pip install 'matrixrl[video]'"
        ) from error


def record_episode(
    algorithm: Algorithm, env: str, env_settings: dict[str, Any], folder: Path, *, trust_code: bool = False
) -> Path:
    """Play one episode as the first replica of an algorithm advises now and write it as a video; return the file."""
    require_recorder()
    world = make(env, trust_code=trust_code, **{**env_settings, "render_mode": "rgb_array"})
    problem, plan = algorithm.problem, algorithm.advice()
    prefix = env.removeprefix("gym:").replace("/", "-")
    recorder = gym.wrappers.RecordVideo(
        world, str(folder), episode_trigger=lambda _: True, name_prefix=prefix, disable_logger=True
    )
    obs, _ = recorder.reset(seed=algorithm.seeds[0])
    for stage in range(problem.task.horizon):
        state = np.asarray(problem.state("obs", obs))
        action = int(algorithm.act(plan, stage, state[None], explore=False)[0])
        obs, _, terminated, truncated, _ = recorder.step(action + problem.first_action)
        if terminated or truncated:
            break
    recorder.close()  # type: ignore[no-untyped-call]
    return folder / f"{prefix}-episode-0.mp4"
