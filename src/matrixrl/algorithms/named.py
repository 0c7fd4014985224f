"""Every algorithm of the library; a module of its own, because it imports them all."""

from __future__ import annotations

from matrixrl.algorithms.baselines import BASELINES
from matrixrl.algorithms.control import ContinuousControl
from matrixrl.algorithms.matrix_rl import UCMatrixRL
from matrixrl.algorithms.matrix_rl.doubling import DoublingMatrixRL
from matrixrl.algorithms.matrix_rl.kernel import KernelStarter, Startable

__all__ = ["ALGORITHMS"]

ALGORITHMS: dict[str, type[Startable]] = {
    **{kind.name: kind for kind in (UCMatrixRL, DoublingMatrixRL, KernelStarter, ContinuousControl)},
    **BASELINES,
}
"""Every algorithm by the name used on the command line and in specs."""
