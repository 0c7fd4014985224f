r"""Confidence sets around M_n, given by the largest and the smallest φᵀMv over the set.

Every set has a bound of the same form. For v = ΨᵀV,

.. math:: \max_M \phi^\top M v = \text{shift} + \phi^\top M_n \text{direction} + \text{scale}\cdot\text{reach},

where shift, direction and scale depend only on v (`split`, computed once per stage), and reach depends only on the pair
(`reach`, computed once per plan). The smallest value has a minus sign before the last term. An intersection has several
such bounds, one for each of its members.
"""

from matrixrl.core.sets.balls import (
    ColumnBall,
    ColumnClosedForm,
    FrobeniusBall,
    FrobeniusClosedForm,
    NormalisedBall,
    NormalisedColumnBall,
    PaperBall,
    WeightedBall,
    chebyshev_centre,
)
from matrixrl.core.sets.base import CompiledForm, ConfidenceSet, MatrixSet, Reach, SetContext, SingleSet, Split
from matrixrl.core.sets.combined import Intersection, Sandwich, SandwichOrBall
from matrixrl.core.sets.likelihood import LIKELIHOOD_SETS, LikelihoodConfidence, LikelihoodSet, ValueTargetedSet

__all__ = [
    "LIKELIHOOD_SETS",
    "SANDWICH_SETS",
    "SETS",
    "ColumnBall",
    "ColumnClosedForm",
    "CompiledForm",
    "ConfidenceSet",
    "FrobeniusBall",
    "FrobeniusClosedForm",
    "Intersection",
    "LikelihoodConfidence",
    "LikelihoodSet",
    "MatrixSet",
    "NormalisedBall",
    "NormalisedColumnBall",
    "PaperBall",
    "Reach",
    "Sandwich",
    "SandwichOrBall",
    "SetContext",
    "SingleSet",
    "Split",
    "ValueTargetedSet",
    "WeightedBall",
    "chebyshev_centre",
]

SETS: dict[str, type[MatrixSet]] = {
    kind.name: kind
    for kind in (
        NormalisedBall,
        WeightedBall,
        NormalisedColumnBall,
        Intersection,
        FrobeniusBall,
        FrobeniusClosedForm,
        ColumnBall,
        ColumnClosedForm,
    )
}
"""Sets of matrices by their names in Python and on the command line; `SANDWICH_SETS` has those that bound V* only."""

SANDWICH_SETS: dict[str, type[Sandwich]] = {kind.name: kind for kind in (Sandwich, SandwichOrBall)}
"""Sandwiches by their names in Python and on the command line."""
