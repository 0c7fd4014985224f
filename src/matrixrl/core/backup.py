"""Bounds on Q as any confidence set gives them, and backward induction with them (YW19 (4)), for B replicas at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np

from matrixrl.compilation import loop_array
from matrixrl.core.greedy import greedy_actions, tie_weights
from matrixrl.problems.task import total_weight
from matrixrl.records import BoolArray, FloatArray, IntArray, Plan
from matrixrl.tolerances import TIE

__all__ = [
    "Frame",
    "OptimalBounds",
    "PolicyBounds",
    "PolicyIntervals",
    "ScoredPlan",
    "ValueBounds",
    "backward_induction",
    "greedy_plan",
    "optimal_plan",
    "pessimistic_values",
    "policy_bounds",
    "upper_policy_values",
]


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
        choices: (H, 2) First action that each stage has, and the one after its last; by default, all stages have all.
        discount: Factor γ of the values of the next stage.
    """

    horizon: int
    n_actions: int
    n_states: int
    end_state: int | None = None
    end_reward: float = 0.0
    allowed: BoolArray | None = None
    choices: IntArray = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    discount: float = 1.0

    def __post_init__(self) -> None:
        if not len(self.choices):
            object.__setattr__(self, "choices", np.tile(np.array([0, self.n_actions]), (self.horizon, 1)))

    @property
    def has_all(self) -> bool:
        """Whether every stage has all actions."""
        return bool(self.choices[0, 1] - self.choices[0, 0] == self.n_actions)

    def permits(self, policy: IntArray) -> bool:
        """Return whether a table (…, H, S) of actions has only allowed ones."""
        if not self.has_all and ((policy < self.choices[:, :1]) | (policy >= self.choices[:, 1:])).any():
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

    def lefts(self) -> FloatArray:
        """Return Σ γ^k over the steps from each stage on, H − h without a discount: (H,)."""
        if self.discount == 1.0:
            return np.arange(self.horizon, 0, -1, dtype=np.float64)
        return np.array([total_weight(self.discount, n) for n in range(self.horizon, 0, -1)])

    def ceilings(self) -> FloatArray:
        """Return the largest value that Π of YW19 (4) leaves at every stage: (H,).

        It is H at all stages without a discount, as in the paper, and `lefts` with one.
        """
        return np.full(self.horizon, float(self.horizon)) if self.discount == 1.0 else self.lefts()

    def end_values(self) -> FloatArray:
        """Return the unit value of the end state at every stage: (H,)."""
        return self.end_reward * self.lefts()

    def exclude(self, q: FloatArray, stage: int) -> None:
        """Set Q (B, A, S) of actions that a stage does not have, or that are not allowed, to −∞."""
        first, stop = self.choices[stage]
        q[:, :first] = -np.inf
        q[:, stop:] = -np.inf
        if self.allowed is not None:
            np.copyto(q, -np.inf, where=~self.allowed)


class OptimalBounds(NamedTuple):
    """Bounds on Q* of one stage.

    Attributes:
        lower: (B, A, S) Lower bounds on Q*, not on the Q of a policy.
        upper: (B, A, S) Upper bounds on Q*.
        contradicted: (B,) Number of pairs whose bounds contradict the features (misspecification alarm).
    """

    lower: FloatArray
    upper: FloatArray
    contradicted: IntArray


