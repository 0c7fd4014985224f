"""Q as a function of stage and vector, with the coordinates that it was fitted in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matrixrl.features.kernels import ObservationScale
from matrixrl.features.state_maps import StateMap
from matrixrl.records import FloatArray

__all__ = ["ContinuousPlan", "Coordinates"]


@dataclass(frozen=True)
class Coordinates:
    """The map from observations to coordinates at one moment; learning more does not change it."""

    scale: ObservationScale
    map: StateMap

    def describe(self, obs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return coordinates (n, m) and residuals (n,) of observations (n, p)."""
        x = self.scale(obs)
        z = self.map.coordinates(x)
        return z, self.map.residuals(x, z)


@dataclass(frozen=True)
class ContinuousPlan:
    """Q as a function of stage and state.

    Attributes:
        theta: (H, A, m) weights of the difference between Q and the optimistic centre.
        top: (H,) largest return from each stage on: the centre.
        spread: (H,) range of values from each stage on, which scales the bonus.
        width_matrix: (A, m, m) W_a with λw² = residual + λ zᵀW_a z.
        ridge: λ.
        exploration: Bonus of a pair of which nothing is known, as a share of the spread.
        coordinates: Map from observations to z.
    """

    theta: FloatArray
    top: FloatArray
    spread: FloatArray
    width_matrix: FloatArray
    ridge: float
    exploration: float
    coordinates: Coordinates

    def q(self, stage: int, z: FloatArray, residual: FloatArray) -> FloatArray:
        """Return Q_h of states with coordinates z (n, m) and residuals (n,): (n, A)."""
        found: FloatArray = self.top[stage] + z @ self.theta[stage].T
        if self.exploration > 0.0:
            found += (self.exploration * self.spread[stage]) * self.widths(z, residual)
        return found

    def q_at(self, stage: int, obs: FloatArray) -> FloatArray:
        """Return Q_h of observations (n, p): (n, A)."""
        return self.q(stage, *self.coordinates.describe(obs))

    def widths(self, z: FloatArray, residual: FloatArray) -> FloatArray:
        """Return √λ·w, about √k(x,x) where nothing is known and 0 where everything is: (n, A)."""
        inner = np.stack([np.vecdot(z @ w, z) for w in self.width_matrix], axis=1)
        return np.sqrt(np.maximum(residual[:, None] + self.ridge * inner, 0.0))

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return everything but ridge and exploration, which are settings, as named arrays."""
        chosen = {f"map_{name}": array for name, array in self.coordinates.map.arrays().items()}
        return {
            "theta": self.theta,
            "top": self.top,
            "spread": self.spread,
            "width_matrix": self.width_matrix,
            "seen": self.coordinates.scale.seen,
            **chosen,
        }
