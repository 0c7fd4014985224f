"""Ridge regression on features of steps, and errors at steps that are left out."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from matrixrl.records import BoolArray, FloatArray

__all__ = ["MEDIAN", "regress", "studentised_errors"]

MEDIAN = 1.4826
"""Standard deviation of normal noise in units of the median of its size."""
_MOST_RIDGE = 1.0  # of an output, relative to its variance
_TESTED = 1000  # steps that are left out to measure errors, about


def regress(z: FloatArray, y: FloatArray, least: float) -> tuple[FloatArray, FloatArray]:
    """Return weights (m, k) of features (m, n) for outputs (n, k), and errors at steps that are left out: (k,).

    Every output has the ridge of the largest evidence. Outputs share length scales, but not their noise: rewards may be
    exact where next states are not. The error of a step that is left out is the one of the fit divided by 1 minus its
    leverage. The size is that of the median step, as a standard deviation: few steps of great leverage decide the mean.

    Args:
        z: (m, n) features.
        y: (n, k) outputs.
        least: Smallest ridge.
    """
    if not len(y):
        return np.zeros((len(z), y.shape[1])), np.zeros(y.shape[1])
    matrix, products, size = z @ z.T, z @ y, np.vecdot(y.T, y.T)
    m, n = z.shape
    diagonal = matrix.diagonal().copy()
    best, weights = np.full(y.shape[1], np.inf), np.zeros_like(products)
    factors: list[FloatArray] = []
    chosen = np.zeros(y.shape[1], dtype=np.int64)
    for ridge in least * 10.0 ** np.arange(1 + max(0.0, np.floor(np.log10(_MOST_RIDGE / least)))):
        matrix.flat[:: m + 1] = diagonal + ridge
        factor: FloatArray = np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
        found = cho_solve((factor, True), products, check_finite=False)
        left = np.maximum((size - np.vecdot(products.T, found.T)) / ridge, np.finfo(np.float64).tiny)
        volume = 2.0 * np.log(factor.diagonal()).sum() + (n - m) * np.log(ridge)
        evidence = n * np.log(left) + volume  # Rasmussen & Williams 2006, equation 5.8, at the best variance
        better = evidence < best
        if not better.any():
            break
        best, weights[:, better], chosen[better] = np.where(better, evidence, best), found[:, better], len(factors)
        factors.append(factor)
    errors = np.empty(y.shape[1])
    for number in np.unique(chosen):
        own = chosen == number
        errors[own] = _left_out(factors[number], z, y[:, own], weights[:, own])
    return weights, errors


def _left_out(factor: FloatArray, z: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Return sizes of errors of steps that are left out, each in turn: (k,)."""
    every = 1 + z.shape[1] // _TESTED
    rows = z[:, ::every]
    half = solve_triangular(factor, rows, lower=True, check_finite=False)
    left = np.maximum(1.0 - np.vecdot(half.T, half.T), 1e-9)
    errors = (y[::every] - rows.T @ weights) / left[:, None]
    found: FloatArray = MEDIAN * np.median(np.abs(errors), axis=0)
    return found


def studentised_errors(z: FloatArray, y: FloatArray, usual: BoolArray, ridge: float) -> FloatArray:
    """Return studentised errors of predictions of outputs (n, k) from features (m, n) of other usual steps: (n, k)."""
    matrix = z[:, usual] @ z[:, usual].T
    matrix.flat[:: len(matrix) + 1] += ridge
    half = solve_triangular(np.linalg.cholesky(matrix), z, lower=True, check_finite=False)
    errors = y - half.T @ (half[:, usual] @ y[usual])
    leverage = np.where(usual, np.vecdot(half.T, half.T), 0.0)
    found: FloatArray = errors / np.sqrt(np.maximum(1.0 - leverage, 1e-9))[:, None]
    return found
