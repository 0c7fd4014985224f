"""Sets made of others: intersections, and the sandwich around V* (docs/proofs.md, section 10)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from matrixrl.checks import fail
from matrixrl.core.sets.balls import NormalisedBall, NormalisedColumnBall
from matrixrl.core.sets.base import OPERATOR_BALL, MatrixSet, SetContext, SingleSet
from matrixrl.records import BoolArray, FloatArray, Guarantee

__all__ = ["Intersection", "Sandwich", "SandwichOrBall"]


class _Combined(MatrixSet):
    """A set whose bounds are made of those of its members, which must be normalised."""

    _members: tuple[SingleSet, ...]
    is_normalised = True

    def __init__(self, argument: str, members: tuple[SingleSet, ...], **constants: Any) -> None:
        super().__init__(**constants)
        for member in members:
            if not isinstance(member, SingleSet) or not member.is_normalised:
                shown = getattr(member, "name", repr(member))
                fail(argument, "must be normalised", shown, "Such as NormalisedBall().")
        self._members = members

    def bind(self, context: SetContext) -> Self:
        bound = super().bind(context)
        bound._members = tuple(member.bind(context) for member in self._members)
        return bound

    @property
    def members(self) -> tuple[SingleSet, ...]:
        """Its members, with whose tightest bound the values of policies are bounded."""
        return self._members

    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Return whether M is inside all members; a sandwich itself is no set of matrices."""
        inside: BoolArray = np.logical_and.reduce([member.contains(error, radius) for member in self._members])
        return inside


class Intersection(_Combined):
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
    guarantee = Guarantee(True)

    def __init__(self, *members: SingleSet, **constants: Any) -> None:
        super().__init__("members", members or (NormalisedBall(), NormalisedColumnBall()), **constants)

    @property
    def surplus(self) -> float | None:
        """Smallest factor of the members: the tighter bound is used."""
        factors = [member.surplus for member in self._members]
        return min((factor for factor in factors if factor is not None), default=None)


class Sandwich(_Combined):
    """Lower and upper bounds on V* that are backed up together, for any φ with one-hot ψ.

    V*_2, …, V*_H are fixed functions, so a scalar regression bounds their expected next values without a factor that
    grows with the number of states. The bounds hold for V* only: the value of a policy is bounded from below by the
    ball. δ is divided between the event of the ball and that of the sandwich, so both hold together.

    Args:
        ball: Normalised set that bounds the values of policies; by default the normalised ball.
        constants: Radius, ridge and c_core, as in `MatrixSet`.

    >>> Sandwich().shares
    2
    """

    name = "sandwich"
    summary = "not in the paper: bounds on V* from both sides, at a radius for V* alone (any φ, one-hot ψ)"
    guarantee = Guarantee(True)
    uses_ball: ClassVar[bool] = False
    """Whether the bounds on V* are the tighter ones of sandwich and ball, else those of the sandwich."""

    def __init__(self, ball: SingleSet | None = None, **constants: Any) -> None:
        super().__init__("ball", (NormalisedBall() if ball is None else ball,), **constants)

    @property
    def shares(self) -> int:
        """Number of parts of δ: one for the ball, one for the sandwich."""
        return 2

    @property
    def surplus(self) -> float | None:
        """Factor (3/2 √S + 1/2) H of the larger one of the two radii (docs/proofs.md, section 10)."""
        if self._members[0].event != OPERATOR_BALL:
            return None
        return (1.5 * self.context.c_psi + 0.5) * self.context.horizon


class SandwichOrBall(Sandwich):
    """The tighter one of the bounds of the sandwich and of the ball, at every pair and stage.

    >>> SandwichOrBall().members[0].name
    'normalised'
    """

    name = "sandwich-or-ball"
    summary = "not in the paper: the tighter one of sandwich and normalised, at δ/2 each (any φ, one-hot ψ)"
    guarantee = Guarantee(True)
    uses_ball = True
    surplus = Sandwich.surplus
