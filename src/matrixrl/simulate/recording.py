"""Videos of episodes, made with the recorder of Gymnasium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from matrixrl.agents.heeding import MaskReader, choose_among
from matrixrl.algorithms import Algorithm
from matrixrl.envs import make
from matrixrl.errors import InvalidInput, MissingExtra
from matrixrl.problems import MDPEnv
from matrixrl.problems.wrappers import current_mask

__all__ = ["make_rendered", "record_episode", "require_recorder"]


def require_recorder() -> None:
    """Raise `MissingExtra` if the packages that write videos are not installed."""
    try:
        import moviepy  # noqa: F401
        import pygame  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            f"videos need {error.name}, which is not installed; pip install 'matrixrl[video]'"
        ) from error


def make_rendered(env: str, env_settings: dict[str, Any], *, trust_code: bool = False) -> gym.Env[Any, Any]:
    """Return an environment that renders images.

    Args:
        env: Name of the environment.
        env_settings: Settings of the environment.
        trust_code: Whether the name may import code.

    Raises:
        InvalidInput: The environment cannot be rendered as images.
    """
    options = {**env_settings, "render_mode": "rgb_array"}
    try:
        made = make(env, trust_code=trust_code, **options)
        if isinstance(made, MDPEnv) and env.startswith("gym:"):  # a table cannot be rendered: use the original
            horizon = options.pop("horizon", None)
            for name in ("reward_range", "allowed", "stage_dependent", "discount", "accuracy"):
                options.pop(name, None)
            made = gym.make(env.removeprefix("gym:"), max_episode_steps=horizon, **options)
    except (InvalidInput, gym.error.Error) as error:
        raise InvalidInput(_cannot_render(env)) from error
    if made.render_mode != "rgb_array":
        made.close()
        raise InvalidInput(_cannot_render(env))
    return made


def _cannot_render(env: str) -> str:
    return f"--record must be left out for {env}, which cannot be rendered as images; got a directory. Leave it out."


def record_episode(
    algorithm: Algorithm, env: str, env_settings: dict[str, Any], folder: Path, *, trust_code: bool = False
) -> Path:
    """Play one episode with the current policy of the first replica, write it as a video and return the path.

    Args:
        algorithm: Algorithm whose policy is played, without exploration.
        env: Name of the environment.
        env_settings: Settings of the environment.
        folder: Directory of the video.
        trust_code: Whether names may import code.

    Raises:
        MissingExtra: A package that writes videos is not installed.
    """
    require_recorder()
    world = make_rendered(env, env_settings, trust_code=trust_code)
    problem, plan = algorithm.problem, algorithm.advice()
    prefix = env.removeprefix("gym:").replace("/", "-")
    recorder = gym.wrappers.RecordVideo(
        world, str(folder), episode_trigger=lambda _: True, name_prefix=prefix, disable_logger=True
    )
    obs, info = recorder.reset(seed=algorithm.seeds[0])
    masks = MaskReader(algorithm, current_mask(recorder))
    for stage in range(problem.task.horizon):
        state = np.asarray(problem.state("obs", obs))
        inner, among = int(algorithm.act(plan, stage, state[None], explore=False)[0]), masks.among(state, stage, info)
        action = problem.own_number(inner)
        if among is not None and not among[action]:
            action = choose_among(algorithm, plan, stage, state, among, explore=False)
        obs, _, terminated, truncated, info = recorder.step(problem.own_action(action))
        if terminated or truncated:
            break
    recorder.close()  # type: ignore[no-untyped-call]
    return folder / f"{prefix}-episode-0.mp4"
