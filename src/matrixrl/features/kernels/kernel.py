"""Kernel objects with checked results, from functions, scikit-learn kernels or names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from matrixrl.checks import choice, fail, real_numbers, shown
from matrixrl.checks import function as check_function
from matrixrl.records import FloatArray

__all__ = ["PAIRWISE", "Kernel", "as_kernel", "check_gram"]

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
        from sklearn.gaussian_process.kernels import RBF  # imported here because it is slow to import

        value = RBF(1.0)
    if isinstance(value, str):
        metric = choice(argument, value, PAIRWISE)
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