class ValueBounds(ABC):
    """Bounds on Q of B replicas, given their data.

    Attributes:
        n_replicas: Number of replicas B.
        is_normalised: Whether bounds on expected next values are inside the range of the values.
        is_two_sided: Whether upper bounds on V* need lower bounds on V*, so that both are backed up together.
        empty: (B,) Number of pairs that contradict the features (misspecification alarm).
        most: (A, S) or (B, A, S) Upper bounds on unit rewards.
        least: (A, S) or (B, A, S) Lower bounds on unit rewards.
    """

    n_replicas: int
    is_normalised: bool
    is_two_sided: ClassVar[bool] = False
    empty: IntArray
    most: FloatArray
    least: FloatArray

    @abstractmethod
    def q(self, values: FloatArray | None, *, sign: float = 1.0) -> FloatArray:
        """Return bounds on Q (B, A, S): upper for values above V* (sign 1), or lower (sign -1) for any policy.

        Args:
            values: (B, S) Values of the next stage, or None at the last stage, whose next values are 0.
            sign: 1 for upper bounds, -1 for lower bounds.
        """

    @abstractmethod
    def bound(self, values: FloatArray, *, sign: float = 1.0) -> FloatArray:
        """Return bounds on the expected next value (B, A, S) that hold for any values (B, S), also negative ones.

        Such values are those of a policy that was chosen by the data.
        """

    def any_q(self, values: FloatArray | None, *, sign: float = 1.0, clip: bool = False) -> FloatArray:
        """Return bounds on r + P V (B, A, S) that hold for any values (B, S), or on r if they are None.

        Args:
            values: As in `bound`.
            sign: 1 for upper bounds, -1 for lower bounds.
            clip: Keep P V, which is an average of V, in the range of V, also where the set does not use it.
        """
        reward = self.most if sign > 0.0 else self.least
        shape = self.n_replicas, *reward.shape[-2:]
        if values is None:
            return np.broadcast_to(reward, shape).copy()
        return reward + (averages(self, values, sign) if clip else self.bound(values, sign=sign))

    def restricted(self, pairs: BoolArray) -> ValueBounds:  # noqa: ARG002
        """Return the same bounds for some pairs (B, A, S), which may be faster; those of others may be any number."""
        return self

    def step_widths(
        self,
        values: FloatArray,  # noqa: ARG002
        replicas: IntArray,  # noqa: ARG002
        actions: IntArray,  # noqa: ARG002
        states: IntArray,  # noqa: ARG002
    ) -> FloatArray | None:
        """Return U − L, the distance of the bounds of `any_q`, at n pairs, each with its own values (n, S): (n,).

        None if the class has no faster way than `any_q`.
        """
        return None

    def optimal_q(self, lower: FloatArray | None, upper: FloatArray | None) -> OptimalBounds:
        """Return bounds on Q* from bounds (B, S) on V* of the next stage, or from None at the last stage.

        By default each side is backed up by itself: what holds for any values holds for V*.
        """
        nothing = np.zeros(self.n_replicas, dtype=np.int64)
        return OptimalBounds(self.q(lower, sign=-1.0), self.q(upper), nothing)

    def tightened(
        self,
        found: PolicyBounds,
        first: IntArray | FloatArray,  # noqa: ARG002
        second: IntArray | FloatArray,  # noqa: ARG002
        frame: Frame,  # noqa: ARG002
    ) -> PolicyBounds:
        """Return bounds on two policies and their difference that are nowhere wider than those of `policy_bounds`."""
        return found

    def compiled_backup(self, sign: float = 1.0) -> Callable[..., None] | None:  # noqa: ARG002
        """Return the compiled backup of the upper (sign 1) or lower (sign -1) bounds; None if NumPy is used.

        It is a function of the arguments of `core.compiled.backup.fill_plan` from `reward` on.
        """
        return None

    def compiled_policy_backup(self, sign: float = -1.0) -> Callable[..., None] | None:  # noqa: ARG002
        """Return the compiled backup of lower (sign -1) or upper bounds on the values of a policy; None for NumPy.

        It is a function of the replica, the end state or -1, its values (H,), the discount, the policy (H, S), the
        largest values (H, S), or (0, 0) for H everywhere, and the values (H+1, S) that are filled in.
        """
        return None


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
    ends = None if frame.end_state is None else frame.end_values()
    last, excludes = frame.horizon - 1, not frame.has_all or frame.allowed is not None
    for h in reversed(range(frame.horizon)):
        following = values[:, h + 1] if frame.discount == 1.0 else frame.discount * values[:, h + 1]
        if isinstance(source, ValueBounds):
            beyond = None if h == last else following  # nothing follows the last stage: no bonus either
            q = source.q(beyond, sign=sign)
        else:
            q = source(h, following)
        if policy is None:
            if excludes:
                frame.exclude(q, h)
            q.max(axis=1, out=values[:, h])
        else:
            values[:, h] = np.take_along_axis(q, policy[:, h].astype(np.int64)[:, None, :], axis=1)[:, 0]
        if high is not None:
            np.clip(values[:, h], 0.0 if low is None else low[h], high[h], out=values[:, h])  # Π of YW19 (4)
        if visit is not None:
            visit(h, q)
        if ends is not None:
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
        fill = source.compiled_backup(sign) if compiled else None
        if fill is not None:
            return _compiled_plan(fill, source, frame, rankings, preference, q_out, sign)
        high = None if source.is_normalised and sign > 0.0 else frame.ceilings()
        empty = source.empty
    policy, choose = _greedy_choice(frame, rankings, preference, q_out)
    values = backward_induction(source, frame, len(rankings), sign=sign, high=high, visit=choose)
    return Plan(policy, values, np.zeros(len(rankings), dtype=np.int64) if empty is None else empty)


