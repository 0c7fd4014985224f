r"""Confidence sets around M_n, as the largest value that a member can give to a pair.

Every set here answers in one form, which is what makes planning fast: for v = Ψᵀ V,

.. math:: \max_M \phi^\top M v = \text{shift} + \phi^\top M_n \text{direction} + \text{scale}\cdot\text{reach}

where shift, direction and scale depend on v only (`split`, once a stage) and reach on the pair only (`reach`,
once a plan).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from matrixrl.records import BoolArray, FloatArray
from matrixrl.tolerances import EMPTY_SET

__all__ = ["SETS", "ConfidenceSet", "FrobeniusBall", "NormalisedBall", "Reach", "Split"]


@dataclass(frozen=True, slots=True)
class Split:
    """The part of the bound that depends on v: shift (B,), direction (B, d_psi), scale (B,)."""

    shift: FloatArray
    direction: FloatArray
    scale: FloatArray


@dataclass(frozen=True, slots=True)
class Reach:
    """The part of the bound that depends on the pair.

    Attributes:
        half_width: (B, P) how far a member can move φᵀM in a unit direction.
        empty: (B, P) where no member of the ball is a probability, or None if nowhere.
        slack: (B, P) ε = 1 − φᵀM_n u, only if `empty` is not None.
        ball: (B, P) the half-width without normalisation, only if `empty` is not None.
    """

    half_width: FloatArray
    empty: BoolArray | None = None
    slack: FloatArray | None = None
    ball: FloatArray | None = None


class ConfidenceSet(Protocol):
    """A set of cores around M_n."""

    name: str
    summary: str
    is_normalised: bool
    """Whether members give probabilities, so that the bound may be clipped to [min V, max V]."""

    def reach(
        self,
        width_sq: FloatArray,
        radius: FloatArray,
        alarm_radius: FloatArray,
        slack: FloatArray | None,
    ) -> Reach:
        """Return the pair's part of the bound.

        Args:
            width_sq: (B, P) squared widths.
            radius: (B,) √β, as scaled by `exploration`.
            alarm_radius: (B,) a √β that is proven: the alarm is judged with it.
            slack: (B, P) ε = 1 − φᵀM_n u, or None for sets that do not need it.
        """
        ...

    def split(self, v: FloatArray) -> Split:
        """Return the value's part of the bound for v (B, d_psi)."""
        ...


class FrobeniusBall:
    r"""YW19 (6), solved exactly: \(\max_M \phi^\top M v = \phi^\top M_n v + \sqrt\beta\, w\, \|v\|_2\).

    The ball of the same radius in the operator norm has the same maximum (design 2).
    """

    name = "frobenius"
    summary = "the paper's ball B2 (6), maximised exactly"
    is_normalised = False

    def __init__(self, total: FloatArray) -> None:
        del total  # the paper's ball does not use u

    def reach(
        self,
        width_sq: FloatArray,
        radius: FloatArray,
        alarm_radius: FloatArray,  # noqa: ARG002  # the paper's ball is never empty
        slack: FloatArray | None,  # noqa: ARG002
    ) -> Reach:
        """Return √β · w."""
        return Reach(radius[:, None] * np.sqrt(np.maximum(width_sq, 0.0)))

    def split(self, v: FloatArray) -> Split:
        """Return (0, v, ‖v‖₂)."""
        return Split(np.zeros(len(v)), v, np.sqrt(np.vecdot(v, v)))


class NormalisedBall:
    r"""The Frobenius ball cut with {φᵀMu = 1}, u = Ψᵀ1: only models that are probabilities (design 4.1).

    With \(\alpha = u^\top v/\|u\|^2\), \(v_\perp = v - \alpha u\), \(\epsilon = 1 - \phi^\top M_n u\) it is

    .. math:: \phi^\top M_n v + \alpha\epsilon + \|v_\perp\| \sqrt{\beta w^2 - \epsilon^2/\|u\|^2}
            = \alpha + \phi^\top M_n v_\perp + \|v_\perp\| \sqrt{\beta w^2 - \epsilon^2/\|u\|^2}.

    Where the root is of a negative number at a proven radius, no probability is in the ball: the pair is
    reported as empty (the misspecification alarm) and bounded by the uncut ball. Where only a smaller, tuned
    radius makes it negative, the nearest normalised model is used (root zero).
    """

    name = "normalised"
    summary = "ours: the ball of (6) cut with 'probabilities sum to one'"
    is_normalised = True

    def __init__(self, total: FloatArray) -> None:
        self._u = total
        self._u_sq = float(total @ total)

    def reach(
        self,
        width_sq: FloatArray,
        radius: FloatArray,
        alarm_radius: FloatArray,
        slack: FloatArray | None,
    ) -> Reach:
        """Return √(βw² − ε²/‖u‖²), and where it does not exist."""
        assert slack is not None
        spent = slack * slack / self._u_sq
        reachable = (alarm_radius * alarm_radius * (1.0 + EMPTY_SET))[:, None] * width_sq
        empty = spent > reachable
        under_root = (radius * radius)[:, None] * width_sq - spent
        half_width = np.sqrt(np.maximum(under_root, 0.0))
        if not empty.any():
            return Reach(half_width)
        ball = radius[:, None] * np.sqrt(np.maximum(width_sq, 0.0))
        return Reach(half_width, empty, slack, ball)

    def split(self, v: FloatArray) -> Split:
        """Return (α, v⊥, ‖v⊥‖₂)."""
        alpha = (v @ self._u) / self._u_sq
        perpendicular = v - alpha[:, None] * self._u
        return Split(alpha, perpendicular, np.sqrt(np.vecdot(perpendicular, perpendicular)))


SETS: dict[str, type[FrobeniusBall] | type[NormalisedBall]] = {
    FrobeniusBall.name: FrobeniusBall,
    NormalisedBall.name: NormalisedBall,
}
"""Every set by the name used in Python and on the command line."""
