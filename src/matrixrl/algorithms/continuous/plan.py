"""Optimistic plans on vectors: Q as a function of stage and state, by regression around an optimistic centre.

What is regressed is what Q misses of the centre, the largest return that is still possible. Any centre c is valid,
because adding c to V adds c to PV; with this one a pair of which nothing is known is worth the most there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.continuous.model import KernelBounds, KernelModel, map_arrays
from matrixrl.core import Frame, backward_induction
from matrixrl.core.greedy import best_action_at_random
from matrixrl.errors import InvalidInput
from matrixrl.records import FloatArray, IntArray

__all__ = ["ContinuousPlan", "optimistic_plan"]

_JITTER = 1e-10  # relative; keeps the factor of anchors' Gram matrix positive
_SLACK = 1e-9  # share of the range of values within which actions count as equal


@dataclass(frozen=True)
class ContinuousPlan:
    """Q as a function of stage and state.

    Attributes:
        theta: (H, A, m) weights of the difference between Q and the optimistic centre.
        top: (H,) largest return from each stage on: the centre.
        spread: (H,) range of values from each stage on, which scales the bonus.
        bounds: Coordinates of observations, and widths of pairs.
    """

    theta: FloatArray
    top: FloatArray
    spread: FloatArray
    bounds: KernelBounds

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
        return own | {"width_matrix": bounds.width_matrix} | map_arrays(bounds.scale, bounds.map)

    @classmethod
    def of_state(cls, arrays: Mapping[str, NDArray[Any]], bounds: KernelBounds, horizon: int) -> ContinuousPlan:
        """Return the plan that `state_dict` wrote, with restored bounds.

        Raises:
            InvalidInput: The arrays do not fit.
        """
        m, n_actions = bounds.map.size, len(bounds.width_matrix)
        shapes: dict[str, tuple[int, ...]] = {"theta": (horizon, n_actions, m), "width_matrix": (n_actions, m, m)}
        shapes |= {"top": (horizon,), "spread": (horizon,)}
        fits = set(arrays) == {*shapes, *map_arrays(bounds.scale, bounds.map)}
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

    Args:
        model: All steps.
        rewards: Smallest and largest reward of a step.
        level: Bonus of a pair of which nothing is known, as a share of the range of values left.
        rng: Generator that chooses anchors, where there are more next states than anchors.
        horizon: H.
        max_return: Largest return that is possible from any time on; None for the best reward at every step.
        anchors: Number of next states whose values stand for all; None for all.
    """
    left, (low, high) = np.arange(horizon, 0, -1.0), rewards
    top, bottom = np.maximum(left * high, 0.0), np.minimum(left * low, 0.0)
    if max_return is not None:
        top = np.minimum(top, max_return)
    m, n_actions, inverse = model.map.size, model.n_actions, model.inverse()
    bounds = model.bounds(level, inverse)
    plan = ContinuousPlan(np.zeros((horizon, n_actions, m)), top, top - bottom, bounds)
    if not (model.size() and m):
        return plan
    data, b, flat = model.data, model.action_rows, inverse.reshape(n_actions * m, -1)
    order = np.argsort(data.actions, kind="stable")
    ends = np.searchsorted(data.actions[order], np.arange(n_actions + 1))
    z, alive, earned = model.z[order], ~data.terminated[order], data.rewards[order]
    is_anchored = anchors is not None and model.size() > anchors
    some = _Anchors(model, order, ends, rng.permutation(model.size())[:anchors]) if is_anchored else None
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
