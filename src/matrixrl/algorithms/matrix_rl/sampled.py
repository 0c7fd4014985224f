"""UC-MatrixRL on sampled columns: the cost of planning and acting does not depend on the number of states."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import OPTIONAL, Algorithm, Arrays
from matrixrl.algorithms.certifier import Certifier
from matrixrl.algorithms.matrix_rl.algorithm import KeptPlan
from matrixrl.algorithms.matrix_rl.claims import MatrixRLClaims
from matrixrl.algorithms.matrix_rl.rewards import GivenRewards
from matrixrl.algorithms.matrix_rl.settings import MatrixRLSettings
from matrixrl.archive import check_arrays
from matrixrl.checks import fail
from matrixrl.core import Clock, Frame, Level, MatrixBounds, MatrixSet, greedy_plan, pessimistic_values
from matrixrl.core.greedy import greedy_actions, lowest_first, random_rankings, tie_weights
from matrixrl.core.models import ColumnEstimate, SampledModel, StateOracle
from matrixrl.core.models.sampled import Columns
from matrixrl.core.start import Start
from matrixrl.features import TablePsi
from matrixrl.problems.problem import Kind
from matrixrl.problems.task import total_weight
from matrixrl.records import Bounds, FloatArray, Guarantee, IntArray, Steps
from matrixrl.settings import Settings

__all__ = ["SampledMatrixRL", "SampledPlan", "SampledPlans"]

_CHUNK = 1 << 13  # states that are evaluated together when a table is wanted


class SampledPlan:
    """Optimistic backward induction on sampled columns: O(m A d H) for any number of states.

    It has values at the columns only, and computes Q at any state on request (YW19 section 3).

    Args:
        estimate: Data and columns of one replica.
        clock: Number of the episode n, and number of episodes N.
        rankings: (1, A) Ranking of the actions that breaks ties.
        level: Choice of the radius.
    """

    def __init__(self, estimate: ColumnEstimate, clock: Clock, rankings: FloatArray, *, level: Level = "agent") -> None:
        self._estimate, self.clock, self._rankings, self._level = copy.copy(estimate), clock, rankings, level
        self._oracle = oracle = estimate.oracle
        task, states = oracle.task, estimate.columns.states
        low, high = task.reward_range
        self._frame = Frame(
            task.horizon,
            task.n_actions,
            len(states),
            end_state=None if oracle.end is None else 0,  # the end state is the first column
            end_reward=(0.0 - low) / (high - low),
            allowed=oracle.allowed_at(states),
            choices=task.choices,
            discount=task.discount,
        )
        self._at_columns = self.bounds(states)
        plan = greedy_plan(self._at_columns, self._frame, rankings)
        self.values: FloatArray = plan.values[0]
        self.empty = int(plan.empty[0])
        self._column_policy = plan.policy

    def bounds(self, states: NDArray[Any]) -> MatrixBounds:
        """Return the bounds on Q of some states."""
        return self._estimate.bounds(states, self.clock, self._level)

    def arrays(self) -> Arrays:
        """Return what the plan is a function of, so that saving it saves the plan."""
        clock = np.array([self.clock.episode, self.clock.n_episodes or 0, self.clock.run], dtype=np.int64)
        return {**self._estimate.state_dict(), "clock": clock, "rankings": self._rankings}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], estimate: ColumnEstimate) -> SampledPlan:
        """Return the plan that `arrays` wrote, of a replica that has now the data of `estimate`."""
        own, n_actions = copy.copy(estimate), estimate.oracle.task.n_actions
        more = {"clock": np.empty(3, dtype=np.int64), "rankings": np.empty((1, n_actions))}
        check_arrays({name: arrays[name] for name in more}, more)
        own.load_state_dict({name: array for name, array in arrays.items() if name not in more})
        episode, planned, run = (int(n) for n in arrays["clock"])
        return cls(own, Clock(episode, planned or None, run), arrays["rankings"])

    def q(self, stage: int, states: NDArray[Any]) -> FloatArray:
        """Return the optimistic Q_h of some states: (k, …) → (A, k), in unit reward."""
        return self._q(self.bounds(states), stage)

    def actions(self, stage: int, states: NDArray[Any]) -> IntArray:
        """Return the actions at a stage in some states: (k, …) → (k,)."""
        return self._greedy(self.q(stage, states))

    def best(self, stage: int, states: NDArray[Any]) -> FloatArray:
        """Return the optimistic values of some states at a stage, in unit reward: (k, …) → (k,)."""
        return self._value(self.q(stage, states), stage)

    def _value(self, q: FloatArray, stage: int) -> FloatArray:
        best: FloatArray = q.max(axis=0)
        return best if self._at_columns.is_normalised else np.clip(best, 0.0, self._frame.ceilings()[stage])

    def gap(self, states: NDArray[Any], actions: IntArray, left: NDArray[Any] | None) -> float:
        """Return Σ γ^h (V_h(s_h) − Q_h(s_h, a_h)) of played steps, and of what was left after them, in unit reward."""
        total, discount = 0.0, self._frame.discount
        for h, action in enumerate(actions.tolist()):
            q = self.q(h, states[h : h + 1])
            best = float(self._value(q, h)[0])
            total += discount**h * (best - min(max(float(q[action, 0]), 0.0), best))
        return total if left is None else total + discount ** len(actions) * float(self.best(len(actions), left)[0])

    def lower_at(self, played: SampledPlan, states: NDArray[Any]) -> FloatArray:
        """Return lower bounds on the values of another plan's policy at first states (docs/proofs.md, 6): (k,)."""
        horizon, columns = self._frame.horizon, self._estimate.columns
        if played._estimate.columns is columns:
            policy = played._column_policy
        else:
            there = played.bounds(columns.states)
            policy = np.stack([played._greedy(played._q(there, h)) for h in range(horizon)])[None]
        values = pessimistic_values(self._at_columns, policy, self._frame)
        following = self._frame.discount * values[:, 1] if horizon > 1 else None
        low = self.bounds(states).q(following, sign=-1.0)[0]
        chosen = played.actions(0, states)
        kept: FloatArray = np.clip(low[chosen, np.arange(len(chosen))], 0.0, self._frame.ceilings()[0])
        return kept

    def table(self) -> IntArray:
        """Return the policy of every state of a finite problem: (H, S)."""
        horizon, n_states = self._frame.horizon, self._oracle.n_states
        if n_states is None:
            fail("policy", "is a table only of counted states", "a FunctionalTask", "Use predict(obs, stage).")
        policy = np.empty((horizon, n_states), dtype=np.min_scalar_type(self._frame.n_actions - 1))
        for first in range(0, n_states, _CHUNK):
            states = np.arange(first, min(first + _CHUNK, n_states))
            there = self.bounds(states)
            for h in range(horizon):
                policy[h, states] = self._greedy(self._q(there, h))
        return policy

    def _q(self, there: MatrixBounds, stage: int) -> FloatArray:
        last = stage == self._frame.horizon - 1
        q: FloatArray = there.q(None if last else self._frame.discount * self.values[None, stage + 1])[0]
        replace(self._frame, allowed=there.allowed).exclude(q[None], stage)
        return q

    def _greedy(self, q: FloatArray) -> IntArray:
        weights = tie_weights(self._rankings[0], self._frame.horizon)
        return greedy_actions(q, weights[:, None], axis=0)


