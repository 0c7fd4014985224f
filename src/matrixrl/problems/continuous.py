"""Problems whose states are not numbered: functions of states, and environments with vectors as observations."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from matrixrl.checks import fail, fits_memory, function, integer, number, real_numbers, shown, users_stacklevel
from matrixrl.display import Described
from matrixrl.errors import MatrixRLWarning
from matrixrl.problems.gym_tables import check_time_limit, may_change_rewards, time_limit
from matrixrl.problems.task import EpisodicTask, checked_range
from matrixrl.records import FloatArray
from matrixrl.spaces import BoxCodec, Codec, DiscreteCodec, codec_of, control_codec, space_remedy

__all__ = ["USUAL_HORIZON", "ContinuousTask", "FunctionalTask", "declared_range", "read_continuous"]

_PROBE = 3  # number of states that are drawn once to find the shapes


class FunctionalTask(EpisodicTask, Described):
    """A problem with very many states or a continuum of states, without its transition probabilities P.

    States are numbers or vectors; every function takes an array of k states, (k,) or (k, n).

    Args:
        phi: Function of states that returns the features φ (k, A, d) of each state with every action.
        psi: Function of states that returns the features ψ (k, d_psi) of next states.
        sampler: Function of a random generator and a number m that returns m states and their weights (m,). The weight
            of a state is 1/(m·density), with the density that it was drawn with. Sums over all states (integrals over a
            continuum) are estimated by weighted sums over the sample.
        n_actions: Number of actions A.
        horizon: Number of steps H of an episode.
        reward: Function of states that returns the expected rewards (k, A), in the environment's unit. It may be left
            out if the agent learns rewards (`known_reward=False`).
        reward_range: Lower and upper bound (low, high) of the rewards.
        start: First state of every episode. If None, a certificate needs a state: ``certificate(start=…)``.
        end_state: State that represents the end of an episode, or None if episodes never end early.
        env: Environment that `learn` plays in; not needed for ask and tell.

    Attributes:
        d: Number of features φ.
        d_psi: Number of features ψ.

    Raises:
        InvalidInput: A function returns arrays of a wrong shape or values that are not finite, or another argument is
            invalid.

    >>> def hats(s):  # two features on [0, 1]
    ...     return np.stack([1.0 - s[:, 0], s[:, 0]], axis=1)
    >>> task = FunctionalTask(
    ...     phi=lambda s: np.stack([hats(s), hats(1.0 - s)], axis=1),
    ...     psi=hats,
    ...     sampler=lambda rng, m: (rng.random((m, 1)), np.full(m, 1.0 / m)),
    ...     n_actions=2, horizon=5, reward=lambda s: np.tile(s, (1, 2)), start=[0.0],
    ... )
    >>> task.d, task.d_psi, task.state_shape
    (2, 2, (1,))
    """

    kind = "functional"

    def __init__(
        self,
        *,
        phi: Callable[[NDArray[Any]], FloatArray],
        psi: Callable[[NDArray[Any]], FloatArray],
        sampler: Callable[[np.random.Generator, int], tuple[NDArray[Any], FloatArray]],
        n_actions: int,
        horizon: int,
        reward: Callable[[NDArray[Any]], FloatArray] | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        start: Any = None,
        end_state: Any = None,
        env: gym.Env[Any, Any] | None = None,
    ) -> None:
        for name, given in (("phi", phi), ("psi", psi), ("reward", reward)):
            if given is not None or name != "reward":
                function(name, given, of=1, remedy="It is called with an array of states.")
        function("sampler", sampler, of=2, remedy="It is called with a random generator and a number of states.")
        self._phi, self._psi, self._sampler, self._reward = phi, psi, sampler, reward
        self.n_actions = integer("n_actions", n_actions, low=1, remedy="Give the number of actions.")
        self.horizon = integer("horizon", horizon, low=1, remedy="Give the number of steps in an episode.")
        self.actions: Codec = DiscreteCodec(self.n_actions)
        """Numbers of the actions."""
        if env is not None:
            self.actions = _checked_actions(env, self.n_actions, self.horizon)
        self.reward_range: tuple[float, float] = checked_range(reward_range)
        self.env = env
        self.d = self.d_psi = 0  # not known before the first calls of phi and psi
        self.state_shape: tuple[int, ...] = ()
        self.state_dtype: np.dtype[Any] = np.dtype(np.float64)
        states, _ = self.draw(np.random.default_rng(0), _PROBE)
        self.state_shape = states.shape[1:]
        self.state_dtype = np.dtype(np.int64 if states.dtype.kind in "iu" else np.float64)
        self.d, self.d_psi = self.phi_at(states).shape[2], self.psi_at(states).shape[1]
        if not self.d or not self.d_psi:
            fail("phi and psi", "must have features", f"{self.d} and {self.d_psi}", "Return at least one number.")
        self.phi_at(states[:1])  # the number of features must not depend on the number of states
        self.psi_at(states[:1])
        if reward is not None:
            self.reward_at(states)
        self.dimensions = self.d, self.d_psi
        self.start = None if start is None else self.state("start", start)
        self.start_is_declared = start is not None
        self.end_state = None if end_state is None else self.state("end_state", end_state)
        low, high = self.reward_range
        if self.end_state is not None and not low <= 0.0 <= high:
            remedy = "Declare a range that contains 0."
            fail("reward_range", "must contain 0 if episodes can end early", reward_range, remedy)

    def _words(self) -> str:
        sizes = f"{self.n_actions:,} actions, {self.horizon:,} steps, d {self.d}, d' {self.d_psi}"
        return f"FunctionalTask: functions of states of shape {self.state_shape}, {sizes}"

    def _facts(self) -> dict[str, object]:
        low, high = self.reward_range
        return {
            "rewards": f"{low:g} to {high:g}" + ("" if self.knows_reward else ", to be learned"),
            "first state": "not declared" if self.start is None else self.start,
            "environment": "none: ask and tell" if self.env is None else self.env,
        }

    @property
    def knows_reward(self) -> bool:
        """Whether the reward function was given."""
        return self._reward is not None

    def state(self, name: str, value: Any) -> NDArray[Any]:
        """Return one state as an array of `state_shape`; `name` is its name in error messages."""
        try:  # a copy: environments may change their observation in place
            array = np.array(value, dtype=self.state_dtype)
        except (TypeError, ValueError, OverflowError):
            array = np.full(2, np.nan)
        if array.shape != self.state_shape or not np.isfinite(array).all() or not np.all(array == np.asarray(value)):
            kind = "whole" if self.state_dtype.kind == "i" else "finite"
            remedy = "Use the shape and type of the sampler's states."
            fail(name, f"must be {kind} numbers of shape {self.state_shape}", shown(value), remedy)
        return array

    def draw(self, rng: np.random.Generator, m: int) -> tuple[NDArray[Any], FloatArray]:
        """Return m sampled states (m,) or (m, n) and their weights (m,)."""
        drawn = self._sampler(rng, m)
        try:
            states, weights = (np.asarray(part) for part in drawn)
            weights = weights.astype(np.float64)
        except (TypeError, ValueError):
            fail("sampler", "must return states and their weights", shown(drawn), "Return two arrays.")
        fits = states.shape[:1] == (m,) and states.dtype.kind in "iuf" and weights.shape == (m,)
        if not fits or not (np.isfinite(weights) & (weights > 0)).all():
            rule, received = f"must return {m} states and {m} positive weights", f"{states.shape} and {weights.shape}"
            fail("sampler", rule, f"shapes {received}", "Weights are 1/(m·density).")
        return states, weights

    def phi_at(self, states: NDArray[Any]) -> FloatArray:
        """Return the features φ (k, A, d) of k states with every action."""
        return self._call("phi", self._phi, states, (len(states), self.n_actions, self.d))

    def psi_at(self, states: NDArray[Any]) -> FloatArray:
        """Return the features ψ (k, d_psi) of k states."""
        return self._call("psi", self._psi, states, (len(states), self.d_psi))

    def reward_at(self, states: NDArray[Any]) -> FloatArray:
        """Return the expected rewards (k, A) of k states, in the environment's unit."""
        if self._reward is None:
            fail("reward", "must be given if rewards are known", None, "Pass reward, or known_reward=False.")
        found = self._call("reward", self._reward, states, (len(states), self.n_actions))
        low, high = self.reward_range
        if found.size and (found.min() < low - 1e-9 or found.max() > high + 1e-9):
            received = f"{found.min():g} … {found.max():g}"
            fail("reward", f"must lie in [{low:g}, {high:g}]", received, "Declare its range.")
        return found

    @staticmethod
    def _call(
        name: str, called: Callable[[NDArray[Any]], FloatArray], states: NDArray[Any], shape: tuple[int, ...]
    ) -> FloatArray:
        found = real_numbers(called(states))
        fits = found.ndim == len(shape) and all(w in (0, n) for w, n in zip(shape, found.shape, strict=True))
        if not fits:
            wanted = "(" + ", ".join("d" if n == 0 else str(n) for n in shape) + ")"
            fail(name, f"must return shape {wanted} for {len(states)} states", found.shape, "Return one row per state.")
        if not np.isfinite(found).all() or np.abs(found).max(initial=0.0) > 1e100:
            fail(name, "must be finite, at most 1e100", "NaN, infinity or larger numbers", "Check the function.")
        return found


