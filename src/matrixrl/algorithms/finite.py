"""What algorithms on numbered states share: unit rewards, tables as plans, backward induction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Algorithm
from matrixrl.algorithms.plug_ins import check_q, check_q_axes, is_plug_in
from matrixrl.archive import check_arrays
from matrixrl.core.backup import Frame, greedy_plan
from matrixrl.core.greedy import greedy_actions, lowest_first, random_actions, random_rankings, tie_weights
from matrixrl.core.start import Start
from matrixrl.errors import InvalidInput
from matrixrl.features import AllowedPart, Features, allowed_part
from matrixrl.problems import Problem, Task
from matrixrl.records import FloatArray, IntArray, Plan

__all__ = ["FiniteAlgorithm", "permitted", "plan_from_arrays"]


class FiniteAlgorithm(Algorithm):
    """An algorithm whose plan is one deterministic table for each replica.

    Values inside are of unit rewards in [0, 1]. An algorithm that acts at random draws a table for each episode,
    which is the same, because an episode asks each (stage, state) at most once.

    Attributes:
        task: Description of the problem, as far as an agent may know it.
        frame: Horizon, sizes and allowed actions of a plan.
        unit_reward: (A, S) known rewards, mapped to [0, 1].
    """

    task: Task
    frame: Frame
    unit_reward: FloatArray
    q_axes: ClassVar[tuple[str, ...]] = ()
    """Axes of Q of a user's class, ("replica", "action", "state"); needed only where they cannot be checked."""
    _allowed_part: AllowedPart | None = None
    _q_out: FloatArray | None = None
    _may_learn_masks = True

    @property
    def features(self) -> Features:
        """Features φ and ψ of the problem."""
        assert self.problem.features is not None
        return self.problem.features

    @property
    def _declared_frame(self) -> Frame:
        """The frame with the actions that were declared as allowed: masks may be reported after a plan was made."""
        return replace(self.frame, allowed=self.problem.allowed_by_action)

    @property
    def _n_pairs(self) -> int:
        """Number of allowed pairs of a state and an action, those of the end state included."""
        reported = self.masks.reported
        return self.task.n_pairs if reported is None else int(np.count_nonzero(reported.allowed))

    @property
    def _part(self) -> AllowedPart:
        """φ of the allowed pairs, whose constants proofs need; φ itself if all are allowed."""
        if self._allowed_part is None:
            assert self.problem.features is not None
            self._allowed_part = allowed_part(self.problem.features.phi, self.frame.allowed)
        return self._allowed_part

    def _started(self, problem: Problem, seeds: Sequence[int]) -> Algorithm:
        started = super()._started(problem, seeds)
        if type(started) is type(self) and is_plug_in(type(self), "make_plan"):
            check_q_axes(self, started)
        return started

    def _start(self, problem: Problem, seeds: Sequence[int]) -> Self:
        if problem.kind == "finite":
            self.task = problem.finite_task  # which a user's `begin` may read first
        return super()._start(problem, seeds)

    def begin(self) -> None:
        """Map rewards to [0, 1] and take the allowed actions; subclasses call this, then allocate what they learn."""
        self.task = task = self.problem.finite_task
        self.unit_reward = np.ascontiguousarray(task.unit_reward.T)
        self.frame = Frame(
            task.horizon,
            task.n_actions,
            task.n_states,
            task.end_state,
            (0.0 - task.reward_range[0]) / task.unit,
            allowed=self.masks.by_action,
            choices=task.choices,
            discount=task.discount,
        )
        self._replica = np.arange(self.n_replicas)

    def _use_masks(self) -> None:
        """Plan with the actions that are allowed, as the environment reported just now."""
        self.frame = replace(self.frame, allowed=self.masks.by_action)
        self._allowed_part = None

    def action_values(self, plan: Plan, stage: int, states: NDArray[Any], *, explore: bool = True) -> FloatArray:
        """Return Q of all actions at a stage, by a plan that is made again from the data at hand: (B,) → (B, A)."""
        del plan, explore
        found: FloatArray = self.q_table()[self._replica, stage, :, states]
        return found

    def q_table(self) -> FloatArray:
        """Return Q (B, H, A, S) of the plan that all data advise, in unit rewards; no random stream moves."""
        frame = self.frame
        q = np.empty((self.n_replicas, frame.horizon, frame.n_actions, frame.n_states))
        undo, self._q_out = self.mark(), q
        try:
            self.make_plan()
        finally:
            self._q_out = None
            undo()
        return q

    def act(self, plan: Plan, stage: int, states: NDArray[Any], *, explore: bool = True) -> IntArray:
        """Return the actions of the table: states (B,) → (B,)."""
        del explore
        actions: IntArray = plan.policy[self._replica, stage, states]
        return actions

    def upper(self, plan: Plan, first_states: NDArray[Any] | None = None) -> FloatArray:
        """Return what the plan expects an episode to be worth, in the environment's unit: (B,).

        Steps that are cut off from an endless episode are expected to earn the largest reward.
        """
        if first_states is None:
            unit = self._start_values(plan.values, None)
        else:
            unit = plan.values[self._replica, 0, np.asarray(first_states)]
        return self.task.to_own_unit(unit + self.task.tail)

    def _start_values(self, values: FloatArray, start: Start | None, *, sign: float = 1.0) -> FloatArray:
        """Return bounds on the mean of first-stage values (B, H+1, S) over the first states: (B,).

        Args:
            values: Bounds on values of the same side as `sign`.
            start: Where episodes start; None for the start of the task.
            sign: 1 for upper bounds, -1 for lower bounds, which differ if the start is estimated.
        """
        if start is None:
            averaged: FloatArray = values[:, 0] @ self.task.start
            return averaged
        possible = values[:, 0, : self.problem.n_observed]
        ends = possible.max(axis=1) if sign > 0 else possible.min(axis=1)
        each = zip(values[:, 0, start.states], ends.tolist(), strict=True)
        return np.array([start.mean(at, end, sign=sign) for at, end in each])

    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Plan:
        """Return the plan of one replica whose `arrays` were saved."""
        return plan_from_arrays(arrays, self._declared_frame, n_replicas=1)

    def to_unit(self, rewards: FloatArray) -> FloatArray:
        """Return rewards in the environment's unit mapped to [0, 1], which a rounding error cannot leave."""
        unit: FloatArray = np.clip((rewards - self.task.reward_range[0]) / self.task.unit, 0.0, 1.0)
        return unit

    def induct(
        self,
        q_of: Callable[[int, FloatArray], FloatArray],
        *,
        cap: bool = True,
        rankings: FloatArray | None = None,
    ) -> Plan:
        """Return the plan that is greedy in Q by backward induction.

        Args:
            q_of: (stage, discounted V of the next stage (B, S)) → Q of this stage (B, A, S), which may be changed
                afterwards.
            cap: Keep V_h in [0, H − h], or in what a discount makes of it, as rewards are in [0, 1].
            rankings: (B, A) rankings of the actions that break ties; drawn by default.
        """
        if is_plug_in(type(self), "make_plan"):
            own, shape = q_of, (self.n_replicas, self.frame.n_actions, self.frame.n_states)
            q_of = lambda stage, values: check_q(self.name, own(stage, values), shape)  # noqa: E731
        high = self.frame.lefts() if cap else None
        chosen = self._draw_rankings() if rankings is None else rankings
        return greedy_plan(q_of, self.frame, chosen, high=high, q_out=self._q_out)

    def _draw_actions(self, rng: np.random.Generator) -> IntArray:
        """Return one action for each stage and state (H, S), drawn uniformly among those allowed."""
        frame, allowed = self.frame, self.frame.allowed
        if frame.has_all:
            return random_actions(rng, (frame.horizon, frame.n_states), frame.n_actions, allowed)
        drawn = [
            first
            + random_actions(rng, (frame.n_states,), stop - first, None if allowed is None else allowed[first:stop])
            for first, stop in frame.choices.tolist()
        ]
        return np.stack(drawn)

    def _draw_rankings(self) -> FloatArray:
        """Return one random ranking of the actions for each replica, which breaks ties: (B, A)."""
        return random_rankings(self.streams["ties"], self.task.n_actions)


