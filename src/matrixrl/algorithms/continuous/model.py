"""A kernel model of vectors: all steps of one replica in coordinates of the kernel, and optimistic plans from them.

A plan is Q as a function of stage and state, by regression around an optimistic centre. What is regressed is what Q
misses of the centre, the largest return that is still possible. Any centre c is valid, because adding c to V adds c to
PV; with this one a pair of which nothing is known is worth the most there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, lapack

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.continuous.base import Experience
from matrixrl.core import Frame, backward_induction
from matrixrl.core.greedy import best_action_at_random
from matrixrl.errors import InvalidInput
from matrixrl.features.kernels import ObservationScale, action_factor
from matrixrl.features.state_maps import StateMap
from matrixrl.records import FloatArray, IntArray

__all__ = ["ContinuousPlan", "KernelBounds", "KernelModel", "optimistic_plan", "restore_map"]

_COMPARED = 8  # steps whose coordinates are computed again after loading
_JITTER = 1e-10  # relative; keeps the factor of anchors' Gram matrix positive
_SLACK = 1e-9  # share of the range of values within which actions count as equal


@dataclass(frozen=True)
class KernelBounds:
    """Coordinates of observations at one moment, and how far estimates may be off; learning more changes neither."""

    scale: ObservationScale  # scale of observations
    map: StateMap  # coordinates z of the kernel
    width_matrix: FloatArray  # (A, m, m) W_a with λw² = residual + λ zᵀW_a z
    ridge: float  # λ
    level: float  # multiple of √λ·w that is added to the estimate, as a share of the range of values

    def describe(self, obs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return coordinates (n, m) and residuals (n,) of observations (n, p)."""
        x = self.scale(obs)
        z = self.map.coordinates(x)
        return z, self.map.residuals(x, z)

    def widths(self, z: FloatArray, residual: FloatArray) -> FloatArray:
        """Return √λ·w, about √k(x,x) where nothing is known and 0 where everything is: (n, A)."""
        inner = np.stack([np.vecdot(z @ w, z) for w in self.width_matrix], axis=1)
        return np.sqrt(np.maximum(residual[:, None] + self.ridge * inner, 0.0))


def _map_arrays(scale: ObservationScale, state_map: StateMap) -> Arrays:
    """Return the scale, as the largest observations seen, and the arrays of a map."""
    return {"seen": scale.seen} | {f"map_{name}": array for name, array in state_map.arrays().items()}


class KernelModel:
    """All steps and their coordinates. New steps are folded in; nothing is refitted unless the unit changes.

    The kernel of pairs is k(s, s')·κ(a, a') with κ = 1 for equal actions and ρ otherwise, so
    φ(s, a) = b_a ⊗ z(s) with b_a the rows of the Cholesky factor of κ, and A_n = λI + Σ_a (b_a b_aᵀ) ⊗ G_a with
    G_a = Σ zzᵀ over the steps that took a.
    """

    def __init__(
        self, n_actions: int, scale: ObservationScale, state_map: StateMap, *, ridge: float, correlation: float
    ) -> None:
        self.n_actions, self.ridge = n_actions, ridge  # A and λ
        self.scale, self.map = scale, state_map  # of observations, and their coordinates z
        self.data = Experience.none(scale.size)  # all steps
        self.action_rows = action_factor(n_actions, correlation)  # (A, A) rows b_a, with ρ
        self._clear()

    def _clear(self) -> None:
        m = self.map.size
        self.z, self.z_next = np.empty((0, m)), np.empty((0, m))  # (n, m) coordinates before and after each step
        self.grams = np.zeros((self.n_actions, m, m))  # G_a

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
        own: Arrays = {"z": self.z, "z_next": self.z_next, "grams": self.grams}
        return self.data.state_dict() | own | _map_arrays(self.scale, self.map)

    def load_state_dict(self, arrays: Arrays) -> None:
        """Copy what `state_dict` returned, or raise `InvalidInput`."""
        data = Experience.of_state(arrays, self.n_actions)
        self.scale.restore(arrays["seen"].copy())
        restore_map(self.map, arrays)
        n, m = len(data), self.map.size
        shapes = {"z": (n, m), "z_next": (n, m), "grams": (self.n_actions, m, m)}
        if any(arrays[name].shape != shape for name, shape in shapes.items()):
            raise InvalidInput("the coordinates do not fit the steps")
        again = self.map.coordinates(self.scale(data.obs[:_COMPARED]))
        if not np.allclose(again, arrays["z"][:_COMPARED], atol=1e-6):
            raise InvalidInput("the coordinates are not those of the steps (a transformer needs a fixed random_state)")
        self.data, self.z, self.z_next, self.grams = data, *(arrays[name].copy() for name in shapes)


