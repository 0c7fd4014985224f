"""Observe the coordinates of a state instead of its number."""

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
    """Replace the number of a state by its coordinates, so that agents for continuous states can play.

    The MDP is still known, so that the exact regret of every episode can be computed.

    Args:
        env: Environment of matrixrl with coordinates of its states (`points`): grid-world, double-integrator.

    Attributes:
        observation_points: Coordinates of every state, shape (S, p).

    Raises:
        InvalidInput: The environment is not finite, or has no coordinates.

    >>> from matrixrl.envs import GridWorld
    >>> PointObservations(GridWorld(3)).reset(seed=0)[0]
    array([-1., -1.])
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        mdp, points = known_mdp(env), getattr(env.unwrapped, "points", None)
        if mdp is None or points is None:
            name = type(env.unwrapped).__name__
            fail("env", "must be a finite environment with coordinates of its states (points)", name, "Try grid-world.")
        self.observation_points: FloatArray = points
        self.reward_range = mdp.task.reward_range
        self.observation_space = spaces.Box(points.min(axis=0), points.max(axis=0), dtype=np.float64)

    def observation(self, observation: Any) -> FloatArray:
        """Return the coordinates of a state, shape (p,)."""
        point: FloatArray = self.observation_points[int(observation)]
        return point
