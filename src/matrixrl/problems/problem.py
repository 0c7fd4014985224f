"""A problem as agents see it, whatever it was given as: what may be known of it, and the world behind it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import gymnasium as gym
import numpy as np

from matrixrl.checks import fail, index, number, shaped
from matrixrl.features import Features
from matrixrl.problems.continuous import ContinuousTask
from matrixrl.problems.finite import FiniteMDP, Task
from matrixrl.problems.functional import FunctionalTask
from matrixrl.records import BoolArray, FloatArray

__all__ = ["REWARD_OUTSIDE", "Kind", "Problem"]

Kind = Literal["finite", "functional", "continuous"]
"""States are numbered, or given as functions of a few of them, or vectors of a Gymnasium environment."""

REWARD_OUTSIDE = ("error", "clip", "widen")
"""Treatment of a reward outside the declared range."""

_REWARD_SLACK = {"finite": 1e-9, "functional": 1e-9, "continuous": 1e-6}  # rounding of rewards, as a share of the range


@dataclass(frozen=True)
class Problem:
    """A problem to learn, with its features and, where they are known, its MDP and environment.

    Attributes:
        task: What an agent may know.
        features: φ and ψ of a finite task, else None.
        env: Environment that `learn` plays in, or None for ask and tell.
        mdp: The known MDP, used only to measure regret and to simulate, or None.
        name: Name in results and messages.
        points: (S, p) the coordinates of the states of a known MDP, where the environment gives them.
        n_observed: Number of states that can be observed (the end state of a converted environment cannot).
        pseudo: Whether ψ may have linearly dependent columns.
        regret_every: The known MDP is used to measure the regret of every so many episodes; 0 measures none.
        first_state: Number that the environment gives to its first state.
        first_action: Number that the environment gives to its first action.
        reward_outside: What is done about a reward outside the declared range: "error" refuses it, "clip" learns from
            the nearest reward inside, "widen" widens the range and re-scales what was learned.
    """

    task: Task | FunctionalTask | ContinuousTask
    features: Features | None = None
    env: gym.Env[Any, Any] | None = None
    mdp: FiniteMDP | None = None
    name: str = "problem"
    points: FloatArray | None = None
    n_observed: int = 0
    pseudo: bool = False
    regret_every: int = 1
    first_state: int = 0
    first_action: int = 0
    reward_outside: str = "error"

    @classmethod
    def of(cls, task: Task | FiniteMDP, features: Features | None = None) -> Problem:
        """Return the problem of a finite task or MDP, with its own features or others.

        >>> Problem.of(Task(reward=[[0.0, 1.0]], horizon=3)).kind
        'finite'
        """
        mdp = task if isinstance(task, FiniteMDP) else None
        known = task.task if isinstance(task, FiniteMDP) else task
        chosen = known.features if features is None else features.check(known.n_states, known.n_actions)
        return cls(known, chosen, mdp=mdp, name=type(task).__name__, n_observed=known.n_states)

    @property
    def kind(self) -> Kind:
        """Whether states are numbers, functions or vectors."""
        if isinstance(self.task, Task):
            return "finite"
        return "functional" if isinstance(self.task, FunctionalTask) else "continuous"

    @property
    def finite_task(self) -> Task:
        """The task, if it is finite."""
        if not isinstance(self.task, Task):
            self.refuse("must have a finite number of states")
        return self.task

    def refuse(self, rule: str, remedy: str = "Give a finite problem.") -> NoReturn:
        """Raise an error that says which kind of problem this is."""
        words = {
            "finite": "numbered states",
            "functional": "functions of states",
            "continuous": "vectors as observations",
        }
        fail("problem", rule, f"{self.name}, with {words[self.kind]}", remedy)

    def refuse_size(self, rule: str, received: str, remedy: str) -> NoReturn:
        """Raise an error that says that the problem is too large."""
        fail("problem", rule, received, remedy)

    @property
    def has_random_start(self) -> bool:
        """Whether first states are drawn from a law that is known, with more than one possible state."""
        if self.mdp is None or self.kind != "finite":
            return False
        return int(np.count_nonzero(self.finite_task.start)) > 1

    @property
    def dimensions(self) -> tuple[int, int]:
        """Number of features d and d_psi; zeros where the problem has none of its own."""
        if isinstance(self.task, FunctionalTask):
            return self.task.d, self.task.d_psi
        return (0, 0) if self.features is None else (self.features.phi.d, self.features.psi.d_psi)

    def state_points(self, points: Any = None) -> FloatArray:
        """Return the coordinates of the states of a finite problem: (S, p).

        Args:
            points: Coordinates in place of the problem's own; evenly on a line from −1 to 1 where there are none.
        """
        n_states = self.finite_task.n_states
        chosen = self.points if points is None else points
        if chosen is None:
            return np.linspace(-1.0, 1.0, n_states)[:, None]
        return shaped("points", chosen, (n_states, None), remedy="Give one vector for each state.")

    def state(self, name: str, obs: Any) -> Any:
        """Return an observation as a state, or refuse it."""
        if not isinstance(self.task, Task):
            return self.task.state(name, obs)
        remedy, first = "Give a state of observation_space.", self.first_state
        return index(name, obs, size=self.n_observed, first=first, remedy=remedy) - first

    def inner_state(self, name: str, value: Any) -> Any:
        """Return a state of a saved episode, which may be the end state."""
        if not isinstance(self.task, Task):
            return self.task.state(name, value)
        return index(name, value, size=self.task.n_states, remedy="Give a state.")

    def action(self, name: str, value: Any) -> int:
        """Return an action of the environment as a number from 0, or refuse it."""
        remedy, first = "Choose from action_space.", self.first_action
        return index(name, value, size=self.task.n_actions, first=first, remedy=remedy) - first

    def reward(self, value: Any) -> float:
        """Return a reward as a number, or refuse one outside the declared range if the problem says so."""
        earned = number("reward", value, low=-1e12, high=1e12, remedy="Give the reward of the step.")
        if self.reward_outside == "error" and not self.in_range(np.array(earned)):
            low, high = self.task.reward_range or (0.0, 1.0)
            remedy = "Declare a reward_range that contains it, or pass reward_outside='clip' or 'widen'."
            fail("reward", f"must lie in [{low:g}, {high:g}], the declared range of rewards", earned, remedy)
        return earned

    def in_range(self, rewards: FloatArray) -> BoolArray:
        """Say which rewards lie in the declared range, up to rounding; all do if none is declared. Any shape."""
        if self.task.reward_range is None:
            return np.ones(rewards.shape, dtype=np.bool_)
        low, high = self.task.reward_range
        slack = _REWARD_SLACK[self.kind] * (high - low)
        inside: BoolArray = (rewards >= low - slack) & (rewards <= high + slack)
        return inside

    def with_range(self, low: float, high: float) -> Problem:
        """Return the same problem with another range of rewards."""
        if isinstance(self.task, ContinuousTask):
            return replace(self, task=replace(self.task, reward_range=(low, high), is_declared=False))
        task = copy.copy(self.task)
        task.reward_range = (low, high)
        return replace(self, task=task)

    def rewards(self, values: FloatArray) -> None:
        """Refuse an array of rewards if one of them lies outside the declared range."""
        for extreme in (values.min(), values.max()) if values.size else ():
            self.reward(float(extreme))

    def state_after_end(self, following: Any) -> Any:
        """Return the state that a terminated episode is in: the end state, or the last observation of vectors."""
        if isinstance(self.task, ContinuousTask):
            return following
        if self.task.end_state is None:
            fail(
                "terminated",
                "must be False for a problem without an end state",
                True,
                "Build the Task or FiniteMDP with end_state=….",
            )
        return self.task.end_state
