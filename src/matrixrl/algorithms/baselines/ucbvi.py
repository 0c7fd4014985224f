"""UCBVI: value iteration on the empirical model, with a bonus for pairs that were seldom visited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.baselines.base import Presets
from matrixrl.algorithms.baselines.optimistic_q import OptimisticQ, OptimisticQSettings
from matrixrl.algorithms.baselines.tabular_model import TabularBaseline
from matrixrl.algorithms.possible import check_stages, impossible
from matrixrl.records import FloatArray, Plan
from matrixrl.settings import one_of, setting

__all__ = ["UCBVI", "UCBVISettings"]


@dataclass(frozen=True)
class UCBVISettings(OptimisticQSettings):
    """Settings of UCBVI."""

    bonus: str = setting(
        "hoeffding",
        'Form of the bonus: "hoeffding" (UCBVI-CH, Algorithm 3) or "bernstein" (UCBVI-BF, Algorithm 4).',
        one_of(("hoeffding", "bernstein")),
    )

    # tuned: one value for RiverSwim (4, 6, 12 states), DeepSea(6), FourRooms(5), a random tabular and a linear MDP;
    # it serves both bonuses.
    PRESETS: ClassVar[Presets] = {
        "paper": {"scale": 1.0, "cap": "horizon"},
        "tuned": {"scale": 0.0003, "cap": "remaining"},
    }


class UCBVI(OptimisticQ, TabularBaseline):
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
    log_factor = 5.0

    @property
    def n_events(self) -> int:
        """S·A, also where fewer pairs are allowed: not all events of the proof are events of pairs."""
        return self.task.n_states * self.task.n_actions

    @property
    def counts_stages(self) -> bool:
        """Whether visits are counted by stage, as Algorithm 4 needs them."""
        return self.settings.bonus == "bernstein"

    def check_learned(self, arrays: Arrays, episode: int) -> None:
        """Refuse arrays that `learned` could not have returned: Q falls from its cap and is never negative."""
        super().check_learned(arrays, episode)
        if (arrays["q"] < -1e-6).any() or (arrays["q"] > self.cap[:, None, None]).any():
            impossible("q", "must be between 0 and its cap")
        if self.counts_stages:
            check_stages("stage_visits", arrays["stage_visits"].sum(axis=2), episode, self.logged_episodes)

    @property
    def guarantee(self) -> Literal[True] | str:
        """True with the bonuses of the paper, known rewards and N (Theorems 1 and 2), else the reason."""
        if self.settings.scale != 1.0:
            return f"{self.settings.preset}: the bonus was scaled by {self.settings.scale:g}"
        if not self.settings.known_reward:
            return "the paper takes rewards as known"
        return self.departs() or self.unproven() or True

    def optimistic_reward(self) -> FloatArray:
        """Return the rewards, (A, S) if they are known, else upper bounds on them, (B, A, S)."""
        if self.settings.known_reward:
            return self.unit_reward
        radius = self.settings.scale * np.sqrt(self.log / (2.0 * np.maximum(self.model.visits(), 1.0)))
        bound: FloatArray = np.minimum(self.model.reward_mean() + radius, 1.0)
        return bound

    def make_plan(self) -> Plan:
        """Return the plan that is greedy in the optimistic Q (Algorithm 2)."""
        model, horizon, scale = self.model, self.task.horizon, self.settings.scale
        n = np.maximum(model.visits(), 1.0)
        # A pair that was never visited keeps the cap: larger numbers are cut to it below.
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

    def planning_memory(self) -> FloatArray:
        """Return Q of the last plan, which the next plan lowers."""
        return self.q

    def restore_planning_memory(self, memory: FloatArray) -> None:
        """Take back what `planning_memory` returned."""
        self.q = memory
