"""Balls around M_n: those of the paper, maximised exactly or as closed forms, and normalised ones (not in the paper).

Normalised balls use that probabilities sum to one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from matrixrl.checks import number
from matrixrl.core.radius import TheoremRadius
from matrixrl.core.sets.base import (
    ALONG_U,
    CONSTANT,
    LARGEST,
    MIDDLE,
    OPERATOR_BALL,
    CompiledForm,
    Reach,
    SingleSet,
    Split,
    column_sums,
)
from matrixrl.features import Features, weighted_psi
from matrixrl.linalg import PairDesign, widths
from matrixrl.records import BoolArray, FloatArray, Guarantee
from matrixrl.tolerances import EMPTY_SET

if TYPE_CHECKING:
    from matrixrl.core.models import Model, ModelContext

__all__ = [
    "ColumnBall",
    "ColumnClosedForm",
    "FrobeniusBall",
    "FrobeniusClosedForm",
    "NormalisedBall",
    "NormalisedColumnBall",
    "PaperBall",
    "WeightedBall",
    "chebyshev_centre",
]


class FrobeniusBall(SingleSet):
    r"""The ball of YW19 (6), maximised exactly: \(\phi^\top M_n v + \sqrt\beta\, w\, \|v\|_2\).

    The ball of the same radius in the operator norm has the same maximum (docs/proofs.md, section 1).
    """

    name = "frobenius"
    summary = "the paper's ball B2 (6), maximised exactly"
    guarantee = Guarantee(True)
    compiled_form = CompiledForm()
    reach_is_local = True
    event = OPERATOR_BALL

    def reach(
        self, design: PairDesign, radius: FloatArray, alarm_radius: FloatArray, slack: FloatArray | None
    ) -> Reach:
        """Return √β · w."""
        del alarm_radius, slack  # the ball is never empty
        return Reach(radius * widths(design))

    def split(self, v: FloatArray) -> Split:
        """Return (0, v, ‖v‖₂)."""
        return Split(np.zeros(len(v)), v, np.sqrt(np.vecdot(v, v)))

    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Return whether the Frobenius norm is at most √β."""
        inside: BoolArray = np.linalg.norm(error, axis=(1, 2)) <= radius
        return inside

    @property
    def surplus(self) -> float:
        """Factor 2 C_ψ H: both M* and the maximiser are within √β w ‖v‖₂ of φᵀM_n v, and ‖v‖₂ ≤ C_ψ H."""
        return 2.0 * self.context.c_psi * self.context.horizon


class FrobeniusClosedForm(FrobeniusBall):
    """The closed form YW19 (8): bonus 2 C_ψ H √β · w, with the factor H of its proof (E2), at the queried pair (E4)."""

    name = "frobenius-closed"
    summary = "the paper's closed form (8): bonus 2·C_ψ·H·√β·w"
    guarantee = Guarantee(True)
    compiled_form = CompiledForm(norm=CONSTANT)
    reach_is_local = True
    event = OPERATOR_BALL

    def split(self, v: FloatArray) -> Split:
        """Return (0, v, 2 C_ψ H)."""
        return Split(np.zeros(len(v)), v, np.full(len(v), 2.0 * self.context.c_psi * self.context.horizon))

    @property
    def surplus(self) -> float:
        """Factor 3 C_ψ H: the bonus 2 C_ψ H √β w, and C_ψ H √β w between φᵀM_n v and φᵀM*v."""
        return 3.0 * self.context.c_psi * self.context.horizon


