"""All steps of one replica in coordinates of a kernel, and optimistic plans from them.

The model regresses what Q misses of an optimistic centre, the largest return that is still possible. Any centre c is
valid, because adding c to V adds c to PV; with this one a pair of which nothing is known is worth the most there is.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg import cho_factor, lapack

from matrixrl.algorithms.continuous.plan import ContinuousPlan, Coordinates
from matrixrl.algorithms.continuous.settings import ContinuousSettings
from matrixrl.core import Frame, backward_induction
from matrixrl.features.kernels import ObservationScale, action_factor
from matrixrl.features.state_maps import StateMap
from matrixrl.records import BoolArray, FloatArray, IntArray, Steps

__all__ = ["STEP_NAMES", "ContinuousModel", "Experience"]

STEP_NAMES = ("obs", "actions", "rewards", "next_obs", "terminated")
"""Names of the arrays of `Experience`."""

_JITTER = 1e-10  # relative; keeps the factor of anchors' Gram matrix positive


@dataclass(frozen=True)
class Experience:
    """Steps of one or more episodes.

    Attributes:
        obs: (n, p) observations before each step.
        actions: (n,) actions.
        rewards: (n,) rewards.
        next_obs: (n, p) observations after each step.
        terminated: (n,) whether the environment ended the episode with this step.
    """

    obs: FloatArray
    actions: IntArray
    rewards: FloatArray
    next_obs: FloatArray
    terminated: BoolArray

    @classmethod
    def none(cls, n_coordinates: int) -> Experience:
        """Return an empty record."""
        empty = np.empty((0, n_coordinates))
        return cls(empty, np.empty(0, dtype=np.int64), np.empty(0), empty, np.empty(0, dtype=np.bool_))

    def followed_by(self, more: Experience) -> Experience:
        """Return these steps followed by others."""
        return Experience(*(np.concatenate([getattr(self, n), getattr(more, n)]) for n in STEP_NAMES))

    def thinned(self, count: int) -> Experience:
        """Return every k-th step, so that there are about as many as a count, and at most twice as many."""
        every = max(1, len(self.actions) // count)
        return Experience(*(getattr(self, name)[::every] for name in STEP_NAMES))

    @classmethod
    def of(cls, steps: Steps, replica: int) -> Experience:
        """Return the steps that one replica took."""
        taken = steps.taken[replica]
        return cls(
            obs=steps.states[replica][taken],
            actions=steps.actions[replica][taken].astype(np.int64),
            rewards=steps.rewards[replica][taken],
            next_obs=steps.next_states[replica][taken],
            terminated=steps.ended[replica][taken],
        )


class ContinuousModel:
    """All steps and their coordinates. New steps are folded in; nothing is refitted unless the unit changes.

    The kernel of pairs is k(s, s')·κ(a, a') with κ = 1 for equal actions and ρ otherwise, so
    φ(s, a) = b_a ⊗ z(s) with b_a the rows of the Cholesky factor of κ, and A_n = λI + Σ_a (b_a b_aᵀ) ⊗ G_a with
    G_a = Σ zzᵀ over the steps that took a.
    """

    def __init__(
        self, n_actions: int, horizon: int, scale: ObservationScale, state_map: StateMap, settings: ContinuousSettings
    ) -> None:
        self.n_actions, self.horizon, self.settings = n_actions, horizon, settings
        self.scale, self.map = scale, state_map
        self.data = Experience.none(scale.size)
        self._b = action_factor(n_actions, settings.action_correlation)
        self._clear()

    def _clear(self) -> None:
        m = self.map.size
        self.z, self.z_next = np.empty((0, m)), np.empty((0, m))
        self.grams = np.zeros((self.n_actions, m, m))

    @property
    def n_steps(self) -> int:
        """Number of steps seen."""
        return len(self.data.actions)

    def add(self, steps: Experience) -> None:
        """Fold in the steps of an episode: O(k m²) for k steps, and O(n m) for each new inducing point."""
        before = (self.scale.seen, self.map.arrays(), self.z, self.z_next, self.grams.copy())
        try:
            self._add(steps)
        except BaseException:  # a kernel that fails on one state must not leave half an episode behind
            seen, chosen, self.z, self.z_next, self.grams = before
            self.scale.restore(seen)
            self.map.restore(chosen)
            raise

    def _add(self, steps: Experience) -> None:
        everything = self.data.followed_by(steps)
        if self.scale.see(np.concatenate([steps.obs, steps.next_obs])):
            self.map.restart()  # every coordinate changes with the unit
            self._clear()
            steps = everything
        self._fold(steps, everything)
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

    def coordinates(self) -> Coordinates:
        """Return the map from observations to coordinates as it is now."""
        return Coordinates(copy(self.scale), self.map.frozen())

    def plan(self, low: float, high: float, rng: np.random.Generator) -> ContinuousPlan:
        """Return optimistic Q_h for every stage.

        Args:
            low: Smallest reward of a step.
            high: Largest reward of a step.
            rng: Generator that chooses anchors, where there are more next states than anchors.
        """
        left = np.arange(self.horizon, 0, -1.0)
        top, bottom = np.maximum(left * high, 0.0), np.minimum(left * low, 0.0)
        if self.settings.max_return is not None:
            top = np.minimum(top, self.settings.max_return)
        m, inverse, settings = self.map.size, self._inverse(), self.settings
        plan = ContinuousPlan(
            theta=np.zeros((self.horizon, self.n_actions, m)),
            top=top,
            spread=top - bottom,
            width_matrix=self._width_matrix(inverse),
            ridge=settings.ridge,
            exploration=settings.exploration,
            coordinates=self.coordinates(),
        )
        if self.n_steps and m:
            self._backward(plan, bottom, inverse.reshape(self.n_actions * m, -1), rng)
        return plan

    def _width_matrix(self, inverse: FloatArray) -> FloatArray:
        """Return W_a = Σ_jk b_aj b_ak (A⁻¹)_jk, what a pair with action a sees of A⁻¹: (A, m, m)."""
        found: FloatArray = np.einsum("aj,ak,jmkn->amn", self._b, self._b, inverse, optimize=True)
        return found

    def _inverse(self) -> FloatArray:
        """Return A_n⁻¹ as (A, m, A, m)."""
        count, m = self.n_actions, self.map.size
        outer = np.einsum("aj,ak->ajk", self._b, self._b)
        matrix = np.einsum("ajk,amn->jmkn", outer, self.grams, optimize=True).reshape(count * m, count * m)
        matrix.flat[:: count * m + 1] += self.settings.ridge
        if not m:
            return np.empty((count, 0, count, 0))
        factor, lower = cho_factor(matrix, lower=True, check_finite=False)
        half, _ = lapack.dpotri(factor, lower=lower)
        inverse: FloatArray = (np.tril(half) + np.tril(half, -1).T).reshape(count, m, count, m)
        return inverse

    def _backward(
        self, plan: ContinuousPlan, bottom: FloatArray, inverse: FloatArray, rng: np.random.Generator
    ) -> None:
        order = np.argsort(self.data.actions, kind="stable")
        ends = np.searchsorted(self.data.actions[order], np.arange(self.n_actions + 1))
        z = self.z[order]
        alive = ~self.data.terminated[order]
        anchors = _OnAnchors(self, order, ends, rng) if self._is_anchored else None
        follow = self.z_next[order] if anchors is None else anchors.z
        residual = self.map.residuals(self.scale(self.data.next_obs[order] if anchors is None else anchors.obs), follow)
        bonus = plan.exploration * plan.widths(follow, residual) if plan.exploration > 0.0 else 0.0
        rewards = self.data.rewards[order]

        def q_of(h: int, values: FloatArray) -> FloatArray:
            """Regress what Q_h misses of the centre, and return Q_h at the next states: (1, A, n)."""
            if anchors is None:
                target = rewards + np.where(alive, values[0], 0.0) - plan.top[h]
                moments = np.stack([target[i:j] @ z[i:j] for i, j in pairwise(ends)])
            else:
                moments = anchors.moments(values[0], plan.top[h])
            solved = (inverse @ (self._b.T @ moments).ravel()).reshape(self.n_actions, -1)
            plan.theta[h] = self._b @ solved
            q: FloatArray = plan.top[h] + follow @ plan.theta[h].T + plan.spread[h] * bonus
            return q.T[None]

        frame = Frame(self.horizon, self.n_actions, len(follow))
        backward_induction(q_of, frame, 1, low=bottom, high=plan.top)

    @property
    def _is_anchored(self) -> bool:
        return self.settings.anchors is not None and self.n_steps > self.settings.anchors


class _OnAnchors:
    """Values at some next states stand for all: they are regressed on z, which is the paper's M_n with ψ = z.

    Σφ V(s') becomes (Σφ ψ(s')ᵀ) K_ψ⁻¹ Σψ V over the anchors, so the cost of a stage does not depend on how many
    steps were seen.
    """

    def __init__(self, model: ContinuousModel, order: IntArray, ends: IntArray, rng: np.random.Generator) -> None:
        count = model.settings.anchors
        assert count is not None
        chosen = np.sort(rng.permutation(model.n_steps)[:count])
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
