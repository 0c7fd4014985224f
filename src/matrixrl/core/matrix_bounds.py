"""Bounds on Q from a set of matrices around M_n, and the sandwich around V*, given the data of B replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from matrixrl.compilation import loop_array
from matrixrl.core.backup import OptimalBounds, ValueBounds
from matrixrl.core.sets import MatrixSet, Reach
from matrixrl.core.sets.base import MIDDLE, split_forms
from matrixrl.features import OneHotPhi, OneHotPsi, Phi, Psi, TablePhi, TablePsi
from matrixrl.linalg import PairDesign
from matrixrl.records import BoolArray, FloatArray, IntArray
from matrixrl.tolerances import EMPTY_SET

__all__ = ["MatrixBounds", "SandwichBounds", "VisitedCore"]

_MANY_FEATURES = 64
_LARGEST_KEPT = 1 << 25  # entries of |p̂| that are kept for all stages, 256 MB; larger ones are computed at each stage
_CHUNK = 1 << 21  # entries of |p̂| that are computed together
_FEW = 8  # bounds of a part 1/8 of all pairs are computed by themselves


class VisitedCore:
    """M_n of one-hot next states, of which products with values are computed from A_n and the states visited so far.

    With many states a product M_n v = A_n⁻¹(Σ φψᵀ v) takes less time than M_n itself, which has d·S entries.

    Args:
        cross_moment: (B, d, S) Σ φψᵀ.
        solve: Function that returns A_n⁻¹x: (B, d, m) → (B, d, m).
    """

    def __init__(self, cross_moment: FloatArray, solve: Callable[[FloatArray], FloatArray]) -> None:
        self.shape, self._solve = cross_moment.shape, solve
        self._visited = np.flatnonzero(cross_moment.any(axis=(0, 1)))
        self._columns: FloatArray = cross_moment[:, :, self._visited]  # a copy: what is learned later is not in it

    def __len__(self) -> int:
        return int(self.shape[0])

    def __matmul__(self, v: FloatArray) -> FloatArray:
        """Return M_n v: (S,) → (B, d), or (B, S, m) → (B, d, m)."""
        if v.ndim == 1:
            return self._solve((self._columns @ v[self._visited])[:, :, None])[:, :, 0]
        return self._solve(self._columns @ v[:, self._visited])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        del copy  # always a new array
        found = np.zeros(self.shape, dtype=dtype)
        found[:, :, self._visited] = self._solve(self._columns)
        return found


@dataclass(eq=False, slots=True)
class MatrixBounds(ValueBounds):
    """The estimate, its confidence set and the bounds on rewards, from which bounds on Q are computed.

    Attributes:
        phi: Features φ of the pairs: of all pairs, or of a selection.
        psi: Features ψ of the next states: of all states, or of a weighted sample.
        core_matrix: (B, d, d_psi) Estimate M_n.
        confidence_set: Confidence set around M_n.
        reaches: For each member of the confidence set, the part of the bound that depends on the pair.
        slack: (B, P) ε = 1 − φᵀM_n u for normalised sets, else None.
        most: (A, S) or (B, A, S) Upper bounds on unit rewards.
        least: (A, S) or (B, A, S) Lower bounds on unit rewards.
        allowed: (A, S) Allowed actions; the features of others need no model. None if all are allowed.
        empty: (B,) Number of pairs whose confidence set contains no probability distribution (misspecification alarm).
    """

    phi: Phi
    psi: Psi
    core_matrix: FloatArray | VisitedCore
    confidence_set: MatrixSet
    reaches: tuple[Reach, ...]
    slack: FloatArray | None
    most: FloatArray
    least: FloatArray
    allowed: BoolArray | None = None
    n_replicas: int = field(init=False)
    is_normalised: bool = field(init=False)
    empty: IntArray = field(init=False)

    @classmethod
    def of(
        cls,
        phi: Phi,
        psi: Psi,
        confidence_set: MatrixSet,
        design: PairDesign,
        core_matrix: FloatArray | VisitedCore,
        radii: tuple[FloatArray, FloatArray],
        rewards: tuple[FloatArray, FloatArray],
        allowed: BoolArray | None = None,
    ) -> Self:
        """Return the bounds that follow from M_n, A_n and a confidence set that is bound to ψ.

        Radii √β are those of the set and of the alarm, each (B, 1) or (B, P), and rewards are upper and lower bounds.
        The alarm is raised by confidence sets of allowed actions alone.
        """
        slack, reaches = None, []
        if confidence_set.is_normalised:
            slack = 1.0 - phi.dot(core_matrix @ psi.total).reshape(design.width_sq.shape)
        for member in confidence_set.members:
            reach = member.reach(design, *radii, slack)
            reaches.append(reach if allowed is None else reach.only(allowed.ravel()))
        return cls(phi, psi, core_matrix, confidence_set, tuple(reaches), slack, *rewards, allowed)

    def __post_init__(self) -> None:
        counts = np.zeros(len(self.core_matrix), dtype=np.int64)
        for reach in self.reaches:
            if reach.empty is not None:
                counts = np.maximum(counts, reach.empty.sum(axis=1))
        self.n_replicas, self.is_normalised, self.empty = len(counts), self.confidence_set.is_normalised, counts

    def bound(self, values: FloatArray, *, sign: float = 1.0) -> FloatArray:
        """Return bounds on the expected next value of all pairs from values of the next states of ψ."""
        v = self.psi.project(values)
        tightest = np.minimum if sign > 0 else np.maximum
        result: FloatArray | None = None
        for member, reach in zip(self.confidence_set.members, self.reaches, strict=True):
            split = member.split(v)
            bound = self.phi.dot((self.core_matrix @ split.direction[:, :, None])[:, :, 0])  # φᵀM_n direction
            flat = bound.reshape(reach.half_width.shape)
            flat += (sign * split.scale)[:, None] * reach.half_width  # the bonus
            flat += split.shift[:, None]
            if reach.empty is not None:
                # docs/proofs.md, section 2: an empty set is replaced by the ball alone, φᵀM_n v ± √β w ‖v‖.
                centre = self.phi.dot((self.core_matrix @ v[:, :, None])[:, :, 0]).reshape(flat.shape)
                assert reach.ball is not None
                norm = np.sqrt(np.vecdot(v, v))[:, None]
                np.copyto(flat, centre + sign * norm * reach.ball, where=reach.empty)
            result = bound if result is None else tightest(result, bound, out=result)
        assert result is not None
        if self.is_normalised:  # P V is an average of V (docs/proofs.md, section 2)
            np.maximum(result, values.min(axis=1)[:, None, None], out=result)
            np.minimum(result, values.max(axis=1)[:, None, None], out=result)
        return result

    def q(self, values: FloatArray | None, *, sign: float = 1.0) -> FloatArray:
        """Return bounds on Q (B, A, S): those on the reward plus those on the expected next value (YW19 (4))."""
        reward = self.most if sign > 0 else self.least
        if values is None:
            return np.broadcast_to(reward, (self.n_replicas, *reward.shape[-2:])).copy()
        q = self.bound(values, sign=sign)
        q += reward
        return q

    def restricted(self, pairs: BoolArray) -> ValueBounds:
        """Return the same bounds for some pairs (B, A, S) alone if they are few."""
        chosen = np.flatnonzero(pairs.any(axis=0))
        if _FEW * len(chosen) > pairs[0].size:
            return self
        most, least = (r.reshape(*r.shape[:-2], 1, -1)[..., chosen] for r in (self.most, self.least))
        part = MatrixBounds(
            TablePhi.of_states(self.phi.rows(chosen)[None]),
            self.psi,
            self.core_matrix,
            self.confidence_set,
            tuple(reach.at(chosen) for reach in self.reaches),
            None if self.slack is None else self.slack[:, chosen],
            most,
            least,
        )
        return FewPairs(part, chosen, pairs.shape)

    def compiled_backup(self, sign: float = 1.0) -> Callable[..., None] | None:
        """Return the compiled backup of upper bounds if it supports them and is faster than NumPy, else None.

        It supports every set with a `compiled_form`, if no confidence set is empty and the centre c has a closed form.
        With more than 64 features a matrix product for all replicas is faster.
        """
        if sign < 0 or not self._is_compilable():
            return None
        from matrixrl.core.compiled import backup  # imports numba, which takes half a second

        return partial(backup.fill_plan, *self._as_loops_take_them())

    def compiled_policy_backup(self, sign: float = -1.0) -> Callable[..., None] | None:
        if not self._is_compilable():
            return None
        from matrixrl.core.compiled import backup

        rewards = loop_array(self._by_pair(self.most if sign > 0.0 else self.least))
        return partial(backup.policy_values, sign, *self._as_loops_take_them(), rewards)

    def _by_pair(self, rewards: FloatArray) -> FloatArray:
        """Return bounds on rewards of all replicas: (B, P)."""
        flat = rewards.reshape(*rewards.shape[:-2], -1)
        return np.broadcast_to(flat, (self.n_replicas, flat.shape[-1]))

    def _is_compilable(self) -> bool:
        phi, psi = self.phi, self.psi
        forms = [member.compiled_form for member in self.confidence_set.members]
        return bool(
            all(form is not None for form in forms)
            and (isinstance(phi, OneHotPhi) or (type(phi) is TablePhi and phi.d <= _MANY_FEATURES))
            and isinstance(psi, (OneHotPsi, TablePsi))
            and (np.ptp(psi.total) == 0.0 or all(form is not None and form.centre != MIDDLE for form in forms))
            and all(reach.empty is None for reach in self.reaches)
        )

    def _as_loops_take_them(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the estimate and the confidence set as tuples of arrays for `core.compiled.backup`."""
        phi, psi, n_replicas = self.phi, self.psi, self.n_replicas
        nothing, by_replica = np.zeros((0, 0)), np.zeros((n_replicas, 0, 0))
        estimate = (
            loop_array(phi.flat) if isinstance(phi, TablePhi) else nothing,
            psi.weighted if isinstance(psi, TablePsi) else nothing,
            psi.total,
            np.ascontiguousarray(np.asarray(self.core_matrix)),
            by_replica,
            by_replica.astype(np.uint32),
            np.zeros(n_replicas, dtype=np.int64),
        )
        bound = (
            np.zeros(self.reaches[0].half_width.shape) if self.slack is None else self.slack,
            np.stack([reach.half_width for reach in self.reaches], axis=1),
            *split_forms(self.confidence_set.members),
            self.is_normalised,
        )
        return estimate, bound


