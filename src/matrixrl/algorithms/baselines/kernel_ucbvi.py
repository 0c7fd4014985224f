"""Kernel-UCBVI: optimistic planning with kernel-smoothed counts (Domingues et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.baselines.base import (
    NON_NEGATIVE,
    POSITIVE,
    STEPS_AT_ONCE,
    Baseline,
    BaselineSettings,
    Presets,
)
from matrixrl.algorithms.baselines.gaussian import rbf
from matrixrl.algorithms.baselines.linear_model import STAGES
from matrixrl.algorithms.possible import Shapes, check_range, check_stages, check_steps, check_whole, impossible
from matrixrl.problems import Problem
from matrixrl.records import FloatArray, Plan, Steps
from matrixrl.settings import one_of, optional, setting

__all__ = ["KernelUCBVI", "KernelUCBVISettings"]


@dataclass(frozen=True)
class KernelUCBVISettings(BaselineSettings):
    """Settings of Kernel-UCBVI."""

    stages: str = setting(
        "separate", 'Whether each stage has its own counts ("separate") or all share them ("pooled").', one_of(STAGES)
    )
    bandwidth: float | None = setting(
        None,
        "Bandwidth σ of the Gaussian kernel, in the unit of the points; N^(−1/(2p+1)) by default, where p is their "
        "dimension and N is 1000 if it is not known.",
        optional(POSITIVE),
    )
    beta: float = setting(0.01, "Regularisation β of the generalised counts.", POSITIVE)
    lipschitz: float = setting(1.0, "Lipschitz constant L of the bias term Lσ.", NON_NEGATIVE)
    scale: float = setting(1.0, "Factor of the bonus.", NON_NEGATIVE)

    PRESETS: ClassVar[Presets] = {
        # Domingues et al. 2021: the bonus H/√C + βH/C + Lσ as their section on the algorithm displays it (up to
        # logarithms and constants), the bandwidth of their corollary, β = 0.01 as in their experiments.
        "paper": {"stages": "separate", "beta": 0.01, "lipschitz": 1.0, "scale": 1.0},
        # One choice for all problems, after RiverSwim (4, 6, 12), DeepSea, FourRooms, a random table, a linear MDP: the
        # smallest scale tried with which no seed stayed on a bad policy of two further problems, those of the tests.
        "tuned": {"stages": "pooled", "bandwidth": 0.02, "beta": 0.1, "lipschitz": 0.0, "scale": 0.02},
    }


class KernelUCBVI(Baseline):
    r"""Kernel-UCBVI: UCBVI with counts that neighbouring states share.

    Counts are \(C(s,a) = \beta + \sum_{i: a_i = a} \Gamma(s, s_i)\).

    Visits, transitions and rewards are kept as tables, and smoothing is linear in them:
    \(\sum_i \Gamma(s, s_i) V(s'_i) = \Gamma (N V)\) with the count matrix N. So no pass over past data is needed and
    the cost of an episode does not grow. A bandwidth far below the distance of states gives plain counts.

    >>> from matrixrl.problems import Problem, tabular
    >>> kernel = KernelUCBVI(bandwidth=0.5).start(Problem.of(tabular(n_states=3, horizon=4).mdp), seeds=[0])
    >>> kernel.plan().policy.shape, kernel.similarity.round(2)[0]
    ((1, 4, 3), array([1.  , 0.14, 0.  ]))
    """

    name = "kernel-ucbvi"
    settings_class = KernelUCBVISettings
    settings: KernelUCBVISettings
    learned_names = ("visits", "earned", "transitions")

    def begin(self) -> None:
        """Compute the kernel between all states and allocate the counts."""
        super().begin()
        task, settings = self.task, self.settings
        points = self.problem.state_points()
        self.bandwidth = settings.bandwidth or (settings.n_episodes or 1000) ** (-1.0 / (2 * points.shape[1] + 1))
        self.similarity = np.eye(task.n_states)  # an end state that the points leave out is like no other state
        self.similarity[: len(points), : len(points)] = rbf(points, points, self.bandwidth)
        self.n_groups = 1 if settings.stages == "pooled" else task.horizon
        shape = (self.n_replicas, self.n_groups, task.n_actions, task.n_states)
        self.visits = np.zeros(shape)
        self.earned = np.zeros(shape)
        self.transitions = np.zeros((*shape, task.n_states))

    @property
    def smaller_remedy(self) -> str:
        """Advice if the tables do not fit in memory."""
        return 'Use stages="pooled", fewer states or fewer seeds; kernel-matrix-rl needs no table of transitions.'

    @property
    def guarantee(self) -> str:
        """The reason why there is none."""
        if self.settings.scale < 1.0:
            return f"tuned: the bonus was scaled by {self.settings.scale:g}"
        return "the bonus leaves out logarithms and constants of the proof, and L is a guess"

    def make_plan(self) -> Plan:
        """Return the plan of Q = r̂ + P̂V + bonus with V ≤ H − h."""
        chosen, known = self.settings, self.settings.known_reward
        horizon = float(self.task.horizon)
        # The Gaussian kernel is symmetric, so Γ may stand on the right, where states are the last axis.
        count = self.visits @ self.similarity + chosen.beta
        bias = chosen.lipschitz * self.bandwidth
        optimism = chosen.scale * (horizon / np.sqrt(count) + chosen.beta * horizon / count + bias)
        optimism += self.unit_reward if known else self.earned @ self.similarity / count

        def q_of(h: int, values: FloatArray) -> FloatArray:
            group = h if self.n_groups > 1 else 0
            q: FloatArray = (self.transitions[:, group] @ values[:, None, :, None])[..., 0] @ self.similarity
            q /= count[:, group]
            q += optimism[:, group]
            return q

        return self.induct(q_of)

    def learned_shapes(self, problem: Problem, n_replicas: int) -> Shapes:
        """Return the shapes of the counts."""
        task = problem.finite_task
        groups = 1 if self.settings.stages == "pooled" else task.horizon
        shape = (n_replicas, groups, task.n_actions, task.n_states)
        return {"visits": shape, "earned": shape, "transitions": (*shape, task.n_states)}

    def n_steps(self) -> FloatArray:
        """Return the number of visits: (B,)."""
        total: FloatArray = self.visits.sum(axis=(1, 2, 3))
        return total

    def check_learned(self, arrays: Arrays, episode: int) -> None:
        """Refuse counts that so many episodes cannot have."""
        super().check_learned(arrays, episode)
        visits = arrays["visits"]
        check_whole("transitions", arrays["transitions"])
        if not np.array_equal(arrays["transitions"].sum(axis=4), visits):
            impossible("visits", "must be the sums of the transitions")
        check_range("earned", arrays["earned"], 0.0, visits)
        check_steps("visits", visits.sum(axis=(1, 2, 3)), episode, self.task.horizon)
        if self.n_groups > 1:
            check_stages("visits", visits.sum(axis=(2, 3)), episode, self.logged_episodes)

    @property
    def steps_at_once(self) -> int:
        """Number of steps that are counted together; an episode at a time if every stage has its own counts."""
        return STEPS_AT_ONCE if self.n_groups == 1 else 1

    def learn_episode(self, steps: Steps) -> None:
        """Count the steps that were taken."""
        group = np.arange(steps.actions.shape[1]) % self.n_groups
        where = (self._replica[:, None], group, steps.actions, steps.states)
        np.add.at(self.visits, where, steps.weights)
        np.add.at(self.earned, where, steps.rewards)
        np.add.at(self.transitions, (*where, steps.next_states), steps.weights)
