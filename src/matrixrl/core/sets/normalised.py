"""Our sets: only models whose probabilities sum to one."""

from __future__ import annotations

import numpy as np

from matrixrl.core.sets.base import (
    ALONG_U,
    LARGEST,
    MIDDLE,
    CompiledForm,
    ConfidenceSet,
    Reach,
    SetContext,
    SingleSet,
    Split,
    frobenius_norms,
    widths,
)
from matrixrl.core.sets.paper import ColumnBall
from matrixrl.linalg import PairDesign
from matrixrl.records import BoolArray, FloatArray
from matrixrl.tolerances import EMPTY_SET

__all__ = ["Intersection", "NormalisedBall", "NormalisedColumnBall", "chebyshev_centre"]


class NormalisedBall(SingleSet):
    r"""The Frobenius ball cut with {φᵀMu = 1}, u = Ψᵀ1: only models that are probabilities (docs/proofs.md, 2).

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
    guarantee = True
    compiled_form = CompiledForm(centre=ALONG_U)
    reach_is_local = True

    def reach(
        self,
        design: PairDesign,
        radius: FloatArray,
        alarm_radius: FloatArray,
        slack: FloatArray | None,
    ) -> Reach:
        """Return √(βw² − ε²/‖u‖²), and where it does not exist."""
        assert slack is not None
        width_sq = design.width_sq
        spent = slack * slack / self.context.total_sq
        empty = spent > alarm_radius * alarm_radius * (1.0 + EMPTY_SET) * width_sq
        half_width = np.sqrt(np.maximum(radius * radius * width_sq - spent, 0.0))
        if not empty.any():
            return Reach(half_width)
        return Reach(half_width, empty, slack, radius * widths(design))

    def split(self, v: FloatArray) -> Split:
        """Return (α, v⊥, ‖v⊥‖₂)."""
        u = self.context.total
        alpha = (v @ u) / self.context.total_sq
        perpendicular = v - alpha[:, None] * u
        return Split(alpha, perpendicular, np.sqrt(np.vecdot(perpendicular, perpendicular)))

    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Compare the Frobenius norm with √β; that probabilities sum to one is a property of M alone."""
        return frobenius_norms(error) <= radius


class NormalisedColumnBall(ColumnBall):
    r"""The column ball for values centred at c·1: \(c\epsilon + \sqrt{d'\beta} w \|v - cu\|_\infty\), c the best.

    Since φᵀM*u = 1, adding c to V adds c to φᵀM*v, so any c gives a valid bound; the minimiser of ‖v − cu‖_∞ is
    taken (for one-hot ψ the middle of the range of V).
    """

    name = "normalised-column"
    summary = "ours: the column ball for values centred where ‖v − c·u‖_∞ is smallest"
    is_normalised = True
    guarantee = True
    compiled_form = CompiledForm(centre=MIDDLE, norm=LARGEST)

    def split(self, v: FloatArray) -> Split:
        """Return (c, v − cu, ‖v − cu‖_∞)."""
        centre = chebyshev_centre(v, self.context.total)
        direction = v - centre[:, None] * self.context.total
        return Split(centre, direction, np.abs(direction).max(axis=1))


class Intersection(ConfidenceSet):
    """Both normalised sets at once, each at half of δ: the smaller of their bounds."""

    name = "intersection"
    summary = "ours: normalised and normalised-column at δ/2 each, the smaller bound"
    is_normalised = True
    guarantee = True
    shares = 2

    def __init__(self) -> None:
        self._members: tuple[SingleSet, ...] = (NormalisedBall(), NormalisedColumnBall())

    def bind(self, context: SetContext) -> Intersection:
        """Return a copy whose members are bound to the problem as well."""
        bound = super().bind(context)
        bound._members = tuple(member.bind(context) for member in self._members)
        return bound

    @property
    def members(self) -> tuple[SingleSet, ...]:
        """The two sets."""
        return self._members

    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Say whether every member holds M."""
        first, second = (member.contains(error, radius) for member in self._members)
        return first & second


def chebyshev_centre(v: FloatArray, u: FloatArray) -> FloatArray:
    """Return the c that minimises max_j |v_j − c u_j|, for each row of v: (B, d_psi) → (B,).

    >>> chebyshev_centre(np.array([[0.0, 1.0, 4.0]]), np.ones(3))
    array([2.])
    """
    if np.ptp(u) == 0.0 and u[0] != 0.0:
        middle: FloatArray = (v.max(axis=1) + v.min(axis=1)) / (2.0 * u[0])
        return middle
    # A convex function of c: bisect on the side that the largest term pulls to. Any c is valid, so sixty
    # halvings of an interval that holds the minimiser are more than enough.
    used = np.abs(u) > 0.0
    if not used.any():
        return np.zeros(len(v))
    ratios = v[:, used] / u[used]
    low, high = ratios.min(axis=1), ratios.max(axis=1)
    for _ in range(60):
        centre = 0.5 * (low + high)
        gap = v - centre[:, None] * u
        worst = np.abs(gap).argmax(axis=1)[:, None]
        pull = np.take_along_axis(gap, worst, axis=1)[:, 0] * u[worst[:, 0]]
        low, high = np.where(pull > 0, centre, low), np.where(pull > 0, high, centre)
    best: FloatArray = 0.5 * (low + high)
    return best
