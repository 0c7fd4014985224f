"""UCRL2 for episodes: the best policy of the most favourable model among the plausible ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.baselines.base import NON_NEGATIVE, PROBABILITY, BaselineSettings, Presets
from matrixrl.algorithms.baselines.tabular_model import TabularBaseline, TabularModel
from matrixrl.algorithms.possible import Shapes, check_range, check_whole, impossible, plan_shapes
from matrixrl.core.greedy import random_rankings
from matrixrl.problems import Problem
from matrixrl.records import BoolArray, FloatArray, IntArray, Plan
from matrixrl.settings import one_of, setting

__all__ = ["UCRL2", "Favourable", "UCRL2Settings"]


@dataclass(frozen=True)
class UCRL2Settings(BaselineSettings):
    """Settings of UCRL2."""

    scale: float = setting(1.0, "Factor of the radii of transitions and rewards.", NON_NEGATIVE)
    delta: float = setting(0.05, "Probability with which the radii may fail.", PROBABILITY)
    replan: str = setting(
        "doubling",
        'When to plan again: "doubling" when some pair was visited as often since the last plan as before, as in the '
        'paper, or "episode" before every episode.',
        one_of(("doubling", "episode")),
    )

    # tuned: one value for RiverSwim (4, 6, 12 states), DeepSea(6), FourRooms(5), a random tabular and a linear MDP.
    PRESETS: ClassVar[Presets] = {
        "paper": {"scale": 1.0, "replan": "doubling"},
        "tuned": {"scale": 0.005, "replan": "episode"},
    }


class UCRL2(TabularBaseline):
    r"""UCRL2 (Jaksch, Ortner and Auer 2010, Figure 1) with backward induction in place of average reward.

    After t steps a model is plausible if, for every pair with n visits, its distribution is within
    \(\sqrt{14S\ln(2At/\delta)/\max(1,n)}\) of P̂ in the 1-norm (4) and, where rewards are unknown, its expected reward
    within \(\sqrt{7\ln(2SAt/\delta)/(2\max(1,n))}\) of the mean (3). A new plan can only begin with an episode.

    >>> from matrixrl.problems import Problem, tabular
    >>> ucrl2 = UCRL2().start(Problem.of(tabular(n_states=3, horizon=4).mdp), seeds=[0])
    >>> plans = [ucrl2.plan() for _ in range(3)]  # without new data one plan is enough
    >>> ucrl2.n_plans
    array([1])
    """

    name = "ucrl2"
    largest_table = None  # balls around P̂ are not lists
    model: TabularModel
    settings_class = UCRL2Settings
    settings: UCRL2Settings
    learned_names = ("kept_policy", "kept_values", "kept_counts")

    def begin(self) -> None:
        """Allocate the counts and the plan that is kept until a new one is due."""
        super().begin()
        task, n = self.task, self.n_replicas
        self.kept_policy: IntArray = np.zeros(
            (n, task.horizon, task.n_states), dtype=np.min_scalar_type(task.n_actions - 1)
        )
        self.kept_values: FloatArray = np.zeros((n, task.horizon + 1, task.n_states))
        self.kept_counts: FloatArray = np.zeros_like(self.model.counts)

    @property
    def guarantee(self) -> str:
        """The reason why there is none: the theorems of the paper are about average reward."""
        if self.settings.scale != 1.0:
            return f"{self.settings.preset}: the radii were scaled by {self.settings.scale:g}"
        return "the paper proves its bound for average reward, not for episodes"

    def plan(self) -> Plan:
        """Return a new plan where one is due and the last one elsewhere."""
        kept = Plan(self.kept_policy, self.kept_values, np.zeros(self.n_replicas, dtype=np.int64))
        due = self.due()
        if not due.any():
            return kept
        # Only replicas that are due draw from their streams, as each would alone.
        rankings = random_rankings(self.streams["ties"], self.task.n_actions, chosen=np.flatnonzero(due))
        kept = kept.updated(self.extended_value_iteration(rankings), due)
        self.kept_policy, self.kept_values = kept.policy, kept.values
        self.kept_counts = np.where(due[:, None], self.model.counts, self.kept_counts)
        self.n_plans = self.n_plans + due
        return kept

    def due(self) -> BoolArray:
        """Return which replicas must plan again: (B,)."""
        if self.settings.replan == "episode":
            return np.ones(self.n_replicas, dtype=np.bool_)
        # Figure 1, step 6: v_k(s,a) = max(1, N_k(s,a)) for some pair
        grown = self.model.counts - self.kept_counts >= np.maximum(self.kept_counts, 1.0)
        due: BoolArray = grown.any(axis=1) | (self.n_plans == 0)
        return due if self.frame.permits(self.kept_policy) else np.ones_like(due)

    def make_plan(self) -> Plan:
        """Return a new plan of every replica."""
        return self.extended_value_iteration(self.draw_rankings())

    def extended_value_iteration(self, rankings: FloatArray) -> Plan:
        """Return the plan of the most favourable model (Figure 2, over the stages).

        Args:
            rankings: (B, A) rankings of the actions that break ties.
        """
        favourable = Favourable(self.model.transition_mean, self.radius())
        reward, shape = self.optimistic_reward(), self.model.shape
        return self.induct(lambda _, values: favourable.next_value(values).reshape(shape) + reward, rankings=rankings)

    def radius(self) -> FloatArray:
        """Return the 1-norm radii of all pairs, (4): (B, P)."""
        task, counts = self.task, self.model.counts
        n_actions = self.n_pairs / task.n_states  # A, or the mean number of allowed ones
        log = np.log(2.0 * n_actions * self._time() / self.settings.delta)
        radius: FloatArray = self.settings.scale * np.sqrt(14.0 * task.n_states * log / np.maximum(counts, 1.0))
        radius[counts == 0.0] = 2.0  # before the first visit every distribution is plausible, whatever the scale
        return radius

    def optimistic_reward(self) -> FloatArray:
        """Return the rewards, (A, S) if they are known, else their upper bounds, (3), at most 1: (B, A, S)."""
        if self.settings.known_reward:
            return self.unit_reward
        counts = self.model.counts
        log = np.log(2.0 * self.n_pairs * self._time() / self.settings.delta)
        radius: FloatArray = self.settings.scale * np.sqrt(7.0 * log / (2.0 * np.maximum(counts, 1.0)))
        radius[counts == 0.0] = 1.0  # the same holds for rewards
        bound: FloatArray = np.minimum(self.model.reward_mean() + radius.reshape(self.model.shape), 1.0)
        return bound

    def _time(self) -> FloatArray:
        """Return t, the number of the next step: (B, 1)."""
        return np.asarray(self.model.counts.sum(axis=1, keepdims=True) + 1.0)

    def check_learned(self, arrays: Arrays, episode: int) -> None:
        """Refuse arrays that `learned` could not have returned."""
        super().check_learned(arrays, episode)
        if arrays["kept_policy"].max() >= self.task.n_actions:
            raise ValueError("kept_policy holds actions that do not exist")
        if episode > 0 and not self.declared_frame.permits(arrays["kept_policy"]):
            impossible("kept_policy", "must hold actions that are allowed")
        check_whole("kept_counts", arrays["kept_counts"])
        if (arrays["kept_counts"] > arrays["counts"]).any():
            impossible("kept_counts", "must not be larger than the counts")
        check_range("kept_values", arrays["kept_values"], 0.0, float(self.task.horizon))

    def learned_shapes(self, problem: Problem, n_replicas: int) -> Shapes:
        """Return the shapes of the counts and of the plan that is kept."""
        task, shapes = problem.finite_task, super().learned_shapes(problem, n_replicas)
        return shapes | plan_shapes(n_replicas, task.horizon, task.n_states) | {"kept_counts": shapes["counts"]}

    def planning_memory(self) -> tuple[Any, ...]:
        """Return the plan that is kept, and the counts when it was made."""
        return self.kept_policy, self.kept_values, self.kept_counts

    def restore_planning_memory(self, memory: tuple[Any, ...]) -> None:
        """Take back what `planning_memory` returned."""
        self.kept_policy, self.kept_values, self.kept_counts = memory


class Favourable:
    r"""The most favourable distributions of a 1-norm ball: \(\max \{ pV : \|p - \hat p\|_1 \le \text{radius} \}\).

    The maximum moves radius/2 from the worst states to the best one (Figure 2). With states ordered from best to worst
    the cumulative sums of p are those of p̂ plus radius/2, cut at 1; pV is their product with the gaps of V.

    Args:
        mean: (B, P, S) centres p̂ of the balls.
        radius: (B, P) radii in the 1-norm.

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
