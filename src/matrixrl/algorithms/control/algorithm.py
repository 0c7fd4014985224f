"""ContinuousControl: plan in a kernel model of the dynamics, for B replicas."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.continuous.base import VectorAlgorithm
from matrixrl.algorithms.continuous.model import STEP_NAMES, Experience
from matrixrl.algorithms.continuous.possible import check_steps, of_replica
from matrixrl.algorithms.control.actions import ActionGrid
from matrixrl.algorithms.control.plan import ControlPlan
from matrixrl.algorithms.control.planner import Memory, Planner
from matrixrl.algorithms.control.saving import memory_arrays, memory_from, plan_from
from matrixrl.algorithms.control.settings import ControlSettings
from matrixrl.algorithms.control.skill import Skill, skill_of
from matrixrl.algorithms.possible import Shapes
from matrixrl.checks import fail, users_stacklevel
from matrixrl.core.greedy import best_action_at_random
from matrixrl.errors import InvalidInput, MatrixRLWarning
from matrixrl.features.kernels import ObservationScale
from matrixrl.problems import ContinuousTask, Problem
from matrixrl.records import FloatArray, IntArray, Steps
from matrixrl.settings import Settings

__all__ = ["MOST_COORDINATES", "ContinuousControl", "ControlPlans"]

_SLACK = 1e-9  # share of the range of values within which actions count as equal
_MORE_PATIENCE = 4  # factor of the patience after a plan was made again
_TOO_LATE = 10  # steps before the end of an episode in which plans are kept
MOST_COORDINATES = 64
"""Largest number of coordinates of an observation that a kernel is used for."""
_WIDER = 2.0  # factor by which a range of rewards has to grow for a plan to be made again at once
_SETTLED = 5  # episodes after which a range of rewards that grows so much is worth a warning
_CHECKED, _CHECKED_EACH = 200, 15  # steps, and steps for each coordinate, before the model is tested
_TEST_STEPS = 1500  # steps that a model is tested on, about
_CHECK_AGAIN = 1.5  # the model is tested again when there are this many times the steps


class ControlPlans:
    """The plans of all replicas."""

    def __init__(self, plans: list[ControlPlan]) -> None:
        self.plans = plans

    @property
    def empty(self) -> IntArray:
        """(B,) zeros: there is no confidence set that could be empty."""
        return np.zeros(len(self.plans), dtype=np.int64)


class ContinuousControl(VectorAlgorithm):
    """Fits a kernel model of next states and rewards to all steps, and plans in it; one configuration for every task.

    The kernel model of YW19 Section 4 is used forward, to predict next states, in place of backward, to average values
    of next states. Length scales follow from the data. Nothing is proven; what is known is measured (docs/control.md).
    """

    name = "kernel-control"
    settings_class: ClassVar[type[Settings]] = ControlSettings
    revises = True
    settings: ControlSettings

    @property
    def guarantee(self) -> Literal[True] | str:
        """Why nothing is proven."""
        return "measured, not proven: plans trust a fitted model of the dynamics, and the range of rewards seen so far"

    def check_problem(self, problem: Problem) -> None:
        """Refuse problems with too many dimensions for a kernel."""
        super().check_problem(problem)
        task = problem.task
        assert isinstance(task, ContinuousTask)
        if task.n_coordinates > MOST_COORDINATES:
            rule = f"must have at most {MOST_COORDINATES} coordinates for a kernel, which needs neighbours"
            problem.refuse_size(rule, f"{task.n_coordinates} coordinates", "Leave out coordinates, or use deep RL.")

    def begin(self) -> None:
        """Start without data."""
        task = self.task
        self.grid = ActionGrid.of(self.problem.actions, self.settings.action_points)
        self.scales = [ObservationScale(task.low, task.high) for _ in self.seeds]
        self.data = [Experience.none(task.n_coordinates) for _ in self.seeds]
        self.starts: list[IntArray] = [np.empty(0, dtype=np.int64) for _ in self.seeds]
        self.memories = [Memory.empty() for _ in self.seeds]
        self._tested = [0 for _ in self.seeds]  # numbers of steps when models were tested last
        self._said: set[str] = set()
        self.planner = Planner(self.grid, task.horizon, self.scales[0].bounded, self.settings)

    def make_plan(self) -> ControlPlans:
        """Fit the model to the data at hand and plan in it."""
        plans = []
        for b, rng in enumerate(self.streams["sampling"]):
            scale = copy(self.scales[b])
            plan, memory = self.planner.plan(self.data[b], self.starts[b], scale, self.memories[b], rng)
            self.memories = [*self.memories[:b], memory, *self.memories[b + 1 :]]
            plans.append(plan)
            self._test_model(b, plan)
        return ControlPlans(plans)

    def skill(self, plan: ControlPlan, replica: int = 0) -> Skill | None:
        """Return how well the model of a plan predicts steps that are left out of it; None before any data."""
        if plan.world is None or plan.value is None:
            return None
        observed = self.planner.observed(self.data[replica].thinned(_TEST_STEPS), plan.scale)
        return skill_of(observed, plan.world.dynamics, plan.value, self.settings.value_points)

    def _test_model(self, b: int, plan: ControlPlan) -> None:
        """Say once if the model does not predict; it is tested rarely, by how many steps there are."""
        n, needed = len(self.data[b].actions), max(_CHECKED, _CHECKED_EACH * self.task.n_coordinates)
        if n < needed or n < _CHECK_AGAIN * self._tested[b] or "model" in self._said:
            return
        self._tested[b] = n
        skill = self.skill(plan, b)
        words = None if skill is None else skill.words()
        if words is not None:
            self._say("model", f"after {n:,} steps of {self.problem.name}, {words}")

    def _say(self, what: str, words: str) -> None:
        """Warn the user, once for each cause."""
        if what not in self._said:
            self._said.add(what)
            warnings.warn(words, MatrixRLWarning, stacklevel=users_stacklevel())

    def revised(self, plan: ControlPlans, steps: Callable[[int], Steps]) -> ControlPlans:
        """Plan again during an episode when the model failed several times, with the steps of the episode so far.

        The patience grows each time. A reward that doubles the range of rewards is enough once there are many steps.
        Plans of a known MDP are kept, so that their exact regret can be measured.
        """
        if not self.settings.revise or self.problem.mdp is not None:
            return plan
        one, now = plan.plans[0], Experience.of(self.as_learned(steps(-1)), 0)
        reward = float(now.rewards[0])
        if not one.is_surprised(now.obs[0], int(now.actions[0]), reward, now.next_obs[0]):
            return plan
        one = replace(one, surprises=one.surprises + 1)
        is_wider = len(self.data[0].actions) >= _CHECKED and one.widened_by(reward) >= _WIDER
        if one.surprises < one.patience and not is_wider:
            return ControlPlans([one])
        so_far = Experience.of(self.as_learned(steps(0)), 0)
        if self.task.horizon - len(so_far.actions) < _TOO_LATE:
            return ControlPlans([one])
        scale = copy(self.scales[0])
        scale.see(np.concatenate([so_far.obs, so_far.next_obs]))
        starts = np.append(self.starts[0], len(self.data[0].actions))
        everything = self.data[0].followed_by(so_far)
        rng = self.streams["sampling"][0]
        new, memory = self.planner.plan(everything, starts, scale, self.memories[0], rng)
        self.memories = [memory]
        more = 1 if is_wider else _MORE_PATIENCE
        return ControlPlans([replace(new, patience=max(new.patience, more * one.patience))])

    def planning_memory(self) -> list[Memory]:
        """Return what `make_plan` remembers."""
        return self.memories

    def restore_planning_memory(self, memory: list[Memory]) -> None:
        """Take back what `planning_memory` returned."""
        self.memories = memory

    def act(self, plan: ControlPlans, stage: int, states: NDArray[Any], *, explore: bool = True) -> IntArray:
        """Return the best actions; ties at random, so that an empty plan plays at random: (B, p) → (B,)."""
        actions = np.empty(len(plan.plans), dtype=np.int64)
        for b, one in enumerate(plan.plans):
            rng = self.streams["ties"][b] if explore else None
            actions[b] = self._act(one, stage, one.scale(states[b]), rng)
        return actions

    def _act(self, plan: ControlPlan, stage: int, state: FloatArray, rng: np.random.Generator | None) -> int:
        if plan.value is None and self.grid.is_box and rng is not None:
            return int(rng.integers(self.problem.actions.size))
        q = plan.q(stage, state[None], self.grid.planned)[0]
        chosen = best_action_at_random(q, _SLACK * max(1.0, float(np.abs(q).max())), rng)
        if plan.value is None or not self.grid.is_box:
            return int(self.grid.numbers[chosen])
        return int(self.grid.number(plan.refined(stage, state, self.grid.planned[chosen])))

    def action_values(
        self, plan: ControlPlans, stage: int, states: NDArray[Any], *, explore: bool = True
    ) -> FloatArray:
        """Return Q of the plans for discrete actions: (B, p) → (B, A)."""
        del explore
        if self.grid.is_box:
            fail("allowed", "must be left out for continuous actions", "a choice of actions", "Leave it out.")
        rows = [one.q(stage, one.scale(states[b : b + 1]), self.grid.planned)[0] for b, one in enumerate(plan.plans)]
        return np.stack(rows)

    def upper(self, plan: ControlPlans, first_states: NDArray[Any] | None = None) -> FloatArray:
        """Return what the plans expect an episode from the first states to be worth: (B,); NaN without them."""
        if first_states is None:
            return np.full(len(plan.plans), np.nan)
        return np.array([self._value(one, 0, first_states[b : b + 1])[0] for b, one in enumerate(plan.plans)])

    def _value(self, plan: ControlPlan, stage: int, obs: FloatArray) -> FloatArray:
        if plan.value is None:
            return np.full(len(obs), np.nan)
        return plan.value.at(stage, plan.scale(obs))

    def value(self, plan: ControlPlans, stage: int, obs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values and novelty of observations (n, p) in the first replica, each (n,)."""
        one = plan.plans[0]
        if one.world is None:
            return self._value(one, stage, obs), np.ones(len(obs))
        return self._value(one, stage, obs), one.world.arrivals.novelty(one.scale(obs))

    def observations(self) -> FloatArray:
        """Return the observations that the first replica acted on: (n, p)."""
        return self.data[0].obs

    def experience(self) -> Experience:
        """Return all steps of the first replica."""
        return self.data[0]

    def policy_table(self, plan: ControlPlans) -> IntArray:
        """Return the actions at the observations of a known MDP's states: (B, H, S); ties go to the lowest action."""
        points = self.problem.points
        if points is None:
            self.problem.refuse("must have observations of known states to have a table", "Use predict(obs, stage).")
        return np.stack([self._table(one, points) for one in plan.plans])

    def _table(self, plan: ControlPlan, points: FloatArray) -> IntArray:
        horizon = self.task.horizon
        if plan.world is None or plan.value is None:
            return np.zeros((horizon, len(points)), dtype=np.int64)
        ahead = plan.world.backups(plan.scale(points), self.grid.planned)
        tables = []
        for h in range(horizon):
            q = ahead.pays + ahead.goes_on * plan.value.at(h + 1, ahead.following)
            tables.append(self.grid.numbers[q.reshape(len(points), -1).argmax(axis=1)])
        return np.stack(tables)

    def learn(self, steps: Steps) -> None:
        """Add the steps that were taken to each replica's data."""
        for b in range(self.n_replicas):
            more = Experience.of(steps, b)
            self._note_rewards(b, more.rewards)
            self.starts[b] = np.append(self.starts[b], len(self.data[b].actions))
            self.data[b] = self.data[b].followed_by(more)
            self.scales[b].see(np.concatenate([more.obs, more.next_obs]))

    def _note_rewards(self, b: int, rewards: FloatArray) -> None:
        """Say once that rewards widened a declared range, or one that had been the same for several episodes."""
        number = self.episode + 1
        if self.outside.first_episode == number and self.problem.reward_outside == "widen":
            self._say("range", f"episode {number} of {self.problem.name}: {self.reward_words}. Plans are made again.")
        before, known = self.data[b].rewards, self.problem.task.reward_range
        if known is not None or len(self.starts[b]) < _SETTLED or len(before) < _CHECKED or not len(rewards):
            return
        low, high = float(before.min()), float(before.max())
        now = min(low, float(rewards.min())), max(high, float(rewards.max()))
        if high > low and now[1] - now[0] >= _WIDER * (high - low):
            self._say(
                "range",
                f"episode {number} of {self.problem.name} had rewards far outside those seen before: their range grew "
                f"from [{low:g}, {high:g}] to [{now[0]:g}, {now[1]:g}]. Plans are made again for the wider range.",
            )

    def n_steps(self) -> FloatArray:
        """Return the number of steps: (B,)."""
        return np.array([float(len(data.actions)) for data in self.data])

    def n_features(self) -> list[int]:
        """Return the number of inducing points of the value in each replica."""
        return [0 if memory.value is None else len(memory.value.points) for memory in self.memories]

    def length_scales(self) -> FloatArray:
        """Return the fitted length scales of states and actions in units of the scaled coordinates: (B, g)."""
        return np.stack([np.exp(memory.kernel[:-1]) for memory in self.memories])

    def learned(self) -> Arrays:
        """Return data of every replica, and what its last plan left."""
        arrays: Arrays = {}
        for b in range(self.n_replicas):
            own: Arrays = {f"data_{name}": getattr(self.data[b], name) for name in STEP_NAMES}
            own |= {"seen": self.scales[b].seen, "starts": self.starts[b], **memory_arrays(self.memories[b])}
            arrays |= {f"{b}_{name}": array for name, array in own.items()}
        return arrays

    def learned_shapes(self, problem: Problem, n_replicas: int) -> Shapes:
        """Return the shapes of what `learned` returns; the numbers of steps and points are those of the file."""
        assert isinstance(problem.task, ContinuousTask)
        p = problem.task.n_coordinates
        steps: dict[str, tuple[int | None, ...]] = dict.fromkeys((f"data_{name}" for name in STEP_NAMES), (None,))
        steps |= {"data_obs": (None, p), "data_next_obs": (None, p), "seen": (p,), "starts": (None,)}
        left: dict[str, tuple[int | None, ...]] = {"kernel": (None,), "fitted": (None,), "search": (3,)}
        left |= {"value_points": (None, None), "value_theta": (None, None)}
        left |= dict.fromkeys(("value_centre", "value_low", "value_high"), (None,))
        return {f"{b}_{name}": shape for b in range(n_replicas) for name, shape in (steps | left).items()}

    def check_learned(self, arrays: Arrays, episode: int) -> None:
        """Refuse arrays that `learned` could not have returned."""
        parts = [of_replica(arrays, b) for b in range(self.n_replicas)]
        names = {"seen", "starts", *(f"data_{name}" for name in STEP_NAMES), *memory_arrays(Memory.empty())}
        if sum(map(len, parts)) != len(arrays) or any(set(part) != names for part in parts):
            raise InvalidInput(f"the arrays must be {sorted(names)} of {self.n_replicas} replicas")
        for part in parts:
            data = Experience(*(part[f"data_{name}"] for name in STEP_NAMES))
            check_steps(data, part["seen"], self.problem, episode)
            starts = part["starts"]
            fits = starts.dtype == np.int64 and starts.shape == (episode,)
            if not fits or (
                episode and (starts[0] != 0 or starts[-1] >= len(data.actions) or (np.diff(starts) < 1).any())
            ):
                raise InvalidInput("starts must be the first steps of the episodes")
            memory_from(part, self)

    def load_learned(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `learned` returned."""
        for b in range(self.n_replicas):
            part = of_replica(arrays, b)
            self.data[b] = Experience(*(part[f"data_{name}"] for name in STEP_NAMES))
            self.scales[b].restore(part["seen"].copy())
            self.starts[b] = part["starts"].copy()
        self.memories = [memory_from(of_replica(arrays, b), self) for b in range(self.n_replicas)]

    def plan_to_arrays(self, plan: ControlPlans) -> Arrays:
        """Return the plan of the only replica."""
        return dict(plan.plans[0].arrays())

    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> ControlPlans:
        """Return the plan that `plan_to_arrays` wrote."""
        return ControlPlans([plan_from(arrays, self)])
