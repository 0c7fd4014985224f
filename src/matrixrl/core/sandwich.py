"""Bounds on V* from both sides for unknown next-state measures (docs/proofs.md, section 10)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from matrixrl.core.belief import Belief
from matrixrl.core.value_bounds import OptimalBounds, ValueBounds
from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import EMPTY_SET

__all__ = ["SandwichBelief"]

_LARGEST_KEPT = 1 << 25  # entries of |p̂| that are kept for all stages, 256 MB; larger ones are computed at each stage
_CHUNK = 1 << 21  # entries of |p̂| that are computed together


@dataclass(frozen=True, slots=True)
class SandwichBelief(ValueBounds):
    r"""Bounds on Q* from a lower and an upper bound on V* of the next stage, with p̂ = φᵀM_n, a signed measure.

    .. math:: c + \hat p\bigl(\tfrac12(V_{up} + V_{low}) - c\bigr)
            \pm \Bigl(|\hat p|\,\tfrac12(V_{up} - V_{low}) + \tfrac{\rho}{2}\sqrt{\beta_V}\,w\Bigr),

    with ρ the distance and c the middle of min V_low and max V_up; both are clipped to these two numbers.

    Attributes:
        ball: Bounds that hold for all values, on the part of δ of the ball.
        uses_ball: Whether the bounds on V* are the tighter ones of sandwich and ball.
        half_width: (B, P) √β_V·w at the radius of the agent.
        alarm_half_width: (B, P) √β_V·w at a proven radius, at least `half_width`.
    """

    ball: Belief
    uses_ball: bool
    half_width: FloatArray
    alarm_half_width: FloatArray
    _kept: list[tuple[IntArray, FloatArray | None]] = field(init=False)

    def __post_init__(self) -> None:
        seen = [np.flatnonzero(core.any(axis=0)) for core in self.ball.core_matrix]
        small = sum(map(len, seen)) * self.half_width.shape[1] <= _LARGEST_KEPT
        kept = [(states, self._absolute(b, states) if small else None) for b, states in enumerate(seen)]
        object.__setattr__(self, "_kept", kept)

    @property
    def n_replicas(self) -> int:
        """Number of replicas B."""
        return self.ball.n_replicas

    @property
    def is_normalised(self) -> bool:
        """Bounds are inside the range of the bounds on V* of the next stage."""
        return True

    @property
    def is_two_sided(self) -> bool:
        """Each bound on V* depends on both bounds of the next stage."""
        return True

    @property
    def empty(self) -> IntArray:
        """Number (B,) of pairs whose ball contains no probability distribution (misspecification alarm)."""
        return self.ball.empty

    def q(self, values: FloatArray | None, *, sign: float = 1.0) -> FloatArray:
        """Return the bounds of the ball on Q (B, A, S), which hold for any values and any policy.

        Args:
            values: (B, S) Values of the next stage, or None at the last stage, whose next values are 0.
            sign: 1 for upper bounds, -1 for lower bounds.
        """
        return self.ball.q(values, sign=sign)

    def bound(self, values: FloatArray, *, sign: float = 1.0) -> FloatArray:
        """Return the bounds of the ball on the expected next value (B, A, S), which hold for any values."""
        return self.ball.bound(values, sign=sign)

    def reward_bound(self, *, sign: float = 1.0) -> FloatArray:
        """Return upper (sign 1) or lower (sign -1) bounds on unit rewards: (A, S) or (B, A, S)."""
        return self.ball.reward_bound(sign=sign)

    def optimal_q(self, lower: FloatArray | None, upper: FloatArray | None) -> OptimalBounds:
        """Return lower and upper bounds on Q*, and the number of pairs that contradict the features.

        Args:
            lower: (B, S) Lower bounds on V* of the next stage, or None at the last stage.
            upper: (B, S) Upper bounds on V* of the next stage, or None at the last stage.
        """
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
        weights = np.ascontiguousarray(self.ball.core_matrix[replica][:, states].T)
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