class SampledPlans:
    """The plans of all replicas; the table of a finite problem is computed on first use."""

    def __init__(self, plans: list[SampledPlan]) -> None:
        self.plans = plans
        self.empty: IntArray = np.array([plan.empty for plan in plans])

    @cached_property
    def policy(self) -> IntArray:
        """(B, H, S), where states can be counted."""
        return np.stack([plan.table() for plan in self.plans])

    def arrays(self) -> Arrays:
        """Return what the plan of the only replica was made from."""
        return self.plans[0].arrays()


class SampledClaims(MatrixRLClaims):
    """What is proven about plans on sampled columns: the same if these are all states, else nothing."""

    def _own_words(self) -> str | None:
        return None

    @property
    def _estimated(self) -> str:
        count = len(self._model.replicas[0].columns.states)
        return f"planning looks at {count:,} sampled columns: bounds are estimates, not proven"

    @property
    def _proof(self) -> Guarantee:
        return super()._proof if self._model.is_exact else Guarantee(False, self._estimated)

    def _certificate(self, alarmed: bool) -> Guarantee:
        return super()._certificate(alarmed) if self._model.is_exact else Guarantee(False, self._estimated)

    def refutation(self) -> str | None:
        """Return why the assumptions are false, or not checked: the alarm does not watch rewards with columns."""
        words = super().refutation()
        if words is None and self._model.confidence.watches_rewards and self._algorithm.problem.mdp is None:
            return "proven only if learned rewards are linear in phi, which is not watched with columns"
        return words

    def alarm_words(self, first_alarm: str) -> str:
        """Return why nothing is proven after an alarm: 1 − φᵀM_n u has the sampling error of u."""
        if self._model.is_exact:
            return super().alarm_words(first_alarm)
        return f"{self._estimated}; {first_alarm}, which sampling may have caused"