def restore_map(state_map: StateMap, arrays: Arrays) -> None:
    """Restore a map from what `_map_arrays` returned and no other arrays."""
    own = {name.removeprefix("map_"): array for name, array in arrays.items() if name.startswith("map_")}
    state_map.restore(own)
    if set(own) != set(state_map.arrays()):
        raise InvalidInput(f"the arrays of the map must be {sorted(state_map.arrays())}; got {sorted(own)}")


@dataclass(frozen=True)
class ContinuousPlan:
    """Q as a function of stage and state."""

    theta: FloatArray  # (H, A, m) weights of the difference between Q and the optimistic centre
    top: FloatArray  # (H,) largest return from each stage on: the centre
    spread: FloatArray  # (H,) range of values from each stage on, which scales the bonus
    bounds: KernelBounds  # coordinates of observations, and widths of pairs

    def q(self, stage: int, z: FloatArray, residual: FloatArray) -> FloatArray:
        """Return Q_h of states with coordinates z (n, m) and residuals (n,): (n, A)."""
        found: FloatArray = self.top[stage] + z @ self.theta[stage].T
        if self.bounds.level > 0.0:
            found += (self.bounds.level * self.spread[stage]) * self.bounds.widths(z, residual)
        return found

    def q_at(self, stage: int, obs: FloatArray) -> FloatArray:
        """Return Q_h of observations (n, p): (n, A)."""
        return self.q(stage, *self.bounds.describe(obs))

    def value_at(self, stage: int, obs: FloatArray) -> FloatArray:
        """Return optimistic values of observations (n, p): (n,)."""
        best: FloatArray = np.minimum(self.q_at(stage, obs).max(axis=1), self.top[stage])
        return best

    def width_at(self, obs: FloatArray) -> FloatArray:
        """Return the smallest width of the actions at observations (n, p): (n,)."""
        least: FloatArray = self.bounds.widths(*self.bounds.describe(obs)).min(axis=1)
        return least

    def action(self, stage: int, obs: FloatArray, rng: np.random.Generator | None) -> int:
        """Return the best action at an observation (p,); ties at random, or to the lowest action without `rng`."""
        slack = _SLACK * max(1.0, float(self.spread[stage]))
        return best_action_at_random(self.q_at(stage, obs[None])[0], slack, rng)

    def table(self, points: FloatArray, horizon: int) -> IntArray:
        """Return the best actions of all stages at observations (n, p): (H, n)."""
        described = self.bounds.describe(points)
        return np.stack([self.q(h, *described).argmax(axis=1) for h in range(horizon)])

    def state_dict(self) -> Arrays:
        """Return everything but ridge and level, which are settings, as named arrays."""
        bounds, own = self.bounds, {"theta": self.theta, "top": self.top, "spread": self.spread}
        return own | {"width_matrix": bounds.width_matrix} | _map_arrays(bounds.scale, bounds.map)

    @classmethod
    def of_state(cls, arrays: Mapping[str, NDArray[Any]], bounds: KernelBounds, horizon: int) -> ContinuousPlan:
        """Return the plan that `state_dict` wrote, with restored bounds.

        Raises:
            InvalidInput: The arrays do not fit.
        """
        m, n_actions = bounds.map.size, len(bounds.width_matrix)
        shapes: dict[str, tuple[int, ...]] = {"theta": (horizon, n_actions, m), "width_matrix": (n_actions, m, m)}
        shapes |= {"top": (horizon,), "spread": (horizon,)}
        fits = set(arrays) == {*shapes, *_map_arrays(bounds.scale, bounds.map)}
        if not fits or any(arrays[one].shape != shape or arrays[one].dtype != "f8" for one, shape in shapes.items()):
            raise InvalidInput("the plan does not fit the problem")
        return cls(arrays["theta"], arrays["top"], arrays["spread"], bounds)


