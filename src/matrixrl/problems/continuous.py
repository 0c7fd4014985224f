"""Problems with vectors as observations: what an agent needs to know of such a Gymnasium environment."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from matrixrl.checks import fail, fits_memory, integer, number, real_numbers, shown, users_stacklevel
from matrixrl.coding import BoxCodec, Codec
from matrixrl.errors import MatrixRLWarning
from matrixrl.problems.spaces import codec_of, space_remedy
from matrixrl.problems.wrappers import may_change_rewards, time_limit
from matrixrl.records import FloatArray

__all__ = ["USUAL_HORIZON", "ContinuousTask", "control_codec", "declared_range", "read_continuous"]

_KNOWN_REWARDS = {
    "CartPole-v0": (0.0, 1.0),
    "CartPole-v1": (0.0, 1.0),
    "MountainCar-v0": (-1.0, 0.0),
    "Acrobot-v1": (-1.0, 0.0),
}
"""Ranges of the reward of a step that Gymnasium documents but does not declare."""

USUAL_HORIZON = 200
"""Steps in an episode of an environment that declares no time limit, if none is given."""


@dataclass(frozen=True)
class ContinuousTask:
    """Description of a problem with vectors as observations, as far as an agent may know it.

    Attributes:
        n_coordinates: Length p of an observation.
        low: (p,) lower bounds of observations.
        high: (p,) upper bounds of observations.
        n_actions: Number of actions A.
        horizon: Number of steps H of an episode.
        reward_range: Declared range of the reward of a step; None if it follows from what is seen, starting at [0, 1].
        max_return: Largest return of an episode, where the environment declares it.
        is_declared: Whether the environment itself declares the range of rewards.
    """

    n_coordinates: int
    low: FloatArray
    high: FloatArray
    n_actions: int
    horizon: int
    reward_range: tuple[float, float] | None
    max_return: float | None
    is_declared: bool = True

    def state(self, name: str, obs: Any) -> FloatArray:
        """Return an observation as a vector of its own, or refuse it."""
        vector = real_numbers(obs)  # a copy: environments may change it in place
        if vector.shape != (self.n_coordinates,) or not np.isfinite(vector).all():
            rule = f"must be a vector of {self.n_coordinates} finite numbers"
            fail(name, rule, shown(obs), "Give an observation of the environment.")
        return vector


def read_continuous(
    env: gym.Env[Any, Any], *, horizon: int | None = None, reward_range: tuple[float, float] | None = None
) -> ContinuousTask:
    """Return the task of an environment, or say which wrapper it needs.

    The horizon is the one that is given, that of the environment, or `USUAL_HORIZON`, with a warning.
    """
    if not isinstance(env, gym.Env):
        fail("env", "must be a Gymnasium environment", type(env).__name__, "Make one with gymnasium.make.")
    states, actions = env.observation_space, env.action_space
    codec = control_codec(actions)
    n_actions = codec.size
    if isinstance(states, spaces.Discrete):
        fail("env", "must have vectors (Box) as observations", states, "For discrete states use MatrixRL.")
    if not isinstance(states, spaces.Box):
        fail("env", "must have vectors (Box) as observations", states, space_remedy("observation", states))
    if len(states.shape) != 1:
        remedy = "Wrap it in gymnasium.wrappers.FlattenObservation."
        fail("env", "must have vectors as observations", f"arrays of shape {states.shape}", remedy)
    limit = time_limit(env)
    steps = horizon if horizon is not None else limit or getattr(env.unwrapped, "horizon", None)
    if steps is None:
        steps = USUAL_HORIZON
        warnings.warn(
            f"{type(env.unwrapped).__name__} has no time limit, and no horizon was given: episodes are cut after "
            f"{steps} steps. Give horizon=… to say how long an episode is.",
            MatrixRLWarning,
            stacklevel=users_stacklevel(),
        )
    checked = integer("horizon", steps, low=1, remedy="Give the number of steps in an episode.")
    if limit is not None and checked > limit:
        remedy = "Make it with max_episode_steps=…, or give a smaller horizon."
        fail("horizon", f"must not exceed the time limit of the environment, {limit} steps", checked, remedy)
    if not isinstance(codec, BoxCodec):
        fits_memory("horizon", 100.0 * checked * n_actions, f"{checked:,} steps", remedy="Shorten the episode.")
    fixed = _attribute(env, "fixed_horizon")
    if fixed is not None and checked != int(fixed):
        fail("horizon", f"must be {int(fixed)}, the step at which this task pays", checked, "Leave it out.")
    most = _attribute(env, "max_return")
    if most is not None:
        most = number("max_return", most, low=0.0, high=1e12, remedy="An episode that ends earns 0 from then on.")
    return ContinuousTask(
        n_coordinates=int(states.shape[0]),
        low=states.low.astype(np.float64),
        high=states.high.astype(np.float64),
        n_actions=n_actions,
        horizon=checked,
        reward_range=declared_range(env, reward_range),
        max_return=most,
        is_declared=reward_range is None,
    )


def control_codec(actions: spaces.Space[Any]) -> Codec:
    """Return the codec of discrete actions, or of continuous ones with bounds."""
    if not isinstance(actions, spaces.Box) or not np.issubdtype(actions.dtype, np.floating):
        return codec_of("action", actions)
    if not (np.isfinite(actions.low).all() and np.isfinite(actions.high).all()):
        remedy = "Give them bounds: gymnasium.wrappers.TransformAction(env, lambda a: a, Box(-1.0, 1.0, …))."
        fail("action_space", "must have bounds if actions are continuous", shown(actions), remedy)
    dtype = "float32" if actions.dtype == np.float32 else "float64"
    codec = BoxCodec.of(actions.low.ravel().tolist(), actions.high.ravel().tolist(), actions.shape, dtype)
    if not codec.n_entries >= 1 or codec.levels < 3:
        rule = "must have 1 to 14 continuous numbers"
        fail("action_space", rule, shown(actions), "Leave out parts of it, or use deep RL.")
    return codec


def declared_range(env: gym.Env[Any, Any], given: tuple[float, float] | None) -> tuple[float, float] | None:
    """Return the range of rewards that is given, or that an environment declares; None if there is none."""
    if given is None:
        own = _attribute(env, "reward_range")
        known = None if env.spec is None or may_change_rewards(env) else _KNOWN_REWARDS.get(env.spec.id)
        given = own if own is not None else known
    if given is None:
        return None
    remedy = "Such as (0, 1)."
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        fail("reward_range", "must be two numbers, (low, high)", shown(given), remedy)
    low, high = (number("reward_range", x, low=-1e12, high=1e12, remedy=remedy) for x in given)
    if not low <= high:
        fail("reward_range", "must be (low, high)", given, "Give the smaller number first.")
    return low, high


def _attribute(env: gym.Env[Any, Any], name: str) -> Any:
    """Return an attribute of the environment or of a wrapper around it; None if it is missing or infinite."""
    value = env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
    numbers = [x for x in np.ravel(np.asarray(value, dtype=object)) if isinstance(x, (int, float, np.number))]
    if value is not None and len(numbers) == np.size(np.asarray(value, dtype=object)):
        return value if all(math.isfinite(float(x)) for x in numbers) else None
    return value
