"""ContinuousControl: planning in a kernel model of the dynamics."""

from matrixrl.algorithms.control.algorithm import ContinuousControl
from matrixrl.algorithms.control.planner import ControlSettings

__all__ = ["ContinuousControl", "ControlSettings"]
