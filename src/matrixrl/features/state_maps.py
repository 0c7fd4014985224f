"""Coordinates of continuous states: inducing points of a kernel, scikit-learn transformers, tiles, a Fourier basis."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from copy import copy, deepcopy
from typing import Any

import numpy as np

from matrixrl.checks import fail, integer
from matrixrl.features.kernels import Kernel, check_gram
from matrixrl.linalg import InducingFactor
from matrixrl.records import FloatArray

__all__ = ["FourierBasis", "InducingMap", "StateMap", "TileCoding", "TransformerMap"]


_CHECKED = 60  # of the first states: enough to catch a kernel that is none


class StateMap(ABC):
    """Maps scaled states (n, p) to coordinates (n, m); k(x, y) is about z(x)ᵀz(y)."""

    @property
    @abstractmethod
    def size(self) -> int:
        """m, at the moment."""

    @abstractmethod
    def coordinates(self, x: FloatArray) -> FloatArray:
        """Return z of states (n, p): (n, m)."""

    def residuals(self, x: FloatArray, z: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return how much of k(x, x) the coordinates miss: (n,)."""
        return np.zeros(len(x))

    def grow(self, x: FloatArray, z: FloatArray) -> FloatArray:  # noqa: ARG002
        """Take note of new states; return their coordinates, which may have become longer."""
        return z

    def restart(self) -> None:  # noqa: B027  # a fixed map has nothing to forget
        """Forget what was chosen from data, because the unit of the states changed."""

    def frozen(self) -> StateMap:
        """Return a map that gives the coordinates of now, whatever this one learns later."""
        return copy(self)

    def arrays(self) -> dict[str, FloatArray]:
        """Return what was chosen from data, for saving."""
        return {}

    def restore(self, arrays: dict[str, FloatArray]) -> None:  # noqa: B027  # nor to take back
        """Take back what `arrays` returned."""