def permitted(algorithm: Algorithm, plan: Any) -> Any:
    """Return a plan with the best allowed action, by Q, in place of each one that a newer mask forbids.

    This is what an open episode answers in such a state.
    """
    if not isinstance(algorithm, FiniteAlgorithm):
        return plan
    frame, allowed = algorithm.frame, algorithm.frame.allowed
    if allowed is None or frame.permits(plan.policy):
        return plan
    q = algorithm.q_table()
    for h in range(frame.horizon):
        frame.exclude(q[:, h], h)
    ties = tie_weights(lowest_first(frame.n_actions, len(q)), frame.horizon)
    best = greedy_actions(q, ties[:, None, :, None], axis=2)
    fits = allowed[plan.policy, np.arange(frame.n_states)]
    return replace(plan, policy=np.where(fits, plan.policy, best).astype(plan.policy.dtype))


def plan_from_arrays(arrays: Mapping[str, NDArray[Any]], frame: Frame, *, n_replicas: int) -> Plan:
    """Return the plan of saved tables, or raise if they do not fit."""
    shape, policy = (n_replicas, frame.horizon, frame.n_states), arrays["policy"]
    like = {
        "policy": np.empty(shape, dtype=policy.dtype if policy.dtype.kind in "iu" else np.int64),
        "values": np.empty((n_replicas, frame.horizon + 1, frame.n_states)),
        "empty": np.empty(n_replicas, dtype=np.int64),
    }
    check_arrays(arrays, like)
    if not (0 <= policy.min() <= policy.max() < frame.n_actions and frame.permits(policy)):
        raise InvalidInput("the plan does not fit the problem")
    return Plan(policy, arrays["values"], arrays["empty"])
