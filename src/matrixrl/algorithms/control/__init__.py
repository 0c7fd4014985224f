"""ContinuousControl: planning in a kernel model of the dynamics."""

from matrixrl.algorithms.control.algorithm import ContinuousControl, ControlPlans
from matrixrl.algorithms.control.settings import ControlSettings

__all__ = ["ContinuousControl", "ControlPlans", "ControlSettings"]
