"""The paper: estimator, confidence sets, radii, regularity, optimistic backup. Pure functions, frozen data."""

from matrixrl.core.backup import Belief, form_belief, optimistic_plan, pessimistic_values
from matrixrl.core.estimator import core_matrix
from matrixrl.core.radius import RADII, BlockRadius, Radius, RadiusInputs
from matrixrl.core.regularity import Regularity, regularity
from matrixrl.core.reward import reward_bounds, reward_regularity
from matrixrl.core.sets import SETS, ConfidenceSet, SetContext

__all__ = [
    "RADII",
    "SETS",
    "Belief",
    "BlockRadius",
    "ConfidenceSet",
    "Radius",
    "RadiusInputs",
    "Regularity",
    "SetContext",
    "core_matrix",
    "form_belief",
    "optimistic_plan",
    "pessimistic_values",
    "regularity",
    "reward_bounds",
    "reward_regularity",
]
