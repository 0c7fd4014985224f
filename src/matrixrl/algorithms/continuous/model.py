"""A kernel model of vectors: all steps of one replica in coordinates of the kernel, and the widths they leave."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, lapack

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.continuous.base import Experience
from matrixrl.errors import InvalidInput
from matrixrl.features.kernels import ObservationScale, action_factor
from matrixrl.features.state_maps import StateMap
from matrixrl.records import FloatArray

__all__ = ["KernelBounds", "KernelModel", "map_arrays", "restore_map"]

_COMPARED = 8  # steps whose coordinates are computed again after loading


@dataclass(frozen=True)
class KernelBounds:
    """Coordinates of observations at one moment, and how far estimates may be off; learning more changes neither.

    Attributes:
        scale: Scale of observations.
        map: Coordinates z of the kernel.
        width_matrix: (A, m, m) W_a with λw² = residual + λ zᵀW_a z.
        ridge: λ.
        level: Multiple of √λ·w that is added to the estimate, as a share of the range of values.
    """

    scale: ObservationScale
    map: StateMap
    width_matrix: FloatArray
    ridge: float
    level: float

    def describe(self, obs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return coordinates (n, m) and residuals (n,) of observations (n, p)."""
        return _describe(self.scale, self.map, obs)

    def widths(self, z: FloatArray, residual: FloatArray) -> FloatArray:
        """Return √λ·w, about √k(x,x) where nothing is known and 0 where everything is: (n, A)."""
        inner = np.stack([np.vecdot(z @ w, z) for w in self.width_matrix], axis=1)
        return np.sqrt(np.maximum(residual[:, None] + self.ridge * inner, 0.0))


def _describe(scale: ObservationScale, state_map: StateMap, obs: FloatArray) -> tuple[FloatArray, FloatArray]:
    x = scale(obs)
    z = state_map.coordinates(x)
    return z, state_map.residuals(x, z)


def map_arrays(scale: ObservationScale, state_map: StateMap) -> Arrays:
    """Return the scale, as the largest observations seen, and the arrays of a map."""
    return {"seen": scale.seen} | {f"map_{name}": array for name, array in state_map.arrays().items()}


