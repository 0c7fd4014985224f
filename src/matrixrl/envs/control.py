"""Control tasks with a declared horizon and reward range; wrappers of observations, actions and rewards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from matrixrl.checks import choice, fail, flag, integer, number, shown
from matrixrl.envs.registry import register_all
from matrixrl.errors import InvalidInput
from matrixrl.problems import known_mdp
from matrixrl.records import FloatArray
from matrixrl.spaces import BOUNDS

__all__ = [
    "CONTROL",
    "ControlEntry",
    "DeclaredRewards",
    "GridActions",
    "NoisyActions",
    "PointObservations",
    "SparseReward",
    "make_control",
]


class GridActions(gym.ActionWrapper[Any, Any, Any]):
    """Replace continuous actions by a grid of discrete ones.

    Args:
        env: Environment with bounded continuous actions.
        points: Number of grid points along each coordinate of the action.

    >>> env = GridActions(gym.make("Pendulum-v1"), points=3)
    >>> env.action(2)
    array([2.], dtype=float32)
    """

    def __init__(self, env: gym.Env[Any, Any], points: int = 5) -> None:
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, spaces.Box) or not np.isfinite([space.low, space.high]).all():
            remedy = BOUNDS if isinstance(space, spaces.Box) else "Finite actions need no grid."
            fail("env", "must have continuous actions with bounds", space, remedy)
        remedy = "Give the number of points along each coordinate of the action."
        count = integer("points", points, low=2, high=10_000, remedy=remedy)
        total = float(count) ** int(np.prod(space.shape))
        if total > 10_000:
            fail("points", "must give at most 10,000 actions", f"{total:,.0f}", "Use fewer points.")
        axes = [np.linspace(a, b, count) for a, b in zip(space.low.ravel(), space.high.ravel(), strict=True)]
        grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        self._grid = grid.reshape(-1, *space.shape).astype(space.dtype)
        self.action_space = spaces.Discrete(len(self._grid))

    def action(self, action: Any) -> Any:
        """Return the continuous action with the given number."""
        return self._grid[int(action)]


class NoisyActions(gym.Wrapper[Any, Any, Any, Any]):
    """Replace each action by a random one with a given probability, drawn from the random stream of the environment.

    Args:
        env: Environment with discrete actions, or continuous ones with bounds.
        probability: Probability that an action is replaced.
    """

    def __init__(self, env: gym.Env[Any, Any], probability: float) -> None:
        super().__init__(env)
        self._probability = number("noise", probability, low=0.0, high=1.0, remedy="Give a probability, such as 0.1.")

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take the action, or a random one."""
        rng, space = self.env.unwrapped.np_random, self.env.action_space
        if rng.random() < self._probability:
            if isinstance(space, spaces.Box):
                action = rng.uniform(space.low, space.high).astype(space.dtype)
            else:
                assert isinstance(space, spaces.Discrete)
                action = int(rng.integers(space.n)) + int(space.start)
        return self.env.step(action)


