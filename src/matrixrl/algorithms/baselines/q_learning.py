"""Optimistic Q-learning: no model, and a bonus in every target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.baselines.base import Presets
from matrixrl.algorithms.baselines.optimistic_q import OptimisticQ, OptimisticQSettings
from matrixrl.algorithms.possible import Shapes, check_stages, check_whole, impossible
from matrixrl.core.greedy import greedy_actions, tie_weights
from matrixrl.problems import Problem
from matrixrl.records import FloatArray, IntArray, Plan, Steps

__all__ = ["QLearning", "QLearningSettings"]


@dataclass(frozen=True)
class QLearningSettings(OptimisticQSettings):
    """Settings of optimistic Q-learning; `scale` is c and `delta` is p of the paper."""

    # The paper asks for "an absolute constant" c. 1 is enough for optimism: r + V* lies in an interval of length H, so
    # Hoeffding's inequality with the weights of (4.2), whose squares sum to at most 2H/t (Lemma 4.1 b), bounds the
    # noise of Lemma 4.2 by √(H³ι/t).
    # tuned: one value for RiverSwim (4, 6, 12 states), DeepSea(6), FourRooms(5), a random tabular and a linear MDP.
    PRESETS: ClassVar[Presets] = {
        "paper": {"scale": 1.0, "cap": "horizon"},
        "tuned": {"scale": 0.001, "cap": "remaining"},
    }


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
    stages_are_proven = True

    def begin(self) -> None:
        """Allocate Q and the visits of every stage."""
        super().begin()
        self.visits = np.zeros(self.q.shape)
        self._stage = np.arange(self.task.horizon)
        self._end_values = self.frame.end_values()

    @property
    def guarantee(self) -> Literal[True] | str:
        """True with c ≥ 1 and N: Theorem 1 is about every P_h, one P for all stages included; else the reason."""
        if self.settings.scale < 1.0:
            return f"{self.settings.preset}: the bonus was scaled by {self.settings.scale:g}"
        return self.departs() or self.unproven() or True

    def make_plan(self) -> Plan:
        """Return the plan that is greedy in Q, all stages at once: Q needs no induction."""
        task, n = self.task, self.n_replicas
        values = np.zeros((n, task.horizon + 1, task.n_states))
        q = self.q.copy()
        for h in range(task.horizon):
            self.frame.exclude(q[:, h], h)
        np.minimum(q.max(axis=2), self.cap[:, None], out=values[:, :-1])
        if task.end_state is not None:
            values[:, :-1, task.end_state] = self._end_values
        tie_break = tie_weights(self.draw_rankings(), task.horizon)[:, None, :, None]
        policy = greedy_actions(q, tie_break, axis=2).astype(np.min_scalar_type(task.n_actions - 1))
        return Plan(policy=policy, values=values, empty=np.zeros(n, dtype=np.int64))

    def action_values(self, plan: Plan, stage: int, states: NDArray[Any], *, explore: bool = True) -> FloatArray:
        """Return Q of the table: (B,) → (B, A)."""
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
        if self.allowed is not None:
            q = np.where(self.allowed.T[following], q, -np.inf)
        stages = self.frame.stages
        if stages is not None:
            places = stages.inner(np.arange(stages.n_own), self._stage[1:, None])  # (H-1, A) of the next stages
            q = np.take_along_axis(q, np.broadcast_to(places, (len(q), *places.shape)), axis=2)
        np.minimum(q.max(axis=2), self.cap[1:], out=values[:, :-1])
        if self.task.end_state is not None:
            ended = following == self.task.end_state
            np.copyto(values[:, :-1], self._end_values[1:], where=ended)
        return values

    def check_learned(self, arrays: Arrays, episode: int) -> None:
        """Refuse arrays that `learned` could not have returned."""
        super().check_learned(arrays, episode)
        visits, q = arrays["visits"], arrays["q"]
        check_whole("visits", visits)
        check_stages("visits", visits.sum(axis=(2, 3)), episode, self.logged_episodes)
        untouched = np.broadcast_to(self.cap[:, None, None], q.shape)
        if (q < -1e-6).any() or not np.array_equal(q[visits == 0.0], untouched[visits == 0.0]):
            impossible("q", "must be its cap before the first visit, and never negative")

    def learned_shapes(self, problem: Problem, n_replicas: int) -> Shapes:
        """Return the shapes of Q and of the visits."""
        shapes = super().learned_shapes(problem, n_replicas)
        return shapes | {"visits": shapes["q"]}

    def n_steps(self) -> FloatArray:
        """Return the number of visits: (B,)."""
        total: FloatArray = self.visits.sum(axis=(1, 2, 3))
        return total
