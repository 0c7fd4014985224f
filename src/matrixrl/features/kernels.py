"""Kernels of points: from functions, scikit-learn objects or names; radial kernels, length scales, scaled points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.spatial.distance import cdist

from matrixrl.checks import choice, fail, real_numbers, shown
from matrixrl.checks import function as check_function
from matrixrl.extras import naming_the_extra
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = [
    "PAIRWISE",
    "Kernel",
    "ObservationScale",
    "Prior",
    "action_factor",
    "as_kernel",
    "check_gram",
    "choose_pivots",
    "fit_length_scales",
    "leave_one_out",
    "matern_5_2",
    "negative_evidence",
    "rbf",
    "rbf_kernel",
    "squared_distances",
]

PAIRWISE = ("rbf", "linear", "polynomial", "laplacian", "cosine")
"""Names of kernels of scikit-learn's `pairwise_kernels` that need no further parameters."""

_ASYMMETRY = 1e-8  # relative to the largest entry: larger differences are not rounding errors
_NEGATIVE = 1e-8  # relative to the largest eigenvalue, likewise


class Kernel:
    """Kernel k(x, y) of points that checks the shape and finiteness of its values.

    Args:
        function: Function that maps points (n, p) and (m, p) to kernel values (n, m).
        name: Name of the kernel in error messages.
        diagonal: Function that maps points (n, p) to k(x, x), shape (n,); computed from `function` if None.
    """

    def __init__(
        self,
        function: Callable[[FloatArray, FloatArray], FloatArray],
        name: str,
        diagonal: Callable[[FloatArray], FloatArray] | None = None,
    ) -> None:
        self._function, self.name, self._diagonal = function, name, diagonal

    def __call__(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Return k(x_i, y_j): (n, p), (m, p) → (n, m)."""
        found = real_numbers(self._function(x, y))
        if found.shape != (len(x), len(y)):
            rule = f"must return shape {(len(x), len(y))} for {len(x)} and {len(y)} points"
            fail(self.name, rule, f"shape {found.shape}", "Return real numbers k(x_i, y_j) for all pairs.")
        if not np.isfinite(found).all():
            fail(self.name, "must be finite", "NaN or infinity", "Check the function and the scale of the points.")
        return found

    def diagonal(self, x: FloatArray) -> FloatArray:
        """Return k(x_i, x_i): (n, p) → (n,)."""
        if self._diagonal is None:
            return np.array([self(row[None], row[None])[0, 0] for row in x])
        found = real_numbers(self._diagonal(x))
        if found.shape != (len(x),) or not np.isfinite(found).all():
            rule = f"must have a diagonal of {len(x)} finite numbers"
            fail(self.name, rule, f"shape {found.shape}", "Leave diag out, or return k(x, x).")
        return found


def rbf_kernel(length_scale: float, argument: str = "kernel") -> Kernel:
    """Return the RBF kernel exp(−r²/2l²), equal to that of scikit-learn, which it does not need.

    >>> rbf_kernel(2.0)(np.zeros((1, 1)), np.array([[2.0]])).round(3)
    array([[0.607]])
    """

    def of_points(x: FloatArray, y: FloatArray) -> FloatArray:
        found: FloatArray = np.exp(-0.5 * cdist(x / length_scale, y / length_scale, metric="sqeuclidean"))
        return found

    return Kernel(of_points, argument, lambda x: np.ones(len(x)))


def as_kernel(value: Any, argument: str = "kernel") -> Kernel:
    """Return a kernel from a function, a scikit-learn kernel object or a name of `PAIRWISE`; RBF(1.0) if None.

    Args:
        value: Kernel, function of two arrays of points, scikit-learn kernel object, name, or None.
        argument: Name of the kernel in error messages.

    Raises:
        InvalidInput: `value` is neither callable nor a known name.

    >>> as_kernel("linear")(np.eye(2), np.ones((1, 2))).ravel()
    array([1., 1.])
    """
    if isinstance(value, Kernel):
        return value
    if value is None or (isinstance(value, str) and value == "rbf"):
        return rbf_kernel(1.0, argument)
    if isinstance(value, str):
        metric = choice(argument, value, PAIRWISE)
        with naming_the_extra("kernels", "a kernel"):
            from sklearn.metrics.pairwise import pairwise_kernels

        return Kernel(lambda x, y: pairwise_kernels(x, y, metric=metric), argument)
    if not callable(value) or isinstance(value, type):
        fail(argument, "must be a function, a scikit-learn kernel or a name", shown(value), "Try 'rbf'.")
    check_function(argument, value, of=2, remedy="It is called with two arrays of points.")
    shortcut = getattr(value, "diag", None)
    return Kernel(value, argument, shortcut if callable(shortcut) else None)


def check_gram(argument: str, gram: FloatArray) -> FloatArray:
    """Return a Gram matrix made exactly symmetric; raise if it is not symmetric and positive semi-definite.

    Args:
        argument: Name of the kernel in error messages.
        gram: Kernel values, shape (n, n).

    Raises:
        InvalidInput: The matrix is not symmetric or not positive semi-definite, beyond rounding errors.
    """
    size = float(np.abs(gram).max()) if gram.size else 0.0
    asymmetry = float(np.abs(gram - gram.T).max()) if gram.size else 0.0
    if asymmetry > _ASYMMETRY * max(size, 1e-300):
        fail(argument, "must be symmetric", f"k(x, y) and k(y, x) that differ by {asymmetry:.3g}", "Symmetrise it.")
    symmetric: FloatArray = 0.5 * (gram + gram.T)
    eigenvalues = np.linalg.eigvalsh(symmetric)
    if eigenvalues[0] < -_NEGATIVE * max(float(eigenvalues[-1]), 1e-300):
        received = f"an eigenvalue of {eigenvalues[0]:.3g} (the largest is {eigenvalues[-1]:.3g})"
        fail(argument, "must be positive semi-definite", received, "Use a kernel, such as 'rbf'.")
    return symmetric


def squared_distances(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return ‖x_i − y_j‖² of points (n, p) and (m, p): (n, m)."""
    found: FloatArray = x @ y.T
    found *= -2.0
    found += np.vecdot(x, x)[:, None]
    found += np.vecdot(y, y)
    return np.maximum(found, 0.0, out=found)


def rbf(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return exp(−r²/2) of points (n, p) and (m, p) at distance r: (n, m).

    >>> rbf(np.zeros((1, 1)), np.array([[0.0], [1.0]])).round(3)
    array([[1.   , 0.607]])
    """
    found = squared_distances(x, y)
    found *= -0.5
    return np.exp(found, out=found)


def matern_5_2(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return (1 + √5 r + 5r²/3) exp(−√5 r) of points (n, p) and (m, p) at distance r: (n, m)."""
    squared = squared_distances(x, y)
    squared *= 5.0
    r = np.sqrt(squared)
    squared *= 1.0 / 3.0
    squared += r
    squared += 1.0
    np.negative(r, out=r)
    squared *= np.exp(r, out=r)
    return squared


def choose_pivots(
    x: FloatArray, kernel: Callable[[FloatArray, FloatArray], FloatArray], *, budget: int, tolerance: float
) -> IntArray:
    """Return the rows of points (n, p) that a pivoted Cholesky factorisation of their kernel matrix chooses.

    The point with the largest residual k(x, x) − ‖z(x)‖² comes next, until all residuals are at most the tolerance.

    >>> choose_pivots(np.array([[0.0], [0.01], [3.0]]), rbf, budget=3, tolerance=0.01)
    array([0, 2])
    """
    n, most = len(x), min(budget, len(x))
    residual, z = np.ones(n), np.empty((most, n))
    chosen: list[int] = []
    for j in range(most):
        i = int(residual.argmax())
        if residual[i] <= tolerance:
            break
        row = kernel(x[i : i + 1], x)[0]
        row -= z[:j, i] @ z[:j]
        row /= np.sqrt(residual[i])
        z[j] = row
        residual -= row * row
        np.maximum(residual, 0.0, out=residual)
        residual[i] = 0.0
        chosen.append(i)
    return np.array(chosen, dtype=np.int64)


_SHORTEST, _LONGEST = 0.05, 20.0  # in units of scaled coordinates, which lie in about [-1, 1]
_LEAST_NOISE = 1e-5  # relative to the variance of the function


@dataclass(frozen=True)
class Prior:
    """Normal priors of the logarithms of length scales and of the noise.

    Attributes:
        groups: (d,) which of the g length scales each coordinate has.
        mean: (g + 1,) means; the last is that of the noise, relative to the variance of the function.
        spread: (g + 1,) standard deviations.
    """

    groups: IntArray
    mean: FloatArray
    spread: FloatArray


def negative_evidence(parameters: FloatArray, x: FloatArray, y: FloatArray, prior: Prior) -> tuple[float, FloatArray]:
    r"""Return the negative log posterior density of kernel parameters, up to a constant, and its gradient.

    Every output is a Gaussian process with the same kernel and noise-to-signal ratio λ; its own variance is profiled
    out: \(\sum_j \tfrac n2 \log y_j^\top K^{-1} y_j + \tfrac D2 \log\det K\) with K = k + λI (Rasmussen & Williams
    2006, equation 5.8, at the best variance).
    """
    n, n_outputs = len(x), y.shape[1]
    scaled = x / np.exp(parameters[:-1])[prior.groups]
    noise = float(np.exp(parameters[-1]))
    kernel = rbf(scaled, scaled)
    matrix = kernel.copy()
    matrix.flat[:: n + 1] += noise
    factor, failed = lapack.dpotrf(matrix, lower=1)
    if failed:
        return 1e12, np.zeros_like(parameters)
    half, _ = lapack.dpotri(factor, lower=1)
    inverse = np.tril(half) + np.tril(half, -1).T
    solved = inverse @ y
    fit = np.maximum((y * solved).sum(axis=0), np.finfo(np.float64).tiny)
    off = (parameters - prior.mean) / prior.spread
    value = 0.5 * n * np.log(fit).sum() + n_outputs * np.log(np.diagonal(factor)).sum() + 0.5 * off @ off
    slope = 0.5 * n_outputs * inverse - (solved * (0.5 * n / fit)) @ solved.T  # of the value, by the entries of K
    gradient = off / prior.spread
    gradient[-1] += noise * np.trace(slope)
    slope *= kernel
    by_coordinate = 2.0 * (slope.sum(axis=1) @ (scaled * scaled) - (scaled * (slope @ scaled)).sum(axis=0))
    np.add.at(gradient, prior.groups, by_coordinate)
    return float(value), gradient


def leave_one_out(x: FloatArray, y: FloatArray, parameters: FloatArray, prior: Prior) -> FloatArray:
    """Return studentised errors of predictions of outputs (n, D) at inputs (n, d) from all others: (n, D).

    The errors are K⁻¹y divided by the diagonal of K⁻¹ (Rasmussen & Williams 2006, equation 5.12), whose reciprocal is
    their variance (5.13); so K⁻¹y is divided by the root of that diagonal.
    """
    scaled = x / np.exp(parameters[:-1])[prior.groups]
    matrix = rbf(scaled, scaled)
    matrix.flat[:: len(x) + 1] += float(np.exp(parameters[-1]))
    inverse = np.linalg.inv(matrix)
    found: FloatArray = (inverse @ y) / np.sqrt(np.diagonal(inverse))[:, None]
    return found


def fit_length_scales(
    x: FloatArray, y: FloatArray, start: FloatArray, prior: Prior, *, iterations: int, most_noise: float = 0.3
) -> FloatArray:
    """Return log length scales and log noise of the largest posterior density near a start: (g + 1,)."""
    from scipy.optimize import minimize  # imported here because it is slow to import

    bounds = [(np.log(_SHORTEST), np.log(_LONGEST))] * (len(start) - 1) + [(np.log(_LEAST_NOISE), np.log(most_noise))]
    found = minimize(
        negative_evidence,
        start,
        args=(x, y, prior),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": iterations},
    )
    best: FloatArray = found.x
    return best


_UNBOUNDED = 1e6  # bounds beyond this size are treated as infinite


class ObservationScale:
    """Map observations to about [-1, 1].

    An observation with bounds is centred and divided by half its range. One without bounds is divided by the largest
    absolute value seen so far; the standard deviation of early data would be too small a scale, because the first
    episodes visit a small part of the space.

    Args:
        low: Lower bounds, shape (p,); infinite where there are none.
        high: Upper bounds, shape (p,); infinite where there are none.

    Raises:
        InvalidInput: A lower bound is above its upper bound, or NaN.

    >>> scale = ObservationScale(np.array([0.0, -np.inf]), np.array([4.0, np.inf]))
    >>> scale.see(np.array([[1.0, 8.0]]))
    True
    >>> scale(np.array([[4.0, -4.0]]))
    array([[ 1. , -0.5]])
    """

    def __init__(self, low: FloatArray, high: FloatArray) -> None:
        low, high = np.asarray(low, dtype=np.float64).ravel(), np.asarray(high, dtype=np.float64).ravel()
        if low.shape != high.shape or np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
            fail("observation_space", "must have bounds low <= high", f"{low} and {high}", "Check the space.")
        bounded = (np.abs(low) < _UNBOUNDED) & (np.abs(high) < _UNBOUNDED)
        self._free = ~bounded
        self._centre = np.where(bounded, 0.5 * (np.where(bounded, low, 0.0) + np.where(bounded, high, 0.0)), 0.0)
        half = 0.5 * (np.where(bounded, high, 1.0) - np.where(bounded, low, -1.0))
        self._half = np.where(half > 0.0, half, 1.0)  # an observation that is constant keeps its unit
        self._seen = np.zeros(len(low))

    @property
    def size(self) -> int:
        """Number of observations p."""
        return len(self._centre)

    @property
    def seen(self) -> FloatArray:
        """Largest absolute values of the unbounded observations so far, shape (p,); 0 for bounded ones."""
        return self._seen

    def restore(self, seen: FloatArray) -> None:
        """Restore the value of `seen`."""
        self._seen = np.asarray(seen, dtype=np.float64)

    def see(self, observations: FloatArray) -> bool:
        """Update `seen` from observations (n, p); return whether the scale changed."""
        if not self._free.any() or not len(observations):
            return False
        largest = np.where(self._free, np.abs(observations).max(axis=0), 0.0)
        grown = bool((largest > self._seen).any())
        self._seen = np.maximum(self._seen, largest)
        return grown

    @property
    def bounded(self) -> BoolArray:
        """Which observations have bounds, shape (p,)."""
        return ~self._free

    @property
    def unit(self) -> FloatArray:
        """What observations are divided by, shape (p,)."""
        found: FloatArray = np.where(self._free, np.where(self._seen > 0.0, self._seen, 1.0), self._half)
        return found

    def __call__(self, observations: FloatArray) -> FloatArray:
        """Return scaled observations: (n, p) → (n, p)."""
        scaled: FloatArray = (observations - self._centre) / self.unit
        return scaled


def action_factor(n_actions: int, correlation: float) -> FloatArray:
    """Return an (A, A) matrix with rows b_a such that b_aᵀb_a' is 1 for equal actions and ρ for different ones.

    Args:
        n_actions: Number of actions A.
        correlation: Kernel ρ of two different actions, in [0, 1).

    >>> b = action_factor(2, 0.5)
    >>> (b @ b.T).round(12)
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    kappa = np.full((n_actions, n_actions), correlation)
    np.fill_diagonal(kappa, 1.0)
    return np.linalg.cholesky(kappa)