def _greedy_choice(
    frame: Frame, rankings: FloatArray, preference: FloatArray | None, q_out: FloatArray | None
) -> tuple[IntArray, Callable[[int, FloatArray], None]]:
    """Return a policy, and the function that fills it in stage by stage; arguments as of `greedy_plan`."""
    policy = _empty_policy(frame, len(rankings))
    tie_break = tie_weights(rankings, frame.horizon, has_preference=preference is not None)[:, :, None]

    def choose(h: int, q: FloatArray) -> None:
        if q_out is not None:
            q_out[:, h] = q
        policy[:, h] = greedy_actions(q, tie_break, preference=None if preference is None else preference[:, h])

    return policy, choose


def _empty_policy(frame: Frame, n_replicas: int) -> IntArray:
    shape = (n_replicas, frame.horizon, frame.n_states)
    return np.empty(shape, dtype=np.min_scalar_type(frame.n_actions - 1))


def _compiled_plan(
    fill: Callable[..., None],
    bounds: ValueBounds,
    frame: Frame,
    rankings: FloatArray,
    preference: FloatArray | None,
    q_out: FloatArray | None,
    sign: float,
) -> Plan:
    """Return the plan that a compiled backup fills in; rewards of actions that are not allowed are −∞."""
    n = len(rankings)
    values = np.zeros((n, frame.horizon + 1, frame.n_states))
    policy = np.empty((n, frame.horizon, frame.n_states), dtype=np.int32)  # as in compiled episodes
    ties = tie_weights(rankings, frame.horizon, has_preference=preference is not None)
    rewards = bounds.most if sign > 0.0 else bounds.least
    rewards = rewards if frame.allowed is None else np.where(frame.allowed, rewards, -np.inf)
    rewards = np.broadcast_to(rewards, (n, frame.n_actions, frame.n_states)).reshape(n, -1)
    preferred, found = (
        np.zeros((0, 0, 0)) if x is None else x.reshape(n, frame.horizon, -1) for x in (preference, q_out)
    )
    fill(loop_array(rewards), 0, ties, *_ends(frame), frame.choices, values, policy, preferred, TIE, found)
    policy = policy.astype(np.min_scalar_type(frame.n_actions - 1))
    return Plan(policy=policy, values=values, empty=bounds.empty)


def _ends(frame: Frame) -> tuple[int, FloatArray, float]:
    """Return the end state as compiled backups take it, -1 if there is none, with its values and the discount."""
    return -1 if frame.end_state is None else frame.end_state, frame.end_values(), frame.discount


