"""The method of the paper: estimator, confidence sets, radii, constants, backward induction.

This package contains functions without side effects and frozen data only.
"""

from matrixrl.core.backup import (
    Frame,
    PolicyBounds,
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
from matrixrl.core.models import core_matrix
from matrixrl.core.radius import RADII, BlockRadius, Radius, RadiusInputs
from matrixrl.core.regularity import Regularity, regularity, reward_regularity
from matrixrl.core.rewards import reward_bounds
from matrixrl.core.sets import SANDWICH_SETS, SETS, ConfidenceSet, MatrixSet, SetContext, SingleSet

__all__ = [
    "RADII",
    "SANDWICH_SETS",
    "SETS",
    "BlockRadius",
    "Clock",
    "Confidence",
    "ConfidenceSet",
    "Frame",
    "Level",
    "MatrixBounds",
    "MatrixSet",
    "PolicyBounds",
    "PolicyIntervals",
    "Radius",
    "RadiusInputs",
    "Regularity",
    "SandwichBounds",
    "SetContext",
    "SingleSet",
    "ValueBounds",
    "backward_induction",
    "core_matrix",
    "greedy_plan",
    "optimal_plan",
    "pessimistic_values",
    "policy_bounds",
    "regularity",
    "reward_bounds",
    "reward_regularity",
]
