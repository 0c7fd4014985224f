"""What a confidence set is: its context, the two parts of its bound, its contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from matrixrl.linalg import PairDesign
from matrixrl.records import BoolArray, FloatArray

__all__ = ["ConfidenceSet", "Reach", "SetContext", "SingleSet", "Split", "column_sums", "frobenius_norms", "widths"]

NOTHING, ALONG_U, MIDDLE = 0, 1, 2
TWO_NORM, LARGEST, CONSTANT = 0, 1, 2


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
    @abstractmethod
    def members(self) -> tuple[SingleSet, ...]:
        """The sets whose tightest bound counts: itself, but for an intersection."""

    @abstractmethod
    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Say whether M is inside, for error = A^{1/2}(M − M_n) of shape (B, d, d_psi) and radius √β (B,).

        Any matrix root of A will do but for the printed column ball, which needs the symmetric one.
        """


class SingleSet(ConfidenceSet):
    """A set whose bound has the form of shift, direction, scale and reach.

    Attributes:
        centred: what `split` takes from v: NOTHING, its share ALONG_U, or the MIDDLE of the range of v/u.
        norm: what it measures of the rest: its TWO_NORM, its LARGEST entry, or nothing (a CONSTANT scale). Compiled
            loops go by these two, and tests hold `split` to them.
    """

    centred: ClassVar[int] = NOTHING
    norm: ClassVar[int] = TWO_NORM

    @property
    def members(self) -> tuple[SingleSet, ...]:
        """Itself."""
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


def widths(design: PairDesign) -> FloatArray:
    """Return w of every pair: (B, P)."""
    return np.sqrt(np.maximum(design.width_sq, 0.0))


def frobenius_norms(error: FloatArray) -> FloatArray:
    """Return the Frobenius norm of each matrix: (B, d, d_psi) → (B,)."""
    norms: FloatArray = np.sqrt((error * error).sum(axis=(1, 2)))
    return norms


def column_sums(error: FloatArray) -> FloatArray:
    """Return the sum of the column norms of each matrix: (B, d, d_psi) → (B,)."""
    sums: FloatArray = np.sqrt((error * error).sum(axis=1)).sum(axis=1)
    return sums
