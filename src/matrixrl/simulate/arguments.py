"""What a simulation is given, checked: the seeds, and the world in any of its forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from matrixrl.checks import fail, integer
from matrixrl.envs import make
from matrixrl.problems import FiniteMDP, from_gymnasium
from matrixrl.records import FloatArray

__all__ = ["checked_seeds", "read_world"]


def checked_seeds(seeds: Sequence[int]) -> list[int]:
    """Return seeds as plain numbers, at least one and no two alike."""
    checked = [integer("seeds", s, low=0, remedy="Seeds are whole numbers.") for s in seeds]
    if not checked:
        fail("seeds", "must not be empty", "no seeds", "Give at least one seed.")
    if len(set(checked)) < len(checked):
        fail("seeds", "must differ", checked, "A repeated seed repeats the same run.")
    return checked


def read_world(
    env: str | gym.Env[Any, Any] | FiniteMDP, settings: dict[str, Any]
) -> tuple[str, FiniteMDP, FloatArray | None]:
    """Return name, MDP and, where the environment says, the places of its states."""
    if isinstance(env, str):
        made = make(env, **settings)
        return env, from_gymnasium(made), getattr(made.unwrapped, "points", None)
    if settings:
        fail("env_settings", "must be empty for an environment that is already made", settings, "Make it with them.")
    if not isinstance(env, (FiniteMDP, gym.Env)):
        fail("env", "must be a name, a Gymnasium environment or a FiniteMDP", repr(env), "See matrixrl list envs.")
    if isinstance(env, FiniteMDP):
        return "FiniteMDP", env, None
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    return name, from_gymnasium(env), getattr(env.unwrapped, "points", None)