class InducingMap(StateMap):
    """A kernel on inducing points that are chosen as states come (the exact kernel, if all of them are chosen)."""

    def __init__(self, kernel: Kernel, n_coordinates: int, *, budget: int = 400, tolerance: float = 1e-4) -> None:
        self._kernel, self._n = kernel, n_coordinates
        self._budget, self._tolerance = budget, tolerance
        self.restart()

    def restart(self) -> None:
        """Forget the points."""
        self.factor = InducingFactor(
            self._kernel, self._kernel.diagonal, self._n, budget=self._budget, tolerance=self._tolerance
        )

    @property
    def size(self) -> int:
        """How many inducing points there are."""
        return self.factor.size

    def coordinates(self, x: FloatArray) -> FloatArray:
        """Return L⁻¹k(P, x)."""
        return self.factor.coordinates(x)

    def residuals(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """Return k(x, x) − ‖z(x)‖²."""
        return self.factor.residuals(x, z)

    def grow(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """Add states where the residual is largest; the first ones show whether the kernel is one."""
        if not self.factor.size and len(x):
            sample = x[: min(len(x), _CHECKED)]
            gram = check_gram(self._kernel.name, self._kernel(sample, sample))
            if not np.allclose(np.diagonal(gram), self._kernel.diagonal(sample), rtol=1e-6, atol=1e-12):
                rule = "must have the same k(x, x) in its diagonal as in its matrix"
                fail(self._kernel.name, rule, "a difference", "Leave noise out (WhiteKernel): the ridge stands for it.")
        return self.factor.grow(x, z)[0]

    def frozen(self) -> InducingMap:
        """Return a map on the points of now; points are replaced as they grow, never changed in place."""
        same = copy(self)
        same.factor = copy(self.factor)
        return same

    def arrays(self) -> dict[str, FloatArray]:
        """Return points and factor."""
        return {"points": self.factor.points, "factor": self.factor.factor}

    def restore(self, arrays: dict[str, FloatArray]) -> None:
        """Take back points and factor."""
        self.restart()
        points, factor = arrays["points"], arrays["factor"]
        fits = points.ndim == 2 and points.shape[1] == self._n and factor.shape == (len(points),) * 2
        if not fits or len(points) > self._budget or (np.diagonal(factor) <= 0.0).any():
            raise ValueError("the inducing points and their factor do not belong together")
        self.factor.points, self.factor.factor = points, factor


class TransformerMap(StateMap):
    """Any scikit-learn transformer (RBFSampler, Nystroem, a pipeline), fitted to the first states."""

    def __init__(self, transformer: Any) -> None:
        from sklearn.base import clone  # slow to import, so only where it is used

        for method in ("fit", "transform"):
            if not callable(getattr(transformer, method, None)):
                fail("features", f"must have a method {method}", type(transformer).__name__, "Give a transformer.")
        self._transformer = clone(transformer) if hasattr(transformer, "get_params") else deepcopy(transformer)
        self._size = 0
        self._fitted: FloatArray | None = None

    @property
    def size(self) -> int:
        """m; 0 before the first states."""
        return self._size

    def coordinates(self, x: FloatArray) -> FloatArray:
        """Return the transformed states."""
        if not self._size:
            return np.empty((len(x), 0))
        found = self._transformer.transform(x)
        dense = np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64)
        if dense.shape != (len(x), self._size) or not np.isfinite(dense).all():
            received = f"shape {dense.shape}" if dense.shape != (len(x), self._size) else "NaN or infinity"
            fail("features", f"must transform {len(x)} states to finite numbers", received, "Check the transformer.")
        return dense

    def grow(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """Fit to the first states that come."""
        if self._size:
            return z
        self._fit(x)
        return self.coordinates(x)

    def _fit(self, x: FloatArray) -> None:
        self._transformer.fit(x)
        self._size, self._fitted = int(self._transformer.transform(x[:1]).shape[1]), x

    def restart(self) -> None:
        """Fit again to the states in their new unit."""
        self._size, self._fitted = 0, None

    def frozen(self) -> TransformerMap:
        """Return a map with a transformer of its own: refitting changes the other one."""
        same = copy(self)
        same._transformer = deepcopy(self._transformer)
        return same

    def arrays(self) -> dict[str, FloatArray]:
        """Return the states it was fitted to: fitting to them again gives the same, if its random_state is fixed."""
        return {} if self._fitted is None else {"fitted": self._fitted}

    def restore(self, arrays: dict[str, FloatArray]) -> None:
        """Fit again to the states that `arrays` returned."""
        self.restart()
        if "fitted" in arrays:
            self._fit(arrays["fitted"])


class FourierBasis(StateMap):
    """Cosines of all frequencies up to an order in every coordinate (Konidaris et al. 2011): (order + 1)^p of them.

    >>> FourierBasis(2, order=3).size
    16
    """

    def __init__(self, n_coordinates: int, *, order: int = 3) -> None:
        top = integer("order", order, low=0, remedy="Try 3.")
        if (top + 1) ** n_coordinates > 10_000:
            count = f"{(top + 1) ** n_coordinates:,} features"
            fail("order", "must give at most 10,000 features", count, "Lower it, or use inducing points.")
        self._frequencies = np.array(list(itertools.product(range(top + 1), repeat=n_coordinates)), dtype=np.float64)

    @property
    def size(self) -> int:
        """(order + 1)^p."""
        return len(self._frequencies)

    def coordinates(self, x: FloatArray) -> FloatArray:
        """Return cos(π c·x) with x mapped from [-1, 1] to [0, 1], scaled to norm about one."""
        found: FloatArray = np.cos(np.pi * ((x + 1.0) / 2.0) @ self._frequencies.T) / np.sqrt(self.size)
        return found


class TileCoding(StateMap):
    """Overlapping grids, each shifted against the others; a state belongs to one tile of each.

    >>> TileCoding(2, tiles=4, tilings=3).coordinates(np.zeros((1, 2))).sum().round(6)
    np.float64(1.732051)
    """

    def __init__(self, n_coordinates: int, *, tiles: int = 8, tilings: int = 8) -> None:
        self._tiles = integer("tiles", tiles, low=1, remedy="Try 8.")
        self._tilings = integer("tilings", tilings, low=1, remedy="Try 8.")
        self._n = n_coordinates
        if self._tilings * (self._tiles + 1) ** n_coordinates > 20_000:
            count = f"{self._tilings * (self._tiles + 1) ** n_coordinates:,} tiles"
            fail("tiles", "must give at most 20,000 tiles", count, "Use fewer, or inducing points.")

    @property
    def size(self) -> int:
        """Tilings · (tiles + 1)^p."""
        return int(self._tilings * (self._tiles + 1) ** self._n)

    def coordinates(self, x: FloatArray) -> FloatArray:
        """Return 1/√tilings at the tile of each tiling, 0 elsewhere."""
        out = np.zeros((len(x), self.size))
        side = self._tiles + 1
        place = np.clip((x + 1.0) / 2.0, 0.0, 1.0) * self._tiles
        for t in range(self._tilings):
            cell = np.minimum((place + t / self._tilings).astype(np.int64), self._tiles)
            index = np.ravel_multi_index(tuple(cell.T), (side,) * self._n)
            out[np.arange(len(x)), t * side**self._n + index] = 1.0 / np.sqrt(self._tilings)
        return out
