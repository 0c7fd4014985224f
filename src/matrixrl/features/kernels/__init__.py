"""Kernels from functions, scikit-learn objects or names; scaling of observations to a common range."""

from matrixrl.features.kernels.actions import action_factor
from matrixrl.features.kernels.kernel import Kernel, as_kernel, check_gram
from matrixrl.features.kernels.scaling import ObservationScale

__all__ = ["Kernel", "ObservationScale", "action_factor", "as_kernel", "check_gram"]