class SparseReward(gym.Wrapper[Any, Any, Any, Any]):
    """Replace the rewards by a reward of 1 when the goal is reached, and 0 otherwise.

    Args:
        env: Environment to wrap.
        goal: "terminated" (MountainCar, Acrobot), "survive" (CartPole: still up at the last step), or "upright"
            (Pendulum: within 0.2 rad and 1 rad/s, which also ends the episode).
        horizon: Steps in an episode.
        upright: Coordinates of the observation that are the cosine of the angle and the angular speed, for "upright".
    """

    reward_range = (0.0, 1.0)
    max_return = 1.0

    def __init__(self, env: gym.Env[Any, Any], goal: str, horizon: int, *, upright: tuple[int, int] = (0, 2)) -> None:
        super().__init__(env)
        self._goal = choice("goal", goal, ("terminated", "survive", "upright"))
        self._upright = upright
        self._horizon, self._steps = horizon, 0
        self.fixed_horizon = horizon if goal == "survive" else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        self._steps = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take the action and return the sparse reward in place of the reward of the environment."""
        obs, _, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        success = terminated
        if self._goal == "survive":
            success = not terminated and self._steps >= self._horizon
        elif self._goal == "upright":
            cosine, speed = (float(obs[i]) for i in self._upright)
            success = cosine > np.cos(0.2) and abs(speed) < 1.0
            terminated = terminated or success
        return obs, float(success), bool(terminated), truncated, info


class DeclaredRewards(gym.Wrapper[Any, Any, Any, Any]):
    """Declare the range of rewards, which Gymnasium documents but does not store."""

    keeps_table = True

    def __init__(self, env: gym.Env[Any, Any], reward_range: tuple[float, float]) -> None:
        super().__init__(env)
        self.reward_range = reward_range


@dataclass(frozen=True, slots=True)
class ControlEntry:
    """Describe one control task.

    Attributes:
        name: Short name.
        id: Name in Gymnasium.
        summary: One-line description.
        horizon: Steps in an episode.
        reward_range: Smallest and largest reward of a step.
        goal: Goal of the sparse form, see `SparseReward`.
        axes: Labels of the observations.
        is_box: Whether actions are continuous; the setting `torques` replaces them by a grid.
        upright: As in `SparseReward`.
    """

    name: str
    id: str
    summary: str
    horizon: int
    reward_range: tuple[float, float]
    goal: str
    axes: tuple[str, ...]
    is_box: bool = False
    upright: tuple[int, int] = (0, 2)

    @property
    def defaults(self) -> dict[str, Any]:
        """The settings with the values that they have when nothing is given."""
        shared = {"sparse": False, "noise": 0.0, "horizon": self.horizon}
        return shared | ({"torques": None} if self.is_box else {})


CONTROL: dict[str, ControlEntry] = {
    entry.name: entry
    for entry in (
        ControlEntry(
            "cart-pole",
            "CartPole-v1",
            "Balance a pole on a cart; reward 1 for every step",
            200,
            (0.0, 1.0),
            "survive",
            ("position", "speed", "angle", "angular speed"),
        ),
        ControlEntry(
            "mountain-car",
            "MountainCar-v0",
            "Drive an underpowered car up a hill; reward −1 for every step until the goal",
            200,
            (-1.0, 0.0),
            "terminated",
            ("position", "speed"),
        ),
        ControlEntry(
            "acrobot",
            "Acrobot-v1",
            "Swing a two-link robot above a line; reward −1 for every step until the goal",
            300,
            (-1.0, 0.0),
            "terminated",
            ("cos θ1", "sin θ1", "cos θ2", "sin θ2", "speed 1", "speed 2"),
        ),
        ControlEntry(
            "pendulum",
            "Pendulum-v1",
            "Swing a pendulum up and hold it, with a continuous torque; reward −θ² − 0.1 θ̇² − 0.001 u²",
            200,
            (-16.2736044, 0.0),
            "upright",
            ("cos θ", "sin θ", "speed"),
            is_box=True,
        ),
        ControlEntry(
            "mountain-car-continuous",
            "MountainCarContinuous-v0",
            "Drive an underpowered car up a hill with a continuous force; reward 100 at the goal, −0.1 u² before",
            999,
            (-0.1, 100.0),
            "terminated",
            ("position", "speed"),
            is_box=True,
        ),
        ControlEntry(
            "cart-pole-swing-up",
            "matrixrl/CartPoleSwingUp-v0",
            "Swing a pole up and hold it, with a continuous force on its cart; reward 1 if it stands in the middle",
            150,
            (0.0, 1.0),
            "upright",
            ("position", "speed", "cos θ", "sin θ", "angular speed"),
            is_box=True,
            upright=(2, 4),
        ),
    )
}
"""Control tasks by short name."""


def make_control(
    name: str,
    *,
    sparse: bool = False,
    noise: float = 0.0,
    horizon: int | None = None,
    torques: int | None = None,
    render_mode: str | None = None,
) -> gym.Env[Any, Any]:
    """Return a control task.

    Args:
        name: Key of `CONTROL`.
        sparse: Whether the reward is 1 at the goal and 0 otherwise.
        noise: Probability that an action is replaced by a random one.
        horizon: Steps in an episode; that of `CONTROL` if None.
        torques: Number of discrete actions that replace each coordinate of continuous ones; continuous if None.
        render_mode: Render mode of Gymnasium.

    Raises:
        InvalidInput: A setting is out of range, or Gymnasium cannot make the environment.

    >>> make_control("mountain-car", sparse=True).get_wrapper_attr("max_return")
    1.0
    """
    entry = CONTROL[choice("environment", name, CONTROL)]
    given, remedy = entry.horizon if horizon is None else horizon, "Give a number of steps, such as 200."
    steps = integer("horizon", given, low=1, remedy=remedy)
    flag("sparse", sparse)
    noise = number("noise", noise, low=0.0, high=1.0, remedy="Give a probability, such as 0.1.")
    if render_mode is not None and not isinstance(render_mode, str):
        fail("render_mode", "must be a name", shown(render_mode), "Such as 'rgb_array'.")
    register_all()
    own: dict[str, Any] = {"horizon": steps} if entry.id.startswith("matrixrl/") else {}
    try:
        env: gym.Env[Any, Any] = gym.make(entry.id, max_episode_steps=steps, render_mode=render_mode, **own)
    except gym.error.Error as error:
        raise InvalidInput(f"environment {name} cannot be made: {error}") from error
    if torques is not None and not entry.is_box:
        fail("torques", "is a setting of tasks with continuous actions", torques, f"{name} has its own actions.")
    if torques is not None:
        env = GridActions(env, torques)
    if noise:
        env = NoisyActions(env, noise)
    if sparse:
        return SparseReward(env, entry.goal, steps, upright=entry.upright)
    return DeclaredRewards(env, entry.reward_range)


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
