"""Batched learners behind one protocol: MatrixRL, its continuous form and the baselines.

MatrixRL is imported with the package, the others when they are first used.
"""

from typing import TYPE_CHECKING

from matrixrl.algorithms.base import Algorithm
from matrixrl.algorithms.finite import FiniteAlgorithm
from matrixrl.algorithms.matrix_rl import PRESETS, MatrixRLSettings, UCMatrixRL
from matrixrl.algorithms.matrix_rl.kernel import KernelStarter, Startable
from matrixrl.algorithms.registry import make_algorithm
from matrixrl.extras import later_names
from matrixrl.records import Plan, Steps

if TYPE_CHECKING:
    from matrixrl.algorithms.baselines import BASELINES
    from matrixrl.algorithms.continuous import ContinuousMatrixRL, ContinuousSettings
    from matrixrl.algorithms.control import ContinuousControl, ControlSettings
    from matrixrl.algorithms.matrix_rl.doubling import DoublingMatrixRL
    from matrixrl.algorithms.named import ALGORITHMS

__all__ = [
    "ALGORITHMS",
    "BASELINES",
    "PRESETS",
    "Algorithm",
    "ContinuousControl",
    "ContinuousMatrixRL",
    "ContinuousSettings",
    "ControlSettings",
    "DoublingMatrixRL",
    "FiniteAlgorithm",
    "KernelStarter",
    "MatrixRLSettings",
    "Plan",
    "Startable",
    "Steps",
    "UCMatrixRL",
    "make_algorithm",
]

__getattr__ = later_names(
    __name__,
    {
        **{"ALGORITHMS": "named", "BASELINES": "baselines", "DoublingMatrixRL": "matrix_rl.doubling"},
        **{"ContinuousMatrixRL": "continuous", "ContinuousSettings": "continuous"},
        **{"ContinuousControl": "control", "ControlSettings": "control"},
    },
)
