"""What every baseline shares: settings with presets, random streams, episodes in, plans out, saving."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import choice, fail, integer, number
from matrixrl.errors import InvalidInput
from matrixrl.features import Features
from matrixrl.interrupts import uninterrupted
from matrixrl.problems import Task
from matrixrl.records import FloatArray, IntArray, Plan
from matrixrl.seeding import generator, restore, state_of
from matrixrl.tolerances import TIE

__all__ = ["BaselineEngine", "BaselineSettings"]


@dataclass(frozen=True, slots=True)
class BaselineSettings:
    """What every baseline can be told.

    Attributes:
        preset: "paper" (the constants of its paper) or "tuned" (see docs/baselines.md).
        known_reward: whether the agent is given the rewards; if not it learns them.
        n_episodes: N, where the constants of the paper depend on it.
    """

    preset: str = "paper"
    known_reward: bool = True
    n_episodes: int | None = None

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {"paper": {}, "tuned": {}}

    def __post_init__(self) -> None:
        choice("preset", self.preset, self.PRESETS)
        if not isinstance(self.known_reward, bool):
            fail("known_reward", "must be true or false", repr(self.known_reward), "Say which.")
        if self.n_episodes is not None:
            n = integer("n_episodes", self.n_episodes, low=1, remedy="Give N or leave it out.")
            object.__setattr__(self, "n_episodes", n)

    @classmethod
    def resolve(cls, given: Mapping[str, Any]) -> Self:
        """Start from the preset and let every explicit setting win; None means not given."""
        chosen = {key: value for key, value in given.items() if value is not None}
        names = [f.name for f in fields(cls)]
        for key in chosen:
            choice("agent setting", key, names)
        preset = choice("preset", chosen.get("preset", "paper"), cls.PRESETS)
        return cls(**{**cls.PRESETS[preset], **chosen, "preset": preset})

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return asdict(self)

    def positive(self, name: str, *, zero: bool = False, high: float = 1e12) -> None:
        """Check the number that is called `name` and keep it as a float."""
        remedy = "Leave it out for the value of the preset."
        value = number(name, getattr(self, name), low=0.0, high=high, open_ends=not zero, remedy=remedy)
        object.__setattr__(self, name, value)


class BaselineEngine(ABC):
    """An algorithm of another paper for B independent replicas that share nothing but the problem.

    Values inside are of unit rewards in [0, 1]. A plan is one deterministic table for each replica; whoever plays at
    random draws the table anew for each episode, which is the same, because an episode asks each (stage, state) at
    most once.

    Args:
        task: what may be known of the problem.
        features: φ and ψ; tabular algorithms look at their sizes only.
        settings: of this algorithm.
        seeds: one for each replica.
        points: (S, p) where states lie; only given to a class that says `uses_points`.
    """

    name: ClassVar[str]
    settings_class: ClassVar[type[BaselineSettings]] = BaselineSettings
    is_optimistic: ClassVar[bool] = False
    """Whether the paper proves that plans overestimate V*."""
    uses_points: ClassVar[bool] = False
    """Whether the constructor takes `points`, where states lie."""

    def __init__(
        self,
        task: Task,
        features: Features,
        settings: Any,
        seeds: Sequence[int],
        points: FloatArray | None = None,
    ) -> None:
        self.points = points
        self.task = task
        self.features = features.check(task.n_states, task.n_actions)
        self.settings = settings
        self.seeds = list(seeds)
        self.episode = 0
        self.plans = np.zeros(len(self.seeds), dtype=np.int64)
        self.unit_reward: FloatArray = np.ascontiguousarray(task.unit_reward.T)
        self.end_reward = (0.0 - task.reward_range[0]) / task.unit
        self._agents = [generator(seed, "agent") for seed in self.seeds]
        self._ties = [generator(seed, "ties") for seed in self.seeds]

    @property
    def n_replicas(self) -> int:
        """B."""
        return len(self.seeds)

    @property
    def guarantee(self) -> Literal[True] | str:
        """True if the regret bound of the paper is proven for these settings, else why not."""
        return f"{self.name} has no proof here"

    @abstractmethod
    def plan(self) -> Plan:
        """Return the plan of the next episode."""

    @abstractmethod
    def learn(
        self, states: IntArray, actions: IntArray, next_states: IntArray, weights: FloatArray, rewards: FloatArray
    ) -> None:
        """Learn from one episode: all (B, H); weight 0 marks a step not taken; rewards are in [0, 1]."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that was learned: with the random states, enough to go on bit for bit."""

    @abstractmethod
    def restore_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned."""

    def next_plan(self) -> Plan:
        """Return the plan to play now."""
        plan = self.plan()
        self.plans += 1
        return plan

    def upper(self, plan: Plan, start: FloatArray | None = None) -> FloatArray:
        """Return what the plan believes the start to be worth, in the environment's unit: (B,)."""
        return self.task.to_own_unit(plan.values[:, 0] @ (self.task.start if start is None else start))

    def update(
        self, states: IntArray, actions: IntArray, next_states: IntArray, weights: FloatArray, rewards: FloatArray
    ) -> None:
        """Learn from one episode; rewards in the environment's unit."""
        unit = (rewards - self.task.reward_range[0]) / self.task.unit
        with uninterrupted():
            self.learn(states, actions, next_states, weights, unit * weights)
            self.episode += 1

    def check_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Refuse arrays that `arrays` of this engine could not have returned."""
        for name, own in self.arrays().items():
            if name not in arrays or arrays[name].shape != own.shape or arrays[name].dtype != own.dtype:
                raise InvalidInput(f"{name} must have shape {own.shape} and type {own.dtype}")

    def planning_state(self) -> tuple[Any, ...]:
        """Return what planning changes, so that an episode that is abandoned leaves no trace."""
        return self.random_states(), self.plans.copy()

    def restore_planning(self, state: tuple[Any, ...]) -> None:
        """Take back what `planning_state` returned."""
        streams, self.plans = state
        self.restore_random_states(streams)

    def random_states(self) -> list[dict[str, Any]]:
        """Return the states of every replica's streams: the agents' first, then the ties'."""
        return [state_of(rng) for rng in [*self._agents, *self._ties]]

    def restore_random_states(self, states: Sequence[object]) -> None:
        """Take back what `random_states` returned."""
        for rng, state in zip([*self._agents, *self._ties], states, strict=True):
            restore(rng, state)

    def induct(self, q_of: Callable[[int, FloatArray], FloatArray], *, cap: bool = True) -> Plan:
        """Return the plan that is greedy in Q by backward induction.

        Args:
            q_of: (stage, V of the next stage (B, S)) → Q of this stage (B, A, S), which may be changed afterwards.
            cap: keep V_h in [0, H − h], as rewards are in [0, 1].
        """
        task, n = self.task, self.n_replicas
        values = np.zeros((n, task.horizon + 1, task.n_states))
        policy = np.empty((n, task.horizon, task.n_states), dtype=np.min_scalar_type(task.n_actions - 1))
        tie_break = (TIE * task.horizon) * self.draw_priority()[:, :, None]
        for h in reversed(range(task.horizon)):
            q = q_of(h, values[:, h + 1])
            q.max(axis=1, out=values[:, h])
            if cap:
                np.clip(values[:, h], 0.0, float(task.horizon - h), out=values[:, h])
            q += tie_break
            policy[:, h] = q.argmax(axis=1)
            if task.end_state is not None:
                values[:, h, task.end_state] = (task.horizon - h) * self.end_reward
        return Plan(policy=policy, values=values, empty=np.zeros(n, dtype=np.int64))

    def draw_priority(self) -> FloatArray:
        """Return one random ranking of the actions for each replica, which breaks ties: (B, A)."""
        n_actions = self.task.n_actions
        return np.stack([rng.permutation(n_actions) for rng in self._ties]) / n_actions