class SampledCertifier(Certifier):
    """Bounds on the last columns, which are estimates unless these are all states."""

    def certify(self, plan: SampledPlans, start: Start | None = None) -> Bounds:
        """Bound V*(s0) and the value of a plan's policy."""
        algorithm = self._algorithm
        chosen, task = algorithm._declared_start() if start is None else start, algorithm.problem.task
        states, most = chosen.states, total_weight(task.discount, task.horizon)
        upper, lower, empty = [], [], []
        for best, played in zip(algorithm._plans("proven").plans, plan.plans, strict=True):
            # Values at states in which no episode began are not computed: they lie in [0, Σγ^h].
            upper.append(chosen.mean(best.best(0, states), most, sign=1.0) if len(states) else most)
            lower.append(chosen.mean(best.lower_at(played, states), 0.0, sign=-1.0) if len(states) else 0.0)
            empty.append(best.empty)
        return Bounds(algorithm._own_unit(upper, tail=task.tail), algorithm._own_unit(lower), np.array(empty))

    def gaps(self, plan: SampledPlans, steps: Steps, *, every: bool = False) -> FloatArray:
        """Return by how much played steps fell short of a plan's optimistic values, in the environment's unit: (B,)."""
        del every  # Q of the plan itself is at hand
        found, task = [], self._algorithm.problem.task
        for b, one in enumerate(plan.plans):
            length = int(steps.taken[b].sum())
            is_early = length < task.horizon and not steps.ended[b].any()
            left = steps.next_states[b, length - 1 : length] if is_early else None
            found.append(one.gap(steps.states[b, :length], steps.actions[b, :length], left))
        unit: float = task.unit
        return unit * np.array(found)


