"""KernelMatrixRL on vectors (YW19 Algorithm 2 around an optimistic centre)."""

from matrixrl.algorithms.continuous.algorithm import ContinuousMatrixRL, ContinuousPlans
from matrixrl.algorithms.continuous.settings import ContinuousSettings

__all__ = ["ContinuousMatrixRL", "ContinuousPlans", "ContinuousSettings"]
