r"""Confidence sets around M_n, as the largest and smallest value that a member can give to a pair.

Every set here answers in one form, which is what makes planning fast: for v = Ψᵀ V,

.. math:: \max_M \phi^\top M v = \text{shift} + \phi^\top M_n \text{direction} + \text{scale}\cdot\text{reach}

where shift, direction and scale depend on v only (`split`, once a stage) and reach on the pair only (`reach`,
once a plan). The smallest value has a minus before the last term. An intersection has several such members.
"""

from matrixrl.core.sets.base import CompiledForm, ConfidenceSet, Reach, SetContext, SingleSet, Split
from matrixrl.core.sets.normalised import Intersection, NormalisedBall, NormalisedColumnBall, chebyshev_centre
from matrixrl.core.sets.paper import (
    ColumnBall,
    ColumnClosedForm,
    FrobeniusBall,
    FrobeniusClosedForm,
    PrintedColumnBall,
)

__all__ = [
    "SETS",
    "ColumnBall",
    "ColumnClosedForm",
    "CompiledForm",
    "ConfidenceSet",
    "FrobeniusBall",
    "FrobeniusClosedForm",
    "Intersection",
    "NormalisedBall",
    "NormalisedColumnBall",
    "PrintedColumnBall",
    "Reach",
    "SetContext",
    "SingleSet",
    "Split",
    "chebyshev_centre",
]

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
