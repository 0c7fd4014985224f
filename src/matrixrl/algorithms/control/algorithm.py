"""ContinuousControl: plan in a kernel model of the dynamics, for B replicas."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.continuous.base import Experience, VectorAlgorithm, VectorPlans
from matrixrl.algorithms.control.plan import ActionGrid, ControlPlan
from matrixrl.algorithms.control.planner import ControlModel, ControlSettings, Memory
from matrixrl.checks import fail, users_stacklevel
from matrixrl.errors import MatrixRLWarning
from matrixrl.features.kernels import matern_5_2
from matrixrl.problems import ContinuousTask, Problem
from matrixrl.records import FloatArray, Guarantee, IntArray, Steps
from matrixrl.settings import Settings

__all__ = ["MOST_COORDINATES", "ContinuousControl"]

_MORE_PATIENCE = 4  # factor of the patience after a plan was made again
_TOO_LATE = 10  # steps before the end of an episode in which plans are kept
MOST_COORDINATES = 64
"""Largest number of coordinates of an observation that a kernel is used for."""
_WIDER = 2.0  # factor by which a range of rewards has to grow for a plan to be made again at once
_SETTLED = 5  # episodes after which a range of rewards that grows so much is worth a warning
_CHECKED, _CHECKED_EACH = 200, 15  # steps, and steps for each coordinate, before the model is tested
_TEST_STEPS = 1500  # steps that a model is tested on, about
_CHECK_AGAIN = 1.5  # the model is tested again when there are this many times the steps
_CONSTANT = 1e-12  # variance below which a coordinate counts as constant
_UNPREDICTED = 0.1  # a coordinate of which a smaller share is explained is hardly predicted
_TOO_SPARSE = 0.03  # share of the kernel of values that points may miss
_TOO_MANY = 0.5  # share of coordinates that are not predicted beyond which a model is of no use


@dataclass(frozen=True)
class Skill:
    """Shares of what was observed that a model explains at steps that are left out of it."""

    # (p + 1,) for each coordinate of the next state, and for the reward: 1 minus the squared error over that of the
    # better of two simple predictions, that nothing changes and the mean; below 0 if they are better
    explained: FloatArray
    # Mean share of the kernel of values that its inducing points miss at states seen, if no more points are allowed;
    # else 0
    missed: float

    @property
    def unpredicted(self) -> IntArray:
        """Coordinates of the state that are hardly predicted."""
        return np.flatnonzero(self.explained[:-1] < _UNPREDICTED)

    def words(self) -> str | None:
        """Return why plans in this model are of little use, and what to do; None if there is no sign of it."""
        count, p = len(self.unpredicted), len(self.explained) - 1
        if count > _TOO_MANY * p:
            which = ", ".join(str(i) for i in self.unpredicted[:12]) + (", …" if count > 12 else "")
            return (
                f"the kernel model hardly predicts {count} of {p} coordinates of the next state ({which}), so plans in "
                "it are of little use. Leave out coordinates that do not matter, add those that are missing, or "
                "average noisy ones over several steps. If all of many coordinates matter, use deep RL."
            )
        if self.missed > _TOO_SPARSE:
            return (
                f"the inducing points of the value function, of which no more are allowed, miss {self.missed:.0%} of "
                f"its kernel at the states seen: {p} coordinates are many for a kernel, which needs neighbours, and "
                "plans may be of little use. Leave out coordinates that do not matter, allow more value_points and "
                "support, or use deep RL."
            )
        return None


class ContinuousControl(VectorAlgorithm):
    """Fits a kernel model of next states and rewards to all steps, and plans in it; one configuration for every task.

    The kernel model of YW19 Section 4 is used forward, to predict next states, in place of backward, to average values
    of next states. Length scales follow from the data. Nothing is proven; what is known is measured (docs/control.md).
    """

    name = "kernel-control"
    settings_class: ClassVar[type[Settings]] = ControlSettings
    _memory_names = ("memories",)
    settings: ControlSettings

    @property
    def guarantee(self) -> Guarantee:
        words = "measured, not proven: plans trust a fitted model of the dynamics, and the range of rewards seen so far"
        return Guarantee(False, words)

    def _check_problem(self, problem: Problem) -> None:
        """Refuse problems with too many dimensions for a kernel."""
        super()._check_problem(problem)
        task = problem.task
        assert isinstance(task, ContinuousTask)
        if task.n_coordinates > MOST_COORDINATES:
            rule = f"must have at most {MOST_COORDINATES} coordinates for a kernel, which needs neighbours"
            fail("problem", rule, f"{task.n_coordinates} coordinates", "Leave out coordinates, or use deep RL.")

    def begin(self) -> None:
        self.grid = ActionGrid.of(self.problem.actions, self.settings.action_points)
        self.models = [ControlModel(self.task, self.grid, self.settings) for _ in self.seeds]
        self._tested = [0 for _ in self.seeds]  # numbers of steps when models were tested last
        self._said: set[str] = set()

    def plan_of(self, replica: int, rng: np.random.Generator) -> ControlPlan:
        """Fit the model of one replica to the data at hand and plan in it."""
        plan: ControlPlan = self.models[replica].plan(rng)
        self._test_model(replica, plan)
        return plan

    def skill(self, plan: ControlPlan, replica: int = 0) -> Skill | None:
        """Return how well the model of a plan predicts steps that are left out of it; None before any data."""
        if plan.world is None or plan.value is None:
            return None
        model: ControlModel = self.models[replica]
        observed, value = model.observed(model.data.thinned(_TEST_STEPS), plan.scale), plan.value
        before = observed.x[:, : self.task.n_coordinates]
        spread = np.minimum(observed.change.var(axis=0), (before + observed.change).var(axis=0))
        on = observed.rewards[~observed.ended]
        spread = np.append(spread, on.var() if len(on) else 0.0)
        square = plan.world.dynamics.errors**2
        explained = np.where(square > 0.0, 1.0 - square / np.maximum(spread, np.finfo(np.float64).tiny), 1.0)
        missed = 0.0
        if len(value.points) >= self.settings.value_points:
            gram = matern_5_2(value.points, value.points)
            gram.flat[:: len(gram) + 1] += 1e-9
            k = value.features(before)
            missed = float(np.mean(1.0 - np.vecdot(k, np.linalg.solve(gram, k.T).T)))
        return Skill(np.where(spread > _CONSTANT, explained, 1.0), missed)

    def _test_model(self, b: int, plan: ControlPlan) -> None:
        """Say once if the model does not predict; it is tested rarely, by how many steps there are."""
        n, needed = len(self.models[b].data), max(_CHECKED, _CHECKED_EACH * self.task.n_coordinates)
        if n < needed or n < _CHECK_AGAIN * self._tested[b] or "model" in self._said:
            return
        self._tested[b] = n
        skill = self.skill(plan, b)
        if skill is not None and (words := skill.words()):
            self._say("model", f"after {n:,} steps of {self.problem.name}, {words}")

    def _say(self, what: str, words: str) -> None:
        """Warn the user, once for each cause."""
        if what not in self._said:
            self._said.add(what)
            warnings.warn(words, MatrixRLWarning, stacklevel=users_stacklevel())

    def revised(self, plan: VectorPlans, steps: Callable[[int], Steps]) -> VectorPlans:
        """Plan again during an episode when the model failed several times, with the steps of the episode so far.

        The patience grows each time. A reward that doubles the range of rewards is enough once there are many steps.
        Plans of a known MDP are kept, so that their exact regret can be measured.
        """
        if not self.settings.revise or self.problem.mdp is not None:
            return plan
        model: ControlModel = self.models[0]
        one: ControlPlan = plan.plans[0]
        now = Experience.of(self._clipped(steps(-1))[0], 0)
        reward = float(now.rewards[0])
        if not one.is_surprised(now.obs[0], int(now.actions[0]), reward, now.next_obs[0]):
            return plan
        one = replace(one, surprises=one.surprises + 1)
        is_wider = len(model.data) >= _CHECKED and one.widened_by(reward) >= _WIDER
        if one.surprises < one.patience and not is_wider:
            return VectorPlans([one])
        so_far = Experience.of(self._clipped(steps(0))[0], 0)
        if self.task.horizon - len(so_far) < _TOO_LATE:
            return VectorPlans([one])
        new = model.plan(self.streams["sampling"][0], so_far)
        more = 1 if is_wider else _MORE_PATIENCE
        return VectorPlans([replace(new, patience=max(new.patience, more * one.patience))])

    @property
    def memories(self) -> list[Memory]:
        """What the plans of each replica remember."""
        return [model.memory for model in self.models]

    @memories.setter
    def memories(self, memories: list[Memory]) -> None:
        for model, one in zip(self.models, memories, strict=True):
            model.memory = one

    def action_values(self, plan: VectorPlans, stage: int, states: NDArray[Any], *, explore: bool = True) -> FloatArray:
        """Return Q of the plans for discrete actions: (B, p) → (B, A)."""
        if self.grid.is_box:
            fail("allowed", "must be left out for continuous actions", "a choice of actions", "Leave it out.")
        return super().action_values(plan, stage, states, explore=explore)

    def learn(self, steps: Steps) -> None:
        for b, model in enumerate(self.models):
            self._note_rewards(model, Experience.of(steps, b).rewards)
        super().learn(steps)

    def _note_rewards(self, model: ControlModel, rewards: FloatArray) -> None:
        """Say once that rewards widened a range that had been the same for several episodes."""
        before, number = model.data.rewards, self.episode + 1
        is_settled = len(model.starts) >= _SETTLED and len(before) >= _CHECKED
        if self.task.reward_range is not None or not is_settled or not len(rewards):
            return
        low, high = float(before.min()), float(before.max())
        now = min(low, float(rewards.min())), max(high, float(rewards.max()))
        if high > low and now[1] - now[0] >= _WIDER * (high - low):
            self._say(
                "range",
                f"episode {number} of {self.problem.name} had rewards far outside those seen before: their range grew "
                f"from [{low:g}, {high:g}] to [{now[0]:g}, {now[1]:g}]. Plans are made again for the wider range.",
            )

    def n_features(self) -> list[int]:
        """Return the number of inducing points of the value in each replica."""
        return [0 if one.value is None else len(one.value.points) for one in self.memories]

    def length_scales(self) -> FloatArray:
        """Return the fitted length scales of states and actions in units of the scaled coordinates: (B, g)."""
        return np.stack([np.exp(memory.kernel[:-1]) for memory in self.memories])

    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> VectorPlans:
        return VectorPlans([ControlPlan.of_state(arrays, self.models[0].scale, self.grid, self.task.horizon)])