class KernelModel:
    """All steps and their coordinates. New steps are folded in; nothing is refitted unless the unit changes.

    The kernel of pairs is k(s, s')·κ(a, a') with κ = 1 for equal actions and ρ otherwise, so
    φ(s, a) = b_a ⊗ z(s) with b_a the rows of the Cholesky factor of κ, and A_n = λI + Σ_a (b_a b_aᵀ) ⊗ G_a with
    G_a = Σ zzᵀ over the steps that took a.

    Args:
        n_actions: Number of actions A.
        scale: Scale of observations.
        state_map: Coordinates z of the kernel k.
        ridge: λ.
        correlation: ρ.

    Attributes:
        data: All steps.
        z: (n, m) coordinates before each step.
        z_next: (n, m) coordinates after each step.
        grams: (A, m, m) G_a.
        action_rows: (A, A) rows b_a.
    """

    def __init__(
        self, n_actions: int, scale: ObservationScale, state_map: StateMap, *, ridge: float, correlation: float
    ) -> None:
        self.n_actions, self.ridge = n_actions, ridge
        self.scale, self.map = scale, state_map
        self.data = Experience.none(scale.size)
        self.action_rows = action_factor(n_actions, correlation)
        self._clear()

    def _clear(self) -> None:
        m = self.map.size
        self.z, self.z_next = np.empty((0, m)), np.empty((0, m))
        self.grams = np.zeros((self.n_actions, m, m))

    def size(self) -> int:
        """Return the number of steps."""
        return len(self.data.actions)

    def update(self, steps: Experience) -> None:
        """Fold in the steps of an episode: O(k m²) for k steps, and O(n m) for each new inducing point."""
        before = (self.scale.seen, self.map.arrays(), self.z, self.z_next, self.grams.copy())
        everything = self.data.followed_by(steps)
        try:
            if self.scale.see(np.concatenate([steps.obs, steps.next_obs])):
                self.map.restart()  # every coordinate changes with the unit
                self._clear()
                steps = everything
            self._fold(steps, everything)
        except BaseException:  # a kernel that fails on one state must not leave half an episode behind
            seen, chosen, self.z, self.z_next, self.grams = before
            self.scale.restore(seen)
            self.map.restore(chosen)
            raise
        self.data = everything

    def _fold(self, steps: Experience, everything: Experience) -> None:
        before, after = self.scale(steps.obs), self.scale(steps.next_obs)
        both = np.concatenate([before, after])
        known = self.map.size
        z = self.map.grow(both, self.map.coordinates(both))
        old = len(self.z)
        if self.map.size > known and old:  # new coordinates of everything seen before
            earlier = np.concatenate([everything.obs[:old], everything.next_obs[:old]])
            longer = self.map.coordinates(self.scale(earlier))
            self.z, self.z_next = longer[:old], longer[old:]
            taken = everything.actions[:old]
            grams = np.zeros((self.n_actions, self.map.size, self.map.size))
            grams[:, :known, :known] = self.grams
            for a in range(self.n_actions):
                rows = self.z[taken == a]
                border = rows[:, known:].T @ rows
                grams[a, known:], grams[a, :, known:] = border, border.T
            self.grams = grams
        elif not old:
            self._clear()
        fresh, fresh_next = z[: len(before)], z[len(before) :]
        for a in range(self.n_actions):
            rows = fresh[steps.actions == a]
            self.grams[a] += rows.T @ rows
        self.z, self.z_next = np.concatenate([self.z, fresh]), np.concatenate([self.z_next, fresh_next])

    def inverse(self) -> FloatArray:
        """Return A_n⁻¹ as (A, m, A, m)."""
        count, m = self.n_actions, self.map.size
        outer = np.einsum("aj,ak->ajk", self.action_rows, self.action_rows)
        matrix = np.einsum("ajk,amn->jmkn", outer, self.grams, optimize=True).reshape(count * m, count * m)
        matrix.flat[:: count * m + 1] += self.ridge
        if not m:
            return np.empty((count, 0, count, 0))
        factor, lower = cho_factor(matrix, lower=True, check_finite=False)
        half, _ = lapack.dpotri(factor, lower=lower)
        inverse: FloatArray = (np.tril(half) + np.tril(half, -1).T).reshape(count, m, count, m)
        return inverse

    def bounds(self, level: float, inverse: FloatArray | None = None) -> KernelBounds:
        """Return coordinates and widths of pairs as they are now, with W_a = Σ_jk b_aj b_ak (A⁻¹)_jk."""
        b, inner = self.action_rows, self.inverse() if inverse is None else inverse
        found: FloatArray = np.einsum("aj,ak,jmkn->amn", b, b, inner, optimize=True)
        return KernelBounds(copy(self.scale), self.map.frozen(), found, self.ridge, level)

    def state_dict(self) -> Arrays:
        """Return steps, coordinates and the map as named arrays."""
        own: Arrays = {"z": self.z, "z_next": self.z_next, "grams": self.grams}
        return self.data.state_dict() | own | map_arrays(self.scale, self.map)

    def load_state_dict(self, arrays: Arrays) -> None:
        """Copy what `state_dict` returned.

        Raises:
            InvalidInput: The arrays do not fit together.
        """
        data = Experience.of_state(arrays, self.n_actions)
        self.scale.restore(arrays["seen"].copy())
        restore_map(self.map, arrays)
        n, m = len(data.actions), self.map.size
        shapes = {"z": (n, m), "z_next": (n, m), "grams": (self.n_actions, m, m)}
        if any(arrays[name].shape != shape for name, shape in shapes.items()):
            raise InvalidInput("the coordinates do not fit the steps")
        again, _ = _describe(self.scale, self.map, data.obs[:_COMPARED])
        if not np.allclose(again, arrays["z"][:_COMPARED], atol=1e-6):
            raise InvalidInput("the coordinates are not those of the steps (a transformer needs a fixed random_state)")
        self.data, self.z, self.z_next, self.grams = data, *(arrays[name].copy() for name in shapes)


def restore_map(state_map: StateMap, arrays: Arrays) -> None:
    """Restore a map from what `map_arrays` returned and no other arrays."""
    own = {name.removeprefix("map_"): array for name, array in arrays.items() if name.startswith("map_")}
    state_map.restore(own)
    if set(own) != set(state_map.arrays()):
        raise InvalidInput(f"the arrays of the map must be {sorted(state_map.arrays())}; got {sorted(own)}")
