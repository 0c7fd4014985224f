"""The finite episodic MDP, and the part of it that an agent may know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from matrixrl.checks import distributions, fail, index, integer, number, shaped, within
from matrixrl.features import Features, one_hot
from matrixrl.mdp.transitions import DenseTransitions, SparseTransitions, Transitions
from matrixrl.records import FloatArray

__all__ = ["FiniteMDP", "Task"]


@dataclass(frozen=True)
class Task:
    """What an agent may know of a problem: everything but P.

    Args:
        reward: (S, A) expected rewards, in the environment's own unit.
        horizon: H, the number of steps of an episode.
        reward_range: (low, high), declared; the proofs work with (r - low) / (high - low) in [0, 1].
        start: a state, or a distribution (S,) of first states.
        end_state: the absorbing state that stands for "terminated", if episodes can end early.
        features: φ and ψ; one-hot by default.

    >>> task = Task(reward=[[0.0, 1.0], [0.5, 0.0]], horizon=3)
    >>> task.n_states, task.n_actions, task.unit_reward.shape
    (2, 2, (2, 2))
    """

    reward: FloatArray
    horizon: int
    reward_range: tuple[float, float] = (0.0, 1.0)
    start: Any = 0
    end_state: int | None = None
    features: Features = field(default=None)  # type: ignore[assignment]  # filled in below

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        reward = shaped("reward", self.reward, (None, None), remedy="Give reward[s, a], shape (S, A).")
        n_states, n_actions = reward.shape
        set_(self, "reward", reward)
        set_(self, "horizon", integer("horizon", self.horizon, low=1, remedy="Steps per episode."))
        set_(self, "reward_range", _checked_range(self.reward_range))
        low, high = self.reward_range
        within("reward", reward, low, high, remedy="Declare reward_range=(low, high) to cover them.")
        set_(self, "start", _checked_start(self.start, n_states))
        if self.end_state is not None:
            set_(self, "end_state", index("end_state", self.end_state, size=n_states, remedy="A state."))
            if not low <= 0.0 <= high:
                fail(
                    "reward_range",
                    "must contain 0 when episodes can end early (the end state earns 0)",
                    self.reward_range,
                    "Declare a range that contains 0.",
                )
        if self.features is None:
            set_(self, "features", one_hot(n_states, n_actions))
        self.features.check(n_states, n_actions)

    @property
    def n_states(self) -> int:
        """S, the end state included."""
        return int(self.reward.shape[0])

    @property
    def n_actions(self) -> int:
        """A."""
        return int(self.reward.shape[1])

    @property
    def unit(self) -> float:
        """What one unit of the proofs' reward is worth in the environment: high - low."""
        return self.reward_range[1] - self.reward_range[0]

    @property
    def unit_reward(self) -> FloatArray:
        """(S, A) rewards mapped to [0, 1]."""
        mapped: FloatArray = (self.reward - self.reward_range[0]) / self.unit
        return mapped

    def to_own_unit(self, value: FloatArray | float) -> FloatArray | float:
        """Map the value of a whole episode from unit reward to the environment's unit."""
        return value * self.unit + self.horizon * self.reward_range[0]


@dataclass(frozen=True)
class FiniteMDP:
    """A known finite episodic MDP: the world that experiments run in and regret is measured against.

    Args:
        transitions: P as a (S, A, S) array, a scipy.sparse (S·A, S) matrix, or a `Transitions` object.
        reward: (S, A) expected rewards.
        horizon, reward_range, start, end_state, features: as in `Task`.

    Raises:
        InvalidInput: P has a row that is not a distribution; a reward is not finite or outside its range.

    >>> mdp = FiniteMDP([[[0.0, 1.0]], [[1.0, 0.0]]], reward=[[0.0], [1.0]], horizon=4)
    >>> mdp.n_states, mdp.n_actions, mdp.horizon
    (2, 1, 4)
    """

    transitions: Any
    reward: Any
    horizon: int
    reward_range: tuple[float, float] = (0.0, 1.0)
    start: Any = 0
    end_state: int | None = None
    features: Features | None = None
    task: Task = field(init=False)

    def __post_init__(self) -> None:
        task = Task(
            reward=self.reward,
            horizon=self.horizon,
            reward_range=self.reward_range,
            start=self.start,
            end_state=self.end_state,
            features=self.features,  # type: ignore[arg-type]  # None asks for one-hot
        )
        given = self.transitions
        if isinstance(given, Transitions):
            transitions: Transitions = given
        elif sparse.issparse(given):
            transitions = SparseTransitions(given, task.n_actions)
        else:
            transitions = DenseTransitions(given)
        have = (transitions.n_states, transitions.n_actions)
        if have != (task.n_states, task.n_actions):
            fail(
                "reward",
                f"must have shape (S, A) = {have}, as P says",
                f"shape {(task.n_states, task.n_actions)}",
                "Give reward[s, a].",
            )
        for name in ("reward", "horizon", "reward_range", "start", "end_state", "features"):
            object.__setattr__(self, name, getattr(task, name))
        object.__setattr__(self, "transitions", transitions)
        object.__setattr__(self, "task", task)

    @property
    def n_states(self) -> int:
        """S, the end state included."""
        return self.task.n_states

    @property
    def n_actions(self) -> int:
        """A."""
        return self.task.n_actions


def _checked_range(value: object) -> tuple[float, float]:
    remedy = "Give reward_range=(low, high) with low < high."
    try:
        low, high = value  # type: ignore[misc]
    except (TypeError, ValueError):
        fail("reward_range", "must be a pair of numbers", repr(value), remedy)
    low = number("reward_range low", low, remedy=remedy)
    high = number("reward_range high", high, remedy=remedy)
    if not low < high:
        fail("reward_range", "must have low < high", (low, high), remedy)
    return low, high


def _checked_start(start: Any, n_states: int) -> FloatArray:
    """Return the distribution (S,) of the first state."""
    if np.ndim(start) == 0:
        chosen = index("start", start, size=n_states, remedy="Give a state or a distribution.")
        start = np.zeros(n_states)
        start[chosen] = 1.0
    given = shaped("start", start, (n_states,), remedy="Give a state or one probability for each state.")
    return distributions("start", given)
