"""UC-MatrixRL (YW19 Algorithm 1) on numbered states, for B replicas: a model, and plans by optimism over its bounds."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Algorithm, Arrays
from matrixrl.algorithms.finite import FiniteAlgorithm, plan_from_arrays
from matrixrl.algorithms.matrix_rl.claims import MatrixRLClaims
from matrixrl.algorithms.matrix_rl.kept_plan import KeptPlan
from matrixrl.algorithms.matrix_rl.rewards import RewardWatch
from matrixrl.algorithms.matrix_rl.settings import EXPLORE_FOR, MatrixRLSettings
from matrixrl.algorithms.plug_ins import is_plug_in
from matrixrl.checks import choice, fail
from matrixrl.compilation import to_compile
from matrixrl.core import (
    Clock,
    PolicyIntervals,
    ValueBounds,
    greedy_plan,
    optimal_plan,
    pessimistic_values,
    policy_bounds,
)
from matrixrl.core.backup import ScoredPlan
from matrixrl.core.greedy import lowest_first, random_rankings
from matrixrl.core.models import Model, ModelContext
from matrixrl.core.start import Start
from matrixrl.features import OneHotPhi
from matrixrl.logs import StepLog
from matrixrl.problems import Problem
from matrixrl.problems.problem import Kind
from matrixrl.records import Bounds, FloatArray, Guarantee, Plan, Steps
from matrixrl.settings import Settings
from matrixrl.tolerances import TIE

__all__ = ["UCMatrixRL"]


class UCMatrixRL(FiniteAlgorithm):
    """Optimism over a confidence set (YW19 Algorithm 1): the set makes the model, and plans are made from its bounds.

    Replicas share features and known rewards and nothing else, so B of them cost little more than one. With the setting
    `columns`, or on a `FunctionalTask`, `start` returns the form that plans on sampled columns.

    Attributes:
        model: The data, and the bounds that follow from them.
        rewards: The alarms on rewards.
        kept: The plan that is being played.

    >>> from matrixrl.problems import tabular
    >>> algorithm = UCMatrixRL(preset="tuned").start(Problem.of(tabular(n_states=3, horizon=4).mdp), seeds=[0, 1])
    >>> algorithm.plan().policy.shape
    (2, 4, 3)
    """

    name = "matrix-rl"
    kinds: ClassVar[tuple[Kind, ...]] = ("finite", "functional")
    settings_class: ClassVar[type[Settings]] = MatrixRLSettings
    _stream_names = ("ties",)
    _memory_names = ("kept",)
    settings: MatrixRLSettings
    model: Model
    rewards: RewardWatch
    kept: KeptPlan
    claims: MatrixRLClaims
    _claims_class = MatrixRLClaims
    _may_count: ClassVar[bool] = True  # whether the set `tightest` may be one that counts next states
    _planned: tuple[int, bool] | None = None  # revision at the last plan, and whether it was compiled
    _scored: ScoredPlan | None = None  # Q at that revision, once a second plan was asked for

    def form_for(self, problem: Problem) -> Self:
        """Return itself, or a copy with the set and the ties that `tightest` and `auto` mean for a problem."""
        may_count = self._may_count and not is_plug_in(type(self))
        settings = self.settings.for_features(problem.features, may_count=may_count, allowed=problem.allowed_by_action)
        if settings is self.settings and self.known_reward is not None:
            return self
        chosen = copy.copy(self)
        chosen.settings = settings
        chosen._decide_rewards(problem)
        return chosen

    def start(self, problem: Problem, seeds: Sequence[int]) -> Algorithm:
        """Return a copy that is ready to play a problem, on sampled columns where settings or problem ask for them."""
        chosen = self.form_for(problem)
        if chosen is not self:
            return UCMatrixRL.start(chosen, problem, seeds)
        is_function = problem.kind == "functional" and "functional" in self.kinds
        if self.settings.columns is None and not is_function:
            return super().start(problem, seeds)
        if is_plug_in(type(self)):
            rule = f"must be left out for {type(self).__name__}, a subclass"
            fail("columns", rule, self.settings.columns, "Leave it out.")
        from matrixrl.algorithms.matrix_rl.sampled import SampledMatrixRL

        sampled = SampledMatrixRL()
        sampled.settings = self.settings
        return sampled.start(problem, seeds)

    def begin(self) -> None:
        """Start without data and without a plan."""
        super().begin()
        task, chosen = self.task, self.settings
        self._set = chosen.make_set()
        self.model = self._set.make_model(
            ModelContext(
                features=self.features,
                unit_reward=self.unit_reward,
                horizon=task.horizon,
                n_replicas=self.n_replicas,
                delta=self.claims.model_delta,
                exploration=chosen.exploration,
                known_reward=bool(chosen.known_reward),
                switch_growth=chosen.switch_growth,
                part=self._part,
                allowed=self.frame.allowed,
                end_state=task.end_state,
                blocks=task.stages.blocks,
            )
        )
        self.rewards = RewardWatch(self.model, self.problem, delta=self.claims.delta)
        self.kept = KeptPlan()
        self._purpose: str = chosen.explore_for

    def _use_masks(self) -> None:
        """Plan with the actions that are allowed; a new plan is due."""
        super()._use_masks()
        self.kept, self._planned, self._scored = KeptPlan(), None, None
        self.model.use_masks(self._part, self.frame.allowed)

    @property
    def clock(self) -> Clock:
        """Number n of the episode to come, and N if it is known."""
        return Clock(self.episode + 1, self.settings.n_episodes)

    @property
    def guarantee(self) -> Guarantee:
        """Whether the regret bound is proven for these settings."""
        return self.claims.guarantee

    @property
    def steps_at_once(self) -> int:
        """Return a number of steps whose features take little memory: steps are added up."""
        return 1 if is_plug_in(type(self)) else self.model.steps_at_once

    def learn(self, steps: Steps) -> None:
        """Add the steps to the data (Algorithm 1, lines 11 and 12)."""
        unit, pairs = self.to_unit(steps.rewards), self.features.phi.pairs(steps.states, steps.actions)
        self.model.update(pairs, steps.next_states, unit, steps.weights)
        self.rewards.add(steps, pairs, unit, played=self.episode + 1, clock=self.clock)

    def update_from_log(self, log: StepLog) -> None:
        """Learn from episodes that others recorded, and compare rewards with φ at the end."""
        super().update_from_log(log)
        self.rewards.compare(self.clock)

    def plan(self) -> Plan:
        """Return the plan to play now: a new one where it is due, the last one elsewhere.

        Q does not depend on the rankings that break ties. So if no data came in since the last plan, only ties are
        broken again: the second plan on the same data keeps Q, as many episodes may be begun meanwhile.
        """
        kept, switches = self.kept, self.settings.switch_growth > 0.0
        due = (
            self.model.grew(kept.sizes)
            if switches and kept.sizes is not None
            else np.ones(self.n_replicas, dtype=np.bool_)
        )
        if due.any():
            lowest = lowest_first(self.task.n_actions, self.n_replicas)
            rankings = random_rankings(self.streams["ties"], self.task.n_actions, np.flatnonzero(due), lowest)
            at = (self.model.revision, self._compiles())
            if self._purpose == "certificate":
                fresh = self._certifying_plan(rankings)
            elif self._planned != at or is_plug_in(type(self)):
                self._planned, self._scored = at, None
                fresh = self.plan_with(rankings)
            else:
                self._scored = self._scored or self._scored_plan()
                fresh = self._scored.with_ties(rankings)
            is_whole = kept.plan is None or due.all()
            sizes = kept.sizes_after(self.model.size(), due) if switches else None
            self.kept = kept = KeptPlan(fresh if is_whole else kept.plan.updated(fresh, due), sizes)
            self.n_plans = self.n_plans + due
        return self._noting_alarms(kept.plan)

    def _noting_alarms(self, plan: Plan) -> Plan:
        """Return a plan that also counts the alarms on rewards, as one pair."""
        alarm = self.rewards.alarm
        return replace(plan, empty=plan.empty + alarm) if alarm.any() else plan

    def make_plan(self) -> Plan:
        """Return the optimistic plan for the data at hand, ties broken at random (Algorithm 1, line 6)."""
        return self._noting_alarms(self.plan_with(random_rankings(self.streams["ties"], self.task.n_actions)))

    def advice(self) -> Plan:
        """Return the optimistic plan for the data at hand, ties to the lowest action."""
        return self.plan_with(lowest_first(self.task.n_actions, self.n_replicas))

    def plan_with(self, rankings: FloatArray) -> Plan:
        """Return the optimistic plan for the data at hand; every plan of this class is made here.

        Args:
            rankings: (B, A) rankings of the actions that break ties.
        """
        own, preference = self._own_bounds()
        return greedy_plan(own, self.frame, rankings, compiled=self._compiles(), preference=preference)

    def _own_bounds(self) -> tuple[ValueBounds, FloatArray | None]:
        """Return bounds at the agent's radius, and what breaks ties before chance does."""
        if self.settings.ties == "random":
            return self.model.bounds(self.clock, "agent")[0], None
        own, small = self.model.bounds(self.clock, "agent", "ties")
        return own, self._preference(small)

    def _scored_plan(self) -> ScoredPlan:
        """Return the optimistic plan for the data at hand together with what its policy is greedy in."""
        scores, (own, preference) = self._empty_q(), self._own_bounds()
        plan = self._optimistic_plan(own, preference=preference, q_out=scores)
        if preference is not None:
            scores += TIE * preference
        return ScoredPlan(plan, scores, has_preference=preference is not None)

    def _empty_q(self) -> FloatArray:
        """Return an array for Q: (B, H, A, S)."""
        frame = self.frame
        return np.empty((self.n_replicas, frame.horizon, frame.n_actions, frame.n_states))

    def _optimistic_plan(self, bounds: ValueBounds, **options: Any) -> Plan:
        """Return the optimistic plan of some bounds, ties to the lowest action."""
        rankings = lowest_first(self.task.n_actions, self.n_replicas)
        return greedy_plan(bounds, self.frame, rankings, compiled=self._compiles(), **options)

    def _preference(self, bounds: ValueBounds) -> FloatArray:
        """Return what breaks ties before chance does: Q in [0, H] of a plan at a small radius, (B, H, A, S)."""
        q, rankings = self._empty_q(), lowest_first(self.task.n_actions, self.n_replicas)
        greedy_plan(bounds, self.frame, rankings, compiled=self._compiles(), q_out=q)
        return np.clip(q, 0.0, float(self.frame.horizon), out=q)

    def q_table(self) -> FloatArray:
        """Return the optimistic Q (B, H, A, S) of the data at hand, in unit rewards."""
        q = self._empty_q()
        self._optimistic_plan(self.model.bounds(self.clock, "agent")[0], q_out=q)
        return q

    def _certifying_plan(self, rankings: FloatArray) -> Plan:
        """Return a plan that is played to close the gap of a certificate (docs/proofs.md, section 11).

        It is optimistic at the proven radius. In every second plan one stage, each in turn, takes the action whose
        bounds on Q are furthest apart among those that may still be the best.
        """
        [belief], frame, compiled = self.model.bounds(self.clock, "proven"), self.frame, self._compiles()
        high, low = self._empty_q(), self._empty_q()
        best = greedy_plan(belief, frame, rankings, compiled=compiled, q_out=high)
        curious = np.flatnonzero(self.n_plans % 2)
        if not len(curious):
            return best
        safe = greedy_plan(belief, frame, rankings, sign=-1.0, compiled=compiled, q_out=low)
        stages = (self.n_plans[curious] // 2) % frame.horizon
        above, below = high[curious, stages], low[curious, stages]
        possible = above >= safe.values[curious, stages][:, None, :]  # never of an action that is not allowed
        apart = np.subtract(above, below, where=possible, out=np.full(above.shape, -1.0))
        policy = best.policy.copy()
        policy[curious, stages] = apart.argmax(axis=1)
        return replace(best, policy=policy)

    @property
    def purpose(self) -> str:
        """What episodes are played for: to earn (`regret`) or to certify a policy (`certificate`)."""
        return self._purpose

    @purpose.setter
    def purpose(self, purpose: str) -> None:
        chosen = choice("explore_for", purpose, EXPLORE_FOR)
        if chosen != self._purpose:
            self._purpose, self.kept = chosen, self.kept.due_again()

    def safest_plan(self) -> Plan:
        """Return the plan that is greedy in the lower bounds on Q; ties by the estimate.

        With likelihood sets no policy has a larger certified lower bound (docs/proofs.md, section 11).
        """
        proven, small = self.model.bounds(self.clock, "proven", "ties")
        rankings = lowest_first(self.task.n_actions, self.n_replicas)
        preference = self._preference(small)
        return greedy_plan(proven, self.frame, rankings, sign=-1.0, compiled=self._compiles(), preference=preference)

    def estimated_plan(self) -> Plan:
        """Return the plan that is greedy in the estimated model, the centre of the set; ties to the lowest action.

        With likelihood sets a pair that was never tried is worth its reward and the smallest next value; a learned
        reward is 0 there.
        """
        rankings = lowest_first(self.task.n_actions, self.n_replicas)
        [estimate] = self.model.bounds(self.clock, "estimate")
        return greedy_plan(estimate, self.frame, rankings, sign=-1.0, compiled=self._compiles())

    def gaps(self, plan: Plan, steps: Steps, *, every: bool = False) -> FloatArray:
        r"""Return Σ γ^h (V_h(s_h) − Q_h(s_h, a_h)) of the played steps: (B,), in the environment's unit.

        V is that of the plan, and Q the bound of the pair from V of the next stage and the data at hand, which is that
        of the plan if no data came in since (docs/proofs.md, 7.1). An action of the plan has no gap, except that of a
        plan that is not greedy. What is left after an episode that was ended early is a gap of all that was expected.
        """
        frame, values, rows = self.frame, plan.values, self._replica
        states, actions, stages = steps.states, steps.actions, steps.actions.shape[1]
        planned = plan.policy[rows[:, None], np.arange(stages), states]
        charged = steps.taken & (every | (planned != actions))
        pairs = np.zeros((self.n_replicas, frame.n_actions, frame.n_states), dtype=np.bool_)
        replica, stage = np.nonzero(charged)
        pairs[replica, actions[replica, stage], states[replica, stage]] = True
        belief = self.model.bounds(self.clock, "agent")[0].restricted(pairs) if len(replica) else None
        total = np.zeros(self.n_replicas)
        for h in np.unique(stage).tolist():
            assert belief is not None
            following = None if h == frame.horizon - 1 else frame.discount * values[:, h + 1]
            # A set that is two-sided has this bound for any lower bounds on V*, also 0 (docs/proofs.md, 10.3).
            lower = None if following is None else np.zeros_like(following)
            q = belief.optimal_q(lower, following).upper if belief.is_two_sided else belief.q(following)
            most = values[rows, h, states[:, h]]
            short = most - np.clip(q[rows, actions[:, h], states[:, h]], 0.0, most)
            total += np.where(charged[:, h], frame.discount**h * short, 0.0)
        lengths = steps.taken.sum(axis=1)
        early = (lengths < frame.horizon) & ~steps.ended.any(axis=1)
        left = values[rows, lengths, steps.next_states[rows, lengths - 1]]
        return self.task.unit * (total + np.where(early, frame.discount**lengths * left, 0.0))

    def certify(self, plan: Plan, start: Start | None = None) -> Bounds:
        """Bound V*(s0) and the value of a plan's policy at the tightest proven radius (docs/proofs.md, 6).

        The bounds hold for any data, however they were collected, so a tuned agent has a proven certificate too. A set
        that bounds V* on both sides also gives a lower bound on V*(s0), which is none on the value of the policy.
        """
        belief, optimal_lower = self.model.bounds(self.clock, "proven")[0], None
        rankings = lowest_first(self.task.n_actions, self.n_replicas)
        if belief.is_two_sided:
            best, low = optimal_plan(belief, self.frame, rankings)
            optimal_lower = self.task.to_own_unit(self._start_values(low, start, sign=-1.0))
        else:
            best = self._optimistic_plan(belief)
        low_values = pessimistic_values(belief, plan.policy, self.frame, compiled=self._compiles())
        lower = self._start_values(low_values, start, sign=-1.0)
        alarms = best.empty + self.rewards.contradictions(self.clock)
        upper = self._start_values(best.values, start) + self.task.tail
        return Bounds(self.task.to_own_unit(upper), self.task.to_own_unit(lower), alarms, optimal_lower)

    def bound_policies(self, first: NDArray[Any], second: NDArray[Any], start: Start | None = None) -> PolicyIntervals:
        """Bound V(s0) of two given policies and their difference at the tightest proven radius (docs/proofs.md, 12)."""
        belief, frame = self.model.bounds(self.clock, "proven")[0], self.frame
        ceiling = self._empty_q()
        best = self._optimistic_plan(belief, q_out=ceiling)
        ceiling[np.isneginf(ceiling)] = float(frame.horizon)  # of actions that no policy takes
        sides, tail = [], self.task.tail  # what steps that are cut off from endless episodes may earn
        cut_off = np.array([[0.0, 0.0, -tail], [tail, tail, tail]])[:, :, None]
        both = policy_bounds(belief, first, second, frame, ceiling=ceiling)
        for values, more, sign in zip(both, cut_off, (-1.0, 1.0), strict=True):
            unit = np.stack([self._start_values(one, start, sign=sign) for one in values]) + more
            sides.append(np.concatenate([self.task.to_own_unit(unit[:2]), self.task.unit * unit[2:]]))
        return PolicyIntervals(sides[0], sides[1], best.empty + self.rewards.contradictions(self.clock))

    def bound_actions(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds on Q* in unit rewards, each (B, H, A, S), at the tightest proven radius.

        The upper ones are those of the optimistic backup. The lower ones are those of the policy that is greedy in
        them, and Q* is at least the Q of any policy.
        """
        belief, frame = self.model.bounds(self.clock, "proven")[0], self.frame
        low, high = self._empty_q(), self._empty_q()
        rankings = lowest_first(frame.n_actions, self.n_replicas)
        self._optimistic_plan(belief, q_out=high)
        greedy_plan(belief, frame, rankings, sign=-1.0, compiled=self._compiles(), q_out=low)
        return low, high

    def use_compiled(self, wanted: bool | None, n_episodes: int | None = None) -> None:
        """Choose between compiled and NumPy plans; they differ in the rounding of sums only.

        By default plans are compiled once the episodes that were played or announced pay for loading the loops.
        """
        self.compiled = wanted
        if n_episodes is not None:
            self.compiled = self._compiles(n_episodes)
        elif wanted is not None:
            self._compiles()  # fail now if compiled loops were requested but are unavailable

    def _compiles(self, n_episodes: int = 0) -> bool:
        """Say whether plans are compiled; it follows from what is saved with an agent, also after loading."""
        return to_compile(
            self.compiled,
            n_episodes=int(max(self.episode, self.settings.n_episodes or 0, n_episodes) * self.model.stage_cost),
            horizon=self.task.horizon,
            n_pairs=self.task.n_states * self.task.n_actions,
        )

    def start_size(self, problem: Problem) -> float:
        """Return the size of Σ φψᵀ and of the design, or of the sampled columns; counts are lists of what was seen."""
        if self.settings.is_likelihood:
            return 0.0
        d, d_psi = problem.dimensions
        dense = problem.features is None or not isinstance(problem.features.phi, OneHotPhi)
        return float(d * d_psi + dense * d * d + (self.settings.columns or 0) * d_psi)

    def learned(self) -> Arrays:
        """Return the data and, with rare switching, the plan that is being played."""
        return self.model.state_dict() | self.rewards.state_dict() | self._kept_arrays()

    def _kept_arrays(self) -> Arrays:
        """Return the plan that is being played, for saving; nothing if every episode has a new one."""
        if self.settings.switch_growth == 0.0:
            return {}
        plan, sizes, frame, n = self.kept.plan, self.kept.sizes, self.frame, self.n_replicas
        if plan is None:
            policy = np.zeros((n, frame.horizon, frame.n_states), dtype=np.min_scalar_type(frame.n_actions - 1))
            plan = Plan(policy, np.zeros((n, frame.horizon + 1, frame.n_states)), np.zeros(n, dtype=np.int64))
        arrays = {f"kept_{name}": array for name, array in plan.arrays().items()}
        return arrays | {"kept_sizes": np.full_like(self.model.size(), -1.0) if sizes is None else sizes}

    def load_learned(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `learned` returned."""
        self.model.load_state_dict(arrays)
        self.rewards.load_state_dict(arrays)
        self.kept = KeptPlan()
        if self.settings.switch_growth > 0.0 and (arrays["kept_sizes"] >= 0.0).all():
            tables = {name: arrays[f"kept_{name}"] for name in ("policy", "values", "empty")}
            plan = plan_from_arrays(tables, self._declared_frame, n_replicas=self.n_replicas)
            self.kept = KeptPlan(plan, arrays["kept_sizes"].copy())
