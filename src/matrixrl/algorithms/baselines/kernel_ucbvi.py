"""Kernel-UCBVI: optimistic planning with kernel-smoothed counts (Domingues et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from matrixrl.algorithms.baselines.base import POSITIVE, Baseline, Presets, StagedSettings
from matrixrl.algorithms.baselines.tabular_model import PairCounts
from matrixrl.algorithms.finite import FiniteAlgorithm
from matrixrl.problems import Problem
from matrixrl.records import FloatArray, Plan
from matrixrl.settings import optional, real, setting

__all__ = ["KernelUCBVI", "rbf"]


@dataclass(frozen=True)
class KernelUCBVISettings(StagedSettings):
    """Settings of Kernel-UCBVI."""

    bandwidth: float | None = setting(
        None,
        "Bandwidth σ of the Gaussian kernel, in the unit of the points; N^(−1/(2p+1)) by default, where p is their "
        "dimension and N is 1000 if it is not known.",
        optional(POSITIVE),
    )
    beta: float = setting(0.01, "Regularisation β of the generalised counts.", POSITIVE)
    lipschitz: float = setting(1.0, "Lipschitz constant L of the bias term Lσ.", real())

    PRESETS: ClassVar[Presets] = {
        # Domingues et al. 2021: the bonus H/√C + βH/C + Lσ as their section on the algorithm displays it (up to
        # logarithms and constants), the bandwidth of their corollary, β = 0.01 as in their experiments.
        "paper": {},
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
    no_proof = "the bonus leaves out logarithms and constants of the proof, and L is a guess"
    _smaller_remedy = (
        'Use stages="pooled", fewer states or fewer seeds; kernel-matrix-rl needs no table of transitions.'
    )
    model: PairCounts
    estimated_plan = FiniteAlgorithm.estimated_plan  # which refuses: smoothed counts are no estimated model

    def make_model(self) -> PairCounts:
        task = self.task
        self._groups = self.settings.n_groups(task.horizon)  # a stage with its own data is one more replica
        return PairCounts(self.n_replicas * self._groups, task.n_actions, task.n_states, as_lists=False)

    def begin(self) -> None:
        super().begin()
        task, settings = self.task, self.settings
        points = self.problem.state_points()
        self.bandwidth = settings.bandwidth or (settings.n_episodes or 1000) ** (-1.0 / (2 * points.shape[1] + 1))
        self.similarity = np.eye(task.n_states)  # an end state that the points leave out is like no other state
        self.similarity[: len(points), : len(points)] = rbf(points, points, self.bandwidth)

    def _start_size(self, problem: Problem) -> float:
        task = problem.finite_task
        return float(self.settings.n_groups(task.horizon) * task.n_actions * task.n_states**2)

    def make_plan(self) -> Plan:
        """Return the plan of Q = r̂ + P̂V + bonus with V ≤ H − h."""
        chosen, known, task = self.settings, self.settings.known_reward, self.task
        horizon, shape = float(task.horizon), (self.n_replicas, self._groups, task.n_actions, task.n_states)
        # The Gaussian kernel is symmetric, so Γ may stand on the right, where states are the last axis.
        count = self.model.counts.reshape(shape) @ self.similarity + chosen.beta
        bias = chosen.lipschitz * self.bandwidth
        optimism = chosen.scale * (horizon / np.sqrt(count) + chosen.beta * horizon / count + bias)
        optimism += self.unit_reward if known else self.model.reward_sums.reshape(shape) @ self.similarity / count
        transitions = self.model.transitions.reshape(*shape, task.n_states)

        def q_of(h: int, values: FloatArray) -> FloatArray:
            group = h if self._groups > 1 else 0
            q: FloatArray = (transitions[:, group] @ values[:, None, :, None])[..., 0] @ self.similarity
            q /= count[:, group]
            q += optimism[:, group]
            return q

        return self.induct(q_of)


def rbf(x: FloatArray, y: FloatArray, length_scale: float) -> FloatArray:
    """Return exp(−‖x − y‖²/2ℓ²) of all pairs of rows: (n, p), (m, p) → (n, m)."""
    similar: FloatArray = np.exp(-0.5 * cdist(x, y, "sqeuclidean") / length_scale**2)
    return similar
