"""From settings to the map of states to coordinates."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from matrixrl.algorithms.continuous.settings import ContinuousSettings
from matrixrl.checks import fail
from matrixrl.features.kernels import as_kernel
from matrixrl.features.state_maps import FourierBasis, InducingMap, StateMap, TileCoding, TransformerMap

__all__ = ["make_state_map"]


def make_state_map(n_coordinates: int, settings: ContinuousSettings, seed: int) -> StateMap:
    """Return the representation of states that the settings ask for.

    Args:
        n_coordinates: Length p of an observation.
        settings: Settings of the agent.
        seed: Seed of random features.
    """
    kernel, transformer = settings.kernel, settings.transformer
    if transformer is not None:
        if kernel is not None:
            fail("transformer", "must not be given together with a kernel", "both", "Give one of them.")
        return deepcopy(transformer) if isinstance(transformer, StateMap) else TransformerMap(transformer)
    if kernel is not None and settings.features not in ("inducing", "nystroem"):
        fail("kernel", "is used by the features inducing and nystroem only", settings.features, "Leave one out.")
    size, scale = settings.budget, settings.length_scale
    if settings.features == "fourier-basis":
        return FourierBasis(n_coordinates)
    if settings.features == "tiles":
        return TileCoding(n_coordinates)
    if settings.features == "inducing":
        return InducingMap(_kernel(kernel, scale), n_coordinates, budget=size, tolerance=settings.tolerance)
    from sklearn.kernel_approximation import Nystroem, RBFSampler  # slow to import, so only where it is used

    gamma = 0.5 / scale**2
    if settings.features == "fourier":
        return TransformerMap(RBFSampler(gamma=gamma, n_components=size, random_state=seed % 2**32))
    if kernel is None:
        return TransformerMap(Nystroem(gamma=gamma, n_components=size, random_state=seed % 2**32))
    chosen = as_kernel(kernel)
    pair = lambda x, y: float(chosen(x[None], y[None])[0, 0])  # noqa: E731
    return TransformerMap(Nystroem(kernel=pair, n_components=size, random_state=seed % 2**32))


def _kernel(kernel: Any, length_scale: float) -> Any:
    if kernel is not None:
        return as_kernel(kernel)
    from sklearn.gaussian_process.kernels import RBF

    return as_kernel(RBF(length_scale))
