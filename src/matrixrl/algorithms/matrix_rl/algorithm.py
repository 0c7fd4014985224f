"""UC-MatrixRL (YW19 Algorithm 1) on numbered states, for B replicas: a model, and plans by optimism over its bounds."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Algorithm, Arrays
from matrixrl.algorithms.finite import FiniteAlgorithm, plan_from_arrays
from matrixrl.algorithms.matrix_rl.budget import BudgetPlan, OptimismBudget, PlanChoice
from matrixrl.algorithms.matrix_rl.certifier import MatrixRLCertifier
from matrixrl.algorithms.matrix_rl.claims import MatrixRLClaims
from matrixrl.algorithms.matrix_rl.conservative import OWN, ConservativePlan, LossBudget
from matrixrl.algorithms.matrix_rl.drift import DriftWatch
from matrixrl.algorithms.matrix_rl.rewards import RewardWatch
from matrixrl.algorithms.matrix_rl.settings import MatrixRLSettings
from matrixrl.algorithms.plug_ins import is_plug_in
from matrixrl.archive import check_arrays
from matrixrl.checks import fail
from matrixrl.compilation import to_compile
from matrixrl.core import Clock, ValueBounds, greedy_plan
from matrixrl.core.backup import ScoredPlan, upper_policy_values
from matrixrl.core.confidence import TUNED_EXPLORATION
from matrixrl.core.greedy import lowest_first, random_rankings
from matrixrl.core.models import CountModel, Model, ModelContext
from matrixrl.errors import InvalidInput
from matrixrl.features import OneHotPhi, allowed_part
from matrixrl.logs import StepLog
from matrixrl.policies import PolicySpace, read_actions
from matrixrl.problems import OutcomeTables, Problem
from matrixrl.problems.problem import Kind
from matrixrl.records import BoolArray, FloatArray, Plan, Steps
from matrixrl.settings import Settings
from matrixrl.tolerances import TIE

__all__ = ["KeptPlan", "UCMatrixRL"]

_DOUBLED = 1.0  # κ of large known dynamics: plan again when the data of some law have doubled
_NONE = -1.0  # lack in a saved file where a plan without candidates is kept


class KeptPlan(NamedTuple):
    """The plan that is being played, and how much data there was when it was made.

    The size of the data is ln det(A_n / λ), or for counts the number of visits of any group. YW19 plans before every
    episode, κ = 0; Abbasi-Yadkori et al. 2011, section 5.1, bound the cost of κ > 0 by a factor √(1 + κ) of the widths.

    Attributes:
        plan: The plan of all replicas; None before the first one.
        sizes: (B, …) Sizes of the data at the last plan of each replica; None if a plan is due in all of them.
        is_fresh: (B,) Whether nothing was learned since the plan was made; None stands for False.
    """

    plan: Any = None
    sizes: FloatArray | None = None
    is_fresh: BoolArray | None = None

    def due(self, model: Any, n_replicas: int) -> BoolArray:
        """Return in which replicas a new plan is due: (B,)."""
        due: BoolArray = np.ones(n_replicas, dtype=np.bool_) if self.sizes is None else model.grew(self.sizes)
        return due

    def renewed(self, plan: Any, model: Any, due: BoolArray) -> KeptPlan:
        """Return what is kept after plans were made where they were due (B,); without a model they always are."""
        if model is None:
            return KeptPlan(plan)
        now = model.size()
        if self.sizes is None:
            return KeptPlan(plan, now.copy(), due)
        sizes = np.where(due.reshape(-1, *(1,) * (now.ndim - 1)), now, self.sizes)
        return KeptPlan(plan, sizes, due if self.is_fresh is None else due | self.is_fresh)


class UCMatrixRL(FiniteAlgorithm):
    """Optimism over a confidence set (YW19 Algorithm 1): the set makes the model, and plans are made from its bounds.

    Replicas share features and known rewards and nothing else, so B of them cost little more than one. With the setting
    `columns`, or on a `FunctionalTask`, `start` returns the form that plans on sampled columns.

    Attributes:
        model: The data, and the bounds that follow from them.
        budget: The rule that chooses between the optimistic plan and the tuned one; None if the optimistic one is
            always played.
        loss_budget: The rule that plays an incumbent where the agent's own plan could cost too much; None without one.
        drift: What looks for changes of the problem; None if it is assumed that nothing changes.

    >>> from matrixrl.problems import tabular
    >>> algorithm = UCMatrixRL(preset="tuned").start(Problem.of(tabular(n_states=3, horizon=4).mdp), seeds=[0, 1])
    >>> algorithm.plan().policy.shape
    (2, 4, 3)
    """

    name = "matrix-rl"
    kinds: ClassVar[tuple[Kind, ...]] = ("finite", "functional")
    settings_class: ClassVar[type[Settings]] = MatrixRLSettings
    _stream_names = ("ties",)
    _memory_names = ("kept", "_played", "_account")
    settings: MatrixRLSettings
    model: Model
    claims: MatrixRLClaims
    certifier: MatrixRLCertifier
    _claims_class = MatrixRLClaims
    _certifier_class = MatrixRLCertifier
    _rewards: RewardWatch
    _kept: KeptPlan  # the plan that is being played
    _may_count: ClassVar[bool] = True  # whether the set `tightest` may be one that counts next states
    _planned: tuple[int, bool] | None = None  # revision at the last plan, and whether it was compiled
    _scored: tuple[ScoredPlan, ...] = ()  # Q of the plans at that revision, once they were asked for again
    budget: OptimismBudget | None = None
    loss_budget: LossBudget | None = None
    drift: DriftWatch | None = None
    _charging: tuple[int, ValueBounds] | None = None  # revision and bounds that the budget charges with
    _tuned_model: Model | None = None  # the same data with another ridge, for the tuned plan of balls
    _played: Plan | None = None  # the plan of the steps that are learned from next, if it is known

    def form_for(self, problem: Problem, n_episodes: int | None = None) -> Self:
        """Return a copy for a problem, with the set and the ties that `tightest` and `auto` mean for it."""
        chosen = super().form_for(problem, n_episodes)
        may_count = self._may_count and not is_plug_in(type(self))
        allowed = problem.allowed_by_action
        chosen.settings = chosen.settings.for_features(problem.features, may_count=may_count, allowed=allowed)
        if problem.task.dynamics is not None and (chosen.settings.columns or not chosen.settings.is_likelihood):
            rule = f"must be a likelihood set for known dynamics, without columns, of {self.name}"
            fail("set", rule, repr(chosen.settings.set), "Use MatrixRL with its default, or set='likelihood'.")
        chosen._check_drift(problem)
        if chosen.settings.incumbent is not None:
            chosen.settings = replace(chosen.settings, incumbent=_read_incumbent(chosen.settings.incumbent, problem))
        if problem.task.dynamics is not None or chosen.settings.planner == "auto":
            from matrixrl.algorithms.matrix_rl.path import is_large, why_not_on_path

            keeps_plans = chosen.settings.switch_growth > 0.0 and not chosen.settings.changed(["switch_growth"])
            if problem.task.dynamics is not None and keeps_plans and is_large(problem.finite_task):
                # A sweep over all outcomes of all pairs takes long, and few laws have many data soon.
                chosen.settings = replace(chosen.settings, switch_growth=_DOUBLED)
            if chosen.settings.planner == "auto":
                serves = why_not_on_path(chosen, chosen.settings, problem) is None
                on_path = serves and is_large(problem.finite_task)
                chosen.settings = replace(chosen.settings, planner="path" if on_path else "sweep")
        return chosen

    def _check_drift(self, problem: Problem) -> None:
        """Refuse to look for changes where nothing is counted."""
        chosen, problem_has = self.settings, problem.kind == "finite"
        if chosen.drift != "off" and not (chosen.is_likelihood and chosen.columns is None and problem_has):
            rule = f"must be 'off' for {self.name} here, as changes are found in counts of next states"
            remedy = "Leave it out, or use MatrixRL with a likelihood set: one-hot features, groups, or known dynamics."
            fail("drift", rule, f"{chosen.drift!r} with the set {chosen.make_set().name!r}", remedy)

    def _started(self, problem: Problem, seeds: Sequence[int]) -> Algorithm:
        """Start on all states, on the path, or on sampled columns, where settings or problem ask for them."""
        if self.settings.planner == "path":
            return self._started_on_path(problem, seeds)
        if self.settings.columns is None and problem.kind != "functional":
            return super()._started(problem, seeds)
        if is_plug_in(type(self)):
            rule = f"must be left out for {type(self).__name__}, a subclass"
            fail("columns", rule, self.settings.columns, "Leave it out.")
        settings = copy.copy(self.settings)
        settings.play_without_budget("functions of states")
        settings.refuse_incumbent("functions of states")
        from matrixrl.algorithms.matrix_rl.sampled import SampledMatrixRL

        sampled = SampledMatrixRL()
        sampled.name, sampled.settings, sampled.made_with = self.name, settings, self._make_recipe()
        return sampled._started(problem, seeds)

    def _started_on_path(self, problem: Problem, seeds: Sequence[int]) -> Algorithm:
        """Start with upper values of the states seen alone."""
        from matrixrl.algorithms.matrix_rl.path import PathMatrixRL, why_not_on_path

        settings, reason = copy.copy(self.settings), why_not_on_path(self, self.settings, problem)
        if reason is not None:
            fail("planner", "must be 'sweep' here", f"'path' with {reason}", "Leave planner='path' out, or the other.")
        settings.replace_value("switch_growth", 0.0)  # of the preset: no plan is kept
        on_path = PathMatrixRL()
        on_path.name, on_path.settings, on_path.made_with = self.name, settings, self._make_recipe()
        return on_path._started(problem, seeds)

    def begin(self) -> None:
        """Start without data and without a plan."""
        super().begin()
        self._set, self.drift = self.settings.make_set(), None
        self._begin_run()
        if self.settings.drift != "off":
            if self.n_replicas > 1 or not isinstance(self.model, CountModel):
                received = f"{self.settings.drift!r} with {self.n_replicas} seeds and {type(self.model).__name__}"
                rule = "must be 'off' in simulations, and without a likelihood set"
                fail("drift", rule, received, "Leave it out, or use an agent: MatrixRL(…, drift=…).learn(…).")
            restarts = self.settings.drift == "restart"
            self.drift = DriftWatch(self.problem, self.model, delta=self.claims.delta, restarts=restarts)
            if restarts:
                self._begin_run()  # with the part of δ of the first run

    def restart(self) -> None:
        """Forget all data after a change, and begin the next run; what was refuted of declarations stays refuted."""
        assert self.drift is not None
        given, model = self._rewards.given, self.model
        self.drift.restart()
        self._begin_run()
        self._rewards.given = given
        assert isinstance(model, CountModel)
        assert isinstance(self.model, CountModel)
        if model.declared is not None and self.model.declared is not None:
            self.model.declared.refuted = model.declared.refuted

    def _begin_run(self) -> None:
        """Start without data and without a plan, with the part of δ of the run."""
        task, chosen, declared = self.task, self.settings, self._declared_frame.allowed
        assert self.problem.features is not None
        is_reported = self.masks.reported is not None
        context = ModelContext(
            features=self.problem.features,
            unit_reward=self.unit_reward,
            horizon=task.horizon,
            n_replicas=self.n_replicas,
            delta=self.claims.model_delta,
            exploration=chosen.exploration,
            known_reward=bool(chosen.known_reward),
            switch_growth=chosen.switch_growth,
            part=allowed_part(self.problem.features.phi, declared) if is_reported else self._part,
            allowed=declared,
            end_state=task.end_state,
            choices=task.choices,
            dynamics=self._unit_dynamics(),
            structure=task.structure,
            reward_bounds=task.unit_reward_bounds,
        )
        self.model = self._set.make_model(context)
        if chosen.optimism_budget > 0.0:
            start = task.start if task.start_is_declared else None
            keeps_plans = chosen.switch_growth > 0.0
            self.budget = OptimismBudget(
                chosen.optimism_budget, self.frame, start, self.n_replicas, keeps_plans=keeps_plans
            )
            if not isinstance(self.model, CountModel):
                tuned = MatrixRLSettings.resolve({"preset": "tuned", "set": "normalised"}).make_set()
                self._tuned_model = tuned.make_model(replace(context, exploration=TUNED_EXPLORATION))
        for model in self._models if is_reported else []:  # groups are those of the declared actions
            model.use_masks(self._part, self.frame.allowed)
        if chosen.incumbent is not None and chosen.loss_budget is not None:
            given = read_actions("incumbent", chosen.incumbent, _policy_space(self.problem))
            table = self.masks.read_policy("incumbent", given)
            self.loss_budget = LossBudget(self, table, chosen.loss_budget)
        self._phi = self.problem.features.phi
        self._rewards = RewardWatch(self.model, self.problem, delta=self.claims.delta)
        self.kept, self._planned, self._scored, self._charging, self._played = KeptPlan(), None, (), None, None

    def _unit_dynamics(self) -> OutcomeTables | None:
        """Return known dynamics with rewards mapped to [0, 1]; None if there are none."""
        known = self.task.dynamics
        return None if known is None else replace(known, rewards=self.to_unit(known.rewards))

    def _use_masks(self) -> None:
        """Plan with the actions that are allowed; a new plan is due."""
        super()._use_masks()
        self.kept, self._planned, self._scored, self._charging = KeptPlan(), None, (), None
        for model in self._models:
            model.use_masks(self._part, self.frame.allowed)
        if self.loss_budget is not None:
            self.loss_budget.use_masks()

    @property
    def _models(self) -> list[Model]:
        """The model, and that of the tuned plan if it has one of its own."""
        return [self.model] if self._tuned_model is None else [self.model, self._tuned_model]

    @property
    def clock(self) -> Clock:
        """Number n of the episode to come, and N if it is known."""
        return Clock(self.episode + 1, self.settings.n_episodes)

    @property
    def steps_at_once(self) -> int:
        """Number of steps that are added up together; 1 for a user's class, which may do more than add."""
        return 1 if self._unstarted is not None or self.drift is not None else self.model.steps_at_once

    def learn(self, steps: Steps) -> None:
        """Add the steps to the data (Algorithm 1, lines 11 and 12)."""
        unit, pairs = self._learned_rewards(steps), self._phi.pairs(steps.states, steps.actions)
        if self.budget is not None and isinstance(self._played, BudgetPlan):
            self.budget.settle(self._played, steps, self._charging_bounds)
        if self.loss_budget is not None and isinstance(self._played, ConservativePlan):
            self._account = self.loss_budget.settled(self._account, self._played, steps)
        number = self.episode - self.logged.episodes + (self._played is not None)  # logged episodes have no plan
        self._played, self.kept = None, self.kept._replace(is_fresh=None)
        following, weights = steps.next_states, steps.weights
        if self.task.dynamics is not None and steps.outcomes is not None:  # reported or found where it was observed
            following, weights = np.maximum(steps.outcomes, 0), np.where(steps.outcomes < 0, 0.0, weights)
        for model in self._models:
            model.update(pairs, following, unit, weights)
        if self.drift is not None:
            assert isinstance(self.model, CountModel)
            rows, outcomes, counted = self.model.observed(pairs, following, weights)
            self.drift.add(rows, outcomes, unit, counted, number)
        self._rewards.add(steps, pairs, unit, played=self.episode + 1, clock=self.clock)

    def _learned_rewards(self, steps: Steps) -> FloatArray:
        """Return what is learned of the rewards of steps: unit rewards, or the parts of them that are not known."""
        bounds = self.task.reward_bounds
        if bounds is None or self.settings.known_reward:
            return self.to_unit(steps.rewards)
        return bounds.parts(steps.rewards, steps.states, steps.actions)

    def _recall(self, plan: Plan) -> None:
        """Take note of the plan that the steps to learn from were played with."""
        self._played = plan

    def update_from_log(self, log: StepLog) -> None:
        """Learn from episodes that others recorded, and compare rewards with φ at the end."""
        self._played = None  # logged episodes are not charged
        super().update_from_log(log)
        self._rewards.compare(self.clock)

    def plan(self) -> Plan:
        """Return the plan to play now: a new one where it is due, the last one elsewhere.

        Q does not depend on the rankings that break ties. So if no episode ended since the last plan, only ties are
        broken again, as many episodes may be begun meanwhile, which would else be the same one; the second plan on the
        same data keeps Q.
        """
        kept, switches = self.kept, self.settings.switch_growth > 0.0
        due, certifies = kept.due(self.model, self.n_replicas), self.certifier.purpose == "certificate"
        anew = due if certifies or kept.is_fresh is None else due | kept.is_fresh
        if anew.any():
            lowest = lowest_first(self.task.n_actions, self.n_replicas)
            rankings = random_rankings(self.streams["ties"], self.task.n_actions, np.flatnonzero(anew), lowest)
            at = (self.model.revision, self._compiles())
            if certifies:
                fresh = self.certifier.certifying_plan(rankings)
            elif self._planned != at or self._unstarted is not None:
                self._planned, self._scored = at, ()
                fresh = self.make_plan(rankings)
            else:
                self._scored = self._scored or self._scored_plans()
                fresh = self._with_ties(self._scored, rankings)
            if isinstance(fresh, PlanChoice) and isinstance(kept.plan, PlanChoice):
                fresh = replace(fresh, made=np.where(due, fresh.made, kept.plan.made))
            is_whole = kept.plan is None or anew.all()
            plan = fresh if is_whole else kept.plan.updated(fresh, anew)
            self.kept = kept = kept.renewed(plan, self.model if switches else None, due)
            self.n_plans = self.n_plans + due
        played: Plan = kept.plan
        if isinstance(played, PlanChoice):
            assert self.budget is not None
            played = self.budget.choose(played)
        self._played = played
        alarm = self._rewards.alarm | self.model.is_refuted | (self.drift is not None and self.drift.alarm)
        return replace(played, empty=played.empty + alarm) if alarm.any() else played

    def begun(self, plan: Plan) -> Plan:
        """Return the plan that an episode is begun with: with an incumbent, what the loss budget pays for."""
        if self.loss_budget is None:
            return plan
        decided, self._account = self.loss_budget.decided(self._account, plan)
        self._played = decided
        return decided

    @property
    def _account(self) -> Any:
        """What may have been lost against the incumbent; None without one."""
        return None if self.loss_budget is None else self.loss_budget.account

    @_account.setter
    def _account(self, account: Any) -> None:
        if self.loss_budget is not None:
            self.loss_budget.account = account

    def make_plan(self, rankings: FloatArray | None = None) -> Plan:
        """Return the optimistic plan for the data at hand (Algorithm 1, line 6); every plan of this class is made here.

        With an optimism budget the tuned policy comes with it.

        Args:
            rankings: (B, A) rankings of the actions that break ties; drawn by default.
        """
        drawn = self._draw_rankings() if rankings is None else rankings
        if self.budget is not None:
            return self._candidates(drawn)
        own, preference = self._own_bounds()
        return self._greedy(own, drawn, preference=preference)

    def _candidates(self, rankings: FloatArray) -> PlanChoice:
        """Return the optimistic plan, the tuned policy, and what that lacks in optimism at the first stage."""
        preference = None
        if self.settings.ties == "random":
            tuned = self._greedy(self._tuned_bounds(), rankings)
        else:  # the tuned plan breaks ties of the optimistic one, in place of a plan at a small radius
            preference = self._empty_q()
            tuned = self._greedy(self._tuned_bounds(), rankings, q_out=preference)
            np.clip(preference, 0.0, float(self.frame.horizon), out=preference)
        plan = self._greedy(self.model.bounds(self.clock, "agent")[0], rankings, preference=preference)
        return self._choice(plan, tuned)

    def _tuned_bounds(self) -> ValueBounds:
        """Return the bounds of the tuned plan."""
        if self._tuned_model is None:
            return self.model.bounds(self.clock, "tuned")[0]
        return self._tuned_model.bounds(self.clock, "agent")[0]

    def _choice(self, plan: Plan, tuned: Plan) -> PlanChoice:
        """Return both plans, with what the tuned one lacks in optimism at the first stage."""
        bounds = self._charging_bounds()
        upper = upper_policy_values(bounds, tuned.policy, plan.values, self.frame, compiled=self._compiles())
        lack = plan.values[:, 0] - upper[:, 0]
        return PlanChoice(plan.policy, plan.values, plan.empty, tuned.policy, lack, self.n_plans + 1)

    def _charging_bounds(self) -> ValueBounds:
        """Return the bounds that the budget charges and earns with, whose surplus R(N) allows for."""
        revision = self.model.revision
        if self._charging is None or self._charging[0] != revision:
            of_all = self.model.bounds(self.clock, "proven" if isinstance(self.model, CountModel) else "agent")
            self._charging = revision, of_all[0]
        return self._charging[1]

    def advice(self) -> Plan:
        """Return the plan that would be played next with the data at hand, ties to the lowest action."""
        plan = self.make_plan(lowest_first(self.task.n_actions, self.n_replicas))
        own = self.budget.choose(plan) if self.budget is not None and isinstance(plan, PlanChoice) else plan
        return own if self.loss_budget is None else self.loss_budget.decided(self._account, own)[0]

    def _own_bounds(self) -> tuple[ValueBounds, FloatArray | None]:
        """Return bounds at the agent's radius, and what breaks ties before chance does."""
        if self.settings.ties == "random":
            return self.model.bounds(self.clock, "agent")[0], None
        own, small = self.model.bounds(self.clock, "agent", "ties")
        return own, self._preference(small)

    def _scored_plans(self) -> tuple[ScoredPlan, ...]:
        """Return the plans for the data at hand with what their policies are greedy in: the tuned one is the second."""
        scores, tuned = self._empty_q(), None
        if self.budget is None:
            own, preference = self._own_bounds()
        else:
            own, preference, q = self.model.bounds(self.clock, "agent")[0], None, self._empty_q()
            tuned = ScoredPlan(self._greedy(self._tuned_bounds(), q_out=q), q, has_preference=False)
            if self.settings.ties != "random":
                preference = np.clip(q, 0.0, float(self.frame.horizon))
        plan = self._greedy(own, preference=preference, q_out=scores)
        if preference is not None:
            scores += TIE * preference
        best = ScoredPlan(plan, scores, has_preference=preference is not None)
        return (best,) if tuned is None else (best, tuned)

    def _with_ties(self, scored: tuple[ScoredPlan, ...], rankings: FloatArray) -> Plan:
        """Return plans that were scored before, with ties broken by other rankings (B, A)."""
        plans = [one.with_ties(rankings) for one in scored]
        return plans[0] if len(plans) == 1 else self._choice(*plans)

    def _empty_q(self) -> FloatArray:
        """Return an array for Q: (B, H, A, S)."""
        frame = self.frame
        return np.empty((self.n_replicas, frame.horizon, frame.n_actions, frame.n_states))

    def _greedy(self, bounds: ValueBounds, rankings: FloatArray | None = None, **options: Any) -> Plan:
        """Return the plan that is greedy in some bounds, ties to the lowest action by default."""
        chosen = lowest_first(self.task.n_actions, self.n_replicas) if rankings is None else rankings
        return greedy_plan(bounds, self.frame, chosen, compiled=self._compiles(), **options)

    def _preference(self, bounds: ValueBounds) -> FloatArray:
        """Return what breaks ties before chance does: Q in [0, H] of a plan at a small radius, (B, H, A, S)."""
        q = self._empty_q()
        self._greedy(bounds, q_out=q)
        return np.clip(q, 0.0, float(self.frame.horizon), out=q)

    def q_table(self) -> FloatArray:
        """Return the optimistic Q (B, H, A, S) of the data at hand, in unit rewards."""
        q = self._empty_q()
        self._greedy(self.model.bounds(self.clock, "agent")[0], q_out=q)
        return q

    def estimated_plan(self) -> Plan:
        """Return the plan that is greedy in the estimated model, the centre of the set; ties to the lowest action.

        With likelihood sets a pair that was never tried is worth its reward and the smallest next value; a learned
        reward is 0 there.
        """
        return self._greedy(self.model.bounds(self.clock, "estimate")[0], sign=-1.0)

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
            n_episodes=int(max(self.episode, self.settings.n_episodes or 0, n_episodes, 1) * self.model.stage_cost),
            horizon=self.task.horizon,
            n_pairs=self.task.n_states * self.task.n_actions,
        )

    def _start_size(self, problem: Problem) -> float:
        """Return the size of Σ φψᵀ and of the design, or of the sampled columns; counts are lists of what was seen."""
        if self.settings.is_likelihood:
            return 0.0
        d, d_psi = problem.dimensions
        dense = problem.features is None or not isinstance(problem.features.phi, OneHotPhi)
        return float(d * d_psi + dense * d * d + (self.settings.columns or 0) * d_psi)

    def learned(self) -> Arrays:
        """Return the data and, with rare switching, the plan that is being played."""
        arrays = self.model.state_dict() | self._rewards.state_dict() | self._kept_arrays()
        if self._tuned_model is not None:
            arrays |= {f"tuned_{name}": array for name, array in self._tuned_model.state_dict().items()}
        for rule in (self.budget, self.loss_budget, self.drift):
            arrays |= {} if rule is None else rule.state_dict()
        return arrays

    def _kept_arrays(self) -> Arrays:
        """Return the plan that is being played, for saving; nothing if every episode has a new one."""
        if self.settings.switch_growth == 0.0:
            return {}
        plan, sizes, frame, n = self.kept.plan, self.kept.sizes, self.frame, self.n_replicas
        if plan is None:
            policy = np.zeros((n, frame.horizon, frame.n_states), dtype=np.min_scalar_type(frame.n_actions - 1))
            plan = Plan(policy, np.zeros((n, frame.horizon + 1, frame.n_states)), np.zeros(n, dtype=np.int64))
        if self.budget is not None and not isinstance(plan, PlanChoice):  # none yet, or one that certifies
            lack = np.full((n, frame.n_states), _NONE)
            plan = PlanChoice(plan.policy, plan.values, plan.empty, plan.policy, lack, self.n_plans)
        arrays = {f"kept_{name}": array for name, array in plan.arrays().items()}
        is_fresh = np.zeros(n, dtype=np.bool_) if self.kept.is_fresh is None else self.kept.is_fresh
        sizes = np.full_like(self.model.size(), -1.0) if sizes is None else sizes
        return arrays | {"kept_sizes": sizes, "kept_is_fresh": is_fresh}

    def load_learned(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `learned` returned."""
        if self.drift is not None:
            self.drift.load_state_dict(arrays)
            if self.drift.run > 1:
                self._begin_run()  # with the part of δ of that run
        self.model.load_state_dict(arrays)
        self._rewards.load_state_dict(arrays)
        if self._tuned_model is not None:
            own = {name.removeprefix("tuned_"): array for name, array in arrays.items() if name.startswith("tuned_")}
            self._tuned_model.load_state_dict(own)
        if self.budget is not None:
            self.budget.load_state_dict(arrays)
        if self.loss_budget is not None:
            self.loss_budget.load_state_dict(arrays)
        self.kept = KeptPlan()
        if self.settings.switch_growth > 0.0 and (arrays["kept_sizes"] >= 0.0).all():
            tables = {name: arrays[f"kept_{name}"] for name in ("policy", "values", "empty")}
            plan = plan_from_arrays(tables, self._declared_frame, n_replicas=self.n_replicas)
            if self.budget is not None and (arrays["kept_lack"] != _NONE).all():
                tuned = plan_from_arrays(
                    tables | {"policy": arrays["kept_tuned"]}, self._declared_frame, n_replicas=self.n_replicas
                )
                lack = self._checked_lack(arrays["kept_lack"])
                made = arrays["kept_made"].copy()
                plan = PlanChoice(plan.policy, plan.values, plan.empty, tuned.policy, lack, made)
            self.kept = KeptPlan(plan, arrays["kept_sizes"].copy(), arrays["kept_is_fresh"].copy())

    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Plan:
        """Return the plan of one replica whose `arrays` were saved."""
        if (self.budget is None and self.loss_budget is None) or "lack" not in arrays:
            return super().plan_from_arrays(arrays)
        more: dict[str, NDArray[Any]] = {
            "is_tuned": np.zeros(1, dtype=np.bool_),
            "lack": np.zeros((1, self.frame.n_states)),
            "made": np.zeros(1, dtype=np.int64),
        }
        if self.loss_budget is not None:
            more["kind"] = np.zeros(1, dtype=np.int64)
        check_arrays({name: arrays[name] for name in more if name in arrays}, more)
        plan = super().plan_from_arrays({name: array for name, array in arrays.items() if name not in more})
        is_tuned, lack = arrays["is_tuned"], self._checked_lack(arrays["lack"])
        if lack[~is_tuned].any():
            raise InvalidInput("an optimistic plan lacks nothing")
        parts = plan.policy, plan.values, plan.empty, is_tuned, lack, arrays["made"]
        if "kind" not in arrays:
            return BudgetPlan(*parts)
        if not 0 <= arrays["kind"][0] <= OWN:
            raise InvalidInput("the plan does not fit the problem")
        return ConservativePlan(*parts, arrays["kind"])

    def _checked_lack(self, lack: FloatArray) -> FloatArray:
        """Return what a saved tuned plan lacks, or raise if it is no number from 0 to H."""
        if not ((lack >= 0.0) & (lack <= float(self.frame.horizon))).all():
            raise InvalidInput("the plan does not fit the problem")
        return lack


def _policy_space(problem: Problem) -> PolicySpace:
    """Return the sizes and numbers that the policies of a problem with numbered states have."""
    task, states = problem.finite_task, problem.states
    assert states is not None
    return PolicySpace(task.horizon, task.n_states, states, problem.actions)


def _read_incumbent(given: Any, problem: Problem) -> list[Any]:
    """Return an incumbent as lists (S,) or (H, S) of actions, counted from 0, which files can hold."""
    if problem.kind != "finite":
        fail("incumbent", "must be left out without numbered states", problem.name, "Leave loss_budget out too.")
    table = read_actions("incumbent", given, _policy_space(problem))
    found: list[Any] = (table[0] if (table == table[0]).all() else table).tolist()
    return found
