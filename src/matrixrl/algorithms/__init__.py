"""Batched learners behind one protocol: MatrixRL, its continuous form and the baselines."""

from matrixrl.algorithms.base import Algorithm
from matrixrl.algorithms.baselines import BASELINES
from matrixrl.algorithms.continuous import ContinuousMatrixRL, ContinuousSettings
from matrixrl.algorithms.control import ContinuousControl, ControlSettings
from matrixrl.algorithms.finite import FiniteAlgorithm
from matrixrl.algorithms.matrix_rl import PRESETS, MatrixRLSettings, UCMatrixRL
from matrixrl.algorithms.matrix_rl.doubling import DoublingMatrixRL
from matrixrl.algorithms.matrix_rl.kernel import KernelStarter, Startable
from matrixrl.algorithms.registry import ALGORITHMS, make_algorithm
from matrixrl.records import Plan, Steps

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
