"""A finite environment seen as places: vectors instead of state numbers."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from matrixrl.checks import fail
from matrixrl.problems import known_mdp
from matrixrl.records import FloatArray

__all__ = ["PointObservations"]


class PointObservations(gym.ObservationWrapper[Any, Any, Any]):
    """Shows where a state lies in place of its number, so that agents of continuous states can play it.

    The MDP stays known, and with it the exact regret of every episode.

    Args:
        env: an environment of ours that says where its states lie (`points`): grid-world, double-integrator.

    >>> from matrixrl.envs import GridWorld
    >>> PointObservations(GridWorld(3)).reset(seed=0)[0]
    array([-1., -1.])
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        mdp, points = known_mdp(env), getattr(env.unwrapped, "points", None)
        if mdp is None or points is None:
            name = type(env.unwrapped).__name__
            fail("env", "must be a finite environment that says where its states lie", name, "Try grid-world.")
        self.observation_points: FloatArray = points
        self.reward_range = mdp.task.reward_range
        self.observation_space = spaces.Box(points.min(axis=0), points.max(axis=0), dtype=np.float64)

    def observation(self, observation: Any) -> FloatArray:
        """Return the place of a state."""
        place: FloatArray = self.observation_points[int(observation)]
        return place
