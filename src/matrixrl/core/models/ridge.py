"""The model of the paper: the ridge estimate of M* with a set of matrices around it (YW19 (2), (3))."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail
from matrixrl.core.backup import ValueBounds
from matrixrl.core.confidence import Clock, Confidence, Level
from matrixrl.core.matrix_bounds import VisitedCore
from matrixrl.core.models.base import Model, ModelContext, steps_at_once
from matrixrl.core.sets import MatrixSet, Sandwich
from matrixrl.features import OneHotPhi, OneHotPsi
from matrixrl.linalg import DensePairs, DiagonalPairs, lost_digits, widths
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["RidgeModel", "Visits", "ridge_for"]

_LARGEST_RATIO = 1e8  # beyond it downdates of A⁻¹ lose more digits between two refreshes than the alarm tolerates
_SMALLEST_RATIO = 1e-4  # below it even the longest vector outweighs the ridge only after 10⁴ visits


class Visits(NamedTuple):
    """Data of B replicas with one-hot features. They are the arrays of the model itself: changing them is learning.

    Attributes:
        counts: (B, P) visits of each pair.
        transitions: (B, P, S) how often each pair led to each state.
        rewards: (B, P) sums of unit rewards.
    """

    counts: FloatArray
    transitions: FloatArray
    rewards: FloatArray


class RidgeModel(Model):
    """The ridge estimate of M* with a set of matrices around it (YW19 (2), (5), (6)).

    Args:
        matrix_set: Confidence set, with its radius, ridge and constants.
        context: Problem and agent.

    Attributes:
        ridge: λ of A_n.
        design: A_n with the widths of the pairs.
        cross_moment: (B, d, d_psi) Σ φψᵀ.
        reward_moment: (B, d) Σ φr over unit rewards.
    """

    _confidence: Confidence | None = None

    def __init__(self, matrix_set: MatrixSet, context: ModelContext) -> None:
        super().__init__(context)
        self._set = matrix_set
        self.ridge = ridge_for(matrix_set, context.part.phi.max_norm_sq)
        self.forget()

    @property
    def confidence(self) -> Confidence:
        if self._confidence is None:
            now = self.context
            self._confidence = Confidence.of(
                now.features,
                self._set,
                ridge=self.ridge,  # that of the data, also if masks were reported later
                exploration=now.exploration,
                delta=now.delta,
                known_reward=now.known_reward,
                horizon=now.horizon,
                part=now.part,
                end_state=now.end_state,
            )
        return self._confidence

    def forget(self) -> None:
        phi, n = self.context.features.phi, self.context.n_replicas
        self.design = phi.design(n, self.ridge)
        self.cross_moment = np.zeros((n, phi.d, self.context.features.psi.d_psi))
        self.reward_moment = np.zeros((n, phi.d))
        self.revision += 1

    def update(self, pairs: IntArray, next_states: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Add steps to A_n, Σ φψᵀ and Σ φr."""
        phi, psi = self.context.features.phi, self.context.features.psi
        self.design.update(pairs, weights)
        phi.accumulate(self.cross_moment, psi, pairs, next_states, weights)
        if not self.context.known_reward:
            phi.accumulate_rewards(self.reward_moment, pairs, rewards * weights)
        self.revision += 1

    def core_matrix(self) -> FloatArray:
        r"""Return the estimates \(M_n = A_n^{-1} (\sum \phi\psi^\top) K_\psi^{-1}\) of M*: (B, d, d_psi).

        It minimises \(\sum \|K_\psi^{-1}\psi - M^\top\phi\|^2 + \lambda\|M\|_F^2\) (YW19 (3), where λ = 1).
        """
        return self.context.features.psi.solve_gram(self.design.solve(self.cross_moment))  # YW19 (2)

    def _estimate(self) -> FloatArray | VisitedCore:
        """Return M_n, or what products with it need where ψ is one-hot and φ is not."""
        if isinstance(self.design, DensePairs) and isinstance(self.context.features.psi, OneHotPsi):
            return VisitedCore(self.cross_moment, self.design.solver())
        return self.core_matrix()

    def bounds(self, clock: Clock, *levels: Level) -> list[ValueBounds]:
        """Return bounds on Q at each level; M_n is computed once for all of them."""
        core, now = self._estimate(), self.context
        found: list[ValueBounds] = []
        for level in levels:
            bounds = self.confidence.bounds(
                now.features,
                self.design,
                core,
                clock,
                reward=now.unit_reward,
                reward_moment=self.reward_moment,
                learned_part=now.learned_part,
                level=level,
                allowed=now.allowed,
            )
            found.append(bounds)
        return found

    def size(self) -> FloatArray:
        return self.design.logdet

    def has_grown(self, sizes: FloatArray, kept: FloatArray) -> BoolArray:
        """Return where det A_n grew by 1 + κ since the last plan; `kept` is -∞ where there is none."""
        return sizes >= kept + math.log1p(self.context.switch_growth)

    def widths(self) -> FloatArray:
        return widths(self.design).reshape(self.context.n_replicas, *self.context.unit_reward.shape)

    def rounding_words(self, *, regret: bool) -> str | None:
        error = self.design.rounding
        if error == 0.0:
            return None
        noise, scale = self.confidence.regularity.noise_scale, self.context.features.psi.error_scale
        share = max(scale / noise, 2.0) if noise > 0.0 else math.inf  # the noise of rewards is ½
        share /= math.sqrt(2.0 * math.log(1.0 / self.context.delta))
        if self.design.moment_error is None:
            error *= max(share, 1.0)
        elif regret:  # certificates have the error in their radii
            error = max(error, float(self.design.moment_error.max()) * share)
        return lost_digits(error)

    @property
    def is_one_hot(self) -> bool:
        """Whether both features are one-hot."""
        features = self.context.features
        return isinstance(features.phi, OneHotPhi) and isinstance(features.psi, OneHotPsi)

    @property
    def steps_at_once(self) -> int:
        phi, psi = self.context.features.phi, self.context.features.psi
        return steps_at_once(16 if self.is_one_hot else 8 + phi.n_actions * phi.d + psi.d_psi)

    def why_not_by_visits(self, n_episodes: int | None) -> str | None:
        """Return why the bounds of a pair are not functions of its visits alone, or None if they are."""
        if not self.is_one_hot:
            return "the features are not one-hot"
        chosen, radius = self.confidence.set, self.confidence.radius
        if not radius.is_local(n_episodes):
            return f"the radius {radius.name!r} depends on more than the visits of a pair"
        if isinstance(chosen, Sandwich) or any(member.compiled_form is None for member in chosen.members):
            return f"the set {chosen.name!r} has no compiled form"
        if not all(member.reach_is_local for member in chosen.members):
            return f"the set {chosen.name!r} depends on more than the visits of a pair"
        return None

    @contextmanager
    def editing_visits(self) -> Iterator[Visits]:
        """Give out the arrays of one-hot features to be changed in place."""
        assert isinstance(self.design, DiagonalPairs)
        counts = self.design.counts
        yield Visits(counts, self.cross_moment, self.reward_moment)
        self.design.restore({"counts": counts})
        self.revision += 1

    def state_dict(self) -> dict[str, NDArray[Any]]:
        return {"cross_moment": self.cross_moment, "reward_moment": self.reward_moment, **self.design.arrays()}

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.cross_moment, self.reward_moment = arrays["cross_moment"].copy(), arrays["reward_moment"].copy()
        self.design.restore({name: array.copy() for name, array in arrays.items()})
        self.revision += 1


def ridge_for(matrix_set: MatrixSet, largest: float) -> float:
    """Return λ of a set for features of squared norm at most `largest`."""
    ridge = matrix_set.ridge * (largest if matrix_set.radius.in_feature_units else 1.0)
    received = f"‖φ‖² = {largest:.3g} with ridge {ridge:.3g}"
    if largest / ridge > _LARGEST_RATIO:
        rule = f"must not be longer than {_LARGEST_RATIO:g} times the ridge (squared norm; A_n would lose its digits)"
        fail("phi", rule, received, "Divide the features by a constant, or raise ridge.")
    if largest / ridge < _SMALLEST_RATIO:
        rule = f"must not be shorter than {_SMALLEST_RATIO:g} times the ridge (squared norm; data would not count)"
        fail("phi", rule, received, f"Multiply the features by {largest**-0.5:.3g}, or pass ridge={largest:.3g}.")
    return ridge
