"""The paper: estimator, confidence sets, radii, regularity, optimistic backup. Pure functions and frozen data."""

from matrixrl.core.backup import optimistic_plan
from matrixrl.core.estimator import core_matrix
from matrixrl.core.radius import (
    RADII,
    ConstantRadius,
    Radius,
    RadiusInputs,
    SelfNormalisedRadius,
    TheoremRadius,
)
from matrixrl.core.regularity import Regularity, regularity
from matrixrl.core.sets import SETS, ConfidenceSet, FrobeniusBall, NormalisedBall, Reach, Split

__all__ = [
    "RADII",
    "SETS",
    "ConfidenceSet",
    "ConstantRadius",
    "FrobeniusBall",
    "NormalisedBall",
    "Radius",
    "RadiusInputs",
    "Reach",
    "Regularity",
    "SelfNormalisedRadius",
    "Split",
    "TheoremRadius",
    "core_matrix",
    "optimistic_plan",
    "regularity",
]
