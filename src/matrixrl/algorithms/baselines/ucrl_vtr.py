"""UCRL-VTR: learn a linear mixture model by predicting the values of one's own plans (Ayoub et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.baselines.base import Baseline, Presets
from matrixrl.algorithms.baselines.linear import EllipsoidSettings, LinearModel, norm_bound
from matrixrl.checks import fail
from matrixrl.core import regularity
from matrixrl.features import Features, OneHotPhi
from matrixrl.linalg import lost_digits, summation_error
from matrixrl.problems import Problem
from matrixrl.records import FloatArray, IntArray, Plan, Steps

__all__ = ["UCRLVTR", "ValueModel"]

_LARGEST = 5 * 10**7  # entries of the inverses of all replicas: with the matrices themselves, 0.8 GB
_SAVED = ("matrix", "inverse", "moment", "logdet", "visits", "updates")  # arrays of a `ValueModel`
_REFRESH = 256  # episodes between two inversions from scratch, so that rounding does not build up


@dataclass(frozen=True)
class UCRLVTRSettings(EllipsoidSettings):
    """Settings of UCRL-VTR."""

    PRESETS: ClassVar[Presets] = {
        # √β = (H/2)√(2 ln(1/δ) + ln det(A/λ)) + √λ‖θ*‖ with λ = 1: the ellipsoid of the linear mixture case, from
        # Abbasi-Yadkori et al. 2011, Theorem 2, as values lie in [0, H]. ‖θ*‖ is bounded by the features alone; for
        # one-hot ones by √(SA), as in the paper.
        "paper": {},
        "tuned": {"ridge": 0.01, "scale": 0.01},
    }


class ValueModel:
    """Ridge regression of V(s') on x = φ(s, a) ⊗ ΨᵀV, whose weights are the entries of M.

    One-hot φ makes A block-diagonal, one block of d_psi × d_psi for each pair: only visited blocks change, and nothing
    of size (S·A·d_psi)² is formed. Otherwise there is one block of all d·d_psi features.

    >>> from matrixrl.features import one_hot
    >>> regression = ValueModel(one_hot(n_states=2, n_actions=1), n_replicas=1)
    >>> values = np.array([[[3.0, 0.0]]])
    >>> regression.update(np.array([[0]]), values, np.array([[3.0]]), np.ones((1, 1)))
    >>> mean, width = regression.predict(values[:, 0])
    >>> mean.round(3), (width**2).round(3)  # 9/(1 + 9) of the target 3 at the pair that was seen
    (array([[[2.7, 0. ]]]), array([[[0.9, 9. ]]]))
    """

    def __init__(self, features: Features, n_replicas: int, *, ridge: float = 1.0) -> None:
        self.features, self.ridge, self.n_replicas = features, ridge, n_replicas
        self.is_blocked = isinstance(features.phi, OneHotPhi)
        d, d_psi = features.phi.d, features.psi.d_psi
        n_blocks, size = (d, d_psi) if self.is_blocked else (1, d * d_psi)
        if n_replicas * n_blocks * size**2 > _LARGEST:
            rule = f"of ucrl-vtr must not need matrices of more than {_LARGEST:g} entries"
            remedy = "Use fewer features, or fewer replicas at once."
            fail("features", rule, f"{n_replicas} × {n_blocks} × {size}²", remedy)
        self.matrix = np.tile(ridge * np.eye(size), (n_replicas, n_blocks, 1, 1))
        self.inverse = np.tile(np.eye(size) / ridge, (n_replicas, n_blocks, 1, 1))
        self.moment = np.zeros((n_replicas, n_blocks, size))
        self.logdet = np.zeros(n_replicas)
        self.visits = np.zeros((n_replicas, n_blocks))
        self.updates = np.array(0, dtype=np.int64)
        self.steps_at_once = 1
        n_pairs = features.phi.n_states * features.phi.n_actions
        self._rows = None if self.is_blocked else features.phi.rows(np.arange(n_pairs))

    def update(self, pairs: IntArray, values: FloatArray, targets: FloatArray, weights: FloatArray) -> None:
        """Add one episode: visited pairs (B, k), V of each step (B, k, S), targets V(s') (B, k) and weights (B, k)."""
        n, k, n_states = values.shape  # k is 0 where H is 1
        d_psi = self.features.psi.d_psi
        x = self.features.psi.project(values.reshape(n * k, n_states)).reshape(n, k, d_psi) * weights[:, :, None]
        blocks = pairs
        if not self.is_blocked:
            phi = self.features.phi
            x = (phi.rows(pairs)[:, :, :, None] * x[:, :, None, :]).reshape(n, k, phi.d * d_psi)
            blocks = np.zeros_like(pairs)
        replica = np.arange(n)
        # One step after the other: an episode may visit a block many times, and each visit must see the last.
        for i in range(k):
            where, row = (replica, blocks[:, i]), x[:, i]
            inverse = self.inverse[where]
            u = (inverse @ row[:, :, None])[:, :, 0]
            gain = 1.0 + np.vecdot(row, u)
            self.matrix[where] += row[:, :, None] * row[:, None, :]
            self.moment[where] += row * targets[:, i, None]
            self.visits[where] += weights[:, i]
            if (gain < 1.0).any():  # xᵀA⁻¹x < 0: rounding has spoilt the inverse
                self._refresh()
                continue
            u /= np.sqrt(gain)[:, None]
            self.inverse[where] = inverse - u[:, :, None] * u[:, None, :]
            self.logdet += np.log(gain)
        self.updates += 1
        if self.updates % _REFRESH == 0:
            self._refresh()

    def _refresh(self) -> None:
        """Compute the inverse and ln det again from A.

        If rounding has left A without a positive determinant, its eigenvalues are raised to λ, below which exact ones
        never are; the guarantee is withdrawn long before (`rounding`).
        """
        sign, logs = np.linalg.slogdet(self.matrix / self.ridge)
        if (sign > 0).all():
            self.inverse[:], self.logdet[:] = np.linalg.inv(self.matrix), logs.sum(axis=1)
            return
        eigenvalues, vectors = np.linalg.eigh(self.matrix)
        raised = np.maximum(eigenvalues, self.ridge)
        self.inverse[:] = (vectors / raised[..., None, :]) @ vectors.swapaxes(-1, -2)
        self.logdet[:] = np.log(raised / self.ridge).sum(axis=(1, 2))

    @property
    def rounding(self) -> float:
        """Bound on the relative error of half-widths by rounding, of all replicas (docs/proofs.md, section 18)."""
        size = self.moment.shape[2]
        sum_sq = np.maximum(np.trace(self.matrix, axis1=2, axis2=3) - self.ridge * size, 0.0)  # Σ ‖x‖² of each block
        sums = np.sqrt(self.visits * sum_sq)  # at least Σ ‖x‖
        # The inverse is downdated by each visit of a block until it is computed again.
        n_errors = size + _REFRESH * int(np.ceil(self.visits.max() / max(self.updates, 1)))
        return float(summation_error(self.visits, sum_sq, sums, self.ridge, n_errors).max())

    def weights(self) -> FloatArray:
        """Return the estimate of M, as blocks: (B, blocks, size)."""
        solved: FloatArray = (self.inverse @ self.moment[..., None])[..., 0]
        return solved

    def predict(self, values: FloatArray, weights: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return xᵀθ and √(xᵀA⁻¹x) at every pair, each (B, A, S), for values (B, S)."""
        theta = self.weights() if weights is None else weights
        phi, v = self.features.phi, self.features.psi.project(values)
        shape = (self.n_replicas, phi.n_actions, phi.n_states)
        if self._rows is None:
            mean = (theta @ v[:, :, None])[..., 0]
            width_sq = np.vecdot((self.inverse @ v[:, None, :, None])[..., 0], v[:, None, :])
        else:
            # (φ ⊗ v)ᵀ A⁻¹ (φ ⊗ v) = φᵀ W φ, where W is A⁻¹ with v put into both of its next-state places.
            d, d_psi = phi.d, self.features.psi.d_psi
            half = self.inverse.reshape(-1, d * d_psi * d, d_psi) @ v[:, :, None]
            small = np.einsum("bijk,bj->bik", half.reshape(-1, d, d_psi, d), v)
            width_sq = np.vecdot(self._rows @ small, self._rows)
            mean = (theta.reshape(-1, d, d_psi) @ v[:, :, None])[..., 0] @ self._rows.T
        return mean.reshape(shape), np.sqrt(np.maximum(width_sq, 0.0)).reshape(shape)

    def state_dict(self) -> Arrays:
        return {f"value_{name}": getattr(self, name) for name in _SAVED}

    def load_state_dict(self, arrays: Arrays) -> None:
        for name in _SAVED:
            setattr(self, name, arrays[f"value_{name}"].copy())


class UCRLVTR(Baseline):
    """Value-targeted regression with the bonus √β·√(xᵀA⁻¹x), x = φ(s, a) ⊗ ΨᵀV of the next stage.

    The targets of an episode are the values of the plan that was played in it, which are therefore saved.

    >>> from matrixrl.problems import Problem, tabular
    >>> vtr = UCRLVTR(n_episodes=10).start(Problem.of(tabular(n_states=3, horizon=4).mdp), seeds=[0])
    >>> vtr.plan().policy.shape, bool(vtr.guarantee)
    ((1, 4, 3), True)
    """

    name = "ucrl-vtr"
    settings_class = UCRLVTRSettings
    settings: UCRLVTRSettings
    learned_names = _memory_names = ("played",)
    learned_parts = ("model", "reward_model")
    no_proof = None
    model: ValueModel

    def make_model(self) -> ValueModel:
        return ValueModel(self.features, self.n_replicas, ridge=self.settings.ridge)

    def begin(self) -> None:
        super().begin()
        phi, ridge = self.features.phi, self.settings.ridge
        self.reward_model = LinearModel(phi, self.n_replicas, ridge=ridge, rewards_only=True)
        self.core_norm = regularity(self._part.features(self.features)).core_norm
        self.reward_norm = norm_bound(self._part.phi)
        self.played = np.zeros((self.n_replicas, self.task.horizon + 1, self.task.n_states))

    def _start_size(self, problem: Problem) -> float:
        d, d_psi = problem.dimensions
        assert problem.features is not None
        return float(d * d_psi**2 if isinstance(problem.features.phi, OneHotPhi) else (d * d_psi) ** 2)

    def objections(self) -> tuple[str | None, ...]:
        """The theorem is about known rewards and P = φᵀMψ (Assumption 1; one-hot features always fulfil it)."""
        return (
            None if self.settings.known_reward else "the theorem is for known rewards",
            self.features_refuted(transitions=True),
            lost_digits(self.model.rounding),
        )

    def _radius(self, logdet: FloatArray, noise: float, norm: float) -> FloatArray:
        """Return the radius of an ellipsoid, ready to multiply widths: (B, 1, 1)."""
        return (self.settings.scale * self.settings.oful_radius(logdet, noise=noise, norm=norm))[:, None, None]

    def _rewards(self) -> FloatArray:
        """Return the known rewards (A, S), or upper bounds on them (B, A, S) with the radius of noise in [0, 1]."""
        if self.settings.known_reward:
            return self.unit_reward
        mean, width = self.reward_model.reward_estimate()
        radius = self._radius(self.reward_model.design.logdet, 0.5, self.reward_norm)
        return np.clip(mean + radius * width, 0.0, 1.0)

    def make_plan(self) -> Plan:
        """Return the plan with the largest value in the ellipsoid at every pair and stage."""
        radius = self._radius(self.model.logdet, 0.5 * self.task.horizon, self.core_norm)
        reward, theta = self._rewards(), self.model.weights()

        def q_of(h: int, values: FloatArray) -> FloatArray:
            if h == self.task.horizon - 1:  # x = 0
                return np.broadcast_to(reward, (self.n_replicas, *reward.shape[-2:])).copy()
            mean, width = self.model.predict(values, theta)
            width *= radius
            width += mean
            width += reward
            return width

        return self.induct(q_of)

    def plan(self) -> Plan:
        """Return the plan to play now and remember its values, the targets of its episode."""
        plan: Plan = super().plan()
        self._recall(plan)
        return plan

    def _recall(self, plan: Plan) -> None:
        self.played = plan.values

    def learn_episode(self, steps: Steps) -> None:
        """Regress V_{h+1}(s') of the plan that was played on x, at all stages but the last, where V_{h+1} = 0."""
        pairs = self.features.phi.pairs(steps.states, steps.actions)
        after = self.played[:, 1:-1]
        targets = np.take_along_axis(after, steps.next_states[:, :-1, None], axis=2)[:, :, 0]
        self.model.update(pairs[:, :-1], after, targets, steps.weights[:, :-1])
        if not self.settings.known_reward:
            self.reward_model.update(steps)

    def _plan_for_log(self) -> Plan:
        """Return a plan of the data at hand: its values are the targets of the next logged episode."""
        return self.advice()  # type: ignore[no-any-return]
