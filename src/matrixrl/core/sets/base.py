"""The contract of a confidence set: its context, and the two parts of its bound."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from matrixrl.errors import ProtocolError
from matrixrl.linalg import PairDesign
from matrixrl.records import BoolArray, FloatArray

__all__ = [
    "CompiledForm",
    "ConfidenceSet",
    "Reach",
    "SetContext",
    "SingleSet",
    "Split",
    "column_sums",
    "frobenius_norms",
    "widths",
]

NOTHING, ALONG_U, MIDDLE = 0, 1, 2
TWO_NORM, LARGEST, CONSTANT = 0, 1, 2

_PROOF_DEPENDS_ON = {"split", "reach", "members", "factor", "is_normalised", "shares"}


@dataclass(frozen=True, slots=True)
class SetContext:
    """What a set may know of the problem.

    Attributes:
        total: (d_psi,) u = Ψᵀ1.
        d: Number of features φ.
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

    @property
    def total_sq(self) -> float:
        """‖u‖₂²."""
        return float(self.total @ self.total)


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


class CompiledForm(NamedTuple):
    """The form of `split` that the compiled backup knows.

    Attributes:
        centre: What is taken from v: NOTHING, its share ALONG_U, or the MIDDLE of the range of v/u.
        norm: What is measured of the rest: its TWO_NORM, its LARGEST entry, or nothing (a CONSTANT scale).
    """

    centre: int = NOTHING
    norm: int = TWO_NORM


class ConfidenceSet(ABC):
    """A set of core matrices around M_n.

    A set is made without a problem, ``MySet()``, and bound to one by `bind`; only a bound set has a `context`.

    Attributes:
        is_normalised: Whether members give probabilities, so that bounds may be clipped to [min V, max V].
        guarantee: True if the set holds M* (or bounds what M* gives) whenever the radius does, else why not.
        shares: Number of parts that δ is divided into.
    """

    name: ClassVar[str] = "own set"
    summary: ClassVar[str] = ""
    is_normalised: ClassVar[bool] = False
    guarantee: ClassVar[Literal[True] | str] = "the confidence set declares no proof"
    shares: ClassVar[int] = 1

    _context: SetContext | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__dict__.keys() & _PROOF_DEPENDS_ON and "guarantee" not in cls.__dict__:
            cls.guarantee = ConfidenceSet.guarantee  # another bound needs a proof of its own

    @property
    def context(self) -> SetContext:
        """What the set knows of the problem that it is bound to."""
        if self._context is None:
            raise ProtocolError(f"the set {self.name!r} is not bound to a problem; call bind(context) first")
        return self._context

    def bind(self, context: SetContext) -> Self:
        """Return a copy of the set for one problem."""
        bound = copy.copy(self)
        bound._context = context
        return bound

    @property
    @abstractmethod
    def members(self) -> tuple[SingleSet, ...]:
        """The sets whose tightest bound counts: itself, except for an intersection."""

    @abstractmethod
    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Say whether M is inside, for error = A^{1/2}(M − M_n) of shape (B, d, d_psi) and radius √β (B,).

        Any matrix root of A will do, except for the printed column ball, which needs the symmetric one.
        """


class SingleSet(ConfidenceSet):
    """A set whose bound has the form of shift, direction, scale and reach.

    Attributes:
        compiled_form: The form of `split` for the compiled backup, or None if it has no such form; planning then
            uses NumPy. It belongs to the class that defines `split`: a subclass with another `split` starts without.
        reach_is_local: Whether, with one-hot features, `reach` of a pair depends on its own visits only, so that
            compiled episodes may tabulate it. It belongs to the class that defines `reach`, likewise.
    """

    compiled_form: ClassVar[CompiledForm | None] = None
    reach_is_local: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "split" in cls.__dict__ and "compiled_form" not in cls.__dict__:
            cls.compiled_form = None
        if "reach" in cls.__dict__ and "reach_is_local" not in cls.__dict__:
            cls.reach_is_local = False

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
            alarm_radius: (B, 1) or (B, P) a proven √β, at which the misspecification alarm is raised.
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
