"""Likelihood sets for indicator features: laws near the empirical one (docs/proofs.md, section 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from matrixrl.checks import flag
from matrixrl.core.sets.base import ConfidenceSet

if TYPE_CHECKING:
    from matrixrl.core.models import CountModel, ModelContext

__all__ = ["LIKELIHOOD_SETS", "LikelihoodSet", "ValueTargetedSet"]


class LikelihoodSet(ConfidenceSet):
    """Laws near the empirical one of each group of pairs, at the radius β_D, which holds for all values.

    Args:
        tuned: Explore with the part of β₁ that grows with the visits alone, without δ and the number of events: not
            proven. Certificates do not depend on it.

    Attributes:
        targeted: Whether upper bounds use the smaller of β₁ (for V* alone) and β_D (for all values), else β_D.
    """

    name = "likelihood"
    summary = "laws near the empirical one, at a radius for all values (indicator features)"
    targeted: ClassVar[bool] = False

    def __init__(self, *, tuned: bool = False) -> None:
        self.tuned = flag("tuned", tuned)

    def make_model(self, context: ModelContext) -> CountModel:
        """Return counts without data, with this set around their laws."""
        from matrixrl.core.models import CountModel  # which needs this class

        return CountModel(self, context)


class ValueTargetedSet(LikelihoodSet):
    """The likelihood set whose upper bounds use a radius for V* alone, β₁, wherever it is smaller."""

    name = "value-targeted"
    summary = "laws near the empirical one, at a radius for V* alone (indicator features)"
    targeted = True


LIKELIHOOD_SETS: dict[str, type[LikelihoodSet]] = {kind.name: kind for kind in (ValueTargetedSet, LikelihoodSet)}
"""Likelihood sets by their names in Python and on the command line."""
