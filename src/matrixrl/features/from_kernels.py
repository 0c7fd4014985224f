"""Compute features of finite state sets from kernels, such that φᵀφ' = k_φ and ψᵀψ' = k_ψ exactly.

Every quantity of the paper depends on features only through inner products. Coordinates with the given Gram matrix
therefore give the results of the dual algorithm (YW19, Algorithm 2), with the projection on the range of k_ψ where it
is singular (erratum E3, docs/paper-map.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.checks import fail, fits_memory, integer, number, shaped
from matrixrl.features.bundle import Features
from matrixrl.features.kernels import Kernel, action_factor, as_kernel, check_gram
from matrixrl.features.phi import TablePhi
from matrixrl.features.psi import OneHotPsi, Psi, TablePsi
from matrixrl.features.state_maps import InducingMap, TransformerMap
from matrixrl.linalg import rounding_level
from matrixrl.records import BoolArray, FloatArray
from matrixrl.tolerances import GRAM_RANK

__all__ = ["factor_gram", "factor_kernel", "features_from_grams", "kernel_features", "transformer_features"]

_ENTRY_ERRORS = 8.0  # a kernel value is the result of a few operations, each with a rounding error
_WHOLE_GRAM = 1000  # largest number of points whose Gram matrix is formed


def factor_gram(argument: str, gram: FloatArray) -> tuple[FloatArray, str | None]:
    """Return Z with ZZᵀ equal to a Gram matrix and orthogonal columns, up to directions too small to be estimated.

    Directions with an eigenvalue below 1e-10 of the largest one are left out. If all of them are rounding errors, the
    rank of the kernel is known and nothing is lost. Otherwise the features only approximate the kernel.

    >>> factor_gram("k", np.array([[4.0, 4.0], [4.0, 4.0]]))[0].shape
    (2, 1)
    >>> factor_gram("k", np.diag([1.0, 1e-12]))[1] is None
    False
    """
    eigenvalues, vectors = np.linalg.eigh(check_gram(argument, gram))
    keep = eigenvalues > GRAM_RANK * float(eigenvalues[-1])
    lost = np.abs(eigenvalues[~keep]) > _ENTRY_ERRORS * rounding_level(gram.shape, float(eigenvalues[-1]))
    words = _words_of_lost(argument, keep, lost)
    return vectors[:, keep] * np.sqrt(eigenvalues[keep]), words


def factor_kernel(argument: str, kernel: Kernel, points: FloatArray) -> tuple[FloatArray, str | None]:
    """Return what `factor_gram` returns of the Gram matrix of points (n, p), which is not formed if n is large.

    A pivoted Cholesky factorisation of rank r, of which singular vectors are taken, needs n·r kernel values and n·r²
    operations in place of n² and n³. It stops where no k(x, x) is off by more than 1e-11 of itself, far below the
    eigenvalues that are left out in any case.

    >>> points = np.linspace(-1.0, 1.0, 2000)[:, None]
    >>> factor_kernel("k", as_kernel("rbf"), points)[0].shape
    (2000, 9)
    """
    n = len(points)
    if n <= _WHOLE_GRAM:
        return factor_gram(argument, kernel(points, points))
    inducing = InducingMap(kernel, points.shape[1], budget=n, tolerance=0.0)
    table = inducing.grow(points, np.empty((n, 0)))
    if not table.size:
        return _orthogonal(argument, np.zeros((n, 1)), 0.0)
    residual = float(inducing.residuals(points, table).max())
    _check_rest(argument, kernel, points, table, residual)
    return _orthogonal(argument, table, residual)


def _check_rest(argument: str, kernel: Kernel, points: FloatArray, z: FloatArray, residual: float) -> None:
    """Refuse a kernel whose values at some points differ from zᵀz' by more than those of a kernel can."""
    size = float(kernel.diagonal(points).max())
    some = np.linspace(0, len(points) - 1, _WHOLE_GRAM).astype(np.int64)
    rest = np.abs(kernel(points[some], points) - z[some] @ z.T).max()
    if rest > residual + GRAM_RANK * size:  # |E_ij| <= √(E_ii E_jj) for a positive semi-definite E
        received = f"k(x, y) − z(x)ᵀz(y) of {rest:.3g}, where k(x, x) − ‖z(x)‖² is at most {residual:.3g}"
        fail(argument, "must be symmetric and positive semi-definite", received, "Use a kernel, such as 'rbf'.")


def _orthogonal(argument: str, table: FloatArray, residual: float = 0.0) -> tuple[FloatArray, str | None]:
    """Return features with the same inner products and orthogonal columns, none of them too small, and what is lost.

    `residual` is the largest error of a squared norm of the features themselves.
    """
    left, values, _ = np.linalg.svd(table, full_matrices=False)
    keep = values > np.sqrt(GRAM_RANK) * float(values[0])
    lost = values[~keep] > rounding_level(table.shape, float(values[0]))
    if residual > _ENTRY_ERRORS * rounding_level(table.shape[1:], float(np.vecdot(table, table).max())):
        lost = np.append(lost, True)
    words = _words_of_lost(argument, keep, lost)
    return left[:, keep] * values[keep], words


def _words_of_lost(argument: str, keep: BoolArray, lost: BoolArray) -> str | None:
    """Return, in words, what a factor leaves out; refuse one that keeps nothing."""
    if not keep.any():
        fail(argument, "must not be zero everywhere", "zeros", "Use a kernel, such as 'rbf'.")
    n_lost = int(lost.sum())
    if n_lost == 0:
        return None
    return (
        f"{argument} is approximated: {n_lost} of its {n_lost + int(keep.sum())} directions or more are too small for "
        "float64 and were left out, and P may need them. Use a shorter length scale, or features of your own"
    )


