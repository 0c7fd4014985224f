"""The confidence sets of the paper: both balls maximised exactly, both closed forms, and that of its theorem."""

from __future__ import annotations

import math

import numpy as np

from matrixrl.checks import number
from matrixrl.core.radius import TheoremRadius
from matrixrl.core.sets.base import (
    CONSTANT,
    LARGEST,
    OPERATOR_BALL,
    CompiledForm,
    Reach,
    SingleSet,
    Split,
    column_sums,
    frobenius_norms,
    widths,
)
from matrixrl.linalg import PairDesign
from matrixrl.records import BoolArray, FloatArray, Guarantee

__all__ = ["ColumnBall", "ColumnClosedForm", "FrobeniusBall", "FrobeniusClosedForm", "PaperBall"]


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
        return frobenius_norms(error) <= radius

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
