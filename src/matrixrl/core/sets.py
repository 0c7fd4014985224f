r"""Confidence sets around M_n, as the largest and smallest value that a member can give to a pair.

Every set here answers in one form, which is what makes planning fast: for v = Ψᵀ V,

.. math:: \max_M \phi^\top M v = \text{shift} + \phi^\top M_n \text{direction} + \text{scale}\cdot\text{reach}

where shift, direction and scale depend on v only (`split`, once a stage) and reach on the pair only (`reach`,
once a plan). The smallest value has a minus before the last term. An intersection has several such members.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from matrixrl.linalg import PairDesign
from matrixrl.records import BoolArray, FloatArray
from matrixrl.tolerances import EMPTY_SET

__all__ = [
    "SETS",
    "ColumnBall",
    "ColumnClosedForm",
    "ConfidenceSet",
    "FrobeniusBall",
    "FrobeniusClosedForm",
    "Intersection",
    "NormalisedBall",
    "NormalisedColumnBall",
    "PrintedColumnBall",
    "Reach",
    "SetContext",
    "Split",
]


@dataclass(frozen=True, slots=True)
class SetContext:
    """What a set may know of the problem.

    Attributes:
        total: (d_psi,) u = Ψᵀ1.
        d: number of features φ.
        horizon: H.
        c_psi: C_ψ of Assumption 2' (‖Ψᵀv‖₂ <= C_ψ‖v‖_∞).
        c_psi_columns: C_ψ of Assumption 2 (‖Ψᵀv‖_∞ <= C_ψ‖v‖_∞).
    """

    total: FloatArray
    d: int
    horizon: int
    c_psi: float
    c_psi_columns: float

    @property
    def d_psi(self) -> int:
        """Number of features ψ."""
        return len(self.total)


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


class ConfidenceSet(ABC):
    """A set of cores around M_n.

    Attributes:
        is_normalised: whether members give probabilities, so that bounds may be clipped to [min V, max V].
        guarantee: True if the set holds M* (or bounds what M* gives) whenever the radius does, else why not.
        shares: how many parts δ is divided into.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    is_normalised: ClassVar[bool] = False
    guarantee: ClassVar[Literal[True] | str] = True
    shares: ClassVar[int] = 1

    def __init__(self, context: SetContext) -> None:
        self.context = context

    @property
    def members(self) -> tuple[ConfidenceSet, ...]:
        """The sets whose smallest bound counts: itself, but for an intersection."""
        return (self,)

    @abstractmethod
    def reach(
        self,
        design: PairDesign,
        radius: FloatArray,
        alarm_radius: FloatArray,
        slack: FloatArray | None,
    ) -> Reach:
        """Return the pair's part of the bound.

        Args:
            design: A_n with the widths of all pairs.
            radius: (B, 1) or (B, P) √β, as scaled by `exploration`.
            alarm_radius: (B, 1) or (B, P) a √β that is proven: the alarm is judged with it.
            slack: (B, P) ε = 1 − φᵀM_n u, for normalised sets.
        """

    @abstractmethod
    def split(self, v: FloatArray) -> Split:
        """Return the value's part of the bound for v (B, d_psi)."""

    @abstractmethod
    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Say whether M is inside, for error = A^{1/2}(M − M_n) of shape (B, d, d_psi) and radius √β (B,).

        Any matrix root of A will do but for the printed column ball, which needs the symmetric one.
        """


def _width(design: PairDesign) -> FloatArray:
    return np.sqrt(np.maximum(design.width_sq, 0.0))


def _frobenius(error: FloatArray) -> FloatArray:
    norms: FloatArray = np.sqrt((error * error).sum(axis=(1, 2)))
    return norms


def _column_sum(error: FloatArray) -> FloatArray:
    sums: FloatArray = np.sqrt((error * error).sum(axis=1)).sum(axis=1)
    return sums


class FrobeniusBall(ConfidenceSet):
    r"""YW19 (6), solved exactly: \(\max_M \phi^\top M v = \phi^\top M_n v + \sqrt\beta\, w\, \|v\|_2\).

    The ball of the same radius in the operator norm has the same maximum (docs/proofs.md, section 1).
    """

    name = "frobenius"
    summary = "the paper's ball B2 (6), maximised exactly"

    def reach(
        self,
        design: PairDesign,
        radius: FloatArray,
        alarm_radius: FloatArray,  # noqa: ARG002  # the paper's ball is never empty
        slack: FloatArray | None,  # noqa: ARG002
    ) -> Reach:
        """Return √β · w."""
        return Reach(radius * _width(design))

    def split(self, v: FloatArray) -> Split:
        """Return (0, v, ‖v‖₂)."""
        return Split(np.zeros(len(v)), v, np.sqrt(np.vecdot(v, v)))

    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Compare the Frobenius norm with √β."""
        return _frobenius(error) <= radius


class FrobeniusClosedForm(FrobeniusBall):
    """YW19 (8) with the factor H that its proof has (E2), at the queried pair (E4): 2 C_ψ H √β · w."""

    name = "frobenius-closed"
    summary = "the paper's closed form (8): bonus 2·C_ψ·H·√β·w"

    def split(self, v: FloatArray) -> Split:
        """Return (0, v, 2 C_ψ H)."""
        return Split(np.zeros(len(v)), v, np.full(len(v), 2.0 * self.context.c_psi * self.context.horizon))


