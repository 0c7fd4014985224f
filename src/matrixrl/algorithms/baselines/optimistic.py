"""Optimistic algorithms on counts of pairs: UCBVI, Q-learning with a bonus, and UCRL2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.baselines.base import Baseline, BonusSettings, Presets
from matrixrl.algorithms.baselines.tabular_model import PairCounts
from matrixrl.core.greedy import greedy_actions, random_rankings, tie_weights
from matrixrl.errors import InvalidInput
from matrixrl.problems import Problem
from matrixrl.records import BoolArray, FloatArray, IntArray, Plan, Steps
from matrixrl.settings import one_of, real, setting

__all__ = ["UCBVI", "UCRL2", "Favourable", "QLearning"]


@dataclass(frozen=True)
class OptimisticQSettings(BonusSettings):
    """Settings of an algorithm that lowers Q from a cap and adds a bonus."""

    cap: str = setting(
        "horizon",
        'Largest value of a stage: "horizon" is H, as in the paper; "remaining" is the number of steps that are left, '
        "which is valid as well and tighter.",
        one_of(("horizon", "remaining")),
    )


class OptimisticQ(Baseline):
    """An algorithm that learns Q of every stage from a cap downwards."""

    settings: OptimisticQSettings
    q: FloatArray  # (B, H, A, S) upper bounds on Q*
    no_proof = None

    def begin(self) -> None:
        super().begin()
        frame = self.frame
        is_full = self.settings.cap == "horizon"
        self._cap: FloatArray = np.full(frame.horizon, float(frame.horizon)) if is_full else frame.lefts()
        shape = (self.n_replicas, frame.horizon, frame.n_actions, frame.n_states)
        self.q = np.broadcast_to(self._cap[:, None, None], shape).copy()

    def _start_size(self, problem: Problem) -> float:
        return float(problem.task.horizon * problem.task.n_actions * problem.finite_task.n_states)


@dataclass(frozen=True)
class UCBVISettings(OptimisticQSettings):
    """Settings of UCBVI."""

    bonus: str = setting(
        "hoeffding",
        'Form of the bonus: "hoeffding" (UCBVI-CH, Algorithm 3) or "bernstein" (UCBVI-BF, Algorithm 4).',
        one_of(("hoeffding", "bernstein")),
    )

    PRESETS: ClassVar[Presets] = {"paper": {}, "tuned": {"scale": 0.0003, "cap": "remaining"}}  # for both bonuses


class UCBVI(OptimisticQ):
    r"""Upper confidence bound value iteration (Azar, Osband and Munos 2017, Algorithms 1 and 2).

    With \(L = \ln(5SAT/\delta)\), n = N_k(x,a) and n'(y) the visits of y at stage h+1, the bonuses are

    \[ \frac{7HL}{\sqrt n} \quad\text{and}\quad \sqrt{\frac{8L\,\mathrm{Var}_{\hat P}V_{h+1}}{n}} + \frac{14HL}{3n}
       + \sqrt{\frac8n \sum_y \hat P(y)\min\Bigl(\frac{100^2H^3S^2AL^2}{n'(y)}, H^2\Bigr)}. \]

    The paper takes rewards as known. Where they are not, their mean plus \(\sqrt{L/(2n)}\), at most 1, replaces them
    (ours). Without n_episodes, T is the number of steps until the end of the next episode (ours).

    >>> from matrixrl.problems import Problem, tabular
    >>> ucbvi = UCBVI(n_episodes=10).start(Problem.of(tabular(n_states=3, horizon=4).mdp), seeds=[0])
    >>> float(ucbvi.upper(ucbvi.plan())[0])  # nothing was visited yet: H
    4.0
    """

    name = "ucbvi"
    settings_class = UCBVISettings
    settings: UCBVISettings
    learned_names = _memory_names = ("q",)  # a plan lowers Q of the last one
    model: PairCounts

    def make_model(self) -> PairCounts:
        horizon = self.task.horizon if self.settings.bonus == "bernstein" else None  # Algorithm 4 needs visits by stage
        return PairCounts(self.n_replicas, self.task.n_actions, self.task.n_states, horizon=horizon)

    @property
    def log(self) -> float:
        """L of the next episode, with S·A also where fewer pairs are allowed: not all its events are those of pairs."""
        return self.log_term(5.0 * self.task.n_states * self.task.n_actions)

    def objections(self) -> tuple[str | None, ...]:
        """Theorems 1 and 2 are about the bonuses of the paper, known rewards and N episodes."""
        return (
            f"the bonus was scaled by {self.settings.scale:g}" if self.settings.scale > 1.0 else None,
            None if self.settings.known_reward else "the paper takes rewards as known",
            self.beyond_plan(),
        )

    def make_plan(self) -> Plan:
        """Return the plan that is greedy in the optimistic Q (Algorithm 2)."""
        model, horizon, scale, log = self.model, self.task.horizon, self.settings.scale, self.log
        n = np.maximum(model.visits(), 1.0)
        reward = self.reward_bound(scale * np.sqrt(log / (2.0 * n)))
        # A pair that was never visited keeps the cap: larger numbers are cut to it below.
        fixed = np.where(model.visits() > 0.0, reward, 2.0 * horizon)
        is_bernstein = self.settings.bonus == "bernstein"
        if is_bernstein:
            fixed += scale * 14.0 * horizon * log / (3.0 * n)
            correction = self._correction(n)
            variance_factor = scale**2 * 8.0 * log / n
        else:
            fixed += scale * 7.0 * horizon * log / np.sqrt(n)
        before, now = self.q, np.empty_like(self.q)

        def q_of(h: int, values: FloatArray) -> FloatArray:
            q = model.next_value(values)
            if is_bernstein and h < horizon - 1:  # V after the last step is 0 with certainty
                variance = np.maximum(model.next_value(values * values) - q * q, 0.0)
                q += np.sqrt(variance_factor * variance)
                q += correction[h]
            q += fixed
            np.minimum(q, before[:, h], out=q)  # min(Q_{k-1,h}, H, ·)
            now[:, h] = q
            return q

        plan = self.induct(q_of, cap=False)
        self.q = now
        return plan

    def _correction(self, n: FloatArray) -> FloatArray:
        """Return the last term of Algorithm 4 for the stages that have a next one: (H−1, B, A, S)."""
        task, model = self.task, self.model
        assert model.stage_visits is not None
        h = float(task.horizon)
        most = 100.0**2 * h**3 * task.n_states**2 * task.n_actions * self.log**2
        inner = np.minimum(most / np.maximum(model.stage_visits[:, 1:], 1.0), h**2)
        inner[model.stage_visits[:, 1:] == 0.0] = h**2
        mean = model.next_values(inner.transpose(0, 2, 1))
        terms = np.moveaxis(mean, 2, 0).reshape(-1, *model.shape)
        return np.asarray(self.settings.scale * np.sqrt(8.0 * terms / n))


@dataclass(frozen=True)
class QLearningSettings(OptimisticQSettings):
    """Settings of optimistic Q-learning; `scale` is c and `delta` is p of the paper."""

    # The paper asks for "an absolute constant" c. 1 is enough for optimism: r + V* lies in an interval of length H, so
    # Hoeffding's inequality with the weights of (4.2), whose squares sum to at most 2H/t (Lemma 4.1 b), bounds the
    # noise of Lemma 4.2 by √(H³ι/t).
    PRESETS: ClassVar[Presets] = {"paper": {}, "tuned": {"scale": 0.001, "cap": "remaining"}}


class QLearning(OptimisticQ):
    r"""Q-learning with UCB-Hoeffding (Jin, Allen-Zhu, Bubeck and Jordan 2018, Algorithm 1).

    The t-th visit of (x, a) at stage h moves Q_h(x, a) by the share α_t = (H+1)/(H+t) towards
    \(r + V_{h+1}(x') + c\sqrt{H^3\iota/t}\), \(\iota = \ln(SAT/p)\). Without n_episodes, T is the number of steps until
    the end of the episode (ours). Known rewards replace observed ones in the target.

    >>> from matrixrl.problems import Problem, tabular
    >>> agent = QLearning(n_episodes=10).start(Problem.of(tabular(n_states=3, horizon=4).mdp), seeds=[0])
    >>> float(agent.upper(agent.plan())[0])  # nothing was visited yet: H
    4.0
    """

    name = "q-learning"
    settings_class = QLearningSettings
    settings: QLearningSettings
    learned_names = ("q", "visits")
    learned_parts = ()
    stages_are_proven = True

    def begin(self) -> None:
        super().begin()
        self.visits = np.zeros(self.q.shape)
        self._stage = np.arange(self.task.horizon)
        self._end_values = self.frame.end_values()

    @property
    def log(self) -> float:
        """ι of the next episode, with the number of allowed pairs in place of S·A."""
        return self.log_term(self._n_pairs)

    def objections(self) -> tuple[str | None, ...]:
        """Theorem 1 is about N episodes, and about every P_h, one P for all stages included."""
        return (self.beyond_plan(),)

    def make_plan(self) -> Plan:
        """Return the plan that is greedy in Q, all stages at once: Q needs no induction."""
        task, n = self.task, self.n_replicas
        values = np.zeros((n, task.horizon + 1, task.n_states))
        q = self.q.copy()
        for h in range(task.horizon):
            self.frame.exclude(q[:, h], h)
        np.minimum(q.max(axis=2), self._cap[:, None], out=values[:, :-1])
        if task.end_state is not None:
            values[:, :-1, task.end_state] = self._end_values
        tie_break = tie_weights(self._draw_rankings(), task.horizon)[:, None, :, None]
        policy = greedy_actions(q, tie_break, axis=2).astype(np.min_scalar_type(task.n_actions - 1))
        return Plan(policy=policy, values=values, empty=np.zeros(n, dtype=np.int64))

    def action_values(self, plan: Plan, stage: int, states: NDArray[Any], *, explore: bool = True) -> FloatArray:
        del plan, explore
        found: FloatArray = self.q[self._replica, stage, :, states]
        return found

    def learn_episode(self, steps: Steps) -> None:
        """Make all updates of one episode at once.

        This equals one update after each step: step h changes Q_h only and reads V_{h+1}, which step h+1 changes later.
        """
        settings, horizon = self.settings, float(self.task.horizon)
        weights = steps.weights
        rewards = self.unit_reward[steps.actions, steps.states] if settings.known_reward else steps.rewards
        target = rewards + self.task.discount * self._next_values(steps.next_states)
        at = (self._replica[:, None], self._stage, steps.actions, steps.states)
        count = self.visits[at] + weights  # each (replica, stage) occurs once
        self.visits[at] = count
        t = np.maximum(count, 1.0)
        target += settings.scale * np.sqrt(horizon**3 * self.log / t)
        share = weights * (horizon + 1.0) / (horizon + t)
        self.q[at] = (1.0 - share) * self.q[at] + share * target

    def _next_values(self, next_states: IntArray) -> FloatArray:
        """Return V_{h+1} of the states that followed stage h, as it was before the episode: (B, H)."""
        following = next_states[:, :-1]
        values = np.zeros(next_states.shape)
        q = self.q[self._replica[:, None], self._stage[1:], :, following]  # (B, H-1, A)
        if self.frame.allowed is not None:
            q = np.where(self.frame.allowed.T[following], q, -np.inf)
        if not self.frame.has_all:
            choices = self.frame.choices
            places = choices[1:, :1] + np.arange(choices[0, 1] - choices[0, 0])  # (H-1, A) of the next stages
            q = np.take_along_axis(q, np.broadcast_to(places, (len(q), *places.shape)), axis=2)
        np.minimum(q.max(axis=2), self._cap[1:], out=values[:, :-1])
        if self.task.end_state is not None:
            ended = following == self.task.end_state
            np.copyto(values[:, :-1], self._end_values[1:], where=ended)
        return values


@dataclass(frozen=True)
class UCRL2Settings(BonusSettings):
    """Settings of UCRL2; `scale` is the factor of the radii of transitions and rewards."""

    delta: float = setting(0.05, "Probability with which the radii may fail.", real(high=1.0, open_ends=True))
    replan: str = setting(
        "doubling",
        'When to plan again: "doubling" when some pair was visited as often since the last plan as before, as in the '
        'paper, or "episode" before every episode.',
        one_of(("doubling", "episode")),
    )

    PRESETS: ClassVar[Presets] = {"paper": {}, "tuned": {"scale": 0.005, "replan": "episode"}}


class UCRL2(Baseline):
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
    settings_class = UCRL2Settings
    settings: UCRL2Settings
    model: PairCounts
    learned_names = _memory_names = ("kept_policy", "kept_values", "kept_counts")
    no_proof = "the paper proves its bound for average reward, not for episodes"

    def make_model(self) -> PairCounts:
        """Return a table, also for many states: balls around P̂ are not lists."""
        return PairCounts(self.n_replicas, self.task.n_actions, self.task.n_states, as_lists=False)

    def begin(self) -> None:
        super().begin()
        n, horizon, n_states = self.n_replicas, self.task.horizon, self.task.n_states
        small = np.min_scalar_type(self.task.n_actions - 1)
        self.kept_policy: IntArray = np.zeros((n, horizon, n_states), dtype=small)
        self.kept_values: FloatArray = np.zeros((n, horizon + 1, n_states))
        self.kept_counts: FloatArray = np.zeros_like(self.model.counts)

    def _start_size(self, problem: Problem) -> float:
        return float(problem.task.n_actions * problem.finite_task.n_states**2)

    def plan(self) -> Plan:
        """Return a new plan where one is due and the last one elsewhere."""
        kept = Plan(self.kept_policy, self.kept_values, np.zeros(self.n_replicas, dtype=np.int64))
        due = self._due()
        if not due.any():
            return kept
        # Only replicas that are due draw from their streams, as each would alone.
        rankings = random_rankings(self.streams["ties"], self.task.n_actions, chosen=np.flatnonzero(due))
        kept = kept.updated(self.make_plan(rankings), due)
        self.kept_policy, self.kept_values = kept.policy, kept.values
        self.kept_counts = np.where(due[:, None], self.model.counts, self.kept_counts)
        self.n_plans = self.n_plans + due
        return kept

    def _due(self) -> BoolArray:
        """Return which replicas must plan again: (B,)."""
        if self.settings.replan == "episode":
            return np.ones(self.n_replicas, dtype=np.bool_)
        # Figure 1, step 6: v_k(s,a) = max(1, N_k(s,a)) for some pair
        grown = self.model.counts - self.kept_counts >= np.maximum(self.kept_counts, 1.0)
        due: BoolArray = grown.any(axis=1) | (self.n_plans == 0)
        return due if self.frame.permits(self.kept_policy) else np.ones_like(due)

    def make_plan(self, rankings: FloatArray | None = None) -> Plan:
        """Return the plan of the most favourable model (Figure 2, over the stages); ties by rankings, or drawn."""
        (of_laws, of_rewards), shape = self.radii(), self.model.shape
        favourable, reward = Favourable(self.model.transition_mean, of_laws), self.reward_bound(of_rewards)
        return self.induct(lambda _, values: favourable.next_value(values).reshape(shape) + reward, rankings=rankings)

    def radii(self) -> tuple[FloatArray, FloatArray]:
        """Return the 1-norm radii of laws (4), (B, P), and the radii of rewards (3), (B, A, S)."""
        counts, n_states, scale, delta = self.model.counts, self.task.n_states, self.settings.scale, self.settings.delta
        t, n = counts.sum(axis=1, keepdims=True) + 1.0, np.maximum(counts, 1.0)  # t is the number of the next step
        n_actions = self._n_pairs / n_states  # A, or the mean number of allowed ones
        of_laws: FloatArray = scale * np.sqrt(14.0 * n_states * np.log(2.0 * n_actions * t / delta) / n)
        of_rewards: FloatArray = scale * np.sqrt(7.0 * np.log(2.0 * self._n_pairs * t / delta) / (2.0 * n))
        # Before the first visit every distribution and every reward is plausible, whatever the scale.
        of_laws[counts == 0.0], of_rewards[counts == 0.0] = 2.0, 1.0
        return of_laws, of_rewards.reshape(self.model.shape)

    def load_learned(self, arrays: Arrays) -> None:
        kept = arrays["kept_policy"]
        if kept.max() >= self.task.n_actions or (self.episode and not self._declared_frame.permits(kept)):
            raise InvalidInput("kept_policy must hold actions that are allowed")
        super().load_learned(arrays)


class Favourable:
    r"""The most favourable distributions of a 1-norm ball: \(\max \{ pV : \|p - \hat p\|_1 \le \text{radius} \}\).

    The maximum moves radius/2 from the worst states to the best one (Figure 2). With states ordered from best to worst
    the cumulative sums of p are those of p̂ plus radius/2, cut at 1; pV is their product with the gaps of V.

    >>> Favourable(np.array([[[0.5, 0.5]]]), np.array([[0.4]])).next_value(np.array([[0.0, 1.0]])).round(12)
    array([[0.7]])
    """

    def __init__(self, mean: FloatArray, radius: FloatArray) -> None:
        self.mean, self.radius = mean, radius  # centres p̂ (B, P, S) and radii (B, P) of the balls
        self._order: IntArray | None = None
        self._sums: FloatArray = mean[:, :, :-1]  # of the ordered p without the last, which is 1: (B, P, S−1)

    def next_value(self, values: FloatArray) -> FloatArray:
        """Return the largest expected next value of all pairs: (B, S) → (B, P)."""
        order = np.argsort(-values, axis=1, kind="stable")
        ranked = np.take_along_axis(values, order, axis=1)
        gaps = ranked[:, :-1] - ranked[:, 1:]
        if self._order is None or not np.array_equal(order, self._order):  # it seldom changes between two stages
            sums = np.cumsum(np.take_along_axis(self.mean, order[:, None, :-1], axis=2), axis=2)
            sums += 0.5 * self.radius[:, :, None]
            self._sums, self._order = np.minimum(sums, 1.0, out=sums), order
        best: FloatArray = np.matmul(self._sums, gaps[:, :, None])[:, :, 0]
        best += ranked[:, -1:]
        return best
