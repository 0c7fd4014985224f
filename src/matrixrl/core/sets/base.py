"""Base classes of confidence sets, their context, and the two parts of their bounds."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from matrixrl.checks import number
from matrixrl.core.radius import BlockRadius, Radius, as_radius, disown
from matrixrl.errors import ProtocolError
from matrixrl.linalg import PairDesign
from matrixrl.records import BoolArray, FloatArray, Guarantee, IntArray

if TYPE_CHECKING:
    from matrixrl.core.models import Model, ModelContext

__all__ = [
    "OPERATOR_BALL",
    "CompiledForm",
    "ConfidenceSet",
    "MatrixSet",
    "Reach",
    "SetContext",
    "SingleSet",
    "Split",
    "column_sums",
    "split_forms",
]

NOTHING, ALONG_U, MIDDLE = 0, 1, 2
TWO_NORM, LARGEST, CONSTANT = 0, 1, 2

OPERATOR_BALL = "‖A_n^{1/2}(M* − M_n)‖ <= √β"
"""Event of docs/proofs.md, section 3, in the operator norm: every set of the library relies on it and on no other."""


@dataclass(frozen=True, slots=True)
class SetContext:
    """Constants of the problem that a confidence set may use.

    Attributes:
        total: (d_psi,) Sum u = Ψᵀ1 of the features ψ over all states.
        d: Number of features φ.
        horizon: Number of steps H of an episode.
        c_psi: Constant C_ψ of Assumption 2' (‖ΨᵀV‖₂ <= C_ψ‖V‖_∞).
        c_psi_max_norm: Constant C_ψ of Assumption 2 (‖ΨᵀV‖_∞ <= C_ψ‖V‖_∞).
        total_sq: Squared norm ‖u‖₂².
    """

    total: FloatArray
    d: int
    horizon: int
    c_psi: float
    c_psi_max_norm: float
    total_sq: float = field(init=False)

    @property
    def d_psi(self) -> int:
        """Number of features ψ."""
        return len(self.total)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total_sq", float(self.total @ self.total))  # read once a stage


@dataclass(frozen=True, slots=True)
class Split:
    """The part of the bound that depends on v.

    Attributes:
        shift: (B,) Number that is added to the bound of every pair.
        direction: (B, d_psi) Vector that M_n is multiplied by.
        scale: (B,) Factor of the half-width of every pair.
    """

    shift: FloatArray
    direction: FloatArray
    scale: FloatArray


@dataclass(frozen=True, slots=True)
class Reach:
    """The part of the bound that depends on the pair.

    Attributes:
        half_width: (B, P) Largest change of φᵀMz over the set, for a vector z with scale 1.
        empty: (B, P) Whether the confidence set of a pair contains no probability distribution; None if none is empty.
        ball: (B, P) Half-width without the constraint φᵀMu = 1; None if `empty` is None.
    """

    half_width: FloatArray
    empty: BoolArray | None = None
    ball: FloatArray | None = None

    def only(self, pairs: BoolArray) -> Reach:
        """Return the same part of the bound, with empty sets only among some pairs (P,)."""
        if self.empty is None:
            return self
        empty = self.empty & pairs
        return Reach(self.half_width, empty, self.ball) if empty.any() else Reach(self.half_width)

    def at(self, pairs: IntArray) -> Reach:
        """Return the same part of the bound of some pairs (k,) alone."""
        half_width = self.half_width[:, pairs]
        if self.empty is None or self.ball is None:
            return Reach(half_width)
        return Reach(half_width, self.empty[:, pairs], self.ball[:, pairs])


class CompiledForm(NamedTuple):
    """Description of `SingleSet.split` for the compiled backup: shift c, direction v − cu, scale ‖v − cu‖.

    Attributes:
        centre: Choice of c: 0 (NOTHING), uᵀv/‖u‖² (ALONG_U), or the middle of the range of v/u for constant u (MIDDLE).
        norm: Choice of the norm: two-norm (TWO_NORM), largest absolute entry (LARGEST), or a scale that does not depend
            on v (CONSTANT).
    """

    centre: int = NOTHING
    norm: int = TWO_NORM


class ConfidenceSet(ABC):
    """Base class of confidence sets: what the truth may still be, given the data.

    A set is an object with its radius and constants, ``NormalisedBall(ridge=0.5)``, and makes the model that keeps the
    data it needs.

    Attributes:
        name: Name of the set in Python and on the command line.
        summary: One-line description for the command line.
        guarantee: Whether the bound is proven, for matrices for M* and all values in [−H, H] whenever the radius is
            valid. It is a claim about one class: a subclass makes its own.
    """

    name: ClassVar[str] = "own set"
    summary: ClassVar[str] = ""
    guarantee: ClassVar[Guarantee] = Guarantee(False, "the confidence set declares no proof")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        disown(cls, ConfidenceSet, "guarantee")

    @abstractmethod
    def make_model(self, context: ModelContext) -> Model:
        """Return a model without data that bounds Q over the set."""


class MatrixSet(ConfidenceSet):
    """Base class of sets of matrices M around M_n.

    `bind` returns a copy that has the `context` of a problem.

    Args:
        radius: Radius √β, an object or a name (matrixrl list radii), whatever the preset of the agent is. That of the
            preset by default, else `block`, the tightest proven one.
        ridge: λ of A_n = λI + Σ φφᵀ; every proof holds for any λ. With the constant radius it is counted in units of
            the largest ‖φ‖². That of the preset by default, else 1, as in the paper.
        c_core: C_M with ‖M*‖_F² <= C_M·d, if known; bounded from the features by default.

    Attributes:
        is_normalised: Whether the bound uses φᵀMu = 1, so that it may be clipped to [min V, max V].
    """

    is_normalised: ClassVar[bool] = False

    radius: Radius = BlockRadius()
    ridge: float = 1.0
    c_core: float | None = None
    _context: SetContext | None = None

    def __init__(
        self, *, radius: str | Radius | None = None, ridge: float | None = None, c_core: float | None = None
    ) -> None:
        if radius is not None:
            self.radius = as_radius("radius", radius)
        if ridge is not None:
            self.ridge = number("ridge", ridge, low=0.0, open_ends=True, remedy="Try 1.")
        if c_core is not None:
            self.c_core = number("c_core", c_core, low=0.0, open_ends=True, remedy="Leave it out.")

    def make_model(self, context: ModelContext) -> Model:
        from matrixrl.core.models import RidgeModel  # which needs this class

        return RidgeModel(self, context)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        disown(cls, MatrixSet, "surplus")

    @property
    def context(self) -> SetContext:
        """Constants of the problem that the set is bound to."""
        if self._context is None:
            raise ProtocolError(f"the set {self.name!r} is not bound to a problem; call bind(context) first")
        return self._context

    def bind(self, context: SetContext) -> Self:
        """Return a copy of the set that is bound to a problem."""
        bound = copy.copy(self)
        bound._context = context
        return bound

    @property
    def surplus(self) -> float | None:
        """Factor k with U − φᵀM*v ≤ k √β w for all V in [0, H] if M* is in the set; None if none is declared.

        U is the upper bound on φᵀMv. The explicit regret bound is proportional to k (docs/proofs.md, section 7).
        """
        return None

    @property
    @abstractmethod
    def members(self) -> tuple[SingleSet, ...]:
        """Sets whose tightest bound is used: the set itself, or the members of an intersection."""

    @property
    def shares(self) -> int:
        """Number of parts that δ is divided into: the number of different events that the members rely on."""
        return len({member.event or type(member) for member in self.members})

    @abstractmethod
    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        r"""Return whether M is inside the set of each replica (B,): A_n^{1/2}(M − M_n) (B, d, d_psi), √β (B,)."""


class SingleSet(MatrixSet):
    """Base class of sets whose bound consists of shift, direction, scale and reach.

    Attributes:
        compiled_form: Description of `split` for the compiled backup, or None if there is no such description; planning
            then uses NumPy.
        reach_is_local: Whether, with one-hot features, `reach` of a pair depends on its own visits only, so that
            compiled episodes may tabulate it.
        event: Event on which the bound holds. Members of an intersection that rely on one event hold together, so they
            share its part of δ. Empty for an event of its own.
    """

    compiled_form: ClassVar[CompiledForm | None] = None
    reach_is_local: ClassVar[bool] = False
    event: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        disown(cls, SingleSet, "compiled_form", "reach_is_local", "event")

    @property
    def members(self) -> tuple[SingleSet, ...]:
        return (self,)

    @abstractmethod
    def reach(
        self, design: PairDesign, radius: FloatArray, alarm_radius: FloatArray, slack: FloatArray | None
    ) -> Reach:
        """Return the part of the bound that depends on the pair.

        Args:
            design: A_n with the widths of the pairs.
            radius: (B, 1) or (B, P) Radius √β, multiplied by `exploration`.
            alarm_radius: (B, 1) or (B, P) Proven radius √β at which the misspecification alarm is raised.
            slack: (B, P) ε = 1 − φᵀM_n u for normalised sets, else None.
        """

    @abstractmethod
    def split(self, v: FloatArray) -> Split:
        """Return the part of the bound that depends on v (B, d_psi)."""


def split_forms(members: tuple[SingleSet, ...]) -> tuple[IntArray, IntArray, FloatArray]:
    """Return centre, norm and constant scale of the m members of a set, each (m,), for the compiled backup."""
    forms = [member.compiled_form for member in members]
    nothing = np.zeros((1, members[0].context.d_psi))
    return (
        np.array([form.centre for form in forms if form is not None]),
        np.array([form.norm for form in forms if form is not None]),
        np.array([float(member.split(nothing).scale[0]) for member in members]),  # 0 unless the scale is a constant
    )


def column_sums(error: FloatArray) -> FloatArray:
    """Return the sum (B,) of the column norms of each matrix (B, d, d_psi)."""
    sums: FloatArray = np.sqrt((error * error).sum(axis=1)).sum(axis=1)
    return sums
