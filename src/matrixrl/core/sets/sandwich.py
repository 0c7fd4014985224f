"""The sandwich: bounds on V* from both sides for unknown next-state measures (docs/proofs.md, section 10)."""

from __future__ import annotations

from typing import Any, ClassVar

from matrixrl.checks import fail
from matrixrl.core.sets.base import OPERATOR_BALL, MatrixSet, SetContext, SingleSet
from matrixrl.core.sets.normalised import NormalisedBall
from matrixrl.records import BoolArray, FloatArray, Guarantee

__all__ = ["SANDWICH_SETS", "Sandwich", "SandwichOrBall"]


class Sandwich(MatrixSet):
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
    is_normalised = True
    guarantee = Guarantee(True)
    uses_ball: ClassVar[bool] = False
    """Whether the bounds on V* are the tighter ones of sandwich and ball, else those of the sandwich."""

    def __init__(self, ball: SingleSet | None = None, **constants: Any) -> None:
        super().__init__(**constants)
        self._ball = NormalisedBall() if ball is None else ball
        if not isinstance(self._ball, SingleSet) or not self._ball.is_normalised:
            shown = getattr(self._ball, "name", repr(self._ball))
            fail("ball", "must be a normalised set", shown, "Such as NormalisedBall().")

    def bind(self, context: SetContext) -> Sandwich:
        """Return a copy of the set that is bound, with its ball, to a problem."""
        bound = super().bind(context)
        bound._ball = self._ball.bind(context)
        return bound

    @property
    def members(self) -> tuple[SingleSet, ...]:
        """The ball, which bounds the values of policies."""
        return (self._ball,)

    @property
    def shares(self) -> int:
        """Number of parts of δ: one for the ball, one for the sandwich."""
        return 2

    def contains(self, error: FloatArray, radius: FloatArray) -> BoolArray:
        """Return whether M is inside the ball; the sandwich itself is no set of matrices."""
        return self._ball.contains(error, radius)

    @property
    def surplus(self) -> float | None:
        """Factor (3/2 √S + 1/2) H of the larger one of the two radii (docs/proofs.md, section 10)."""
        if self._ball.event != OPERATOR_BALL:
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


SANDWICH_SETS: dict[str, type[Sandwich]] = {kind.name: kind for kind in (Sandwich, SandwichOrBall)}
"""Sandwiches by their names in Python and on the command line."""
