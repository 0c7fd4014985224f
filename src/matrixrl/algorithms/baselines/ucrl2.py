"""UCRL2 for episodes: the best policy of the most favourable model among the plausible ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.baselines.base import BaselineSettings
from matrixrl.algorithms.baselines.tabular_model import TabularEngine
from matrixrl.checks import choice
from matrixrl.features import Features
from matrixrl.problems import Task
from matrixrl.records import BoolArray, FloatArray, IntArray, Plan

__all__ = ["UCRL2", "Favourable", "UCRL2Settings"]


@dataclass(frozen=True, slots=True)
class UCRL2Settings(BaselineSettings):
    """What UCRL2 can be told.

    Attributes:
        scale: multiplies the radii of transitions and rewards.
        delta: δ, how often the radii may fail.
        replan: plan again when some pair was visited as often since the last plan as before ("doubling"), as in the
            paper, or before every episode ("episode").
    """

    scale: float = 1.0
    delta: float = 0.05
    replan: str = "doubling"

    # tuned: one value for RiverSwim (4, 6, 12 states), DeepSea(6), FourRooms(5), a random tabular and a linear MDP.
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {"scale": 1.0, "replan": "doubling"},
        "tuned": {"scale": 0.005, "replan": "episode"},
    }

    def __post_init__(self) -> None:
        BaselineSettings.__post_init__(self)
        choice("replan", self.replan, ("doubling", "episode"))
        self.positive("scale", zero=True)
        self.positive("delta", high=1.0)


class UCRL2(TabularEngine):
    r"""UCRL2 (Jaksch, Ortner and Auer 2010, Figure 1) with backward induction in place of average reward.

    After t steps a model is plausible if, for every pair with n visits, its distribution is within
    \(\sqrt{14S\ln(2At/\delta)/\max(1,n)}\) of P̂ in the 1-norm (4) and, where rewards are unknown, its expected reward
    within \(\sqrt{7\ln(2SAt/\delta)/(2\max(1,n))}\) of the mean (3). A new plan can only begin with an episode.

    >>> from matrixrl.problems import tabular
    >>> world = tabular(n_states=3, n_actions=2, horizon=4)
    >>> engine = UCRL2(world.mdp.task, world.features, UCRL2Settings(), seeds=[0])
    >>> plans = [engine.next_plan() for _ in range(3)]  # without new data one plan is enough
    >>> engine.plans
    array([1])
    """

    name: ClassVar[str] = "ucrl2"
    settings_class: ClassVar[type[BaselineSettings]] = UCRL2Settings
    is_optimistic: ClassVar[bool] = True

    def __init__(self, task: Task, features: Features, settings: Any, seeds: Sequence[int]) -> None:
        super().__init__(task, features, settings, seeds)
        n, horizon, n_states = self.n_replicas, task.horizon, task.n_states
        small = np.min_scalar_type(task.n_actions - 1)
        self._kept = Plan(
            policy=np.zeros((n, horizon, n_states), dtype=small),
            values=np.zeros((n, horizon + 1, n_states)),
            empty=np.zeros(n, dtype=np.int64),
        )
        self._kept_counts = np.zeros_like(self.model.counts)
        self._due: BoolArray | None = None

    @property
    def guarantee(self) -> Literal[True] | str:
        """Why it has none: the theorems of the paper are about average reward."""
        if self.settings.scale != 1.0:
            return f"{self.settings.preset}: the radii were scaled by {self.settings.scale:g}"
        return "the paper proves its bound for average reward, not for episodes"

    def next_plan(self) -> Plan:
        """Return a new plan where one is due and the last one elsewhere."""
        counts, kept = self.model.counts, self._kept
        if self.settings.replan == "episode":
            due = np.ones(self.n_replicas, dtype=np.bool_)
        else:  # Figure 1, step 6: v_k(s,a) = max(1, N_k(s,a)) for some pair
            grown = counts - self._kept_counts >= np.maximum(self._kept_counts, 1.0)
            due = grown.any(axis=1) | (self.plans == 0)
        if due.any():
            fresh = self._plan(due)
            chosen = due[:, None, None]
            self._kept = Plan(
                policy=np.where(chosen, fresh.policy, kept.policy),
                values=np.where(chosen, fresh.values, kept.values),
                empty=fresh.empty,
            )
            self._kept_counts = np.where(due[:, None], counts, self._kept_counts)
            self.plans = self.plans + due
        return self._kept

    def plan(self) -> Plan:
        """Return a new plan of every replica (extended value iteration, Figure 2, over the stages)."""
        return self._plan(None)

    def _plan(self, due: BoolArray | None) -> Plan:
        """Plan for all; only replicas that are due draw from their streams, as they would alone."""
        favourable = Favourable(self.model.transition_mean, self.radius())
        reward, shape = self.optimistic_reward(), self.model.shape

        def q_of(_: int, values: FloatArray) -> FloatArray:
            return favourable.next_value(values).reshape(shape) + reward

        self._due = due
        try:
            return self.induct(q_of)
        finally:
            self._due = None

    def radius(self) -> FloatArray:
        """Return the 1-norm radii of all pairs, (4): (B, P)."""
        task, counts = self.task, self.model.counts
        log = np.log(2.0 * task.n_actions * self._time() / self.settings.delta)
        radius: FloatArray = self.settings.scale * np.sqrt(14.0 * task.n_states * log / np.maximum(counts, 1.0))
        radius[counts == 0.0] = 2.0  # before the first visit every distribution is plausible, whatever the scale
        return radius

    def optimistic_reward(self) -> FloatArray:
        """Return the rewards, (A, S) if they are known, else their upper bounds, (3), at most 1: (B, A, S)."""
        if self.settings.known_reward:
            return self.unit_reward
        counts = self.model.counts
        log = np.log(2.0 * counts.shape[1] * self._time() / self.settings.delta)
        radius: FloatArray = self.settings.scale * np.sqrt(7.0 * log / (2.0 * np.maximum(counts, 1.0)))
        radius[counts == 0.0] = 1.0  # likewise every reward
        bound: FloatArray = np.minimum(self.model.reward_mean() + radius.reshape(self.model.shape), 1.0)
        return bound

    def _time(self) -> FloatArray:
        """Return t, the number of the coming step: (B, 1)."""
        return np.asarray(self.model.counts.sum(axis=1, keepdims=True) + 1.0)

    def draw_priority(self) -> FloatArray:
        """Return one random ranking of the actions for each replica that is due: (B, A)."""
        if self._due is None:
            return super().draw_priority()
        n_actions = self.task.n_actions
        ranks = np.zeros((self.n_replicas, n_actions))
        for b in np.flatnonzero(self._due):
            ranks[b] = self._ties[b].permutation(n_actions) / n_actions
        return ranks

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the counts and the plan that is being played."""
        kept = {"kept_policy": self._kept.policy, "kept_values": self._kept.values, "kept_counts": self._kept_counts}
        return {**super().arrays(), **kept}

    def restore_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned."""
        if arrays["kept_policy"].max() >= self.task.n_actions:
            raise ValueError("kept_policy holds actions that do not exist")
        super().restore_arrays(arrays)
        self._kept = Plan(arrays["kept_policy"].copy(), arrays["kept_values"].copy(), self._kept.empty)
        self._kept_counts = arrays["kept_counts"].copy()

    def planning_state(self) -> tuple[Any, ...]:
        """Return what planning changes: a new plan replaces the kept one, so nothing need be copied."""
        return super().planning_state(), self._kept, self._kept_counts

    def restore_planning(self, state: tuple[Any, ...]) -> None:
        """Take back what `planning_state` returned."""
        shared, self._kept, self._kept_counts = state
        super().restore_planning(shared)


class Favourable:
    r"""The most favourable distributions of a 1-norm ball: \(\max \{ pV : \|p - \hat p\|_1 \le \text{radius} \}\).

    The maximum moves radius/2 from the worst states to the best one (Figure 2). With states ordered from best to worst
    the cumulative sums of p are those of p̂ plus radius/2, cut at 1; pV is their product with the gaps of V.

    Args:
        mean: (B, P, S) p̂.
        radius: (B, P).

    >>> Favourable(np.array([[[0.5, 0.5]]]), np.array([[0.4]])).next_value(np.array([[0.0, 1.0]])).round(12)
    array([[0.7]])
    """

    def __init__(self, mean: FloatArray, radius: FloatArray) -> None:
        self.mean = mean
        self.radius = radius
        self._order: IntArray | None = None
        self._cumulative: FloatArray | None = None

    def next_value(self, values: FloatArray) -> FloatArray:
        """Return the largest expected next value of all pairs: (B, S) → (B, P)."""
        order = np.argsort(-values, axis=1, kind="stable")
        ranked = np.take_along_axis(values, order, axis=1)
        gaps = ranked[:, :-1] - ranked[:, 1:]
        best: FloatArray = np.matmul(self._sums(order), gaps[:, :, None])[:, :, 0]
        best += ranked[:, -1:]
        return best

    def _sums(self, order: IntArray) -> FloatArray:
        """Return the cumulative sums of p without the last, which is 1: (B, P, S−1)."""
        if self._cumulative is None or self._order is None or not np.array_equal(order, self._order):
            # The order of the states seldom changes from one stage to the next.
            sums = np.cumsum(np.take_along_axis(self.mean, order[:, None, :-1], axis=2), axis=2)
            sums += 0.5 * self.radius[:, :, None]
            self._cumulative, self._order = np.minimum(sums, 1.0, out=sums), order
        return self._cumulative
