"""Finite episodic MDPs, and the task: everything about an MDP except its transition law P."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from matrixrl.checks import distributions, fail, flag, index, integer, number, shaped, shown, within
from matrixrl.features import Features, one_hot
from matrixrl.problems.tabulated import DenseTransitions, SparseTransitions
from matrixrl.problems.transitions import Transitions
from matrixrl.records import FloatArray, IntArray, Steps
from matrixrl.tolerances import PROBABILITY

__all__ = ["FiniteMDP", "Task", "draw_start"]


_LARGEST_PLAN = 10**9


class Task:
    """A finite episodic problem without its transition law P: the information that an agent has.

    Args:
        reward: (S, A) Expected rewards, in the environment's unit.
        horizon: Number of steps H of an episode.
        reward_range: Lower and upper bound (low, high) of the rewards. The algorithms use the unit reward
            (r - low) / (high - low) in [0, 1].
        start: First state of an episode, or the distribution (S,) of first states; stored as a distribution.
        end_state: Absorbing state that represents the end of an episode, or None if episodes never end early.
        features: Features φ and ψ; one-hot by default.

    Raises:
        InvalidInput: A reward is not finite or outside its range, or another argument is invalid.

    >>> task = Task(reward=[[0.0, 1.0], [0.5, 0.0]], horizon=3)
    >>> task.n_states, task.n_actions, task.unit_reward.shape
    (2, 2, (2, 2))
    """

    def __init__(
        self,
        reward: ArrayLike,
        horizon: int,
        *,
        reward_range: tuple[float, float] = (0.0, 1.0),
        start: ArrayLike = 0,
        end_state: int | None = None,
        features: Features | None = None,
    ) -> None:
        self.reward = shaped("reward", reward, (None, None), remedy="Give reward[s, a], shape (S, A).")
        self.horizon = integer("horizon", horizon, low=1, remedy="Give the number of steps in an episode.")
        self.reward_range = low, high = checked_range(reward_range)
        within("reward", self.reward, low, high, remedy="Declare reward_range=(low, high) to cover them.")
        self.start = _checked_start(start, self.n_states)
        self.end_state = None
        if end_state is not None:
            self.end_state = index("end_state", end_state, size=self.n_states, remedy="Give a state.")
            if not low <= 0.0 <= high:
                fail(
                    "reward_range",
                    "must contain 0 if episodes can end early (the reward of the end state is 0)",
                    self.reward_range,
                    "Declare a range that contains 0.",
                )
            if (self.reward[self.end_state] != 0.0).any():
                fail(
                    "end_state",
                    "must earn 0 for every action",
                    f"{self.reward[self.end_state].tolist()}",
                    "Set the rewards of the end state to 0.",
                )
        if self.horizon * self.n_states > _LARGEST_PLAN:
            fail(
                "horizon",
                f"times the number of states must not exceed {_LARGEST_PLAN:g} (a plan stores a value for each)",
                f"{self.horizon} × {self.n_states}",
                "Shorten the episode.",
            )
        if not isinstance(features, (Features, type(None))):
            fail("features", "must be matrixrl.Features", type(features).__name__, "Wrap phi and psi in Features.")
        given = one_hot(self.n_states, self.n_actions) if features is None else features
        self.features = given.check(self.n_states, self.n_actions)

    @property
    def n_states(self) -> int:
        """Number of states S, including the end state."""
        return int(self.reward.shape[0])

    @property
    def n_actions(self) -> int:
        """Number of actions A."""
        return int(self.reward.shape[1])

    @property
    def unit(self) -> float:
        """Size of one unit of unit reward in the environment's unit: high - low."""
        return self.reward_range[1] - self.reward_range[0]

    @property
    def unit_reward(self) -> FloatArray:
        """Expected rewards (S, A) mapped to [0, 1]."""
        mapped: FloatArray = (self.reward - self.reward_range[0]) / self.unit
        return mapped

    def to_own_unit(self, values: FloatArray) -> FloatArray:
        """Convert values of whole episodes of H steps from unit reward to the environment's unit; any shape."""
        own: FloatArray = values * self.unit + self.horizon * self.reward_range[0]
        return own


