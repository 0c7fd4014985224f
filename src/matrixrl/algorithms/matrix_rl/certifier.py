"""Certificates of UC-MatrixRL, bounds on given policies and single actions, and plans that close gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.certifier import Certifier
from matrixrl.algorithms.matrix_rl.budget import BudgetPlan, lack_at
from matrixrl.algorithms.matrix_rl.conservative import OWN, ConservativePlan
from matrixrl.algorithms.matrix_rl.imagined import Imagination
from matrixrl.algorithms.matrix_rl.settings import EXPLORE_FOR
from matrixrl.checks import choice
from matrixrl.core import PolicyIntervals, ValueBounds, optimal_plan, pessimistic_values, policy_bounds
from matrixrl.core.greedy import lowest_first
from matrixrl.core.start import Start
from matrixrl.logs import StepLog
from matrixrl.records import BoolArray, Bounds, FloatArray, IntArray, Plan, Steps

if TYPE_CHECKING:
    from matrixrl.algorithms.matrix_rl.algorithm import UCMatrixRL

__all__ = ["MatrixRLCertifier"]


class MatrixRLCertifier(Certifier):
    """The bounds of a started UC-MatrixRL, at the tightest proven radius, whatever it explores with."""

    _algorithm: UCMatrixRL

    def __init__(self, algorithm: UCMatrixRL) -> None:
        super().__init__(algorithm)
        self._purpose: str = algorithm.settings.explore_for

    @property
    def purpose(self) -> str:
        """What episodes are played for: to earn (`regret`) or to certify a policy (`certificate`)."""
        return self._purpose

    @purpose.setter
    def purpose(self, purpose: str) -> None:
        chosen = choice("explore_for", purpose, EXPLORE_FOR)
        if chosen != self._purpose:
            self._purpose = chosen
            self._algorithm.kept = self._algorithm.kept._replace(sizes=None)  # a new plan is due

    def bounds(self, parts: int = 1) -> ValueBounds:
        """Return bounds at the tightest proven radius, at one of some equal parts of δ."""
        return self._algorithm.model.bounds(self._algorithm.clock._replace(parts=parts), "proven")[0]

    def certifying_plan(self, rankings: FloatArray) -> Plan:
        """Return a plan that is played to close the gap of a certificate (docs/proofs.md, section 11).

        It is optimistic at the proven radius. In every second plan one stage, each in turn, takes the action whose
        bounds on Q are furthest apart among those that may still be the best.
        """
        algorithm, belief = self._algorithm, self.bounds()
        high, low = algorithm._empty_q(), algorithm._empty_q()
        best = algorithm._greedy(belief, rankings, q_out=high)
        curious = np.flatnonzero(algorithm.n_plans % 2)
        if not len(curious):
            return best
        safe = algorithm._greedy(belief, rankings, sign=-1.0, q_out=low)
        stages = (algorithm.n_plans[curious] // 2) % algorithm.frame.horizon
        above, below = high[curious, stages], low[curious, stages]
        possible = above >= safe.values[curious, stages][:, None, :]  # never of an action that is not allowed
        apart = np.subtract(above, below, where=possible, out=np.full(above.shape, -1.0))
        policy = best.policy.copy()
        policy[curious, stages] = apart.argmax(axis=1)
        return replace(best, policy=policy)

    def safest_plan(self) -> Plan:
        """Return the plan that is greedy in the lower bounds on Q; ties by the estimate.

        With likelihood sets no policy has a larger certified lower bound (docs/proofs.md, section 11).
        """
        algorithm = self._algorithm
        proven, small = algorithm.model.bounds(algorithm.clock, "proven", "ties")
        return algorithm._greedy(proven, sign=-1.0, preference=algorithm._preference(small))

    def gaps(self, plan: Plan, steps: Steps, *, every: bool | BoolArray = False) -> FloatArray:
        r"""Return Σ γ^h (V_h(s_h) − Q_h(s_h, a_h)) of the played steps: (B,), in the environment's unit.

        V is that of the plan, and Q the bound of the pair from V of the next stage and the data at hand, which is that
        of the plan if no data came in since (docs/proofs.md, 7.1). An action of the plan has no gap, except that of a
        plan that is not greedy. An episode of a tuned plan is charged with what that lacked at its begin, and from the
        first other action on as any other (7.2). What is left after an episode that was ended early is a gap of all
        that was expected.
        """
        algorithm, values = self._algorithm, plan.values
        frame, rows = algorithm.frame, algorithm._replica
        states, actions, stages = steps.states, steps.actions, steps.actions.shape[1]
        planned = plan.policy[rows[:, None], np.arange(stages), states]
        if isinstance(plan, ConservativePlan):
            every = every | (plan.kind != OWN)[:, None]
        charged, lack = steps.taken & (every | (planned != actions)), np.zeros(algorithm.n_replicas)
        if isinstance(plan, BudgetPlan):
            lack = lack_at(plan, steps)
            charged |= plan.is_tuned[:, None] & steps.taken & np.logical_or.accumulate(charged, axis=1)
        pairs = np.zeros((algorithm.n_replicas, frame.n_actions, frame.n_states), dtype=np.bool_)
        replica, stage = np.nonzero(charged)
        pairs[replica, actions[replica, stage], states[replica, stage]] = True
        belief = algorithm.model.bounds(algorithm.clock, "agent")[0].restricted(pairs) if len(replica) else None
        total = np.zeros(algorithm.n_replicas)
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
        return algorithm.task.unit * (lack + total + np.where(early, frame.discount**lengths * left, 0.0))

    def own_gap(self, plan: Plan, steps: Steps) -> float:
        """Return what a tuned plan lacked in optimism, or the gaps of an incumbent; 0 for an optimistic plan."""
        if isinstance(plan, ConservativePlan) and plan.kind[0] != OWN:
            return float(self.gaps(plan, steps)[0])
        return float(self._algorithm.task.unit * lack_at(plan, steps)[0]) if isinstance(plan, BudgetPlan) else 0.0

    def certify(self, plan: Plan, start: Start | None = None) -> Bounds:
        """Bound V*(s0) and the value of a plan's policy at the tightest proven radius (docs/proofs.md, 6).

        The bounds hold for any data, however they were collected, so a tuned agent has a proven certificate too. A set
        that bounds V* on both sides also gives a lower bound on V*(s0), which is none on the value of the policy.
        """
        algorithm, belief, optimal_lower = self._algorithm, self.bounds(), None
        task, frame = algorithm.task, algorithm.frame
        if belief.is_two_sided:
            best, low = optimal_plan(belief, frame, lowest_first(task.n_actions, algorithm.n_replicas))
            optimal_lower = task.to_own_unit(algorithm._start_values(low, start, sign=-1.0))
        else:
            best = algorithm._greedy(belief)
        low_values = pessimistic_values(belief, plan.policy, frame, compiled=algorithm._compiles())
        lower = algorithm._start_values(low_values, start, sign=-1.0)
        upper = algorithm._start_values(best.values, start) + task.tail
        return Bounds(task.to_own_unit(upper), task.to_own_unit(lower), self._alarms(best), optimal_lower)

    def _alarms(self, plan: Plan) -> IntArray:
        """Return the number of empty sets in a plan, and one more if rewards are refuted: (B,)."""
        alarms: IntArray = plan.empty + self._algorithm._rewards.contradictions(self._algorithm.clock)
        return alarms

    def bound_policies(
        self, first: NDArray[Any], second: NDArray[Any], start: Start | None = None, parts: int = 1
    ) -> PolicyIntervals:
        """Bound V(s0) of two given policies and their difference at the tightest proven radius (docs/proofs.md, 12)."""
        algorithm, belief = self._algorithm, self.bounds(parts)
        task, best = algorithm.task, algorithm._greedy(belief)
        sides, tail = [], task.tail  # what steps that are cut off from endless episodes may earn
        cut_off = np.array([[0.0, 0.0, -tail], [tail, tail, tail]])[:, :, None]
        both = policy_bounds(belief, first, second, algorithm.frame, ceiling=best.values)
        for values, more, sign in zip(both, cut_off, (-1.0, 1.0), strict=True):
            unit = np.stack([algorithm._start_values(one, start, sign=sign) for one in values]) + more
            sides.append(np.concatenate([task.to_own_unit(unit[:2]), task.unit * unit[2:]]))
        return PolicyIntervals(sides[0], sides[1], self._alarms(best))

    def estimate_policies(self, tables: Sequence[NDArray[Any]], start: Start | None = None) -> list[float] | None:
        """Return the values of policies in the estimated model, the centre of the set, in the environment's unit.

        With likelihood sets a pair that was never tried is worth its reward and the smallest next value, as in
        `greedy`. An estimated start is the shares of the first states that were seen.
        """
        algorithm = self._algorithm
        belief, found = algorithm.model.bounds(algorithm.clock, "estimate")[0], []
        if start is not None and not len(start.states):
            return None
        centre = None if start is None else replace(start, radius=None)
        for table in tables:
            if table.ndim == 2:
                values = pessimistic_values(belief, table[None], algorithm.frame, compiled=algorithm._compiles())
            else:
                values = policy_bounds(belief, table[None], table[None], algorithm.frame).lower[0]
            unit = float(algorithm._start_values(values, centre, sign=-1.0)[0])
            found.append(float(algorithm.task.to_own_unit(np.array(unit))))
        return found

    def imagine(self, log: StepLog) -> Imagination:
        """Return problems to draw from what was seen, in which a copy of the algorithm plays on."""
        return Imagination(self._algorithm, log)

    def widths_by_pair(self, table: IntArray, log: StepLog) -> FloatArray:
        r"""Return what each pair adds to the width of a policy's interval (H, S), in the environment's unit: (A, S).

        With D_h the upper less the lower bound, \(D_h(s) = e_h(s) + \gamma\hat p D_{h+1}\) defines what the pair of s
        at stage h adds; summed along the estimated model, it is all of D_0 at the start. A pair that was never tried
        adds all that is unknown from there on.
        """
        algorithm, belief = self._algorithm, self.bounds()
        frame, best = algorithm.frame, algorithm._greedy(belief)
        both = policy_bounds(belief, table[None], table[None], frame, ceiling=best.values)
        apart, law = both.upper[0, 0] - both.lower[0, 0], Imagination(algorithm, log).estimate()
        visits, found = law.visits(table), np.zeros(frame.n_actions * frame.n_states)
        pairs = table.astype(np.int64) * frame.n_states + np.arange(frame.n_states)
        for h in range(frame.horizon):
            rest = (law.table @ apart[h + 1])[pairs[h]]
            found[pairs[h]] += frame.discount**h * visits[h, pairs[h]] * (apart[h] - frame.discount * rest)
        return algorithm.task.unit * found.reshape(frame.n_actions, frame.n_states)

    def bound_actions(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds on Q* in unit rewards, each (B, H, A, S), at the tightest proven radius.

        The upper ones are those of the optimistic backup, at a radius for all actions. The lower ones are those of the
        policy that is greedy in them, and Q* is at least the Q of any policy.
        """
        algorithm = self._algorithm
        [belief] = algorithm.model.bounds(algorithm.clock, "actions")
        low, high = algorithm._empty_q(), algorithm._empty_q()
        algorithm._greedy(belief, q_out=high)
        algorithm._greedy(belief, sign=-1.0, q_out=low)
        return low, high

    def estimate_actions(self) -> FloatArray:
        """Return Q (B, H, A, S) of the best policy of the estimated model in unit rewards, as `estimate_policies`."""
        algorithm = self._algorithm
        q = algorithm._empty_q()
        algorithm._greedy(algorithm.model.bounds(algorithm.clock, "estimate")[0], sign=-1.0, q_out=q)
        return q
