"""KernelMatrixRL on vectors (YW19 Algorithm 2 around an optimistic centre)."""

from matrixrl.algorithms.continuous.algorithm import ContinuousMatrixRL, ContinuousSettings

__all__ = ["ContinuousMatrixRL", "ContinuousSettings"]
