"""The sets of the paper: both balls solved exactly, both closed forms, and the printed column ball."""

from __future__ import annotations

import math

import numpy as np

from matrixrl.core.sets.base import (
    CONSTANT,
    LARGEST,
    CompiledForm,
    Reach,
    SingleSet,
    Split,
    column_sums,
    frobenius_norms,
    widths,
)
from matrixrl.linalg import PairDesign
from matrixrl.records import BoolArray, FloatArray

__all__ = ["ColumnBall", "ColumnClosedForm", "FrobeniusBall", "FrobeniusClosedForm", "PrintedColumnBall"]


class FrobeniusBall(SingleSet):
    r"""YW19 (6), solved exactly: \(\max_M \phi^\top M v = \phi^\top M_n v + \sqrt\beta\, w\, \|v\|_2\).

    The ball of the same radius in the operator norm has the same maximum (docs/proofs.md, section 1).
    """

    name = "frobenius"
    summary = "the paper's ball B2 (6), maximised exactly"
    guarantee = True
    compiled_form = CompiledForm()
    reach_is_local = True

    def reach(
        self,
        design: PairDesign,
        radius: FloatArray,
        alarm_radius: FloatArray,  # noqa: ARG002  # the paper's ball is never empty
        slack: FloatArray | None,  # noqa: ARG002
    ) -> Reach:
        """Return √β · w."""
        return Reach(radius * widths(design))

    def split(self, v: FloatArray) -> Split:
        """Return (0, v, ‖v‖₂)."""
        return Split(np.zeros(len(v)), v, np.sqrt(np.vecdot(v, v)))

    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Compare the Frobenius norm with √β."""
        return frobenius_norms(error) <= radius


class FrobeniusClosedForm(FrobeniusBall):
    """YW19 (8) with the factor H that its proof has (E2), at the queried pair (E4): 2 C_ψ H √β · w."""

    name = "frobenius-closed"
    summary = "the paper's closed form (8): bonus 2·C_ψ·H·√β·w"
    guarantee = True
    compiled_form = CompiledForm(norm=CONSTANT)

    def split(self, v: FloatArray) -> Split:
        """Return (0, v, 2 C_ψ H)."""
        return Split(np.zeros(len(v)), v, np.full(len(v), 2.0 * self.context.c_psi * self.context.horizon))


class ColumnBall(SingleSet):
    r"""YW19 (5) with column norms (E1), solved exactly: \(\phi^\top M_n v + \sqrt{d'\beta} w \|v\|_\infty\)."""

    name = "column"
    summary = "the paper's ball B1 (5) with column norms (E1), maximised exactly"
    guarantee = True
    compiled_form = CompiledForm(norm=LARGEST)
    reach_is_local = True

    @property
    def factor(self) -> float:
        """√d', from Cauchy–Schwarz between the sum of column norms and the Frobenius norm."""
        return math.sqrt(self.context.d_psi)

    def reach(
        self,
        design: PairDesign,
        radius: FloatArray,
        alarm_radius: FloatArray,  # noqa: ARG002
        slack: FloatArray | None,  # noqa: ARG002
    ) -> Reach:
        """Return √(d'β) · w."""
        return Reach(self.factor * radius * widths(design))

    def split(self, v: FloatArray) -> Split:
        """Return (0, v, ‖v‖_∞)."""
        return Split(np.zeros(len(v)), v, np.abs(v).max(axis=1))

    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Compare the sum of column norms with √(d'β)."""
        return column_sums(error) <= self.factor * radius


class ColumnClosedForm(ColumnBall):
    """YW19 (7), at the queried pair (E4): 2 C_ψ H √(dβ) · w, with d' for d where d' is larger (E1)."""

    name = "column-closed"
    summary = "the paper's closed form (7): bonus 2·C_ψ·H·√(dβ)·w"
    guarantee = True
    compiled_form = CompiledForm(norm=CONSTANT)

    @property
    def factor(self) -> float:
        """√d as printed; √d' where that is what the proof needs."""
        return math.sqrt(max(self.context.d, self.context.d_psi))

    def split(self, v: FloatArray) -> Split:
        """Return (0, v, 2 C_ψ H)."""
        scale = 2.0 * self.context.c_psi_columns * self.context.horizon
        return Split(np.zeros(len(v)), v, np.full(len(v), scale))


class PrintedColumnBall(SingleSet):
    """YW19 (5) as printed: the sum of row norms of A^{1/2}(M − M_n) at most √(dβ).

    Its exact maximum is φᵀM_n v + √(dβ) ‖A^{-1/2}φ‖_∞ ‖v‖₂. It holds M*, but the lemma that bounds its members,
    ‖φᵀ(M − M_n)‖₁ ≤ √(dβ) w, is false for it (E1).
    """

    name = "column-printed"
    summary = "the paper's ball B1 (5) as printed, with row norms: its lemma is false (E1)"
    guarantee = "the printed ball B1 sums row norms, and the lemma that bounds its members is false (erratum E1)"
    compiled_form = CompiledForm()
    reach_is_local = True

    def reach(
        self,
        design: PairDesign,
        radius: FloatArray,
        alarm_radius: FloatArray,  # noqa: ARG002
        slack: FloatArray | None,  # noqa: ARG002
    ) -> Reach:
        """Return √(dβ) · ‖A^{-1/2}φ‖_∞."""
        return Reach(math.sqrt(self.context.d) * radius * design.root_max_norms())

    def split(self, v: FloatArray) -> Split:
        """Return (0, v, ‖v‖₂)."""
        return Split(np.zeros(len(v)), v, np.sqrt(np.vecdot(v, v)))

    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Compare the sum of row norms with √(dβ)."""
        return column_sums(error.swapaxes(1, 2)) <= math.sqrt(self.context.d) * radius
