"""What algorithms on vectors share: steps of a replica, plans of all replicas, and saving by replica."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Algorithm, Arrays
from matrixrl.errors import InvalidInput
from matrixrl.problems import ContinuousTask
from matrixrl.problems.problem import Kind
from matrixrl.random_streams import Stream
from matrixrl.records import BoolArray, FloatArray, IntArray, Steps

__all__ = ["Experience", "VectorAlgorithm", "VectorPlans"]


@dataclass(frozen=True)
class Experience:
    """Steps of one or more episodes."""

    obs: FloatArray  # (n, p) observations before each step
    actions: IntArray  # (n,) actions
    rewards: FloatArray  # (n,) rewards
    next_obs: FloatArray  # (n, p) observations after each step
    terminated: BoolArray  # (n,) whether the environment ended the episode with this step

    def __len__(self) -> int:
        return len(self.actions)

    @classmethod
    def none(cls, n_coordinates: int) -> Experience:
        """Return an empty record."""
        empty = np.empty((0, n_coordinates))
        return cls(empty, np.empty(0, dtype=np.int64), np.empty(0), empty, np.empty(0, dtype=np.bool_))

    @classmethod
    def of(cls, steps: Steps, replica: int) -> Experience:
        """Return the steps that one replica took."""
        taken = steps.taken[replica]
        every = (steps.states, steps.actions.astype(np.int64), steps.rewards, steps.next_states, steps.ended)
        return cls(*(part[replica][taken] for part in every))

    def followed_by(self, more: Experience) -> Experience:
        """Return these steps followed by others."""
        return Experience(*(np.concatenate(both) for both in zip(self._parts(), more._parts(), strict=True)))

    def thinned(self, count: int) -> Experience:
        """Return every k-th step, so that there are about as many as a count, and at most twice as many."""
        every = max(1, len(self) // count)
        return Experience(*(part[::every] for part in self._parts()))

    def _parts(self) -> list[NDArray[Any]]:
        return [getattr(self, one.name) for one in fields(self)]

    def state_dict(self) -> Arrays:
        return {f"data_{one.name}": getattr(self, one.name) for one in fields(self)}

    @classmethod
    def of_state(cls, arrays: Arrays, n_actions: int) -> Experience:
        """Return the steps that `state_dict` wrote.

        Raises:
            InvalidInput: They are not steps with actions below a number.
        """
        data = cls(*(arrays[f"data_{one.name}"].copy() for one in fields(cls)))
        if len({len(part) for part in data._parts()}) > 1:
            raise InvalidInput("every step must have an observation, an action, a reward and a next observation")
        if len(data.actions) and not 0 <= data.actions.min() <= data.actions.max() < n_actions:
            raise InvalidInput("the steps must have actions of the problem")
        return data


@dataclass(frozen=True)
class VectorPlans:
    """One plan for each replica.

    A plan has the methods `action(stage, obs, rng)` for one observation, `q_at(stage, obs)`, `value_at(stage, obs)`
    and `width_at(obs)` for several ones, and `state_dict`.
    """

    plans: list[Any]

    @property
    def empty(self) -> IntArray:
        """(B,) zeros: there is no confidence set that could be empty."""
        return np.zeros(len(self.plans), dtype=np.int64)

    def arrays(self) -> Arrays:
        """Return the plan of the only replica as named arrays."""
        return self.plans[0].state_dict()  # type: ignore[no-any-return]


class VectorAlgorithm(Algorithm):
    """A learner whose states are vectors; data and plans have the environment's unit of rewards.

    A subclass makes one model for each replica in `begin`, and plans with it in `plan_of`.

    Attributes:
        models: What each replica learned: objects with `data`, `update`, `state_dict` and `load_state_dict`.
    """

    kinds: ClassVar[tuple[Kind, ...]] = ("continuous",)
    _stream_names: ClassVar[tuple[Stream, ...]] = ("ties", "sampling")
    models: list[Any]

    @property
    def task(self) -> ContinuousTask:
        """Description of the problem, as far as an agent may know it."""
        assert isinstance(self.problem.task, ContinuousTask)
        return self.problem.task

    @abstractmethod
    def plan_of(self, replica: int, rng: np.random.Generator) -> Any:
        """Return the plan of one replica for the data at hand."""

    def make_plan(self) -> VectorPlans:
        return VectorPlans([self.plan_of(b, rng) for b, rng in enumerate(self.streams["sampling"])])

    def learn(self, steps: Steps) -> None:
        for b, model in enumerate(self.models):
            model.update(Experience.of(steps, b))

    def experience(self, replica: int = 0) -> Experience:
        """Return all steps of a replica."""
        data: Experience = self.models[replica].data
        return data

    def act(self, plan: VectorPlans, stage: int, states: NDArray[Any], *, explore: bool = True) -> IntArray:
        """Return the best actions; ties at random, so that an empty plan plays at random: (B, p) → (B,)."""
        rngs = self.streams["ties"] if explore else [None] * len(plan.plans)
        each = zip(plan.plans, states, rngs, strict=True)
        return np.array([one.action(stage, obs, rng) for one, obs, rng in each], dtype=np.int64)

    def action_values(self, plan: VectorPlans, stage: int, states: NDArray[Any], *, explore: bool = True) -> FloatArray:
        """Return Q of the plans: (B, p) → (B, A)."""
        del explore
        return np.stack([one.q_at(stage, states[b : b + 1])[0] for b, one in enumerate(plan.plans)])

    def upper(self, plan: VectorPlans, first_states: NDArray[Any] | None = None) -> FloatArray:
        """Return what the plans expect an episode from the first states to be worth: (B,); NaN without them."""
        if first_states is None:
            return np.full(len(plan.plans), np.nan)
        return np.array([one.value_at(0, first_states[b : b + 1])[0] for b, one in enumerate(plan.plans)])

    def value(self, plan: VectorPlans, stage: int, obs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return planned values, and widths or novelty, of observations (n, p) in the first replica, each (n,)."""
        return plan.plans[0].value_at(stage, obs), plan.plans[0].width_at(obs)

    def policy_table(self, plan: VectorPlans) -> IntArray:
        """Return the actions at the observations of a known MDP's states: (B, H, S).

        Ties go to the lowest action here, and to a random one in `act`.
        """
        points = self.problem.points
        if points is None:
            self.problem.refuse("must have observations of known states to have a table", "Use predict(obs, stage).")
        return np.stack([one.table(points, self.task.horizon) for one in plan.plans])

    def learned(self) -> Arrays:
        """Return what all replicas learned; the number of the replica stands before a name."""
        each = ((b, model.state_dict()) for b, model in enumerate(self.models))
        return {f"{b}_{name}": array for b, state in each for name, array in state.items()}

    def load_learned(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for b, model in enumerate(self.models):
            own = {name.removeprefix(f"{b}_"): array for name, array in arrays.items() if name.startswith(f"{b}_")}
            model.load_state_dict(own)
