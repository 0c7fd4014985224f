"""UC-MatrixRL (YW19 Algorithm 1): on numbered states, on sampled columns, with kernels."""

from matrixrl.algorithms.matrix_rl.finite import UCMatrixRL, Visits
from matrixrl.algorithms.matrix_rl.indicator import IndicatorMatrixRL
from matrixrl.algorithms.matrix_rl.planner import FiniteMatrixRL
from matrixrl.algorithms.matrix_rl.sampled import SampledMatrixRL
from matrixrl.algorithms.matrix_rl.settings import PRESETS, MatrixRLSettings

__all__ = [
    "PRESETS",
    "FiniteMatrixRL",
    "IndicatorMatrixRL",
    "MatrixRLSettings",
    "SampledMatrixRL",
    "UCMatrixRL",
    "Visits",
]
