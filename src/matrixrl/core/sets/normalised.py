"""Normalised confidence sets, which are not in the paper: they use that probabilities sum to one."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.checks import fail
from matrixrl.core.sets.base import (
    ALONG_U,
    LARGEST,
    MIDDLE,
    OPERATOR_BALL,
    CompiledForm,
    MatrixSet,
    Reach,
    SetContext,
    SingleSet,
    Split,
    frobenius_norms,
    widths,
)
from matrixrl.core.sets.paper import ColumnBall
from matrixrl.linalg import PairDesign
from matrixrl.records import BoolArray, FloatArray, Guarantee
from matrixrl.tolerances import EMPTY_SET

__all__ = ["Intersection", "NormalisedBall", "NormalisedColumnBall", "chebyshev_centre"]


class NormalisedBall(SingleSet):
    r"""The Frobenius ball intersected with {φᵀMu = 1}, u = Ψᵀ1: probabilities sum to one (docs/proofs.md, section 2).

    With \(\alpha = u^\top v/\|u\|^2\), \(v_\perp = v - \alpha u\), \(\epsilon = 1 - \phi^\top M_n u\), the largest
    \(\phi^\top M v\) is

    .. math:: \phi^\top M_n v + \alpha\epsilon + \|v_\perp\| \sqrt{\beta w^2 - \epsilon^2/\|u\|^2}
            = \alpha + \phi^\top M_n v_\perp + \|v_\perp\| \sqrt{\beta w^2 - \epsilon^2/\|u\|^2}.

    If the number under the root is negative at a proven radius, the set of the pair is empty: the misspecification
    alarm is raised, and the pair is bounded by the ball without the constraint. If it is negative only at a smaller,
    tuned radius, the nearest normalised model is used (the root is replaced by zero).
    """

    name = "normalised"
    summary = "not in the paper: the ball of (6) with the constraint that probabilities sum to one"
    is_normalised = True
    guarantee = Guarantee(True)
    compiled_form = CompiledForm(centre=ALONG_U)
    reach_is_local = True
    event = OPERATOR_BALL

    def reach(
        self, design: PairDesign, radius: FloatArray, alarm_radius: FloatArray, slack: FloatArray | None
    ) -> Reach:
        """Return √(βw² − ε²/‖u‖²), and which sets are empty."""
        assert slack is not None
        width_sq = design.width_sq
        offset = slack * slack / self.context.total_sq  # ε²/‖u‖²
        empty = offset > alarm_radius * alarm_radius * (1.0 + EMPTY_SET) * width_sq
        half_width = np.sqrt(np.maximum(radius * radius * width_sq - offset, 0.0))
        if not empty.any():
            return Reach(half_width)
        return Reach(half_width, empty, radius * widths(design))

    def split(self, v: FloatArray) -> Split:
        """Return (α, v⊥, ‖v⊥‖₂)."""
        u = self.context.total
        alpha = (v @ u) / self.context.total_sq
        perpendicular = v - alpha[:, None] * u
        return Split(alpha, perpendicular, np.sqrt(np.vecdot(perpendicular, perpendicular)))

    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Return whether the Frobenius norm is at most √β; the constraint depends only on M and is not checked."""
        return frobenius_norms(error) <= radius

    @property
    def surplus(self) -> float:
        """Factor 2 C_ψ H, as of the ball without the constraint: ‖v⊥‖₂ ≤ ‖v‖₂ ≤ C_ψ H."""
        return 2.0 * self.context.c_psi * self.context.horizon


