"""The optimism budget: play the tuned plan while what it lacks in optimism is paid for (docs/proofs.md, 7.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.core.backup import Frame, ValueBounds
from matrixrl.errors import InvalidInput
from matrixrl.records import BoolArray, FloatArray, IntArray, Plan, Steps

__all__ = ["BudgetPlan", "OptimismBudget", "PlanChoice", "lack_at"]


@dataclass(frozen=True)
class PlanChoice(Plan):
    """The optimistic plan, and the tuned policy that may be played in its place.

    Attributes:
        tuned: (B, H, S) Actions of the tuned policy.
        lack: (B, S) By how much the upper value W of the tuned policy is below the optimistic value, at the first
            stage, in unit reward.
    """

    tuned: IntArray
    lack: FloatArray

    def updated(self, fresh: Plan, due: BoolArray) -> Plan:
        """Return the candidates of `fresh` where `due` (B,) is True, and these elsewhere."""
        assert isinstance(fresh, PlanChoice)
        plan = super().updated(fresh, due)
        tuned = np.where(due[:, None, None], fresh.tuned, self.tuned)
        return PlanChoice(plan.policy, plan.values, plan.empty, tuned, np.where(due[:, None], fresh.lack, self.lack))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the plan by name, for saving."""
        return super().arrays() | {"tuned": self.tuned, "lack": self.lack}


@dataclass(frozen=True)
class BudgetPlan(Plan):
    """The plan of an episode: the optimistic policy or the tuned one; `values` are the optimistic ones in both cases.

    Attributes:
        is_tuned: (B,) Whether the policy is the tuned one.
        lack: (B, S) What the episode is charged with by its first state, in unit reward; 0 for the optimistic policy.
    """

    is_tuned: BoolArray
    lack: FloatArray

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the plan by name, for saving."""
        return super().arrays() | {"is_tuned": self.is_tuned, "lack": self.lack}


class OptimismBudget:
    """The rule that chooses between the optimistic plan and the tuned one, once an episode, for B replicas.

    The tuned plan is played while Λ + lack <= α (Ω + H): Λ is what the tuned plans so far lacked in optimism, and Ω is
    the sum of the widths of the bounds at the pairs that were played, both in unit reward.

    Args:
        alpha: α.
        frame: Horizon and sizes.
        start: (S,) Distribution of first states, or None if none is declared. Then an episode is charged with the lack
            of its first state, and the rule takes the largest lack of the first states so far.
        n_replicas: Number of replicas B.

    Attributes:
        charged: (B,) Λ of the episodes that were learned from.
        earned: (B,) Ω.
        first_states: (B, S) Which states episodes began in; empty if a start is declared.
    """

    def __init__(self, alpha: float, frame: Frame, start: FloatArray | None, n_replicas: int) -> None:
        self.alpha, self._horizon, self._start = alpha, float(frame.horizon), start
        self.charged = np.zeros(n_replicas)
        self.earned = np.zeros(n_replicas)
        self.first_states = np.zeros((n_replicas, frame.n_states if start is None else 0), dtype=np.bool_)

    @property
    def limit(self) -> FloatArray:
        """What may be charged: α (Ω + H), (B,)."""
        return self.alpha * (self.earned + self._horizon)

    def expected_lack(self, lack: FloatArray) -> FloatArray:
        """Return what the next episode is expected to be charged with if the tuned plan is played: (B, S) → (B,)."""
        if self._start is not None:
            mean: FloatArray = lack @ self._start
            return mean
        largest: FloatArray = np.where(self.first_states, lack, 0.0).max(axis=1)
        return largest

    def choose(self, plan: PlanChoice) -> BudgetPlan:
        """Return the plan to play now; nothing is charged."""
        is_tuned = self.charged + self.expected_lack(plan.lack) <= self.limit
        policy = np.where(is_tuned[:, None, None], plan.tuned, plan.policy)
        return BudgetPlan(policy, plan.values, plan.empty, is_tuned, np.where(is_tuned[:, None], plan.lack, 0.0))

    def settle(self, plan: BudgetPlan, steps: Steps, bounds: ValueBounds, frame: Frame) -> None:
        """Charge an episode, and add the widths at the pairs that it played to Ω, before it is learned from."""
        self.charged = self.charged + (lack_at(plan, steps) if self._start is None else plan.lack @ self._start)
        self.earned = self.earned + observed_widths(plan.values, steps, bounds, frame)
        if self._start is None:
            self.first_states = self.first_states.copy()
            self.first_states[np.arange(len(plan.lack)), steps.states[:, 0]] = True

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return Λ, Ω and the first states as named arrays, for saving."""
        return {
            "budget_charged": self.charged,
            "budget_earned": self.earned,
            "budget_first_states": self.first_states,
        }

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned."""
        if (arrays["budget_charged"] < 0.0).any() or (arrays["budget_earned"] < 0.0).any():
            raise InvalidInput("the budget must count charges and widths of at least 0")
        self.charged, self.earned = arrays["budget_charged"].copy(), arrays["budget_earned"].copy()
        self.first_states = arrays["budget_first_states"].copy()


def lack_at(plan: BudgetPlan, steps: Steps) -> FloatArray:
    """Return what the plan of an episode lacked in its first state: (B,)."""
    found: FloatArray = plan.lack[np.arange(len(plan.lack)), steps.states[:, 0]]
    return found


def observed_widths(values: FloatArray, steps: Steps, bounds: ValueBounds, frame: Frame) -> FloatArray:
    """Return Σ γ^h min(H − h, U − L) over the played pairs, U and L the bounds on r + P V of the next stage: (B,)."""
    taken = steps.taken
    replica, stage = np.nonzero(taken)
    pairs = np.zeros((len(values), frame.n_actions, frame.n_states), dtype=np.bool_)
    pairs[replica, steps.actions[replica, stage], steps.states[replica, stage]] = True
    used, rows, total = bounds.restricted(pairs), np.arange(len(values)), np.zeros(len(values))
    apart = np.broadcast_to(bounds.most - bounds.least, pairs.shape)
    for h, left in zip(range(taken.shape[1]), frame.lefts().tolist(), strict=False):
        here = rows, steps.actions[:, h], steps.states[:, h]
        width = apart[here]
        if h < frame.horizon - 1:
            following = frame.discount * values[:, h + 1]
            width = width + used.bound(following)[here] - used.bound(following, sign=-1.0)[here]
        total += np.where(taken[:, h], frame.discount**h * np.clip(width, 0.0, left), 0.0)
    return total