def optimal_plan(
    bounds: ValueBounds,
    frame: Frame,
    rankings: FloatArray,
    *,
    preference: FloatArray | None = None,
    q_out: FloatArray | None = None,
) -> tuple[Plan, FloatArray]:
    """Return the optimistic plan and lower bounds (B, H+1, S) on V*, backed up together, for two-sided bounds.

    The lower bounds hold for V*, not for the value of the plan's policy: that is what `pessimistic_values` bounds.
    Arguments are those of `greedy_plan`.
    """
    n, last = len(rankings), frame.horizon - 1
    policy, choose = _greedy_choice(frame, rankings, preference, q_out)
    contradicted = np.zeros(n, dtype=np.int64)

    def q_of(h: int, values: FloatArray) -> FloatArray:  # the upper bounds of all replicas, then the lower ones
        upper, lower = (None, None) if h == last else (values[:n], values[n:])
        found = bounds.optimal_q(lower, upper)
        np.maximum(contradicted, found.contradicted, out=contradicted)
        return np.concatenate([found.upper, found.lower])

    high = None if bounds.is_normalised else frame.ceilings()
    both = backward_induction(q_of, frame, 2 * n, high=high, visit=lambda h, q: choose(h, q[:n]))
    return Plan(policy, both[:n].copy(), bounds.empty + contradicted), both[n:]


def pessimistic_values(bounds: ValueBounds, policy: IntArray, frame: Frame, *, compiled: bool = False) -> FloatArray:
    """Return lower bounds (B, H+1, S) on the unit values of a policy (B, H, S) (docs/proofs.md, section 6)."""
    fill = bounds.compiled_policy_backup() if compiled else None
    if fill is None:
        return backward_induction(bounds, frame, len(policy), sign=-1.0, high=frame.ceilings(), policy=policy)
    values = np.zeros((len(policy), frame.horizon + 1, frame.n_states))
    for b, actions in enumerate(policy):
        fill(b, *_ends(frame), actions.astype(np.int32), np.zeros((0, 0)), values[b])
    return values


def upper_policy_values(
    bounds: ValueBounds, policy: IntArray, ceiling: FloatArray, frame: Frame, *, compiled: bool = False
) -> FloatArray:
    """Return W_h = min(V_h, r + U(γ W_{h+1})) of a policy, with U for all values: (B, H+1, S) (docs/proofs.md, 7.2).

    Args:
        bounds: Bounds on Q.
        policy: (B, H, S) Actions.
        ceiling: (B, H+1, S) Largest values V, which are those of the optimistic plan.
        frame: Horizon and sizes.
        compiled: Whether to use the compiled backup if there is one for these bounds.
    """
    values = np.zeros_like(ceiling)
    fill = bounds.compiled_policy_backup(1.0) if compiled else None
    if fill is not None:
        for b, actions in enumerate(policy):
            fill(b, *_ends(frame), actions.astype(np.int32), ceiling[b], values[b])
        return values
    for h in reversed(range(frame.horizon)):
        q = bounds.any_q(None if h == frame.horizon - 1 else frame.discount * values[:, h + 1])
        worth = np.take_along_axis(q, policy[:, h].astype(np.int64)[:, None, :], axis=1)[:, 0]
        np.clip(worth, 0.0, ceiling[:, h], out=values[:, h])
        if frame.end_state is not None:
            values[:, h, frame.end_state] = ceiling[:, h, frame.end_state]
    return values


_FIRST, _SECOND, _DIFFERENCE = range(3)


class PolicyBounds(NamedTuple):
    """Bounds on the values of two policies and on their difference, in unit reward.

    Attributes:
        lower: (3, B, H+1, S) Lower bounds on the values of the first and the second policy, and on their difference.
        upper: (3, B, H+1, S) Upper bounds, likewise.
    """

    lower: FloatArray
    upper: FloatArray


class PolicyIntervals(NamedTuple):
    """Bounds on V(s0) of two policies and on their difference for B replicas, in the environment's unit.

    Attributes:
        lower: (3, B) Lower bounds for the first policy, for the second one, and on their difference.
        upper: (3, B) Upper bounds, likewise.
        empty: (B,) Number of pairs that raise the misspecification alarm.
    """

    lower: FloatArray
    upper: FloatArray
    empty: IntArray