class FewPairs(ValueBounds):
    """Bounds of a few pairs, in arrays of all pairs in which the numbers of others are zero.

    Args:
        part: Bounds of the k pairs, as k states with one action.
        pairs: (k,) Numbers of the pairs.
        shape: (B, A, S).
    """

    def __init__(self, part: MatrixBounds, pairs: IntArray, shape: tuple[int, ...]) -> None:
        self._part, self._pairs, self._shape = part, pairs, shape
        self.n_replicas, self.is_normalised, self.empty = part.n_replicas, part.is_normalised, part.empty
        self.most, self.least = self._among_all(part.most), self._among_all(part.least)

    def _among_all(self, found: FloatArray) -> FloatArray:
        every = np.zeros((*found.shape[:-2], self._shape[1] * self._shape[2]))
        every[..., self._pairs] = found[..., 0, :]
        return every.reshape(*found.shape[:-2], *self._shape[1:])

    def q(self, values: FloatArray | None, *, sign: float = 1.0) -> FloatArray:
        return self._among_all(self._part.q(values, sign=sign))

    def bound(self, values: FloatArray, *, sign: float = 1.0) -> FloatArray:
        return self._among_all(self._part.bound(values, sign=sign))

    def any_q(self, values: FloatArray | None, *, sign: float = 1.0, clip: bool = False) -> FloatArray:
        return self._among_all(self._part.any_q(values, sign=sign, clip=clip))


