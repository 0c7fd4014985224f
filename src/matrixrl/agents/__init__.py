"""Agents: the paper's algorithm behind one protocol."""

from matrixrl.agents.baselines import BASELINES
from matrixrl.agents.column_engine import ColumnEngine
from matrixrl.agents.control.agent import KernelMatrixRL
from matrixrl.agents.control.settings import ControlSettings
from matrixrl.agents.engine import MatrixRLEngine
from matrixrl.agents.engines import make_engine
from matrixrl.agents.kernel_finite import FiniteKernelMatrixRL, kernel_features_of
from matrixrl.agents.matrix_rl import MatrixRL
from matrixrl.agents.settings import PRESETS, MatrixRLSettings
from matrixrl.agents.visit_rules import VisitRules, why_not_by_visits

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
    "ControlSettings",
    "FiniteKernelMatrixRL",
    "KernelMatrixRL",
    "MatrixRL",
    "MatrixRLEngine",
    "MatrixRLSettings",
    "VisitRules",
    "kernel_features_of",
    "make_engine",
    "why_not_by_visits",
]
