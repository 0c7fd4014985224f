"""What algorithms on numbered states share: unit rewards, tables as plans, backward induction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Algorithm, Arrays
from matrixrl.algorithms.plug_ins import check_q, check_q_axes, is_plug_in
from matrixrl.algorithms.reported_masks import NOT_PLAYED, REPORTED_MASKS, TRIED, ReportedMasks
from matrixrl.checks import fail
from matrixrl.core.backup import Frame, greedy_plan
from matrixrl.core.greedy import greedy_actions, lowest_first, random_actions, random_rankings, tie_weights
from matrixrl.core.start import Start
from matrixrl.errors import InvalidInput
from matrixrl.features import AllowedPart, Features, allowed_part
from matrixrl.problems import Problem, Task
from matrixrl.problems.masks import action_list
from matrixrl.records import BoolArray, FloatArray, IntArray, Plan, Steps

__all__ = ["FiniteAlgorithm", "plan_from_arrays"]


class FiniteAlgorithm(Algorithm):
    """An algorithm whose plan is one deterministic table for each replica.

    Values inside are of unit rewards in [0, 1]. An algorithm that acts at random draws a table for each episode,
    which is the same, because an episode asks each (stage, state) at most once.
    """

    _reported: ReportedMasks | None = None
    _tried: BoolArray | None = None  # (S, A) pairs that were learned from, where an environment may report masks
    q_axes: ClassVar[tuple[str, ...]] = ()
    """Axes of Q of a user's class, ("replica", "action", "state"); needed only where they cannot be checked."""
    _part: AllowedPart | None = None
    _q_out: FloatArray | None = None

    @property
    def task(self) -> Task:
        """Description of the problem, as far as an agent may know it."""
        return self.problem.finite_task

    @property
    def features(self) -> Features:
        """φ and ψ."""
        assert self.problem.features is not None
        return self.problem.features

    @property
    def unit_reward(self) -> FloatArray:
        """(A, S) known rewards, mapped to [0, 1]."""
        return self._unit_reward

    @property
    def frame(self) -> Frame:
        """Horizon, sizes and allowed actions of a plan."""
        return self._frame

    @property
    def allowed(self) -> BoolArray | None:
        """(A, S) allowed actions, declared, or reported by the environment; None if all are."""
        return self._frame.allowed

    @property
    def declared_frame(self) -> Frame:
        """The frame with the actions that were declared as allowed: masks may be reported after a plan was made."""
        return replace(self._frame, allowed=self.problem.allowed_by_action)

    @property
    def n_pairs(self) -> int:
        """Number of allowed pairs of a state and an action, those of the end state included."""
        return self.task.n_pairs if self._reported is None else int(np.count_nonzero(self._reported.allowed))

    @property
    def part(self) -> AllowedPart:
        """φ of the allowed pairs, whose constants proofs need; φ itself if all are allowed."""
        if self._part is None:
            self._part = allowed_part(self.features.phi, self.allowed)
        return self._part

    def begin(self) -> None:
        """Prepare what follows from the task; subclasses allocate what they learn after calling this."""
        self.use_task()
        task = self.task
        self._tried = np.zeros((task.n_states, task.n_actions), dtype=np.bool_) if self.may_be_told else None
        self._replica = np.arange(self.n_replicas)

    def use_task(self) -> None:
        """Map the rewards of the task to [0, 1], and take its allowed actions."""
        task = self.task
        self._unit_reward: FloatArray = np.ascontiguousarray(task.unit_reward.T)
        end_reward = (0.0 - task.reward_range[0]) / task.unit
        self._frame = Frame(
            task.horizon,
            task.n_actions,
            task.n_states,
            task.end_state,
            end_reward,
            stages=task.stages,
            discount=task.discount,
        )
        self.use_masks()

    def use_masks(self) -> None:
        """Plan with the allowed actions of the task, or with those that the environment reported so far."""
        table = self.task.allowed if self._reported is None else self._reported.allowed
        allowed = None if table is None or table.all() else np.ascontiguousarray(table.T)
        self._frame = replace(self._frame, allowed=allowed)
        self._part = None

    def allowed_at(self, state: Any, stage: int) -> BoolArray | None:
        """Return which actions (A,), counted from 0, a state allows at a stage, declared or reported; None for all."""
        if not isinstance(self.problem.task, Task) or self._frame.allowed is None:
            return None
        allowed, stages = self._frame.allowed[:, int(state)], self._frame.stages
        return allowed if stages is None else allowed[stages.block(stage)]

    @property
    def may_be_told(self) -> bool:
        """Whether allowed actions are not declared, so that an environment may report them."""
        problem = self.problem
        if problem.kind != "finite" or problem.mdp is not None or problem.ignores_masks:
            return False
        return self.task.allowed is None

    @property
    def reported_masks(self) -> ReportedMasks | None:
        """Masks that the environment reported so far, another object after each new one; None if there are none."""
        return self._reported

    def permitted(self, plan: Any) -> Any:
        """Return a plan with the best allowed action, by Q, in place of each one that a newer mask forbids.

        This is what an open episode answers in such a state.
        """
        frame = self._frame
        if not isinstance(plan, Plan) or frame.allowed is None or frame.permits(plan.policy):
            return plan
        q = np.empty((self.n_replicas, frame.horizon, frame.n_actions, frame.n_states))
        self.fill_in_q(q)
        for h in range(frame.horizon):
            frame.exclude(q[:, h], h)
        ties = tie_weights(lowest_first(frame.n_actions, self.n_replicas), frame.horizon)
        best = greedy_actions(q, ties[:, None, :, None], axis=2)
        fits = frame.allowed[plan.policy, np.arange(frame.n_states)]
        return replace(plan, policy=np.where(fits, plan.policy, best).astype(plan.policy.dtype))

    def start(self, problem: Problem, seeds: Sequence[int]) -> Algorithm:
        """Return a copy that is ready to play a problem; see `Algorithm.start`.

        Raises:
            InvalidInput: Q of a user's class has its axes in another order, or that cannot be checked.
        """
        started = super().start(problem, seeds)
        if type(started) is type(self) and is_plug_in(type(self), "make_plan"):
            check_q_axes(self, started)
        return started

    def update(self, steps: Steps, plan: Any = None, *, n_episodes: int = 1) -> None:
        """Learn from one episode in each replica; see `Algorithm.update`."""
        super().update(steps, plan, n_episodes=n_episodes)
        if self._tried is not None:
            self._tried[steps.states[steps.taken], steps.actions[steps.taken]] = True

    def tell_mask(self, state: Any, mask: BoolArray) -> None:
        """Take note of the actions (A,) that are allowed in a state; plans heed them from the next one on.

        Raises:
            InvalidInput: Another mask was reported for the state.
        """
        task, s = self.task, int(state)
        mask = mask if task.stages is None else np.tile(mask, task.stages.n_classes)  # a mask is that of a state
        reported = self._reported or ReportedMasks.none(task.n_states, task.n_actions, task.end_state)
        if not reported.known[s]:
            self._take_masks(reported.with_mask(s, mask))
        elif not np.array_equal(reported.allowed[s], mask):
            actions = self.problem.actions
            rule = f"must be the same at every visit of state {self.problem.shown_state(s)}"
            n = actions.size
            received = f"{action_list(mask[:n], actions)} after {action_list(reported.allowed[s, :n], actions)}"
            fail("action mask", rule, received, "If more than the state decides, make it part of the state.")

    def _take_masks(self, reported: ReportedMasks | None) -> None:
        if reported is not self._reported:
            self._reported = reported
            self.use_masks()

    @property
    def claim(self) -> Literal[True] | str:
        """`guarantee`, or why data or masks that the environment reported withdrew it."""
        return self.with_masks(super().claim)

    def with_masks(self, words: Literal[True] | str) -> Literal[True] | str:
        """Return a claim about regret, or why masks that the environment reported withdrew it."""
        return words if words is not True or self._reported is None else self._reported.regret_words()

    def certificate_claim(self, alarmed: bool) -> Literal[True] | str:
        """`certificate_guarantee`, or why data or masks that are not known yet withdrew it."""
        words = super().certificate_claim(alarmed)
        if words is not True:
            return words
        if self._reported is None:
            is_new = self.episode == self.logged_episodes and self.problem.env is not None and self.may_be_told
            return NOT_PLAYED if is_new else True
        return self._reported.certificate_words(self._tried) or True

    def mark(self) -> tuple[Any, ...]:
        """Return everything that planning, acting and masks change, to go back to."""
        return self._reported, super().mark()

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Go back to what `mark` returned."""
        reported, rest = mark
        self._take_masks(reported)
        super().rewind(rest)

    def state(self) -> Arrays:
        """Return everything that is needed to go on bit for bit, as named arrays."""
        told = {} if self._reported is None else {REPORTED_MASKS: self._reported.array()}
        return super().state() | told | ({} if self._tried is None else {TRIED: self._tried.copy()})

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state` of an algorithm with the same problem, settings and seeds returned.

        Raises:
            InvalidInput, ValueError: The arrays do not fit.
        """
        rest = {name: array for name, array in state.items() if name not in (REPORTED_MASKS, TRIED)}
        if REPORTED_MASKS in state:
            task = self.task
            if task.allowed is not None or self.problem.mdp is not None or self.problem.ignores_masks:
                raise InvalidInput(f"{REPORTED_MASKS} must be left out of a problem whose allowed actions are declared")
            none = ReportedMasks.none(task.n_states, task.n_actions, task.end_state)
            self._take_masks(none.restored(state[REPORTED_MASKS]))
        super().restore(rest)
        self._restore_tried(state.get(TRIED))

    def _restore_tried(self, tried: NDArray[Any] | None) -> None:
        """Take back the pairs that were learned from; None if they were not saved, so that any pair may be one."""
        if tried is None:
            self._tried = None
            return
        shape = (self.task.n_states, self.task.n_actions)
        if tried.shape != shape or tried.dtype != np.bool_:
            raise InvalidInput(f"{TRIED} must be booleans of shape {shape}")
        self._tried = tried.copy()

    def action_values(self, plan: Plan, stage: int, states: NDArray[Any], *, explore: bool = True) -> FloatArray:
        """Return Q of all actions at a stage, by a plan that is made again from the data at hand: (B,) → (B, A)."""
        del plan, explore
        frame = self._frame
        q = np.empty((self.n_replicas, frame.horizon, frame.n_actions, frame.n_states))
        self.fill_in_q(q)
        found: FloatArray = q[self._replica, stage, :, states]
        return found

    def fill_in_q(self, q: FloatArray) -> None:
        """Fill in Q (B, H, A, S) of the plan that all data advise; no random stream moves."""
        mark, self._q_out = self.mark(), q
        try:
            self.make_plan()
        finally:
            self._q_out = None
            self.rewind(mark)

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
            unit = self.start_values(plan.values, None)
        else:
            unit = plan.values[self._replica, 0, np.asarray(first_states)]
        return self.task.to_own_unit(unit + self.task.tail)

    def start_values(self, values: FloatArray, start: Start | None, *, sign: float = 1.0) -> FloatArray:
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

    def policy_table(self, plan: Plan) -> IntArray:
        """Return the table: (B, H, S)."""
        return plan.policy

    def plan_to_arrays(self, plan: Plan) -> Arrays:
        """Return the tables of a plan."""
        return plan.arrays()

    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Plan:
        """Return the plan of one replica that `plan_to_arrays` wrote."""
        return plan_from_arrays(arrays, self.declared_frame, n_replicas=1)

    def to_unit(self, rewards: FloatArray) -> FloatArray:
        """Return rewards in the environment's unit mapped to [0, 1]."""
        unit: FloatArray = (rewards - self.task.reward_range[0]) / self.task.unit
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
            own, shape = q_of, (self.n_replicas, self._frame.n_actions, self._frame.n_states)
            q_of = lambda stage, values: check_q(self.name, own(stage, values), shape)  # noqa: E731
        high = self._frame.lefts() if cap else None
        chosen = self.draw_rankings() if rankings is None else rankings
        return greedy_plan(q_of, self._frame, chosen, high=high, q_out=self._q_out)

    def draw_actions(self, rng: np.random.Generator) -> IntArray:
        """Return one action for each stage and state (H, S), drawn uniformly among those allowed."""
        frame, stages = self._frame, self._frame.stages
        if stages is None:
            return random_actions(rng, (frame.horizon, frame.n_states), frame.n_actions, frame.allowed)
        drawn = [
            random_actions(
                rng, (frame.n_states,), stages.n_own, None if frame.allowed is None else frame.allowed[stages.block(h)]
            )
            for h in range(frame.horizon)
        ]
        inner: IntArray = stages.inner_table(np.stack(drawn))
        return inner

    def draw_rankings(self) -> FloatArray:
        """Return one random ranking of the actions for each replica, which breaks ties: (B, A)."""
        return random_rankings(self.streams["ties"], self.task.n_actions)


def plan_from_arrays(arrays: Mapping[str, NDArray[Any]], frame: Frame, *, n_replicas: int) -> Plan:
    """Return the plan of saved tables, or raise if they do not fit."""
    plan = Plan(arrays["policy"], arrays["values"], arrays["empty"])
    fits = (
        plan.policy.shape == (n_replicas, frame.horizon, frame.n_states)
        and plan.policy.dtype.kind in "iu"
        and plan.values.shape == (n_replicas, frame.horizon + 1, frame.n_states)
        and plan.values.dtype == np.float64
        and plan.empty.shape == (n_replicas,)
        and plan.empty.dtype.kind == "i"
        and set(arrays) == {"policy", "values", "empty"}
        and 0 <= plan.policy.min() <= plan.policy.max() < frame.n_actions
        and frame.permits(plan.policy)
        and not plan.values[:, -1].any()
        and bool((plan.empty >= 0).all())
    )
    if not fits:
        raise InvalidInput("the plan does not fit the problem")
    return plan