def policy_bounds(
    bounds: ValueBounds,
    first: IntArray | FloatArray,
    second: IntArray | FloatArray,
    frame: Frame,
    *,
    ceiling: FloatArray | None = None,
) -> PolicyBounds:
    """Return bounds that hold for any two policies together wherever the confidence set holds.

    The policies may have been chosen by the data, as the bounds on next values hold for all values at once. The
    probability with which both policies take the same action is backed up with the difference of the next stage, and
    the rest with the bounds of each policy; the result is never wider than the difference of the separate bounds.
    `ceiling` (B, H + 1, S) are upper bounds on V*, which no policy exceeds.
    """
    n, horizon, left = bounds.n_replicas, frame.horizon, frame.lefts()
    lower, upper = np.zeros((2, 3, n, horizon + 1, frame.n_states))
    for h in reversed(range(horizon)):
        weights = np.stack([_weights(policy, h, frame.n_actions) for policy in (first, second)])  # (2, B, A, S)
        common = weights.min(axis=0)
        alone = weights - common
        low, high = np.zeros((2, 3, *common.shape))
        used = bounds.restricted(weights.max(axis=0) > 0.0)
        for q, side, sign in ((low, lower, -1.0), (high, upper, 1.0)):
            following = None if h == horizon - 1 else frame.discount * side[:, :, h + 1]
            for policy in (_FIRST, _SECOND):
                q[policy] = used.any_q(None if following is None else following[policy], sign=sign, clip=True)
            if following is not None:
                q[_DIFFERENCE] = averages(used, following[_DIFFERENCE], sign)
        for policy in (_FIRST, _SECOND):
            lower[policy, :, h] = np.clip(_mean(weights[policy], low[policy]), 0.0, left[h])  # rewards are in [0, 1]
            upper[policy, :, h] = np.clip(_mean(weights[policy], high[policy]), 0.0, left[h])
            if ceiling is not None:
                np.minimum(upper[policy, :, h], ceiling[:, h], out=upper[policy, :, h])
        together = _mean(common, low[_DIFFERENCE]), _mean(common, high[_DIFFERENCE])
        apart_low = _mean(alone[_FIRST], low[_FIRST]) - _mean(alone[_SECOND], high[_SECOND])
        apart_high = _mean(alone[_FIRST], high[_FIRST]) - _mean(alone[_SECOND], low[_SECOND])
        lower[_DIFFERENCE, :, h] = np.maximum(together[0] + apart_low, lower[_FIRST, :, h] - upper[_SECOND, :, h])
        upper[_DIFFERENCE, :, h] = np.minimum(together[1] + apart_high, upper[_FIRST, :, h] - lower[_SECOND, :, h])
        if frame.end_state is not None:
            known = left[h] * frame.end_reward
            lower[..., h, frame.end_state] = upper[..., h, frame.end_state] = np.array([[known], [known], [0.0]])
    return bounds.tightened(PolicyBounds(lower, upper), first, second, frame)


def _weights(policy: IntArray | FloatArray, stage: int, n_actions: int) -> FloatArray:
    """Return the probability of each action of a policy at a stage: (B, A, S)."""
    if policy.ndim == 4:
        probabilities: FloatArray = policy[:, stage]
        return probabilities
    taken = policy[:, stage][:, None, :] == np.arange(n_actions)[:, None]
    return np.asarray(taken, dtype=np.float64)


def averages(bounds: ValueBounds, values: FloatArray, sign: float) -> FloatArray:
    """Return bounds on the expected next values of all pairs, in the range of the values: (B, S) → (B, A, S)."""
    least, most = values.min(axis=1)[:, None, None], values.max(axis=1)[:, None, None]
    return np.clip(bounds.bound(values, sign=sign), least, most)


def _mean(weights: FloatArray, q: FloatArray) -> FloatArray:
    """Return the sum of q (B, A, S) over actions, with weights (B, A, S): (B, S)."""
    total: FloatArray = np.einsum("bas,bas->bs", weights, q)
    return total
