"""Models own data: what was seen in B replicas, and the bounds on Q that follow from it."""

from matrixrl.core.models.base import Model, ModelContext
from matrixrl.core.models.counts import CountModel
from matrixrl.core.models.outcomes import OutcomeModel
from matrixrl.core.models.ridge import RidgeModel, Visits, ridge_for
from matrixrl.core.models.sampled import ColumnEstimate, SampledModel, StateOracle

__all__ = [
    "ColumnEstimate",
    "CountModel",
    "Model",
    "ModelContext",
    "OutcomeModel",
    "RidgeModel",
    "SampledModel",
    "StateOracle",
    "Visits",
    "ridge_for",
]
