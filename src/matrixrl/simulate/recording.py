"""A video of one episode, by Gymnasium's own recorder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from matrixrl.agents import KernelMatrixRL
from matrixrl.envs import make_continuous
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


def record_episode(agent: KernelMatrixRL, env: str, env_settings: dict[str, Any], folder: Path) -> Path:
    """Play one episode as the agent advises now and write it as a video into a folder; return the file."""
    require_recorder()
    world = make_continuous(env, **{**env_settings, "render_mode": "rgb_array"})
    prefix = env.removeprefix("gym:").replace("/", "-")
    recorder = gym.wrappers.RecordVideo(
        world, str(folder), episode_trigger=lambda _: True, name_prefix=prefix, disable_logger=True
    )
    obs, _ = recorder.reset(seed=agent.seed)
    for stage in range(agent.task.horizon):
        obs, _, terminated, truncated, _ = recorder.step(agent.predict(np.asarray(obs), stage))
        if terminated or truncated:
            break
    recorder.close()  # type: ignore[no-untyped-call]
    return folder / f"{prefix}-episode-0.mp4"
