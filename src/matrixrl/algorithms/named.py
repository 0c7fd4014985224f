"""Every algorithm of the library; a module of its own, because it imports them all."""

from __future__ import annotations

from matrixrl.algorithms.base import Algorithm
from matrixrl.algorithms.baselines import BASELINES
from matrixrl.algorithms.continuous import ContinuousMatrixRL
from matrixrl.algorithms.control import ContinuousControl
from matrixrl.algorithms.matrix_rl import SampledMatrixRL, UCMatrixRL
from matrixrl.algorithms.matrix_rl.doubling import DoublingMatrixRL
from matrixrl.algorithms.matrix_rl.kernel import FiniteKernelMatrixRL, KernelStarter, Startable
from matrixrl.references import code_of

__all__ = ["ALGORITHMS", "CLASSES"]

ALGORITHMS: dict[str, type[Startable]] = {
    UCMatrixRL.name: UCMatrixRL,
    DoublingMatrixRL.name: DoublingMatrixRL,
    KernelStarter.name: KernelStarter,
    ContinuousControl.name: ContinuousControl,
    **BASELINES,
}
"""Every algorithm by the name used on the command line and in specs."""

_FORMS: list[type[Algorithm]] = [UCMatrixRL, SampledMatrixRL, DoublingMatrixRL]
_FORMS += [FiniteKernelMatrixRL, ContinuousMatrixRL, ContinuousControl, *BASELINES.values()]
CLASSES = {code_of(form): form for form in _FORMS}
"""Every class of a started algorithm by ``package.module:Name``, as files name it."""
