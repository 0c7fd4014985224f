"""UC-MatrixRL (YW19 Algorithm 1): on numbered states, on sampled columns, with kernels."""

from matrixrl.algorithms.matrix_rl.algorithm import UCMatrixRL
from matrixrl.algorithms.matrix_rl.sampled import SampledMatrixRL
from matrixrl.algorithms.matrix_rl.settings import PRESETS, MatrixRLSettings

__all__ = ["PRESETS", "MatrixRLSettings", "SampledMatrixRL", "UCMatrixRL"]