class FiniteMDP:
    """A known finite episodic MDP, used to simulate episodes and to compute exact regret.

    Args:
        transitions: Transition law P: an array (S, A, S), a scipy.sparse matrix (S·A, S), or a `Transitions` object.
        reward: (S, A) Expected rewards, in the environment's unit.
        horizon: Number of steps H of an episode.
        reward_range: Lower and upper bound (low, high) of the rewards.
        start: First state of an episode, or the distribution (S,) of first states.
        end_state: Absorbing state that represents the end of an episode, or None if episodes never end early.
        features: Features φ and ψ; one-hot by default.
        noisy_rewards: Whether each reward is drawn from {low, high} with mean `reward[s, a]`; if False, the reward of a
            step is its mean.

    Raises:
        InvalidInput: A row of P is not a distribution, a reward is not finite or outside its range, or another argument
            is invalid.

    >>> mdp = FiniteMDP([[[0.0, 1.0]], [[1.0, 0.0]]], reward=[[0.0], [1.0]], horizon=4)
    >>> mdp.n_states, mdp.n_actions, mdp.horizon
    (2, 1, 4)
    """

    def __init__(
        self,
        transitions: Any,
        reward: ArrayLike,
        horizon: int,
        *,
        reward_range: tuple[float, float] = (0.0, 1.0),
        start: ArrayLike = 0,
        end_state: int | None = None,
        features: Features | None = None,
        noisy_rewards: bool = False,
    ) -> None:
        self.noisy_rewards = flag("noisy_rewards", noisy_rewards)
        self.task = Task(
            reward,
            horizon,
            reward_range=reward_range,
            start=start,
            end_state=end_state,
            features=features,
        )
        if isinstance(transitions, Transitions):
            self.transitions = transitions
        elif sparse.issparse(transitions):
            self.transitions = SparseTransitions(transitions, self.n_actions)
        else:
            self.transitions = DenseTransitions(transitions)
        expected = (self.transitions.n_states, self.transitions.n_actions)
        if expected != (self.n_states, self.n_actions):
            fail(
                "reward",
                f"must have shape (S, A) = {expected}, to match P",
                f"shape {(self.n_states, self.n_actions)}",
                "Give reward[s, a].",
            )
        end = self.task.end_state
        if end is not None:
            self._check_end(end)

    @property
    def n_states(self) -> int:
        """Number of states S, including the end state."""
        return self.task.n_states

    @property
    def n_actions(self) -> int:
        """Number of actions A."""
        return self.task.n_actions

    @property
    def horizon(self) -> int:
        """Number of steps H of an episode."""
        return self.task.horizon

    @property
    def features(self) -> Features:
        """Features φ and ψ."""
        return self.task.features

    @property
    def draws_per_episode(self) -> int:
        """Number of uniform random numbers of an episode: for the first state, the next states and noisy rewards."""
        return 1 + self.horizon * (2 if self.noisy_rewards else 1)

    def step(
        self, states: IntArray, actions: IntArray, uniforms: FloatArray, coins: FloatArray
    ) -> tuple[FloatArray, IntArray]:
        """Take one step from each of k states.

        Args:
            states: (k,) States.
            actions: (k,) Actions.
            uniforms: (k,) Numbers in [0, 1) that select the next states.
            coins: (k,) Numbers in [0, 1) that select the rewards if they are noisy.

        Returns:
            Rewards (k,) in the environment's unit and next states (k,).
        """
        return self.earn(states, actions, coins), self.transitions.sample(states, actions, uniforms)

    def rollout(self, uniforms: FloatArray, act: Callable[[int, IntArray], IntArray]) -> Steps:
        """Play one episode in each of B replicas and return its steps.

        Steps after the end state is reached are marked as not taken, with reward 0.

        Args:
            uniforms: (B, `draws_per_episode`) Numbers in [0, 1).
            act: Function of the stage and the states (B,) that returns the actions (B,).
        """
        first, following, coins = self.episode_draws(uniforms)
        n, horizon, end = len(uniforms), self.horizon, self.task.end_state
        states = np.empty((n, horizon + 1), dtype=np.int64)
        actions = np.empty((n, horizon), dtype=np.int64)
        states[:, 0] = draw_start(self.task.start, first)
        for h in range(horizon):
            actions[:, h] = act(h, states[:, h])
            states[:, h + 1] = self.transitions.sample(states[:, h], actions[:, h], following[:, h])
        before, after = states[:, :-1], states[:, 1:]
        ended, taken = np.zeros(before.shape, dtype=np.bool_), np.ones(before.shape, dtype=np.bool_)
        if end is not None:
            taken = before != end
            ended = taken & (after == end)
        rewards = self.earn(before, actions, coins) * taken
        return Steps(before, actions, rewards, after, ended, taken)

    def episode_draws(self, uniforms: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Split the uniform numbers (…, `draws_per_episode`) of an episode by their use.

        Returns:
            Numbers for the first state (…,), for the next states (…, H) and for the rewards (…, H).
        """
        h = self.horizon
        coins = uniforms[..., h + 1 :] if self.noisy_rewards else uniforms[..., 1:]
        return uniforms[..., 0], uniforms[..., 1 : h + 1], coins

    def earn(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> FloatArray:
        """Return the rewards of steps; `uniforms` in [0, 1) select them if they are noisy. All shapes are equal."""
        mean: FloatArray = self.task.reward[states, actions]
        if not self.noisy_rewards:
            return mean
        low, high = self.task.reward_range
        paid: FloatArray = np.where(uniforms < (mean - low) / (high - low), high, low)
        if self.task.end_state is not None:
            paid = np.where(states == self.task.end_state, 0.0, paid)
        return paid

    def _check_end(self, end: int) -> None:
        actions = np.arange(self.n_actions)
        stays = self.transitions.chance(np.full(self.n_actions, end), actions, np.full(self.n_actions, end))
        if (np.abs(stays - 1.0) > PROBABILITY).any():
            fail(
                "end_state",
                "must be absorbing",
                f"state {end}, which stays with probability {stays.min():g}",
                "Set P(end_state | end_state, a) to 1 for every action.",
            )


def checked_mdp(value: object) -> FiniteMDP:
    """Return `value` if it is a `FiniteMDP`, or raise `InvalidInput`."""
    if not isinstance(value, FiniteMDP):
        fail("mdp", "must be a FiniteMDP", shown(value), "Build one, or take env.unwrapped.mdp of an environment.")
    return value


def checked_range(value: object) -> tuple[float, float]:
    """Return `reward_range` as two floats low < high, or raise `InvalidInput`."""
    remedy = "Give reward_range=(low, high) with low < high."
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        fail("reward_range", "must be a pair of numbers", shown(value), remedy)
    low = number("reward_range low", value[0], remedy=remedy)
    high = number("reward_range high", value[1], remedy=remedy)
    if not low < high or high - low > 1e300:
        fail("reward_range", "must have low < high, not farther apart than 1e300", (low, high), remedy)
    return low, high


def _checked_start(start: Any, n_states: int) -> FloatArray:
    """Return the distribution (S,) of the first state."""
    if isinstance(start, (int, np.integer)) or (isinstance(start, np.ndarray) and start.ndim == 0):
        chosen = index("start", start, size=n_states, remedy="Give a state or a distribution.")
        start = np.zeros(n_states)
        start[chosen] = 1.0
    given = shaped("start", start, (n_states,), remedy="Give a state or one probability for each state.")
    return distributions("start", given)


def draw_start(start: FloatArray, uniforms: FloatArray) -> IntArray:
    """Return the first states (k,) that uniform numbers (k,) in [0, 1) select from the distribution `start` (S,)."""
    cdf = np.cumsum(start)
    return np.searchsorted(cdf / cdf[-1], uniforms, side="right")