@dataclass(eq=False, slots=True)
class SandwichBounds(ValueBounds):
    r"""Bounds on Q* from a lower and an upper bound on V* of the next stage, with p̂ = φᵀM_n, a signed measure.

    .. math:: c + \hat p\bigl(\tfrac12(V_{up} + V_{low}) - c\bigr)
            \pm \Bigl(|\hat p|\,\tfrac12(V_{up} - V_{low}) + \tfrac{\rho}{2}\sqrt{\beta_V}\,w\Bigr),

    with ρ the distance and c the middle of min V_low and max V_up; both are clipped to these two numbers.

    Attributes:
        ball: Bounds that hold for all values, on the part of δ of the ball.
        uses_ball: Whether the bounds on V* are the tighter ones of sandwich and ball.
        half_width: (B, P) √β_V·w at the radius of the agent.
        alarm_half_width: (B, P) √β_V·w at a proven radius, at least `half_width`.

    Bounds on rewards and the alarm are those of the ball.
    """

    ball: MatrixBounds
    uses_ball: bool
    half_width: FloatArray
    alarm_half_width: FloatArray
    is_normalised = True  # bounds are inside the range of the bounds on V* of the next stage
    is_two_sided: ClassVar[bool] = True  # each bound on V* depends on both bounds of the next stage
    n_replicas: int = field(init=False)
    empty: IntArray = field(init=False)
    most: FloatArray = field(init=False)
    least: FloatArray = field(init=False)
    _core: FloatArray = field(init=False)
    _kept: list[tuple[IntArray, FloatArray | None]] = field(init=False)

    def __post_init__(self) -> None:
        ball = self.ball
        self._core = np.asarray(ball.core_matrix)
        self.n_replicas, self.empty, self.most, self.least = ball.n_replicas, ball.empty, ball.most, ball.least
        seen = [np.flatnonzero(core.any(axis=0)) for core in self._core]
        small = sum(map(len, seen)) * self.half_width.shape[1] <= _LARGEST_KEPT
        self._kept = [(states, self._absolute(b, states) if small else None) for b, states in enumerate(seen)]

    def q(self, values: FloatArray | None, *, sign: float = 1.0) -> FloatArray:
        """Return the bounds of the ball on Q (B, A, S), which hold for any values and any policy."""
        return self.ball.q(values, sign=sign)

    def bound(self, values: FloatArray, *, sign: float = 1.0) -> FloatArray:
        """Return the bounds of the ball on the expected next value (B, A, S), which hold for any values."""
        return self.ball.bound(values, sign=sign)

    def optimal_q(self, lower: FloatArray | None, upper: FloatArray | None) -> OptimalBounds:
        """Return lower and upper bounds on Q*, and the number of pairs that contradict the features."""
        ball = self.ball
        if lower is None or upper is None:
            nothing = np.zeros(self.n_replicas, dtype=np.int64)
            return OptimalBounds(ball.q(None, sign=-1.0), ball.q(None), nothing)
        least, most = lower.min(axis=1)[:, None, None], upper.max(axis=1)[:, None, None]
        shape = (self.n_replicas, ball.phi.n_actions, ball.phi.n_states)
        middle, half_range = 0.5 * (least + most), 0.5 * (most - least)
        centred = 0.5 * (lower + upper) - middle[:, :, 0]
        centre = middle + ball.phi.dot((ball.core_matrix @ centred[:, :, None])[:, :, 0])
        spread = self._spread(0.5 * (upper - lower)).reshape(shape)
        half = spread + half_range * self.half_width.reshape(shape)
        low, high = centre - half, centre + half
        widest = spread + half_range * self.alarm_half_width.reshape(shape)
        slack = EMPTY_SET * (1.0 + half_range)
        bad = (centre + widest < least - slack) | (centre - widest > most + slack)
        if ball.allowed is not None:
            bad &= ball.allowed
        if self.uses_ball:
            low, high = _tightest((low, high), (ball.bound(lower, sign=-1.0), ball.bound(upper)))
        for bound in (low, high):
            np.clip(bound, least, most, out=bound)  # P V* is an average of V*
        low += ball.least
        high += ball.most
        return OptimalBounds(low, high, bad.sum(axis=(1, 2)))

    def _spread(self, half_gap: FloatArray) -> FloatArray:
        """Return |p̂| half_gap of all pairs: (B, S) → (B, P)."""
        found: FloatArray = np.zeros(self.half_width.shape)
        for b, (states, absolute) in enumerate(self._kept):
            if absolute is not None:
                found[b] = half_gap[b, states] @ absolute
                continue
            step = max(1, _CHUNK // found.shape[1])
            for first in range(0, len(states), step):
                some = states[first : first + step]
                found[b] += half_gap[b, some] @ self._absolute(b, some)
        return found

    def _absolute(self, replica: int, states: IntArray) -> FloatArray:
        """Return |p̂| of some next states (k,) and all pairs: (k, P). A next state that was not seen has p̂ = 0."""
        weights = np.ascontiguousarray(self._core[replica][:, states].T)
        return np.abs(self.ball.phi.dot(weights).reshape(len(states), self.half_width.shape[1]))


def _tightest(
    sandwich: tuple[FloatArray, FloatArray], ball: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return the tighter lower and upper bounds of two pairs, or the wider ones where the tighter ones cross."""
    low, high = np.maximum(sandwich[0], ball[0]), np.minimum(sandwich[1], ball[1])
    crossed = low > high  # one of the two events failed, or the radius is a tuned one
    if crossed.any():
        low = np.where(crossed, np.minimum(sandwich[0], ball[0]), low)
        high = np.where(crossed, np.maximum(sandwich[1], ball[1]), high)
    return low, high
