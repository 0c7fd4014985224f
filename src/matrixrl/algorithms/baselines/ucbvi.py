"""UCBVI: value iteration on the empirical model with a bonus for pairs that were seldom visited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.baselines.base import BaselineSettings
from matrixrl.algorithms.baselines.tabular_model import TabularEngine, log_term
from matrixrl.checks import choice
from matrixrl.features import Features
from matrixrl.problems import Task
from matrixrl.records import FloatArray, Plan

__all__ = ["UCBVI", "UCBVISettings"]


@dataclass(frozen=True, slots=True)
class UCBVISettings(BaselineSettings):
    """What UCBVI can be told.

    Attributes:
        bonus: "hoeffding" (UCBVI-CH, Algorithm 3) or "bernstein" (UCBVI-BF, Algorithm 4).
        scale: multiplies the bonus.
        delta: δ, how often the bonuses may fail.
        cap: no Q is above H ("horizon"), as in the paper, or above the number of steps left ("remaining"), which is
            as true and tighter.
    """

    bonus: str = "hoeffding"
    scale: float = 1.0
    delta: float = 0.1
    cap: str = "horizon"

    # tuned: one value for RiverSwim (4, 6, 12 states), DeepSea(6), FourRooms(5), a random tabular and a linear MDP;
    # it serves both bonuses.
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {"scale": 1.0, "cap": "horizon"},
        "tuned": {"scale": 0.0003, "cap": "remaining"},
    }

    def __post_init__(self) -> None:
        BaselineSettings.__post_init__(self)
        choice("bonus", self.bonus, ("hoeffding", "bernstein"))
        choice("cap", self.cap, ("horizon", "remaining"))
        self.positive("scale", zero=True)
        self.positive("delta", high=1.0)


class UCBVI(TabularEngine):
    r"""Upper confidence bound value iteration (Azar, Osband and Munos 2017, Algorithms 1 and 2).

    With \(L = \ln(5SAT/\delta)\), n = N_k(x,a) and n'(y) the visits of y at stage h+1, the bonuses are

    \[ \frac{7HL}{\sqrt n} \quad\text{and}\quad \sqrt{\frac{8L\,\mathrm{Var}_{\hat P}V_{h+1}}{n}} + \frac{14HL}{3n}
       + \sqrt{\frac8n \sum_y \hat P(y)\min\Bigl(\frac{100^2H^3S^2AL^2}{n'(y)}, H^2\Bigr)}. \]

    The paper takes rewards as known. Where they are not, their mean plus \(\sqrt{L/(2n)}\), at most 1, takes their
    place (ours). Without n_episodes T is the number of steps until the end of the coming episode (ours).

    >>> from matrixrl.problems import tabular
    >>> world = tabular(n_states=3, n_actions=2, horizon=4)
    >>> engine = UCBVI(world.mdp.task, world.features, UCBVISettings(n_episodes=10), seeds=[0])
    >>> float(engine.upper(engine.next_plan())[0])  # nothing was visited yet: H
    4.0
    """

    name: ClassVar[str] = "ucbvi"
    settings_class: ClassVar[type[BaselineSettings]] = UCBVISettings
    is_optimistic: ClassVar[bool] = True

    def __init__(self, task: Task, features: Features, settings: Any, seeds: Sequence[int]) -> None:
        super().__init__(task, features, settings, seeds)
        left = np.arange(task.horizon, 0, -1.0) if settings.cap == "remaining" else np.full(task.horizon, task.horizon)
        shape = (self.n_replicas, task.horizon, task.n_actions, task.n_states)
        self.q: FloatArray = np.broadcast_to(left[:, None, None], shape).astype(np.float64)
        """(B, H, A, S) Q of the last plan; before the first one, the cap."""

    @property
    def counts_stages(self) -> bool:
        """Algorithm 4 reads visits by stage."""
        return bool(self.settings.bonus == "bernstein")

    @property
    def log(self) -> float:
        """L of the next episode."""
        task, settings = self.task, self.settings
        pairs = task.n_states * task.n_actions
        return log_term(5.0 * pairs, settings.n_episodes, self.episode, task.horizon, settings.delta)

    @property
    def guarantee(self) -> Literal[True] | str:
        """True with the bonuses of the paper, known rewards and N (Theorems 1 and 2), else why not."""
        settings = self.settings
        if settings.scale != 1.0:
            return f"{settings.preset}: the bonus was scaled by {settings.scale:g}"
        if not settings.known_reward:
            return "the paper takes rewards as known"
        if settings.n_episodes is None:
            return "the bonuses of the paper need n_episodes"
        if self.episode > settings.n_episodes:
            return f"more than the {settings.n_episodes} episodes of n_episodes were played"
        return True

    def optimistic_reward(self) -> FloatArray:
        """Return the rewards, (A, S) if they are known, else upper bounds on them, (B, A, S)."""
        if self.settings.known_reward:
            return self.unit_reward
        radius = self.settings.scale * np.sqrt(self.log / (2.0 * np.maximum(self.model.visits(), 1.0)))
        bound: FloatArray = np.minimum(self.model.reward_mean() + radius, 1.0)
        return bound

    def plan(self) -> Plan:
        """Return the plan that is greedy in the optimistic Q (Algorithm 2)."""
        model, horizon, scale = self.model, self.task.horizon, self.settings.scale
        n = np.maximum(model.visits(), 1.0)
        # A pair that was never visited keeps the cap: whatever exceeds it is cut to it below.
        fixed = np.where(model.visits() > 0.0, self.optimistic_reward(), 2.0 * horizon)
        is_bernstein = self.settings.bonus == "bernstein"
        if is_bernstein:
            fixed += scale * 14.0 * horizon * self.log / (3.0 * n)
            correction = self._correction(n)
            variance_factor = scale**2 * 8.0 * self.log / n
        else:
            fixed += scale * 7.0 * horizon * self.log / np.sqrt(n)
        before, now = self.q, np.empty_like(self.q)

        def q_of(h: int, values: FloatArray) -> FloatArray:
            q = model.next_value(values)
            if is_bernstein and h < horizon - 1:  # V of the end of the episode is 0, without doubt
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
        mean = np.matmul(model.transition_mean, inner.transpose(0, 2, 1))
        terms = np.moveaxis(mean, 2, 0).reshape(-1, *model.shape)
        return np.asarray(self.settings.scale * np.sqrt(8.0 * terms / n))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the counts and Q."""
        return {**super().arrays(), "q": self.q}

    def restore_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned."""
        super().restore_arrays(arrays)
        self.q = arrays["q"].copy()

    def planning_state(self) -> tuple[Any, ...]:
        """Return what planning changes: a plan replaces Q, so the old one need not be copied."""
        return super().planning_state(), self.q

    def restore_planning(self, state: tuple[Any, ...]) -> None:
        """Take back what `planning_state` returned."""
        shared, self.q = state
        super().restore_planning(shared)
