"""Backward induction (YW19 (4)) for B replicas at once, used by every algorithm of the library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from matrixrl.core.greedy import greedy_actions, tie_weights
from matrixrl.core.value_bounds import Ends, PlanArrays, ValueBounds
from matrixrl.problems.task import total_weight
from matrixrl.records import BoolArray, FloatArray, IntArray, Plan

__all__ = ["Frame", "ScoredPlan", "backward_induction", "greedy_plan", "optimal_plan", "pessimistic_values"]


@dataclass(frozen=True, slots=True)
class Frame:
    """Horizon, sizes and end state of a plan.

    Attributes:
        horizon: Number of steps H of an episode.
        n_actions: Number of actions A.
        n_states: Number of states S.
        end_state: Absorbing state whose value is known: `end_reward` times the number of remaining steps; None if there
            is no such state.
        end_reward: Unit reward of the end state.
        allowed: (A, S) Allowed actions of each state, at least one; None if all are.
        blocks: (H, 2) First action that each stage has, and the one after its last; None if all stages have all.
        discount: Factor γ of the values of the next stage.
    """

    horizon: int
    n_actions: int
    n_states: int
    end_state: int | None = None
    end_reward: float = 0.0
    allowed: BoolArray | None = None
    blocks: IntArray | None = None
    discount: float = 1.0

    def permits(self, policy: IntArray) -> bool:
        """Return whether a table (…, H, S) of actions has only allowed ones."""
        if self.blocks is not None and ((policy < self.blocks[:, :1]) | (policy >= self.blocks[:, 1:])).any():
            return False
        return self.allowed is None or bool(self.allowed[policy, np.arange(self.n_states)].all())

    def permitted(self, policy: IntArray) -> IntArray:
        """Return a table (…, H, S) with the lowest allowed action in place of each one that is not allowed."""
        if self.allowed is None or self.permits(policy):
            return policy
        lowest = np.stack([first + self.allowed[first:stop].argmax(axis=0) for first, stop in self.choices])
        fits = self.allowed[policy, np.arange(self.n_states)]
        table: IntArray = np.where(fits, policy, lowest).astype(policy.dtype)
        return table

    def left(self, stage: int) -> float:
        """Return Σ γ^k over the steps from a stage on: H − h without a discount. Unit rewards are worth no more."""
        return total_weight(self.discount, self.horizon - stage)

    def lefts(self) -> FloatArray:
        """Return `left` of every stage: (H,)."""
        return np.array([self.left(h) for h in range(self.horizon)])

    def ceilings(self) -> FloatArray:
        """Return the largest value that Π of YW19 (4) leaves at every stage: (H,).

        It is H at all stages without a discount, as in the paper, and `left` of each stage with one.
        """
        return np.full(self.horizon, float(self.horizon)) if self.discount == 1.0 else self.lefts()

    @property
    def choices(self) -> IntArray:
        """First action of each stage, and the one after its last: (H, 2)."""
        every = np.array([0, self.n_actions], dtype=np.int64)
        return np.tile(every, (self.horizon, 1)) if self.blocks is None else self.blocks

    def end_values(self) -> FloatArray:
        """Return the unit value of the end state at every stage: (H,)."""
        return self.end_reward * self.lefts()

    def exclude(self, q: FloatArray, stage: int) -> None:
        """Set Q (B, A, S) of actions that a stage does not have, or that are not allowed, to −∞."""
        if self.blocks is not None:
            first, stop = self.blocks[stage]
            q[:, :first] = -np.inf
            q[:, stop:] = -np.inf
        if self.allowed is not None:
            np.copyto(q, -np.inf, where=~self.allowed)


@dataclass(frozen=True, slots=True)
class ScoredPlan:
    """A plan with the numbers that its policy is greedy in, so that ties can be broken otherwise without a new backup.

    Attributes:
        plan: The plan; its values do not depend on how ties are broken.
        scores: (B, H, A, S) Q, with the preference that breaks ties before the rankings, if there is one.
        has_preference: Whether there is one.
    """

    plan: Plan
    scores: FloatArray
    has_preference: bool

    def with_ties(self, rankings: FloatArray) -> Plan:
        """Return the plan with ties broken by rankings (B, A) of the actions in [0, 1]."""
        horizon = self.plan.policy.shape[1]
        tie_break = tie_weights(rankings, horizon, has_preference=self.has_preference)[:, :, None]
        policy = np.empty_like(self.plan.policy)
        for h in range(horizon):
            policy[:, h] = greedy_actions(self.scores[:, h].copy(), tie_break)
        return replace(self.plan, policy=policy)


QFunction = Callable[[int, FloatArray], FloatArray]
"""Function of the stage h and of the discounted values (B, S) of stage h + 1 that returns Q_h (B, A, S)."""


def backward_induction(
    source: ValueBounds | QFunction,
    frame: Frame,
    n_replicas: int,
    *,
    sign: float = 1.0,
    low: FloatArray | None = None,
    high: FloatArray | None = None,
    policy: IntArray | None = None,
    visit: Callable[[int, FloatArray], None] | None = None,
) -> FloatArray:
    """Return V_h = clip(max_a Q_h), or V_h of a given policy, from the last stage to the first: (B, H+1, S).

    The maximum is over allowed actions: Q of the others becomes −∞.

    Args:
        source: Bounds on Q, or a function that returns Q, which may be changed; its A may be 1 if the frame allows all
            actions.
        frame: Horizon, sizes and allowed actions.
        n_replicas: Number of replicas B.
        sign: 1 for the upper bounds of `source`, -1 for the lower ones.
        low: (H,) Smallest value of each stage; 0 by default. Used only together with `high`.
        high: (H,) Largest value of each stage; if None, values are not clipped.
        policy: (B, H, S) Actions whose values are backed up in place of the largest ones.
        visit: Function that is called with each stage and its Q (B, A, S), which it may change.
    """
    values = np.zeros((n_replicas, frame.horizon + 1, frame.n_states))
    ends, last = frame.end_values(), frame.horizon - 1
    for h in reversed(range(frame.horizon)):
        following = values[:, h + 1] if frame.discount == 1.0 else frame.discount * values[:, h + 1]
        if isinstance(source, ValueBounds):
            beyond = None if h == last else following  # nothing follows the last stage: no bonus either
            q = source.q(beyond, sign=sign)
        else:
            q = source(h, following)
        if policy is None:
            frame.exclude(q, h)
            q.max(axis=1, out=values[:, h])
        else:
            values[:, h] = np.take_along_axis(q, policy[:, h].astype(np.int64)[:, None, :], axis=1)[:, 0]
        if high is not None:
            np.clip(values[:, h], 0.0 if low is None else low[h], high[h], out=values[:, h])  # Π of YW19 (4)
        if visit is not None:
            visit(h, q)
        if frame.end_state is not None:
            values[:, h, frame.end_state] = ends[h]
    return values


def greedy_plan(
    source: ValueBounds | QFunction,
    frame: Frame,
    rankings: FloatArray,
    *,
    sign: float = 1.0,
    compiled: bool = False,
    high: FloatArray | None = None,
    preference: FloatArray | None = None,
    q_out: FloatArray | None = None,
) -> Plan:
    """Return the plan that is greedy in Q: in the optimistic one (YW19 (4), Algorithm 1 line 6), or in lower bounds.

    Where lower bounds grow with the values, as those of likelihood sets do, no policy has a larger lower bound than
    the one that is greedy in them (docs/proofs.md, section 11).

    Args:
        source: Bounds on Q, or a function that returns Q.
        frame: Horizon, sizes and allowed actions.
        rankings: (B, A) Rankings of the actions in [0, 1] that break ties.
        sign: 1 for the upper bounds of `source`, -1 for the lower ones.
        compiled: Whether to use the compiled backup if there is one for these bounds.
        high: (H,) Largest value of each stage; bounds have their own. If None, values are not clipped.
        preference: (B, H, A, S) Preferences in [0, H] that break ties before `rankings`.
        q_out: (B, H, A, S) Array that is filled in with Q.
    """
    empty: IntArray | None = None
    if isinstance(source, ValueBounds):
        if source.is_two_sided and sign > 0.0:
            return optimal_plan(source, frame, rankings, preference=preference, q_out=q_out)[0]
        if compiled and source.has_compiled_form(sign=sign):
            return _compiled_plan(source, frame, rankings, preference, q_out, sign)
        high = None if source.is_normalised and sign > 0.0 else frame.ceilings()
        empty = source.empty
    choice = _Greedy(frame, rankings, preference, q_out)
    values = backward_induction(source, frame, len(rankings), sign=sign, high=high, visit=choice)
    return Plan(choice.policy, values, np.zeros(len(rankings), dtype=np.int64) if empty is None else empty)


class _Greedy:
    """Fills in the policy that is greedy in Q, stage by stage; arguments as of `greedy_plan`."""

    def __init__(
        self, frame: Frame, rankings: FloatArray, preference: FloatArray | None, q_out: FloatArray | None
    ) -> None:
        self.policy = _empty_policy(frame, len(rankings))
        self._tie_break = tie_weights(rankings, frame.horizon, has_preference=preference is not None)[:, :, None]
        self._preference, self._q_out = preference, q_out

    def __call__(self, h: int, q: FloatArray) -> None:
        if self._q_out is not None:
            self._q_out[:, h] = q
        preferred = None if self._preference is None else self._preference[:, h]
        self.policy[:, h] = greedy_actions(q, self._tie_break, preference=preferred)


def _empty_policy(frame: Frame, n_replicas: int) -> IntArray:
    shape = (n_replicas, frame.horizon, frame.n_states)
    return np.empty(shape, dtype=np.min_scalar_type(frame.n_actions - 1))


def _ends(frame: Frame) -> Ends:
    """Return the end state as compiled backups take it, -1 if there is none, with its values and the discount."""
    return Ends(-1 if frame.end_state is None else frame.end_state, frame.end_values(), frame.discount)


def _compiled_plan(
    bounds: ValueBounds,
    frame: Frame,
    rankings: FloatArray,
    preference: FloatArray | None,
    q_out: FloatArray | None,
    sign: float,
) -> Plan:
    """Return the plan of the compiled backup: optimistic (sign 1) or pessimistic (sign -1)."""
    values = np.zeros((len(rankings), frame.horizon + 1, frame.n_states))
    policy = _empty_policy(frame, len(rankings))
    tie_break = tie_weights(rankings, frame.horizon, has_preference=preference is not None)
    arrays = PlanArrays(tie_break, _ends(frame), values, policy, frame.choices, preference, q_out, frame.allowed)
    bounds.fill_in_compiled(arrays, sign=sign)
    return Plan(policy=policy, values=values, empty=bounds.empty)


def optimal_plan(
    bounds: ValueBounds,
    frame: Frame,
    rankings: FloatArray,
    *,
    preference: FloatArray | None = None,
    q_out: FloatArray | None = None,
) -> tuple[Plan, FloatArray]:
    """Return the optimistic plan and lower bounds on V*, backed up together, for bounds that are two-sided.

    The lower bounds hold for V*, not for the value of the plan's policy: that is what `pessimistic_values` bounds.

    Args:
        bounds: Bounds on next values and rewards.
        frame: Horizon and sizes.
        rankings: (B, A) Rankings of the actions in [0, 1] that break ties.
        preference: (B, H, A, S) Preferences in [0, H] that break ties before `rankings`.
        q_out: (B, H, A, S) Array that is filled in with the optimistic Q.

    Returns:
        The plan, and lower bounds (B, H+1, S) on V* in unit reward.
    """
    n, last = len(rankings), frame.horizon - 1
    choice = _Greedy(frame, rankings, preference, q_out)
    contradicted = np.zeros(n, dtype=np.int64)

    def q_of(h: int, values: FloatArray) -> FloatArray:  # the upper bounds of all replicas, then the lower ones
        upper, lower = (None, None) if h == last else (values[:n], values[n:])
        found = bounds.optimal_q(lower, upper)
        np.maximum(contradicted, found.contradicted, out=contradicted)
        return np.concatenate([found.upper, found.lower])

    high = None if bounds.is_normalised else frame.ceilings()
    both = backward_induction(q_of, frame, 2 * n, high=high, visit=lambda h, q: choice(h, q[:n]))
    return Plan(choice.policy, both[:n].copy(), bounds.empty + contradicted), both[n:]


def pessimistic_values(bounds: ValueBounds, policy: IntArray, frame: Frame, *, compiled: bool = False) -> FloatArray:
    """Return lower bounds (B, H+1, S) on the values of a policy, in unit reward (docs/proofs.md, section 6).

    Args:
        bounds: Bounds on next values and rewards.
        policy: (B, H, S) Action of each stage and state.
        frame: Horizon and sizes.
        compiled: Whether to use the compiled backup if there is one for these bounds.
    """
    if compiled and bounds.has_compiled_form(sign=-1.0):
        values = np.zeros((len(policy), frame.horizon + 1, frame.n_states))
        bounds.fill_in_lower_values(policy, _ends(frame), values)
        return values
    return backward_induction(bounds, frame, len(policy), sign=-1.0, high=frame.ceilings(), policy=policy)
