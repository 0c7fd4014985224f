"""Kernels: functions, scikit-learn objects or names, checked; observations scaled to a common unit."""

from matrixrl.kernels.kernel import Kernel, as_kernel, check_gram
from matrixrl.kernels.scaling import ObservationScale

__all__ = ["Kernel", "ObservationScale", "as_kernel", "check_gram"]