def _checked_actions(env: Any, n_actions: int, horizon: int) -> Codec:
    """Return the numbers of the actions of an environment that fits the task, or refuse it."""
    if not isinstance(env, gym.Env):
        fail("env", "must be a Gymnasium environment", type(env).__name__, "Leave it out for ask and tell.")
    actions = codec_of("action", env.action_space)
    if actions.size != n_actions:
        received = f"{env.action_space}, with {actions.size}"
        fail("env", f"must have {n_actions} discrete actions", received, "Pass its size as n_actions.")
    check_time_limit(env, horizon)
    return actions


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
class ContinuousTask(EpisodicTask):
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

    kind = "continuous"

    n_coordinates: int
    low: FloatArray
    high: FloatArray
    n_actions: int
    horizon: int
    reward_range: tuple[float, float] | None
    max_return: float | None
    is_declared: bool = True

    @property
    def state_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of one state, (p,)."""
        return (self.n_coordinates,)

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
    steps = horizon if horizon is not None else time_limit(env) or getattr(env.unwrapped, "horizon", None)
    if steps is None:
        steps = USUAL_HORIZON
        warnings.warn(
            f"{type(env.unwrapped).__name__} has no time limit, and no horizon was given: episodes are cut after "
            f"{steps} steps. Give horizon=… to say how long an episode is.",
            MatrixRLWarning,
            stacklevel=users_stacklevel(),
        )
    checked = integer("horizon", steps, low=1, remedy="Give the number of steps in an episode.")
    check_time_limit(env, checked)
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


def declared_range(env: gym.Env[Any, Any], given: tuple[float, float] | None) -> tuple[float, float] | None:
    """Return the range of rewards that is given, or that an environment declares; None if there is none."""
    if given is None:
        own = _attribute(env, "reward_range")
        known = None if env.spec is None or may_change_rewards(env) else _KNOWN_REWARDS.get(env.spec.id)
        given = own if own is not None else known
    return None if given is None else checked_range(given)


def _attribute(env: gym.Env[Any, Any], name: str) -> Any:
    """Return an attribute of the environment or of a wrapper around it; None if it is missing or infinite."""
    value = env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
    numbers = [x for x in np.ravel(np.asarray(value, dtype=object)) if isinstance(x, (int, float, np.number))]
    if value is not None and len(numbers) == np.size(np.asarray(value, dtype=object)):
        return value if all(math.isfinite(float(x)) for x in numbers) else None
    return value
