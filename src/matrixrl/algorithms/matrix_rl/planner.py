"""Optimistic plans of MatrixRL on numbered states: ties, rare switching, certificates and compiled loops."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.finite import plan_from_arrays
from matrixrl.algorithms.matrix_rl.reward_watch import RewardWatch
from matrixrl.algorithms.matrix_rl.settings import EXPLORE_FOR
from matrixrl.checks import choice
from matrixrl.compiling import to_compile
from matrixrl.core import (
    Level,
    PolicyIntervals,
    ValueBounds,
    optimal_plan,
    optimistic_plan,
    pessimistic_plan,
    pessimistic_values,
    policy_bounds,
)
from matrixrl.core.backup import ScoredPlan
from matrixrl.core.greedy import lowest_first, random_rankings
from matrixrl.core.start import Start
from matrixrl.errors import InvalidInput
from matrixrl.problems.problem import Kind
from matrixrl.records import BoolArray, Bounds, FloatArray, IntArray, Plan, Steps
from matrixrl.tolerances import TIE

__all__ = ["FiniteMatrixRL"]


class FiniteMatrixRL(RewardWatch):
    """Plans by optimism over a confidence set; subclasses keep the data and bound Q from them.

    Attributes:
        revision: Number that is raised whenever what was learned changes.
    """

    name = "matrix-rl"
    kinds: ClassVar[tuple[Kind, ...]] = ("finite", "functional")
    stream_names = ("ties",)
    list_names: ClassVar[tuple[str, ...]] = ("given_codes", "given_data")
    revision: int
    _planned: tuple[int, bool] | None = None  # revision at the last plan, and whether it was compiled
    _scored: ScoredPlan | None = None  # Q at that revision, once a second plan was asked for
    stage_cost: ClassVar[float] = 1.0
    """Time of a stage of a plan with NumPy, in units of one with balls: it decides when compiled loops pay off."""

    def begin(self) -> None:
        """Start without data and without a plan."""
        super().begin()
        self.revision = 0
        self._purpose: str = self.settings.explore_for
        self._compiled: bool | None = None

    def use_masks(self) -> None:
        """Plan with the actions that are allowed; a new plan is due."""
        super().use_masks()
        self.kept, self._kept_sizes = None, np.full(self.n_replicas, -np.inf)
        self._planned = self._scored = None

    @abstractmethod
    def beliefs(self, *levels: Level) -> list[ValueBounds]:
        """Return bounds on Q from the data at hand, at each of some choices of the radius."""

    def plan(self) -> Plan:
        """Return the plan to play now: a new one where it is due, the last one elsewhere."""
        due = self.due()
        if due.any():
            rankings = random_rankings(self.streams["ties"], self.task.n_actions, *self._undue(due))
            certifies = self._purpose == "certificate"
            fresh = self._certifying_plan(rankings) if certifies else self._next_plan(rankings)
            if self.settings.switch_growth > 0.0:
                self.kept = fresh if self.kept is None or due.all() else self.kept.updated(fresh, due)
            else:
                self.kept = fresh
            self.n_plans = self.n_plans + due
        return self.noting_alarms(self.kept)

    def _next_plan(self, rankings: FloatArray) -> Plan:
        """Return the optimistic plan; if no data came in since the last one, only ties are broken again.

        Q does not depend on the rankings, so this is what `plan_with` returns. The second plan on the same data keeps
        Q, for as long as no data come in: many episodes may be begun meanwhile.

        Args:
            rankings: (B, A) rankings of the actions that break ties.
        """
        at = (self.revision, self.compiles())
        if self.is_own or self._planned != at:
            self._planned, self._scored = at, None
            return self.plan_with(rankings)
        if self._scored is None:
            self._scored = self._scored_plan()
        return self._scored.with_ties(rankings)

    def _scored_plan(self) -> ScoredPlan:
        """Return the optimistic plan for the data at hand together with what its policy is greedy in."""
        frame, rankings = self.frame, lowest_first(self.task.n_actions, self.n_replicas)
        scores = np.empty((self.n_replicas, frame.horizon, frame.n_actions, frame.n_states))
        if self.settings.ties == "random":
            plan = self._optimistic_plan(self.beliefs("agent")[0], rankings, q_out=scores)
            return ScoredPlan(plan, scores, has_preference=False)
        own, small = self.beliefs("agent", "ties")
        preference = self._preference(small)
        plan = self._optimistic_plan(own, rankings, preference=preference, q_out=scores)
        scores += TIE * preference
        return ScoredPlan(plan, scores, has_preference=True)

    def _undue(self, due: BoolArray) -> tuple[IntArray, FloatArray]:
        """Return the replicas that draw a ranking, and the rankings of the others."""
        return np.flatnonzero(due), lowest_first(self.task.n_actions, self.n_replicas)

    def make_plan(self) -> Plan:
        """Return the optimistic plan for the data at hand, ties broken at random (Algorithm 1, line 6)."""
        return self.noting_alarms(self.plan_with(random_rankings(self.streams["ties"], self.task.n_actions)))

    def advice(self) -> Plan:
        """Return the optimistic plan for the data at hand, ties to the lowest action."""
        return self.plan_with(lowest_first(self.task.n_actions, self.n_replicas))

    def plan_with(self, rankings: FloatArray) -> Plan:
        """Return the optimistic plan for the data at hand; every plan of this class is made here.

        Args:
            rankings: (B, A) rankings of the actions that break ties.
        """
        if self.settings.ties == "random":
            return self._optimistic_plan(self.beliefs("agent")[0], rankings)
        own, small = self.beliefs("agent", "ties")
        return self._optimistic_plan(own, rankings, preference=self._preference(small))

    def _certifying_plan(self, rankings: FloatArray) -> Plan:
        """Return a plan that is played to close the gap of a certificate (docs/proofs.md, section 11).

        It is optimistic at the proven radius. In every second plan one stage, each in turn, takes the action whose
        bounds on Q are furthest apart among those that may still be the best.

        Args:
            rankings: (B, A) Rankings of the actions that break ties.
        """
        belief, frame = self.beliefs("proven")[0], self.frame
        high, low = np.empty((2, self.n_replicas, frame.horizon, frame.n_actions, frame.n_states))
        best = self._optimistic_plan(belief, rankings, q_out=high)
        curious = np.flatnonzero(self.n_plans % 2)
        if not len(curious):
            return best
        safe = pessimistic_plan(belief, frame, rankings, compiled=self.compiles(), q_out=low)
        stages = (self.n_plans[curious] // 2) % frame.horizon
        above, below = high[curious, stages], low[curious, stages]
        possible = above >= safe.values[curious, stages][:, None, :]  # never of an action that is not allowed
        apart = np.subtract(above, below, where=possible, out=np.full(above.shape, -1.0))
        policy = best.policy.copy()
        policy[curious, stages] = apart.argmax(axis=1)
        return replace(best, policy=policy)

    @property
    def purpose(self) -> str:
        """What episodes are played for: `regret` or `certificate`."""
        return self._purpose

    def explore_for(self, purpose: str) -> None:
        """Play the next episodes to earn (`regret`) or to certify a policy (`certificate`); a new plan is due."""
        chosen = choice("explore_for", purpose, EXPLORE_FOR)
        if chosen != self._purpose:
            self._purpose = chosen
            self._kept_sizes = np.full(self.n_replicas, -np.inf)

    def safest_plan(self) -> Plan:
        """Return the plan that is greedy in the lower bounds on Q; ties by the estimate.

        With likelihood sets no policy has a larger certified lower bound (docs/proofs.md, section 11).
        """
        proven, small = self.beliefs("proven", "ties")
        rankings = lowest_first(self.task.n_actions, self.n_replicas)
        preference = self._preference(small)
        return pessimistic_plan(proven, self.frame, rankings, compiled=self.compiles(), preference=preference)

    def estimated_plan(self) -> Plan:
        """Return the plan that is greedy in the estimated model, the centre of the set; ties to the lowest action.

        With likelihood sets a pair that was never tried is worth its reward and the smallest next value; a learned
        reward is 0 there.
        """
        rankings = lowest_first(self.task.n_actions, self.n_replicas)
        return pessimistic_plan(self.beliefs("estimate")[0], self.frame, rankings, compiled=self.compiles())

    def _preference(self, belief: ValueBounds) -> FloatArray:
        """Return what breaks ties before chance does: Q in [0, H] of a plan at a small radius, (B, H, A, S)."""
        frame = self.frame
        q = np.empty((self.n_replicas, frame.horizon, frame.n_actions, frame.n_states))
        self._optimistic_plan(belief, lowest_first(frame.n_actions, self.n_replicas), q_out=q)
        return np.clip(q, 0.0, float(frame.horizon), out=q)

    def _optimistic_plan(
        self,
        belief: ValueBounds,
        rankings: FloatArray,
        *,
        preference: FloatArray | None = None,
        q_out: FloatArray | None = None,
    ) -> Plan:
        return optimistic_plan(
            belief, self.frame, rankings, compiled=self.compiles(), preference=preference, q_out=q_out
        )

    def fill_in_q(self, q: FloatArray) -> None:
        """Fill in the optimistic Q (B, H, A, S) of the data at hand."""
        rankings = lowest_first(self.task.n_actions, self.n_replicas)
        self._optimistic_plan(self.beliefs("agent")[0], rankings, q_out=q)

    @property
    def charged_claim(self) -> Literal[True] | str:
        """`claim` about the regret bound to which the gaps of what is played are added; else why it does not hold."""
        return self.with_masks(self.reward_words or self.proof)

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
        belief = self.beliefs("agent")[0].restricted(pairs) if len(replica) else None
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
        belief, optimal_lower = self.beliefs("proven")[0], None
        rankings = lowest_first(self.task.n_actions, self.n_replicas)
        if belief.is_two_sided:
            best, low = optimal_plan(belief, self.frame, rankings)
            optimal_lower = self.task.to_own_unit(self.start_values(low, start, sign=-1.0))
        else:
            best = self._optimistic_plan(belief, rankings)
        low_values = pessimistic_values(belief, plan.policy, self.frame, compiled=self.compiles())
        lower = self.start_values(low_values, start, sign=-1.0)
        alarms = best.empty + self.contradictions()
        upper = self.start_values(best.values, start) + self.task.tail
        return Bounds(self.task.to_own_unit(upper), self.task.to_own_unit(lower), alarms, optimal_lower)

    def bound_policies(self, first: NDArray[Any], second: NDArray[Any], start: Start | None = None) -> PolicyIntervals:
        """Bound V(s0) of two given policies and their difference at the tightest proven radius (docs/proofs.md, 12)."""
        belief, frame = self.beliefs("proven")[0], self.frame
        ceiling = np.empty((self.n_replicas, frame.horizon, frame.n_actions, frame.n_states))
        best = self._optimistic_plan(belief, lowest_first(frame.n_actions, self.n_replicas), q_out=ceiling)
        ceiling[np.isneginf(ceiling)] = float(frame.horizon)  # of actions that no policy takes
        sides, tail = [], self.task.tail  # what steps that are cut off from endless episodes may earn
        cut_off = np.array([[0.0, 0.0, -tail], [tail, tail, tail]])[:, :, None]
        both = policy_bounds(belief, first, second, frame, ceiling=ceiling)
        for values, more, sign in zip(both, cut_off, (-1.0, 1.0), strict=True):
            unit = np.stack([self.start_values(one, start, sign=sign) for one in values]) + more
            sides.append(np.concatenate([self.task.to_own_unit(unit[:2]), self.task.unit * unit[2:]]))
        return PolicyIntervals(sides[0], sides[1], best.empty + self.contradictions())

    def bound_actions(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds on Q* in unit rewards, each (B, H, A, S), at the tightest proven radius.

        The upper ones are those of the optimistic backup. The lower ones are those of the policy that is greedy in
        them, and Q* is at least the Q of any policy.
        """
        belief, frame = self.beliefs("proven")[0], self.frame
        low, high = np.empty((2, self.n_replicas, frame.horizon, frame.n_actions, frame.n_states))
        rankings = lowest_first(frame.n_actions, self.n_replicas)
        self._optimistic_plan(belief, rankings, q_out=high)
        pessimistic_plan(belief, frame, rankings, compiled=self.compiles(), q_out=low)
        return low, high

    def use_compiled(self, wanted: bool | None, n_episodes: int = 0) -> None:
        """Choose between compiled and NumPy plans; they differ in the rounding of sums only.

        By default plans are compiled once the episodes that were played or announced pay for loading the loops.
        """
        self._compiled = wanted
        if wanted is not None:
            self.compiles(n_episodes)  # fail now if compiled loops were requested but are unavailable

    @property
    def compiled(self) -> bool | None:
        """Request for compiled loops: True, False, or None to decide by the number of episodes."""
        return self._compiled

    def compiles(self, n_episodes: int = 0) -> bool:
        """Say whether plans are compiled; it follows from what is saved with an agent, also after loading."""
        return to_compile(
            self._compiled,
            n_episodes=int(max(self.episode, self.settings.n_episodes or 0, n_episodes) * self.stage_cost),
            horizon=self.task.horizon,
            n_pairs=self.task.n_states * self.task.n_actions,
        )

    def kept_arrays(self) -> Arrays:
        """Return the plan that is being played, for saving; nothing if every episode has a new one."""
        if self.settings.switch_growth == 0.0:
            return {}
        kept = self.kept or self._no_plan()
        arrays = {f"kept_{name}": array for name, array in kept.arrays().items()}
        sizes = np.zeros_like(self.sizes())
        sizes += self._kept_sizes.reshape(self.n_replicas, *self._kept_sizes.shape[1:] or (1,) * (sizes.ndim - 1))
        return arrays | {"kept_sizes": np.where(np.isfinite(sizes), sizes, -1.0)}

    def load_kept(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `kept_arrays` returned."""
        if self.settings.switch_growth > 0.0 and (arrays["kept_sizes"] >= 0.0).all():
            kept = {name: arrays[f"kept_{name}"] for name in ("policy", "values", "empty")}
            if (arrays["kept_sizes"] > self.sizes() * (1.0 + 1e-9) + 1e-9).any():
                raise InvalidInput("kept_sizes must not be larger than those of the data")
            self.kept = plan_from_arrays(kept, self.declared_frame, n_replicas=self.n_replicas)
            self._kept_sizes = arrays["kept_sizes"]

    def _no_plan(self) -> Plan:
        frame, n = self.frame, self.n_replicas
        policy = np.zeros((n, frame.horizon, frame.n_states), dtype=np.min_scalar_type(frame.n_actions - 1))
        values = np.zeros((n, frame.horizon + 1, frame.n_states))
        return Plan(policy, values, np.zeros(n, dtype=np.int64))

    def rescaled_plan(self, plan: Plan, before: tuple[float, float]) -> Plan:
        """Return a plan that was made for another range of rewards in the units of the present one."""
        (old_low, old_high), (low, _) = before, self.task.reward_range
        left = np.append(self.frame.lefts(), 0.0)[:, None]
        own = plan.values * (old_high - old_low) + left * old_low
        return replace(plan, values=(own - left * low) / self.task.unit)