class ColumnBall(SingleSet):
    r"""The ball of YW19 (5) with column norms (E1), maximised exactly (docs/proofs.md, section 5).

    The maximum is \(\phi^\top M_n v + \sqrt{d'\beta} w \|v\|_\infty\), with d' = d_psi. As a bound on
    \(\phi^\top M^* v\) it holds wherever the operator norm of A_n^{1/2}(M* − M_n) is at most √β; M* itself is then
    inside the ball only if the Frobenius norm is at most √β as well.
    """

    name = "column"
    summary = "the paper's ball B1 (5) with column norms (E1), maximised exactly"
    guarantee = Guarantee(True)
    compiled_form = CompiledForm(norm=LARGEST)
    reach_is_local = True
    event = OPERATOR_BALL

    @property
    def factor(self) -> float:
        """Factor √d' of the radius: ‖φᵀ(M* − M_n)‖₁ is at most √d' times its 2-norm."""
        return math.sqrt(self.context.d_psi)

    def reach(
        self, design: PairDesign, radius: FloatArray, alarm_radius: FloatArray, slack: FloatArray | None
    ) -> Reach:
        """Return √(d'β) · w."""
        del alarm_radius, slack  # the ball is never empty
        return Reach(self.factor * radius * widths(design))

    def split(self, v: FloatArray) -> Split:
        """Return (0, v, ‖v‖_∞)."""
        return Split(np.zeros(len(v)), v, np.abs(v).max(axis=1))

    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Return whether the sum of the column norms is at most √(d'β)."""
        return column_sums(error) <= self.factor * radius

    @property
    def surplus(self) -> float:
        """Factor 2 √d' C_ψ H, with C_ψ of Assumption 2: ‖v‖_∞ ≤ C_ψ H."""
        return 2.0 * self.factor * self.context.c_psi_max_norm * self.context.horizon


class ColumnClosedForm(ColumnBall):
    """The closed form YW19 (7): bonus 2 C_ψ H √(max(d, d')β) · w, at the queried pair (E4).

    The paper prints √d; the proof needs √d' if d' is larger than d (E1).
    """

    name = "column-closed"
    summary = "the paper's closed form (7): bonus 2·C_ψ·H·√(dβ)·w"
    guarantee = Guarantee(True)
    compiled_form = CompiledForm(norm=CONSTANT)
    reach_is_local = True
    event = OPERATOR_BALL

    @property
    def factor(self) -> float:
        """Factor √max(d, d') of the radius."""
        return math.sqrt(max(self.context.d, self.context.d_psi))

    def split(self, v: FloatArray) -> Split:
        """Return (0, v, 2 C_ψ H)."""
        scale = 2.0 * self.context.c_psi_max_norm * self.context.horizon
        return Split(np.zeros(len(v)), v, np.full(len(v), scale))

    @property
    def surplus(self) -> float:
        """Factor 3 √max(d, d') C_ψ H, with C_ψ of Assumption 2: the bonus has 2 of the 3 parts."""
        return 3.0 * self.factor * self.context.c_psi_max_norm * self.context.horizon


class PaperBall(FrobeniusClosedForm):
    """The set of the paper's Theorem 2: the closed form (8) with the factor H of its proof (E2), at β of the theorem.

    Args:
        c: Absolute constant c of the radius, whose value the paper does not give.
        ridge: λ of A_n; 1 in the paper.
        c_core: C_M with ‖M*‖_F² <= C_M·d, if known; bounded from the features by default.

    >>> PaperBall(c=0.5).radius.c
    0.5
    """

    name = "paper"
    summary = "the paper's closed form (8) with the radius of Theorems 1 and 2"
    guarantee = Guarantee(True)
    compiled_form = CompiledForm(norm=CONSTANT)
    reach_is_local = True
    event = OPERATOR_BALL
    surplus = FrobeniusClosedForm.surplus

    def __init__(self, *, c: float = 1.0, ridge: float | None = None, c_core: float | None = None) -> None:
        checked = number("c", c, low=0.0, open_ends=True, remedy="Try 1.")
        super().__init__(radius=TheoremRadius(c=checked), ridge=ridge, c_core=c_core)


class NormalisedBall(FrobeniusBall):
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
    surplus = FrobeniusBall.surplus  # as of the ball without the constraint: ‖v⊥‖₂ ≤ ‖v‖₂

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
        context = self.context
        alpha = (v @ context.total) / context.total_sq
        perpendicular = v - alpha[:, None] * context.total
        return Split(alpha, perpendicular, np.sqrt(np.vecdot(perpendicular, perpendicular)))


class WeightedBall(NormalisedBall):
    r"""The normalised ball around an estimate in which next states have the weights 1/‖ψ(s')‖.

    The regression is of \(x(s') = K^{-1}D\psi(s')\), \(K = \Psi^\top D\Psi\), on φ, with D the weights. Its mean is
    φᵀM* as with D = I, the estimate (2), and the radius is proportional to the largest ‖x‖, which is smaller where
    states have ψ of different lengths. ψ as a table is weighted if that makes the radius smaller (docs/proofs.md,
    section 3).
    """

    name = "weighted"
    summary = "normalised, with next states weighted by 1/‖ψ‖ in the estimate (needs all states)"
    guarantee = Guarantee(True)
    compiled_form = NormalisedBall.compiled_form
    reach_is_local = True
    event = OPERATOR_BALL
    surplus = FrobeniusBall.surplus

    def make_model(self, context: ModelContext) -> Model:
        """Return the ridge estimate on φ and the weighted ψ."""
        features = Features(context.features.phi, weighted_psi(context.features.psi))
        return super().make_model(replace(context, features=features))


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
    surplus = ColumnBall.surplus  # as of the column ball: the smallest ‖v − cu‖_∞ is at most ‖v‖_∞ (c = 0)

    def split(self, v: FloatArray) -> Split:
        """Return (c, v − cu, ‖v − cu‖_∞)."""
        centre = chebyshev_centre(v, self.context.total)
        direction = v - centre[:, None] * self.context.total
        return Split(centre, direction, np.abs(direction).max(axis=1))


def chebyshev_centre(v: FloatArray, u: FloatArray) -> FloatArray:
    """Return the c (B,) that minimises max_j |v_j − c u_j| for each row of v (B, d_psi), with u (d_psi,).

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