def optimistic_plan(
    model: KernelModel,
    rewards: tuple[float, float],
    level: float,
    rng: np.random.Generator,
    *,
    horizon: int,
    max_return: float | None = None,
    anchors: int | None = None,
) -> ContinuousPlan:
    """Return optimistic Q_h for every stage, by backward induction on the next states of a model.

    `rewards` are the smallest and the largest reward of a step. The values of at most `anchors` next states, chosen by
    `rng`, stand for all. Other arguments are settings (`ContinuousSettings`).
    """
    left, (low, high) = np.arange(horizon, 0, -1.0), rewards
    top, bottom = np.maximum(left * high, 0.0), np.minimum(left * low, 0.0)
    if max_return is not None:
        top = np.minimum(top, max_return)
    m, n_actions, inverse = model.map.size, model.n_actions, model.inverse()
    bounds = model.bounds(level, inverse)
    plan = ContinuousPlan(np.zeros((horizon, n_actions, m)), top, top - bottom, bounds)
    if not (len(model.data) and m):
        return plan
    data, b, flat = model.data, model.action_rows, inverse.reshape(n_actions * m, -1)
    order = np.argsort(data.actions, kind="stable")
    ends = np.searchsorted(data.actions[order], np.arange(n_actions + 1))
    z, alive, earned = model.z[order], ~data.terminated[order], data.rewards[order]
    is_anchored = anchors is not None and len(model.data) > anchors
    some = _Anchors(model, order, ends, rng.permutation(len(model.data))[:anchors]) if is_anchored else None
    follow = model.z_next[order] if some is None else some.z
    obs = data.next_obs[order] if some is None else some.obs
    residual = model.map.residuals(model.scale(obs), follow)
    bonus = level * bounds.widths(follow, residual) if level > 0.0 else 0.0

    def q_of(h: int, values: FloatArray) -> FloatArray:
        """Regress what Q_h misses of the centre, and return Q_h at the next states: (1, A, n)."""
        if some is None:
            target = earned + np.where(alive, values[0], 0.0) - top[h]
            moments = np.stack([target[i:j] @ z[i:j] for i, j in pairwise(ends)])
        else:
            moments = some.moments(values[0], top[h])
        plan.theta[h] = b @ (flat @ (b.T @ moments).ravel()).reshape(n_actions, -1)
        q: FloatArray = top[h] + follow @ plan.theta[h].T + plan.spread[h] * bonus
        return q.T[None]

    backward_induction(q_of, Frame(horizon, n_actions, len(follow)), 1, low=bottom, high=top)
    return plan


class _Anchors:
    """Values at some next states stand for all: they are regressed on z, which is the paper's M_n with ψ = z.

    Σφ V(s') becomes (Σφ ψ(s')ᵀ) K_ψ⁻¹ Σψ V over the anchors, so the cost of a stage does not depend on how many
    steps were seen.
    """

    def __init__(self, model: KernelModel, order: IntArray, ends: IntArray, chosen: IntArray) -> None:
        chosen = np.sort(chosen)
        self.obs, self.z = model.data.next_obs[chosen], model.z_next[chosen]
        gram = self.z.T @ self.z
        gram.flat[:: len(gram) + 1] += _JITTER * max(float(np.trace(gram)), 1.0)
        self._fit = np.linalg.solve(gram, self.z.T)
        alive = (~model.data.terminated[order]).astype(np.float64)
        z, following = model.z[order], model.z_next[order] * alive[:, None]
        pieces = list(pairwise(ends))
        self._cross = np.stack([z[i:j].T @ following[i:j] for i, j in pieces])
        self._rewards = np.stack([model.data.rewards[order][i:j] @ z[i:j] for i, j in pieces])
        self._counts = np.stack([z[i:j].sum(axis=0) for i, j in pieces])
        self._alive = np.stack([alive[i:j] @ z[i:j] for i, j in pieces])

    def moments(self, values: FloatArray, top: float) -> FloatArray:
        """Return Σ z (r + V(s') − top) for each action: (A, m)."""
        centre = float(values.mean())
        weights = self._fit @ (values - centre)
        found: FloatArray = self._rewards + self._cross @ weights + centre * self._alive - top * self._counts
        return found
