"""The method of the paper: estimator, confidence sets, radii, constants, backward induction.

This package contains functions without side effects and frozen data only.
"""

from matrixrl.core.backup import (
    Frame,
    backward_induction,
    greedy_plan,
    optimal_plan,
    optimistic_plan,
    pessimistic_plan,
    pessimistic_values,
)
from matrixrl.core.belief import Belief, form_belief
from matrixrl.core.confidence import Clock, Confidence, Level
from matrixrl.core.estimator import core_matrix
from matrixrl.core.half_width_table import HalfWidthTable
from matrixrl.core.policy_bounds import PolicyBounds, PolicyIntervals, policy_bounds
from matrixrl.core.radius import RADII, BlockRadius, Radius, RadiusInputs
from matrixrl.core.regularity import Regularity, regularity
from matrixrl.core.reward import reward_bounds, reward_regularity
from matrixrl.core.sets import SANDWICH_SETS, SETS, ConfidenceSet, SetContext, SingleSet
from matrixrl.core.value_bounds import ValueBounds

__all__ = [
    "RADII",
    "SANDWICH_SETS",
    "SETS",
    "Belief",
    "BlockRadius",
    "Clock",
    "Confidence",
    "ConfidenceSet",
    "Frame",
    "HalfWidthTable",
    "Level",
    "PolicyBounds",
    "PolicyIntervals",
    "Radius",
    "RadiusInputs",
    "Regularity",
    "SetContext",
    "SingleSet",
    "ValueBounds",
    "backward_induction",
    "core_matrix",
    "form_belief",
    "greedy_plan",
    "optimal_plan",
    "optimistic_plan",
    "pessimistic_plan",
    "pessimistic_values",
    "policy_bounds",
    "regularity",
    "reward_bounds",
    "reward_regularity",
]
