"""Map continuous states to coordinates: inducing points, scikit-learn transformers, tile coding, a Fourier basis."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from copy import copy, deepcopy
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from matrixrl.checks import fail, integer, number
from matrixrl.extras import naming_the_extra
from matrixrl.features.kernels import Kernel, check_gram
from matrixrl.records import FloatArray

__all__ = ["FourierBasis", "InducingMap", "StateMap", "TileCoding", "TransformerMap"]

_CHECKED = 60  # number of first states on which a kernel is checked
_ROUNDING = 1e-11  # residuals below this share of k(x, x) are rounding errors, and dividing by them is unstable


class StateMap(ABC):
    """Base class of maps z of scaled states to coordinates; z(x)ᵀz(y) approximates a kernel k(x, y).

    Shapes: n states of p scaled observations each, m coordinates.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """Current number of coordinates m."""

    @abstractmethod
    def coordinates(self, x: FloatArray) -> FloatArray:
        """Return z(x): (n, p) → (n, m)."""

    def residuals(self, x: FloatArray, z: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return k(x, x) − ‖z(x)‖² for states (n, p) and their coordinates (n, m): (n,)."""
        return np.zeros(len(x))

    def grow(self, x: FloatArray, z: FloatArray) -> FloatArray:  # noqa: ARG002
        """Adapt the map to new states (n, p) with coordinates (n, m); return their coordinates in the new map."""
        return z

    def restart(self) -> None:  # noqa: B027  # a map that does not depend on data has nothing to discard
        """Discard everything that was computed from data; called when the scale of the states changes."""

    def frozen(self) -> StateMap:
        """Return a map that gives the coordinates of now, whatever this one learns later."""
        return copy(self)

    def arrays(self) -> dict[str, FloatArray]:
        """Return the arrays that were computed from data, for saving."""
        return {}

    def restore(self, arrays: dict[str, FloatArray]) -> None:  # noqa: B027  # nor anything to restore
        """Restore the arrays that `arrays` returned."""


class InducingMap(StateMap):
    r"""Coordinates z(x) of a kernel on inducing points that are chosen from the states seen so far.

    The coordinates are \(z(x) = L^{-1} k(P, x)\) with \(k(P, P) = LL^\top\) and P the inducing points, so that
    z(x)ᵀz(y) = k(x, y) if x or y is one of them. The residual of x is \(k(x,x) - \|z(x)\|^2 \ge 0\), and
    |k(x,y) − z(x)ᵀz(y)| is at most the root of the product of the residuals of x and y. If all states are chosen, the
    kernel is represented exactly on them.

    Args:
        kernel: Kernel of scaled states.
        n_coordinates: Number of scaled observations p.
        budget: Largest number of inducing points.
        tolerance: Largest residual, relative to k(x, x), of a state that is not added. Residuals of the size of
            rounding errors are not added for any tolerance.

    Attributes:
        points: (m, p) Inducing points P.
        factor: (m, m) Cholesky factor L.
    """

    def __init__(self, kernel: Kernel, n_coordinates: int, *, budget: int = 400, tolerance: float = 1e-4) -> None:
        self._kernel, self._n = kernel, n_coordinates
        self._budget = integer("budget", budget, low=1, remedy="Try 400.")
        self._tolerance = number("tolerance", tolerance, low=0.0, high=1.0, remedy="Try 1e-4.")
        self.restart()

    def restart(self) -> None:
        self.points, self.factor = np.empty((0, self._n)), np.empty((0, 0))

    @property
    def size(self) -> int:
        """Number of inducing points m."""
        return len(self.points)

    def coordinates(self, x: FloatArray) -> FloatArray:
        """Return L⁻¹k(P, x): (n, p) → (n, m)."""
        if not self.size:
            return np.empty((len(x), 0))
        solved: FloatArray = solve_triangular(self.factor, self._kernel(self.points, x), lower=True, check_finite=False)
        return solved.T

    def residuals(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """Return max(k(x, x) − ‖z(x)‖², 0)."""
        found: FloatArray = np.maximum(self._kernel.diagonal(x) - np.vecdot(z, z), 0.0)
        return found

    def grow(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """Add the states with the largest residuals (Fine & Scheinberg 2001); check the kernel on the first states."""
        if not self.size and len(x):
            sample = x[: min(len(x), _CHECKED)]
            gram = check_gram(self._kernel.name, self._kernel(sample, sample))
            if not np.allclose(np.diagonal(gram), self._kernel.diagonal(sample), rtol=1e-6, atol=1e-12):
                rule = "must have the same k(x, x) in its diagonal as in its matrix"
                fail(self._kernel.name, rule, "a difference", "Leave noise out (WhiteKernel): the ridge replaces it.")
        size = self._kernel.diagonal(x)
        raw = size - np.vecdot(z, z)
        if (raw < -1e-6 * np.maximum(size, np.finfo(np.float64).tiny)).any():
            received = f"k(x, x) − ‖z(x)‖² = {raw.min():.3g}"
            fail("kernel", "must be positive semi-definite", received, "Use a kernel, such as 'rbf'.")
        residual = np.maximum(raw, 0.0)
        floor = np.maximum(self._tolerance, _ROUNDING) * size
        first = m = self.size
        chosen: list[int] = []
        pivots: list[float] = []
        while m < self._budget and len(x):
            excess = residual - floor
            i = int(excess.argmax())
            if excess[i] <= 0.0:
                break
            if m == z.shape[1]:  # room for twice as many, so that few copies are made
                z = np.hstack([z, np.zeros((len(x), min(max(m, 16), self._budget - m)))])
            pivot = float(np.sqrt(residual[i]))
            added = (self._kernel(x, x[i : i + 1])[:, 0] - z[:, :m] @ z[i, :m]) / pivot
            z[:, m] = added
            residual = np.maximum(residual - added * added, 0.0)
            residual[i] = 0.0
            chosen.append(i)
            pivots.append(pivot)
            m += 1
        if not chosen:
            return z
        larger = np.zeros((m, m))
        larger[:first, :first], larger[first:] = self.factor, np.tril(z[chosen, :m], first)
        larger[np.arange(first, m), np.arange(first, m)] = pivots
        self.factor = larger  # replaced, never changed in place, so that a copy of the map keeps its own
        self.points = np.vstack([self.points, x[chosen]])
        return np.ascontiguousarray(z[:, :m])

    def arrays(self) -> dict[str, FloatArray]:
        return {"points": self.points, "factor": self.factor}

    def restore(self, arrays: dict[str, FloatArray]) -> None:
        points, factor = arrays["points"], arrays["factor"]
        fits = points.ndim == 2 and points.shape[1] == self._n and factor.shape == (len(points),) * 2
        if not fits or points.dtype != np.float64 or factor.dtype != np.float64 or len(points) > self._budget:
            raise ValueError("the inducing points and their factor do not match")
        self.points, self.factor = points, factor


class TransformerMap(StateMap):
    """Coordinates computed by a scikit-learn transformer that is fitted to the first states.

    Args:
        transformer: Object with `fit` and `transform`, such as RBFSampler, Nystroem or a pipeline; it is cloned.
    """

    def __init__(self, transformer: Any) -> None:
        for method in ("fit", "transform"):
            if not callable(getattr(transformer, method, None)):
                fail("features", f"must have a method {method}", type(transformer).__name__, "Give a transformer.")
        if hasattr(transformer, "get_params"):
            with naming_the_extra("kernels", "a transformer with get_params"):
                from sklearn.base import clone  # imported here because it is slow to import, and optional

            self._transformer = clone(transformer)
        else:
            self._transformer = deepcopy(transformer)
        self._size = 0
        self._fitted: FloatArray | None = None

    @property
    def size(self) -> int:
        """Number of coordinates m; 0 before the transformer is fitted."""
        return self._size

    def coordinates(self, x: FloatArray) -> FloatArray:
        if not self._size:
            return np.empty((len(x), 0))
        found = self._transformer.transform(x)
        dense = np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64)
        if dense.shape != (len(x), self._size) or not np.isfinite(dense).all():
            received = f"shape {dense.shape}" if dense.shape != (len(x), self._size) else "NaN or infinity"
            fail("features", f"must transform {len(x)} states to finite numbers", received, "Check the transformer.")
        return dense

    def grow(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """Fit the transformer if it is not fitted yet; return the coordinates of the states."""
        if self._size:
            return z
        self._fit(x)
        return self.coordinates(x)

    def _fit(self, x: FloatArray) -> None:
        self._transformer.fit(x)
        self._size, self._fitted = int(self._transformer.transform(x[:1]).shape[1]), x

    def restart(self) -> None:
        """Discard the fit; the next call of `grow` fits again."""
        self._size, self._fitted = 0, None

    def frozen(self) -> TransformerMap:
        """Return a map with a transformer of its own: refitting changes the other one."""
        same = copy(self)
        same._transformer = deepcopy(self._transformer)
        return same

    def arrays(self) -> dict[str, FloatArray]:
        return {} if self._fitted is None else {"fitted": self._fitted}

    def restore(self, arrays: dict[str, FloatArray]) -> None:
        self.restart()
        if "fitted" in arrays:
            if arrays["fitted"].ndim != 2 or arrays["fitted"].dtype != np.float64:
                raise ValueError("the states of the fit must be rows of numbers")
            self._fit(arrays["fitted"])


class FourierBasis(StateMap):
    """Cosines of all frequencies up to an order in every observation (Konidaris et al. 2011).

    Args:
        n_coordinates: Number of scaled observations p.
        order: Highest frequency; there are (order + 1)^p coordinates.

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
        """Number of coordinates, (order + 1)^p."""
        return len(self._frequencies)

    def coordinates(self, x: FloatArray) -> FloatArray:
        """Return cos(π c·x) / √m for all frequencies c, with x mapped from [-1, 1] to [0, 1]: (n, p) → (n, m)."""
        found: FloatArray = np.cos(np.pi * ((x + 1.0) / 2.0) @ self._frequencies.T) / np.sqrt(self.size)
        return found


class TileCoding(StateMap):
    """Indicators of the tiles of several grids that are shifted against each other (Sutton & Barto 2018, section 9.5).

    Args:
        n_coordinates: Number of scaled observations p.
        tiles: Tiles along each observation.
        tilings: Number of grids.

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
        """Number of coordinates, tilings · (tiles + 1)^p."""
        return int(self._tilings * (self._tiles + 1) ** self._n)

    def coordinates(self, x: FloatArray) -> FloatArray:
        """Return 1/√tilings at one tile of each grid, 0 elsewhere: (n, p) → (n, m)."""
        out = np.zeros((len(x), self.size))
        side = self._tiles + 1
        position = np.clip((x + 1.0) / 2.0, 0.0, 1.0) * self._tiles
        for t in range(self._tilings):
            cell = np.minimum((position + t / self._tilings).astype(np.int64), self._tiles)
            index = np.ravel_multi_index(tuple(cell.T), (side,) * self._n)
            out[np.arange(len(x)), t * side**self._n + index] = 1.0 / np.sqrt(self._tilings)
        return out