class ColumnBall(ConfidenceSet):
    r"""YW19 (5) with column norms (E1), solved exactly: \(\phi^\top M_n v + \sqrt{d'\beta} w \|v\|_\infty\)."""

    name = "column"
    summary = "the paper's ball B1 (5) with column norms (E1), maximised exactly"

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
        return Reach(self.factor * radius * _width(design))

    def split(self, v: FloatArray) -> Split:
        """Return (0, v, ‖v‖_∞)."""
        return Split(np.zeros(len(v)), v, np.abs(v).max(axis=1))

    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Compare the sum of column norms with √(d'β)."""
        return _column_sum(error) <= self.factor * radius


class ColumnClosedForm(ColumnBall):
    """YW19 (7), at the queried pair (E4): 2 C_ψ H √(dβ) · w, with d' for d where d' is larger (E1)."""

    name = "column-closed"
    summary = "the paper's closed form (7): bonus 2·C_ψ·H·√(dβ)·w"

    @property
    def factor(self) -> float:
        """√d as printed; √d' where that is what the proof needs."""
        return math.sqrt(max(self.context.d, self.context.d_psi))

    def split(self, v: FloatArray) -> Split:
        """Return (0, v, 2 C_ψ H)."""
        scale = 2.0 * self.context.c_psi_columns * self.context.horizon
        return Split(np.zeros(len(v)), v, np.full(len(v), scale))


class PrintedColumnBall(ConfidenceSet):
    """YW19 (5) as printed: the sum of row norms of A^{1/2}(M − M_n) at most √(dβ).

    Its exact maximum is φᵀM_n v + √(dβ) ‖A^{-1/2}φ‖_∞ ‖v‖₂. It holds M*, but the lemma that bounds its members,
    ‖φᵀ(M − M_n)‖₁ ≤ √(dβ) w, is false for it (E1).
    """

    name = "column-printed"
    summary = "the paper's ball B1 (5) as printed, with row norms: its lemma is false (E1)"
    guarantee = "the printed ball B1 sums row norms, and the lemma that bounds its members is false (erratum E1)"

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
        return _column_sum(error.swapaxes(1, 2)) <= math.sqrt(self.context.d) * radius


class NormalisedBall(ConfidenceSet):
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

    def __init__(self, context: SetContext) -> None:
        super().__init__(context)
        self._u = context.total
        self._u_sq = float(context.total @ context.total)

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
        spent = slack * slack / self._u_sq
        empty = spent > alarm_radius * alarm_radius * (1.0 + EMPTY_SET) * width_sq
        half_width = np.sqrt(np.maximum(radius * radius * width_sq - spent, 0.0))
        if not empty.any():
            return Reach(half_width)
        return Reach(half_width, empty, slack, radius * _width(design))

    def split(self, v: FloatArray) -> Split:
        """Return (α, v⊥, ‖v⊥‖₂)."""
        alpha = (v @ self._u) / self._u_sq
        perpendicular = v - alpha[:, None] * self._u
        return Split(alpha, perpendicular, np.sqrt(np.vecdot(perpendicular, perpendicular)))

    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Compare the Frobenius norm with √β; that probabilities sum to one is a property of M alone."""
        return _frobenius(error) <= radius


class NormalisedColumnBall(ColumnBall):
    r"""The column ball for values centred at c·1: \(c\epsilon + \sqrt{d'\beta} w \|v - cu\|_\infty\), c the best.

    Since φᵀM*u = 1, adding c to V adds c to φᵀM*v, so any c gives a valid bound; the minimiser of ‖v − cu‖_∞ is
    taken (for one-hot ψ the middle of the range of V).
    """

    name = "normalised-column"
    summary = "ours: the column ball for values centred where ‖v − c·u‖_∞ is smallest"
    is_normalised = True

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
    shares = 2

    def __init__(self, context: SetContext) -> None:
        super().__init__(context)
        self._members = (NormalisedBall(context), NormalisedColumnBall(context))

    @property
    def members(self) -> tuple[ConfidenceSet, ...]:
        """The two sets."""
        return self._members

    def reach(
        self,
        design: PairDesign,
        radius: FloatArray,
        alarm_radius: FloatArray,
        slack: FloatArray | None,
    ) -> Reach:
        """Return the reach of the first member; planning asks each member."""
        return self._members[0].reach(design, radius, alarm_radius, slack)

    def split(self, v: FloatArray) -> Split:
        """Return the split of the first member; planning asks each member."""
        return self._members[0].split(v)

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


SETS: dict[str, type[ConfidenceSet]] = {
    kind.name: kind
    for kind in (
        NormalisedBall,
        NormalisedColumnBall,
        Intersection,
        FrobeniusBall,
        FrobeniusClosedForm,
        ColumnBall,
        ColumnClosedForm,
        PrintedColumnBall,
    )
}
"""Every set by the name used in Python and on the command line."""