def features_from_grams(gram_phi: object, gram_psi: object | None, *, n_actions: int) -> Features:
    """Return features with the given Gram matrices.

    Args:
        gram_phi: k_φ of all pairs, shape (S·A, S·A); row s·A + a is the pair (s, a).
        gram_psi: k_ψ of all states, shape (S, S); None means the identity (one-hot ψ).
        n_actions: Number of actions A.

    >>> features_from_grams(np.eye(4), None, n_actions=2).phi.d
    4
    """
    count = integer("n_actions", n_actions, low=1, remedy="Give the number of actions.")
    pairs = shaped("gram_phi", gram_phi, (None, None), remedy="Give k_φ of all pairs.")
    n_states, rest = divmod(len(pairs), count)
    if pairs.shape[0] != pairs.shape[1] or rest:
        fail("gram_phi", "must have shape (S·A, S·A)", f"shape {pairs.shape}", "Row s·A + a is the pair (s, a).")
    root, left_out = factor_gram("gram_phi", pairs)
    phi = TablePhi(root.reshape(n_states, count, -1), left_out=left_out)
    return Features(phi, _psi(gram_psi, n_states))


def kernel_features(
    points: object, n_actions: int, *, k_phi: Any = None, k_psi: Any = None, action_correlation: float = 0.0
) -> Features:
    """Return the features of kernels on points: k_φ((s,a),(s',a')) = k(s,s')·(1 if a = a' else the correlation).

    Args:
        points: Coordinates of each state, shape (S, p).
        n_actions: Number of actions A.
        k_phi: Kernel k of states inside k_φ: a function, a scikit-learn kernel or a name; RBF if None.
        k_psi: Kernel of next states, likewise; the identity (one-hot ψ) if None.
        action_correlation: Kernel of two different actions, in [0, 0.999].

    >>> kernel_features(np.linspace(-1, 1, 6)[:, None], 2, k_phi="linear").phi.d
    2
    """
    coordinates, count, rho = _checked(points, n_actions, action_correlation)
    fits_memory("n_actions", float(count) ** 2 * (1 + len(coordinates)), f"{count:,}", remedy="Use fewer actions.")
    z, left_out = factor_kernel("k_phi", as_kernel(k_phi, "k_phi"), coordinates)
    received = f"{len(z):,} states and {z.shape[1]:,} directions of k_phi"
    fits_memory("points", 2.0 * count**2 * z.size, received, remedy="Use fewer states, or a longer length scale.")
    psi: Psi = OneHotPsi(len(coordinates))
    if k_psi is not None:
        root, of_psi = factor_kernel("k_psi", as_kernel(k_psi, "k_psi"), coordinates)
        psi = TablePsi(root, left_out=of_psi)
    return Features(_of_pairs(z, left_out, count, rho), psi)


def transformer_features(
    points: object, n_actions: int, *, phi: Any, psi: Any = None, action_correlation: float = 0.0
) -> Features:
    """Return features computed by scikit-learn transformers: random Fourier features, Nyström, splines.

    Args:
        points: Coordinates of each state, shape (S, p).
        n_actions: Number of actions A.
        phi: Transformer that computes the state part of φ; a clone of it is fitted to the points.
        psi: Transformer that computes ψ, likewise; one-hot ψ if None. Linearly dependent features are dropped (E3).
        action_correlation: Kernel of two different actions, in [0, 0.999].

    >>> from sklearn.kernel_approximation import RBFSampler
    >>> transformer_features(np.eye(6), 2, phi=RBFSampler(n_components=3, random_state=0)).phi.d
    6
    """
    coordinates, count, rho = _checked(points, n_actions, action_correlation)
    phi_map = _of_pairs(_transformed(phi, coordinates), None, count, rho)
    if psi is None:
        return Features(phi_map, OneHotPsi(len(coordinates)))
    table, left_out = _orthogonal("psi", _transformed(psi, coordinates))
    return Features(phi_map, TablePsi(table, left_out=left_out))


def _transformed(transformer: Any, points: FloatArray) -> FloatArray:
    fitted = TransformerMap(transformer)
    return fitted.grow(points, fitted.coordinates(points))


def _checked(points: object, n_actions: int, correlation: float) -> tuple[FloatArray, int, float]:
    coordinates = shaped("points", points, (None, None), remedy="Give one vector for each state.")
    count = integer("n_actions", n_actions, low=1, remedy="Give the number of actions.")
    return coordinates, count, number("action_correlation", correlation, low=0.0, high=0.999, remedy="Try 0.")


def _of_pairs(z: FloatArray, left_out: str | None, n_actions: int, rho: float) -> TablePhi:
    """Return φ(s, a) = b_a ⊗ z(s), whose kernel is zᵀz' for equal actions and ρ·zᵀz' for different ones."""
    table = np.einsum("aj,sm->sajm", action_factor(n_actions, rho), z).reshape(len(z), n_actions, -1)
    return TablePhi(table, left_out=left_out)


def _psi(gram: object | None, n_states: int) -> Psi:
    if gram is None:
        return OneHotPsi(n_states)
    states = shaped("gram_psi", gram, (n_states, n_states), remedy="Give k_ψ of all states.")
    root, left_out = factor_gram("k_psi", states)
    return TablePsi(root, left_out=left_out)
