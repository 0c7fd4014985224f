"""Agents: the paper's algorithm behind one protocol."""

from matrixrl.agents.continuous import KernelMatrixRL
from matrixrl.agents.kernel_finite import FiniteKernelMatrixRL, kernel_features_of
from matrixrl.agents.matrix_rl import MatrixRL
from matrixrl.algorithms.baselines import BASELINES
from matrixrl.algorithms.continuous.settings import ContinuousSettings
from matrixrl.algorithms.engines import make_engine
from matrixrl.algorithms.matrix_rl.finite import MatrixRLEngine
from matrixrl.algorithms.matrix_rl.half_width_table import HalfWidthTable, why_not_by_visits
from matrixrl.algorithms.matrix_rl.sampled import ColumnEngine
from matrixrl.algorithms.matrix_rl.settings import PRESETS, MatrixRLSettings

AGENTS: dict[str, type[MatrixRL] | type[KernelMatrixRL]] = {
    MatrixRL.name: MatrixRL,
    KernelMatrixRL.name: KernelMatrixRL,
}
"""Our agents by the name used on the command line."""

__all__ = [
    "AGENTS",
    "BASELINES",
    "PRESETS",
    "ColumnEngine",
    "ContinuousSettings",
    "FiniteKernelMatrixRL",
    "HalfWidthTable",
    "KernelMatrixRL",
    "MatrixRL",
    "MatrixRLEngine",
    "MatrixRLSettings",
    "kernel_features_of",
    "make_engine",
    "why_not_by_visits",
]
