"""The optimism budget: play the tuned plan while what it lacks in optimism is paid for (docs/proofs.md, 7.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
        made: (B,) Number of the plan, counted from 1.
    """

    tuned: IntArray
    lack: FloatArray
    made: IntArray

    def updated(self, fresh: Plan, due: BoolArray) -> Plan:
        """Return the candidates of `fresh` where `due` (B,) is True, and these elsewhere."""
        assert isinstance(fresh, PlanChoice)
        plan = super().updated(fresh, due)
        tuned = np.where(due[:, None, None], fresh.tuned, self.tuned)
        lack, made = np.where(due[:, None], fresh.lack, self.lack), np.where(due, fresh.made, self.made)
        return PlanChoice(plan.policy, plan.values, plan.empty, tuned, lack, made)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the plan by name, for saving."""
        return super().arrays() | {"tuned": self.tuned, "lack": self.lack, "made": self.made}


@dataclass(frozen=True)
class BudgetPlan(Plan):
    """The plan of an episode: the optimistic policy or the tuned one; `values` are the optimistic ones in both cases.

    Attributes:
        is_tuned: (B,) Whether the policy is the tuned one.
        lack: (B, S) What the episode is charged with by its first state, in unit reward; 0 for the optimistic policy.
        made: (B,) Number of the plan, as in `PlanChoice`.
    """

    is_tuned: BoolArray
    lack: FloatArray
    made: IntArray

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the plan by name, for saving."""
        return super().arrays() | {"is_tuned": self.is_tuned, "lack": self.lack, "made": self.made}


class OptimismBudget:
    """The rule that chooses between the optimistic plan and the tuned one, once an episode, for B replicas.

    The tuned plan is played while Λ + lack <= α (Ω + H): Λ is what the tuned plans so far lacked in optimism, and Ω is
    what episodes earned, both in unit reward. An episode earns the widths of the bounds at the pairs that it played,
    and one of the tuned plan no more than pays for itself, its lack / α.

    Args:
        alpha: α.
        frame: Horizon and sizes.
        start: (S,) Distribution of first states, or None if none is declared. Then an episode is charged with the lack
            of its first state, and the rule takes the largest lack of the first states so far.
        n_replicas: Number of replicas B.
        keeps_plans: Whether a plan may be played in several episodes. The width of a pair at a stage is then that of
            the first of them in which it was played there, and is kept until the next plan.

    Attributes:
        charged: (B,) Λ of the episodes that were learned from.
        earned: (B,) Ω.
        first_states: (B, S) Which states episodes began in; empty if a start is declared.
        made: (B,) Number of the plan whose widths are kept.
        widths: (B, H, A, S) Widths that are kept, NaN where none is; (B, 0, 0, 0) if no plan is kept.
    """

    def __init__(
        self, alpha: float, frame: Frame, start: FloatArray | None, n_replicas: int, *, keeps_plans: bool
    ) -> None:
        self.alpha, self._horizon, self._start, self._frame = alpha, float(frame.horizon), start, frame
        self.made = np.zeros(n_replicas, dtype=np.int64)
        sizes = (frame.horizon, frame.n_actions, frame.n_states) if keeps_plans else (0, 0, 0)
        self.widths = np.full((n_replicas, *sizes), np.nan)
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
        if is_tuned.all() or not is_tuned.any():  # without a copy of a large table
            policy = plan.tuned if is_tuned.all() else plan.policy
        else:
            policy = np.where(is_tuned[:, None, None], plan.tuned, plan.policy)
        lack = np.where(is_tuned[:, None], plan.lack, 0.0)
        return BudgetPlan(policy, plan.values, plan.empty, is_tuned, lack, plan.made)

    def settle(self, plan: BudgetPlan, steps: Steps, bounds: Callable[[], ValueBounds]) -> None:
        """Charge an episode, and add what it earns to Ω, before it is learned from.

        `bounds` returns the bounds that follow from the data at hand; it is called if some width is not known.
        """
        charge = lack_at(plan, steps) if self._start is None else plan.lack @ self._start
        self.charged = self.charged + charge
        taken, frame = steps.taken, self._frame
        weights = frame.discount ** np.arange(taken.shape[1])
        found = np.clip(self._widths_of(plan, steps, bounds), 0.0, frame.lefts()[: taken.shape[1]])
        widths = np.where(taken, weights * found, 0.0).sum(axis=1)
        self.earned = self.earned + np.where(plan.is_tuned, np.minimum(widths, charge / self.alpha), widths)
        if self._start is None:
            self.first_states = self.first_states.copy()
            self.first_states[np.arange(len(plan.lack)), steps.states[:, 0]] = True

    def _widths_of(self, plan: BudgetPlan, steps: Steps, bounds: Callable[[], ValueBounds]) -> FloatArray:
        """Return the widths at the played pairs: those that are kept for the plan, or from the data at hand, (B, k)."""
        taken = steps.taken
        if not self.widths.size:
            return observed_widths(plan.values, steps, bounds(), self._frame, taken)
        is_newer, is_older = plan.made > self.made, plan.made < self.made
        if is_newer.any():
            self.widths[is_newer], self.made = np.nan, np.maximum(self.made, plan.made)
        replica, stage = np.nonzero(taken)
        at = replica, stage, steps.actions[replica, stage], steps.states[replica, stage]
        found = np.zeros(taken.shape)
        found[replica, stage] = self.widths[at]
        unknown = taken & (np.isnan(found) | is_older[:, None])
        if unknown.any():
            found = np.where(unknown, observed_widths(plan.values, steps, bounds(), self._frame, unknown), found)
            kept = ~is_older[replica]
            self.widths[tuple(index[kept] for index in at)] = found[replica, stage][kept]
        return found

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return Λ, Ω, the first states, and the widths that are kept, as named arrays, for saving."""
        known = np.flatnonzero(~np.isnan(self.widths))
        return {
            "budget_charged": self.charged,
            "budget_earned": self.earned,
            "budget_first_states": self.first_states,
            "budget_made": self.made,
            "budget_known": known,
            "budget_widths": self.widths.ravel()[known],
        }

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned."""
        if (arrays["budget_charged"] < 0.0).any() or (arrays["budget_earned"] < 0.0).any():
            raise InvalidInput("the budget must count charges and widths of at least 0")
        known, widths = arrays["budget_known"], arrays["budget_widths"]
        if len(known) != len(widths) or not ((known >= 0) & (known < self.widths.size)).all():
            raise InvalidInput("the widths that the budget keeps must be those of pairs and stages")
        self.charged, self.earned = arrays["budget_charged"].copy(), arrays["budget_earned"].copy()
        self.first_states, self.made = arrays["budget_first_states"].copy(), arrays["budget_made"].copy()
        self.widths = np.full_like(self.widths, np.nan)
        self.widths.reshape(-1)[known] = widths


def lack_at(plan: BudgetPlan, steps: Steps) -> FloatArray:
    """Return what the plan of an episode lacked in its first state: (B,)."""
    found: FloatArray = plan.lack[np.arange(len(plan.lack)), steps.states[:, 0]]
    return found


def observed_widths(
    values: FloatArray, steps: Steps, bounds: ValueBounds, frame: Frame, wanted: BoolArray
) -> FloatArray:
    """Return U − L, the bounds on r + P V of the next stage, at the wanted (B, k) of the played pairs: (B, k)."""
    replica, stage = np.nonzero(wanted)
    at = replica, stage, steps.actions[replica, stage], steps.states[replica, stage]
    found = np.zeros(wanted.shape)
    found[replica, stage] = bounds.widths(values, frame, at)
    return found
