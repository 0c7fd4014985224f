"""The method of the paper: estimator, confidence sets, radii, constants, backward induction."""

from matrixrl.core.backup import (
    Frame,
    PolicyIntervals,
    ValueBounds,
    backward_induction,
    greedy_plan,
    optimal_plan,
    pessimistic_values,
    policy_bounds,
)
from matrixrl.core.confidence import Clock, Confidence, Level
from matrixrl.core.matrix_bounds import MatrixBounds, SandwichBounds
from matrixrl.core.radius import RADII, Radius, RadiusInputs
from matrixrl.core.regularity import regularity, reward_regularity
from matrixrl.core.sets import SANDWICH_SETS, SETS, ConfidenceSet, MatrixSet, SetContext

__all__ = [
    "RADII",
    "SANDWICH_SETS",
    "SETS",
    "Clock",
    "Confidence",
    "ConfidenceSet",
    "Frame",
    "Level",
    "MatrixBounds",
    "MatrixSet",
    "PolicyIntervals",
    "Radius",
    "RadiusInputs",
    "SandwichBounds",
    "SetContext",
    "ValueBounds",
    "backward_induction",
    "greedy_plan",
    "optimal_plan",
    "pessimistic_values",
    "policy_bounds",
    "regularity",
    "reward_regularity",
]