class SampledMatrixRL(Algorithm):
    """UC-MatrixRL with values at m sampled states only: a model of columns and its plans; `UCMatrixRL.start` makes it.

    Attributes:
        model: Data and columns of the replicas, and the bounds that follow from them.
    """

    name = "matrix-rl"
    kinds: ClassVar[tuple[Kind, ...]] = ("finite", "functional")
    settings_class: ClassVar[type[Settings]] = MatrixRLSettings
    _stream_names = ("ties", "sampling")
    _memory_names = ("kept", "_columns")
    settings: MatrixRLSettings
    claims: SampledClaims
    _claims_class = SampledClaims
    _certifier_class = SampledCertifier

    def begin(self) -> None:
        """Draw the first columns of every replica and take its constants from them."""
        chosen = self.settings
        if chosen.columns is None:
            rule = "must be given for a task whose states are not enumerated"
            fail("columns", rule, None, "Try columns=2000.")
        matrix_set, known_reward = chosen.make_set(), chosen.known_reward is not False
        if not isinstance(matrix_set, MatrixSet):
            fail("set", "must be a set of matrices with sampled columns", matrix_set.name, "Use set='normalised'.")
        self.model = SampledModel(
            matrix_set,
            StateOracle(self.problem, chosen.columns, chosen.column_weights),
            self.streams["sampling"],
            switch_growth=chosen.switch_growth,
            exploration=chosen.exploration,
            delta=self.claims.model_delta,
            known_reward=known_reward,
        )
        self.kept = KeptPlan()
        may_watch = self.model.is_exact  # estimates claim nothing
        self._rewards = GivenRewards(
            self.problem, self.n_replicas, delta=self.claims.delta, known_reward=known_reward, may_watch=may_watch
        )

    @property
    def _columns(self) -> list[tuple[Columns, TablePsi]]:
        """The sampled states of each replica, which a plan draws again."""
        return [(one.columns, one.psi) for one in self.model.replicas]

    @_columns.setter
    def _columns(self, drawn: list[tuple[Columns, TablePsi]]) -> None:
        for one, pair in zip(self.model.replicas, drawn, strict=True):
            one.use_columns(*pair)

    @property
    def clock(self) -> Clock:
        """Number n of the episode to come, and N if it is known."""
        return Clock(self.episode + 1, self.settings.n_episodes)

    @property
    def steps_at_once(self) -> int:
        """Number of steps that are added up together."""
        return self.model.steps_at_once

    def learn(self, steps: Steps) -> None:
        """Add the steps to the data (Algorithm 1, lines 11 and 12)."""
        self.model.update(steps)
        self._rewards.add(steps)

    def plan(self) -> SampledPlans:
        """Return the plan to play now; columns are drawn again for a new plan unless they are fixed."""
        kept, due = self.kept, self.kept.due(self.model, self.n_replicas)
        plans: list[Any] = list(kept.plan or [None] * self.n_replicas)
        rankings = random_rankings(self.streams["ties"], self.problem.task.n_actions, np.flatnonzero(due))
        for b in np.flatnonzero(due).tolist():
            if self.settings.column_draw == "resampled":
                self.model.replicas[b].redraw(self.streams["sampling"][b])
            plans[b] = SampledPlan(self.model.replicas[b], self.clock, rankings[b : b + 1])
        self.kept = kept.renewed(plans, self.model if self.settings.switch_growth > 0.0 else None, due)
        self.n_plans = self.n_plans + due
        return SampledPlans(plans)

    def make_plan(self) -> SampledPlans:
        """Return the plan to play now."""
        return self.plan()

    def advice(self) -> SampledPlans:
        """Return the plan for the data at hand on the last columns, ties to the lowest action."""
        return self._plans("agent")

    def estimated_plan(self) -> SampledPlans:
        """Return the plan of the estimated model on the last columns, ties to the lowest action."""
        return self._plans("estimate")

    def _plans(self, level: Level) -> SampledPlans:
        rankings = lowest_first(self.problem.task.n_actions, 1)
        return SampledPlans([SampledPlan(one, self.clock, rankings, level=level) for one in self.model.replicas])

    def act(self, plan: SampledPlans, stage: int, states: NDArray[Any], *, explore: bool = True) -> IntArray:
        """Return the actions of the plans: states (B, …) → (B,)."""
        del explore
        chosen = [one.actions(stage, states[b : b + 1])[0] for b, one in enumerate(plan.plans)]
        return np.array(chosen, dtype=np.int64)

    def action_values(
        self, plan: SampledPlans, stage: int, states: NDArray[Any], *, explore: bool = True
    ) -> FloatArray:
        """Return Q of the plans: states (B, …) → (B, A)."""
        del explore
        return np.stack([one.q(stage, states[b : b + 1])[:, 0] for b, one in enumerate(plan.plans)])

    def use_compiled(self, wanted: bool | None, n_episodes: int | None = None) -> None:
        """Refuse compiled plans: Q is computed where it is asked for."""
        del n_episodes
        if wanted:
            fail("compiled", "must be left out with sampled columns", wanted, "Leave one of them out.")

    def upper(self, plan: SampledPlans, first_states: NDArray[Any] | None = None) -> FloatArray:
        """Return what the plans expect an episode to be worth, in the environment's unit: (B,)."""
        if first_states is None:
            start = self._declared_start()
            values = [float(one.best(0, start.states) @ start.weights) for one in plan.plans]
        else:
            each = zip(plan.plans, np.asarray(first_states), strict=True)
            values = [float(one.best(0, state[None])[0]) for one, state in each]
        return self._own_unit(values, tail=self.problem.task.tail)

    def _declared_start(self) -> Start:
        """Return where the problem says that episodes start."""
        if self.model.oracle.start is None:
            rule = "must be known to bound the value of an episode"
            fail("start", rule, None, "Give the task a start, or name a state: certificate(start=…).")
        return Start("", *self.model.oracle.start)

    def _own_unit(self, values: list[float], *, tail: float = 0.0) -> FloatArray:
        """Convert values in unit reward, with what steps that are cut off may earn, to the environment's unit: (B,)."""
        task = self.model.oracle.task
        own: FloatArray = (np.array(values) + tail) * task.unit + task.total_weight * task.reward_range[0]
        return own

    def learned(self) -> Arrays:
        """Return data and columns, and with rare switching the plans that are being played."""
        arrays = self.model.state_dict() | self._rewards.state_dict()
        if self.kept.sizes is None:
            return arrays
        plans = [(f"kept_{b}_", plan.arrays()) for b, plan in enumerate(self.kept.plan)]
        kept = {prefix + name: array for prefix, group in plans for name, array in group.items()}
        return arrays | kept | {"kept_sizes": self.kept.sizes}

    def _check_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Refuse arrays that do not fit; the number of columns may vary, and plans are compared when they are made."""
        own = {name: array[:0] if name.startswith("column") else array for name, array in self.state().items()}
        check_arrays(
            {name: array for name, array in state.items() if not name.startswith("kept_")}, own, optional=OPTIONAL
        )

    def load_learned(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `learned` returned."""
        self.model.load_state_dict(arrays)
        self._rewards.load_state_dict(arrays)
        if "kept_sizes" in arrays:
            plans = []
            for b, one in enumerate(self.model.replicas):
                own = {n.removeprefix(f"kept_{b}_"): a for n, a in arrays.items() if n.startswith(f"kept_{b}_")}
                plans.append(SampledPlan.from_arrays(own, one))
            self.kept = KeptPlan(plans, arrays["kept_sizes"].copy())

    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> SampledPlans:
        """Make the plan again whose `arrays` were saved."""
        return SampledPlans([SampledPlan.from_arrays(arrays, self.model.replicas[0])])