class NormalisedColumnBall(ColumnBall):
    r"""The column ball for centred values: \(\phi^\top M_n v + c\epsilon + \sqrt{d'\beta} w \|v - cu\|_\infty\).

    Since φᵀM*u = 1, φᵀM*v = c + φᵀM*(v − cu) for every c, so every c gives a valid bound (docs/proofs.md, section 5).
    The c that minimises ‖v − cu‖_∞ is used; for one-hot ψ it is the middle of the range of V.
    """

    name = "normalised-column"
    summary = "not in the paper: the column ball for centred values, with the smallest ‖v − c·u‖_∞"
    is_normalised = True
    guarantee = Guarantee(True)
    compiled_form = CompiledForm(centre=MIDDLE, norm=LARGEST)
    reach_is_local = True
    event = OPERATOR_BALL

    def split(self, v: FloatArray) -> Split:
        """Return (c, v − cu, ‖v − cu‖_∞)."""
        centre = chebyshev_centre(v, self.context.total)
        direction = v - centre[:, None] * self.context.total
        return Split(centre, direction, np.abs(direction).max(axis=1))

    @property
    def surplus(self) -> float:
        """Factor 2 √d' C_ψ H, as of the column ball: the smallest ‖v − cu‖_∞ is at most ‖v‖_∞ (c = 0)."""
        return 2.0 * self.factor * self.context.c_psi_max_norm * self.context.horizon


class Intersection(MatrixSet):
    """Intersection of several sets: the tightest of their bounds is used.

    By default it is that of the normalised ball and the normalised column ball. Both hold on one event, so neither
    costs a share of δ; and the bound of the normalised ball is never larger than that of the column ball at the same
    radius (docs/proofs.md, section 5), so this intersection equals `NormalisedBall`. It is kept to show that, and for
    sets of your own: δ is divided between the events of the members.

    Args:
        members: Sets to intersect, at least one; each must be normalised. The radius and the ridge are those of the
            intersection.
        constants: Radius, ridge and c_core, as in `MatrixSet`.

    >>> Intersection().shares
    1
    """

    name = "intersection"
    summary = "not in the paper: the tighter bound of normalised and normalised-column, which is always normalised"
    is_normalised = True
    guarantee = Guarantee(True)

    def __init__(self, *members: SingleSet, **constants: Any) -> None:
        super().__init__(**constants)
        self._members: tuple[SingleSet, ...] = members or (NormalisedBall(), NormalisedColumnBall())
        for member in self._members:
            if not isinstance(member, SingleSet) or not member.is_normalised:
                shown = getattr(member, "name", repr(member))
                fail("members", "must be normalised sets", shown, "Such as NormalisedBall().")

    def bind(self, context: SetContext) -> Intersection:
        """Return a copy of the set that is bound, with its members, to a problem."""
        bound = super().bind(context)
        bound._members = tuple(member.bind(context) for member in self._members)
        return bound

    @property
    def members(self) -> tuple[SingleSet, ...]:
        """The members of the intersection."""
        return self._members

    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Return whether M is inside all members."""
        inside: BoolArray = np.logical_and.reduce([member.contains(error, radius) for member in self._members])
        return inside

    @property
    def surplus(self) -> float | None:
        """Smallest factor of the members: the tighter bound is used."""
        factors = [member.surplus for member in self._members]
        return min((factor for factor in factors if factor is not None), default=None)


def chebyshev_centre(v: FloatArray, u: FloatArray) -> FloatArray:
    """Return the c (B,) that minimises max_j |v_j − c u_j| for each row of v (B, d_psi).

    Args:
        v: (B, d_psi) Vectors.
        u: (d_psi,) Vector that is subtracted.

    >>> chebyshev_centre(np.array([[0.0, 1.0, 4.0]]), np.ones(3))
    array([2.])
    """
    if np.ptp(u) == 0.0 and u[0] != 0.0:
        middle: FloatArray = (v.max(axis=1) + v.min(axis=1)) / (2.0 * u[0])
        return middle
    # The maximum is a convex function of c; bisect by the sign of the derivative of its largest term. Every c gives a
    # valid bound, so the minimiser is needed only approximately: 60 bisections reach the precision of float64.
    used = np.abs(u) > 0.0
    if not used.any():
        return np.zeros(len(v))
    ratios = v[:, used] / u[used]
    low, high = ratios.min(axis=1), ratios.max(axis=1)
    for _ in range(60):
        centre = 0.5 * (low + high)
        gap = v - centre[:, None] * u
        worst = np.abs(gap).argmax(axis=1)[:, None]
        descent = np.take_along_axis(gap, worst, axis=1)[:, 0] * u[worst[:, 0]]
        low, high = np.where(descent > 0, centre, low), np.where(descent > 0, high, centre)
    best: FloatArray = 0.5 * (low + high)
    return best
