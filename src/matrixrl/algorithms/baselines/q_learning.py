"""Optimistic Q-learning: no model, a bonus in every target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.baselines.base import BaselineEngine, BaselineSettings
from matrixrl.algorithms.baselines.tabular_model import log_term
from matrixrl.checks import choice
from matrixrl.features import Features
from matrixrl.problems import Task
from matrixrl.records import FloatArray, IntArray, Plan
from matrixrl.tolerances import TIE

__all__ = ["QLearning", "QLearningSettings"]


@dataclass(frozen=True, slots=True)
class QLearningSettings(BaselineSettings):
    """What optimistic Q-learning can be told.

    Attributes:
        scale: c of the bonus.
        delta: p of the paper, how often the bonuses may fail.
        cap: Q starts at H and no V is above H ("horizon"), as in the paper, or H is replaced by the number of steps
            left ("remaining"), which is as true and tighter.
    """

    scale: float = 1.0
    delta: float = 0.1
    cap: str = "horizon"

    # The paper asks for "an absolute constant" c. 1 is enough for optimism: r + V* lies in an interval of length H, so
    # Hoeffding's inequality with the weights of (4.2), whose squares sum to at most 2H/t (Lemma 4.1 b), bounds the
    # noise of Lemma 4.2 by √(H³ι/t).
    # tuned: one value for RiverSwim (4, 6, 12 states), DeepSea(6), FourRooms(5), a random tabular and a linear MDP.
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {"scale": 1.0, "cap": "horizon"},
        "tuned": {"scale": 0.001, "cap": "remaining"},
    }

    def __post_init__(self) -> None:
        BaselineSettings.__post_init__(self)
        choice("cap", self.cap, ("horizon", "remaining"))
        self.positive("scale", zero=True)
        self.positive("delta", high=1.0)


class QLearning(BaselineEngine):
    r"""Q-learning with UCB-Hoeffding (Jin, Allen-Zhu, Bubeck and Jordan 2018, Algorithm 1).

    The t-th visit of (x, a) at stage h moves Q_h(x, a) by the share α_t = (H+1)/(H+t) towards
    \(r + V_{h+1}(x') + c\sqrt{H^3\iota/t}\), \(\iota = \ln(SAT/p)\). Without n_episodes T is the number of steps until
    the end of the episode (ours). Known rewards take the place of observed ones in the target.

    >>> from matrixrl.problems import tabular
    >>> world = tabular(n_states=3, n_actions=2, horizon=4)
    >>> engine = QLearning(world.mdp.task, world.features, QLearningSettings(n_episodes=10), seeds=[0])
    >>> float(engine.upper(engine.next_plan())[0])  # nothing was visited yet: H
    4.0
    """

    name: ClassVar[str] = "q-learning"
    settings_class: ClassVar[type[BaselineSettings]] = QLearningSettings
    is_optimistic: ClassVar[bool] = True

    def __init__(self, task: Task, features: Features, settings: Any, seeds: Sequence[int]) -> None:
        super().__init__(task, features, settings, seeds)
        horizon = task.horizon
        self.cap: FloatArray = np.full(horizon, float(horizon))
        if settings.cap == "remaining":
            self.cap = np.arange(horizon, 0, -1.0)
        shape = (self.n_replicas, horizon, task.n_actions, task.n_states)
        self.q: FloatArray = np.broadcast_to(self.cap[:, None, None], shape).copy()
        self.visits = np.zeros(shape)
        self._end_values = np.arange(horizon, 0, -1.0) * self.end_reward
        self._replica = np.arange(self.n_replicas)[:, None]
        self._stage = np.arange(horizon)

    @property
    def guarantee(self) -> Literal[True] | str:
        """True with c ≥ 1 and N: Theorem 1 is about every P_h, one P for all stages included; else why not."""
        settings = self.settings
        if settings.scale < 1.0:
            return f"{settings.preset}: the bonus was scaled by {settings.scale:g}"
        if settings.n_episodes is None:
            return "the bonus of the paper needs n_episodes"
        if self.episode > settings.n_episodes:
            return f"more than the {settings.n_episodes} episodes of n_episodes were played"
        return True

    def plan(self) -> Plan:
        """Return the plan that is greedy in Q, all stages at once: Q needs no induction."""
        task, n = self.task, self.n_replicas
        values = np.zeros((n, task.horizon + 1, task.n_states))
        np.minimum(self.q.max(axis=2), self.cap[:, None], out=values[:, :-1])
        if task.end_state is not None:
            values[:, :-1, task.end_state] = self._end_values
        ranked = self.q + (TIE * task.horizon) * self.draw_priority()[:, None, :, None]
        policy = ranked.argmax(axis=2).astype(np.min_scalar_type(task.n_actions - 1))
        return Plan(policy=policy, values=values, empty=np.zeros(n, dtype=np.int64))

    def learn(
        self, states: IntArray, actions: IntArray, next_states: IntArray, weights: FloatArray, rewards: FloatArray
    ) -> None:
        """Make all updates of one episode at once.

        This equals one update after each step: step h changes Q_h only and reads V_{h+1}, which step h+1 changes later.
        """
        task, settings, horizon = self.task, self.settings, float(self.task.horizon)
        if settings.known_reward:
            rewards = self.unit_reward[actions, states]
        target = rewards + self._next_values(next_states)
        at = (self._replica, self._stage, actions, states)
        count = self.visits[at] + weights  # each (replica, stage) occurs once
        self.visits[at] = count
        t = np.maximum(count, 1.0)
        pairs = float(task.n_states * task.n_actions)
        iota = log_term(pairs, settings.n_episodes, self.episode, task.horizon, settings.delta)
        target += settings.scale * np.sqrt(horizon**3 * iota / t)
        share = weights * (horizon + 1.0) / (horizon + t)
        self.q[at] = (1.0 - share) * self.q[at] + share * target

    def _next_values(self, next_states: IntArray) -> FloatArray:
        """Return V_{h+1} of the states that followed stage h, as it was before the episode: (B, H)."""
        following = next_states[:, :-1]
        values = np.zeros(next_states.shape)
        q = self.q[self._replica, self._stage[1:], :, following]  # (B, H-1, A)
        np.minimum(q.max(axis=2), self.cap[1:], out=values[:, :-1])
        if self.task.end_state is not None:
            ended = following == self.task.end_state
            np.copyto(values[:, :-1], self._end_values[1:], where=ended)
        return values

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return Q and the visits of every stage."""
        return {"plans": self.plans, "q": self.q, "visits": self.visits}

    def restore_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned."""
        if (arrays["visits"] < 0.0).any():
            raise ValueError("visits are negative")
        self.q, self.visits = arrays["q"].copy(), arrays["visits"].copy()
        self.plans = arrays["plans"].copy()
