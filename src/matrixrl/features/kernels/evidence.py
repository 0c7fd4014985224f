"""Length scales and noise of an RBF kernel that make data most likely."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize

from matrixrl.features.kernels.stationary import rbf
from matrixrl.records import FloatArray, IntArray

__all__ = ["Prior", "fit_length_scales", "leave_one_out", "negative_evidence"]

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

    Args:
        parameters: (g + 1,) log length scales and log λ.
        x: (n, d) scaled inputs.
        y: (n, D) outputs of mean 0 and comparable size.
        prior: Prior of the parameters.
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
    """Return log length scales and log noise of the largest posterior density near a start: (g + 1,).

    Args:
        x: (n, d) scaled inputs.
        y: (n, D) outputs of mean 0 and comparable size.
        start: (g + 1,) where the search starts.
        prior: Prior of the parameters.
        iterations: Largest number of steps of L-BFGS.
        most_noise: Largest noise, relative to the variance of the function.
    """
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
