"""A kernel model of next states and rewards: linear trends, and kernel regression of what they leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from matrixrl.features.kernels import Prior, choose_pivots, fit_length_scales, leave_one_out, negative_evidence, rbf
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = [
    "MEDIAN",
    "Dynamics",
    "Observed",
    "fit_dynamics",
    "fit_kernel",
    "kernel_prior",
    "regress",
]

MEDIAN = 1.4826
"""Standard deviation of normal noise in units of the median of its size."""

_TOLERANCE = 1e-6  # share of the kernel that inducing points of the model may miss
_JITTER = 1e-10
_TREND = 1e-6  # ridge of the linear trend, for each step
_EXPLAINED = 1e-5  # outputs whose rest after the trend is smaller than this share are exactly linear
_STIFF = 1e-2  # noise of the model that finds unusual steps
_CANDIDATES = 2000  # steps that inducing points are chosen from, about
_UNUSUAL = 10.0  # steps with errors beyond this many usual ones are left out
_LARGE = 2.0  # and beyond this many standard deviations of what is predicted
_FIRST_ITERATIONS, _MORE_ITERATIONS = 40, 15  # of the search for length scales
_TELLING = 200  # steps that can tell noise from what is not known yet
_NOISY, _MOST_NOISE = 1.0, 100.0  # noise that a search may start from, and find, relative to that of the function
_FITTED_STEPS = 250  # steps that length scales are fitted to
_FAR = 3.0  # largest scaled coordinate of a predicted state without bounds, in units of the largest seen
_ACTION_SCALE, _ACTION_SPREAD = np.log(3.0), 0.5  # prior of the log length scale of actions, which share most
_MOST_RIDGE = 1.0  # of an output, relative to its variance
_TESTED = 1000  # steps that are left out to measure errors, about


@dataclass(frozen=True)
class Observed:
    """Steps in scaled coordinates."""

    x: FloatArray  # (n, d) states and actions
    change: FloatArray  # (n, p) change of the state
    rewards: FloatArray  # (n,) rewards
    ended: BoolArray  # (n,) whether the environment ended the episode

    def rows(self, chosen: IntArray) -> Observed:
        """Return some of the steps."""
        return Observed(self.x[chosen], self.change[chosen], self.rewards[chosen], self.ended[chosen])

    @property
    def outputs(self) -> FloatArray:
        """(n, p + 1) changes of the state, and rewards."""
        return np.column_stack([self.change, self.rewards])


@dataclass(frozen=True)
class Dynamics:
    """Predicts the next state and the reward of a step that does not end the episode."""

    length_scales: FloatArray  # (d,) length scales of state and action coordinates
    points: FloatArray  # (m, d) inducing points, divided by the length scales
    trend: FloatArray  # (1 + d, p + 1) linear part
    weights: FloatArray  # (m, p + 1) kernel part
    limits: FloatArray  # (2, p + 1) smallest and largest predictions: bounds of states, and of the rewards seen
    # (p + 1,) standard deviations of errors at usual steps that are left out of the fit; 0 while there are too few
    # steps to tell noise from what is not known yet
    errors: FloatArray

    def predict(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return next states (n, p) and rewards (n,) of state-action pairs (n, d)."""
        found = rbf(x / self.length_scales, self.points) @ self.weights
        found += x @ self.trend[1:]
        found += self.trend[0]
        p = found.shape[1] - 1
        found[:, :p] += x[:, :p]
        np.clip(found, self.limits[0], self.limits[1], out=found)
        return found[:, :p], found[:, p]


def _trend(observed: Observed, usual: BoolArray) -> FloatArray:
    """Return the linear part of every output by ridge regression on some steps; rewards count where it went on."""
    rows = np.column_stack([np.ones(len(observed.x)), observed.x])
    ridge = _TREND * len(rows) * np.eye(rows.shape[1])
    on = usual & ~observed.ended
    all_rows, going = rows[usual], rows[on]
    change = np.linalg.solve(all_rows.T @ all_rows + ridge, all_rows.T @ observed.change[usual])
    reward = np.linalg.solve(going.T @ going + ridge, going.T @ observed.rewards[on])
    return np.column_stack([change, reward])


def _rest(observed: Observed, trend: FloatArray) -> FloatArray:
    """Return what the trend leaves of every output, (n, p + 1); nothing of the rewards of steps that ended."""
    rest: FloatArray = observed.outputs - trend[0] - observed.x @ trend[1:]
    rest[observed.ended, -1] = 0.0
    return rest


def kernel_prior(n_coordinates: int, action_groups: IntArray) -> Prior:
    """Return the prior of the length scales of states and actions, and of the noise."""
    groups = np.concatenate([np.arange(n_coordinates), n_coordinates + action_groups])
    n_actions = int(action_groups.max()) + 1
    mean = np.concatenate([np.zeros(n_coordinates), np.full(n_actions, _ACTION_SCALE), [np.log(1e-4)]])
    spread = np.concatenate([np.ones(n_coordinates), np.full(n_actions, _ACTION_SPREAD), [3.0]])
    return Prior(groups, mean, spread)


def fit_kernel(observed: Observed, start: FloatArray | None, prior: Prior, rng: np.random.Generator) -> FloatArray:
    """Return log length scales and log noise by evidence, on at most a few hundred steps: (g + 1,)."""
    size = np.append(observed.change.std(axis=0), np.abs(observed.rewards).max()) + 1e-12
    everything = np.ones(len(observed.x), dtype=np.bool_)
    rest = _rest(observed, _trend(observed, everything)) / size
    chosen = rng.permutation(len(rest))[:_FITTED_STEPS]
    amplitude = rest[chosen].std(axis=0)
    curved = amplitude > _EXPLAINED
    if not curved.any():
        return prior.mean if start is None else start
    y = rest[chosen][:, curved] / amplitude[curved]
    first = prior.mean if start is None else start
    usual = usual_rows(leave_one_out(observed.x[chosen], y, first, prior), 1.0 / amplitude[curved])
    iterations = _FIRST_ITERATIONS if start is None else _MORE_ITERATIONS
    x, y = observed.x[chosen[usual]], y[usual]
    if len(x) < _TELLING:
        return fit_length_scales(x, y, first, prior, iterations=iterations)
    # Short length scales look like noise, and are searched less well.
    noisy = np.append(prior.mean[:-1], np.log(_NOISY))
    first = min(first, prior.mean, noisy, key=lambda one: negative_evidence(one, x, y, prior)[0])
    return fit_length_scales(x, y, first, prior, iterations=iterations, most_noise=_MOST_NOISE)


def fit_dynamics(
    observed: Observed, length_scales: FloatArray, noise: float, bounded: BoolArray, budget: int
) -> Dynamics:
    """Return the model of all steps for length scales (d,), and noise relative to the variance of the function."""
    scaled = observed.x / length_scales
    some = scaled[:: 1 + len(scaled) // _CANDIDATES]
    points = some[choose_pivots(some, rbf, budget=budget, tolerance=_TOLERANCE)]
    factor = np.linalg.cholesky(rbf(points, points) + _JITTER * np.eye(len(points)))
    z: FloatArray = solve_triangular(factor, rbf(points, scaled), lower=True, check_finite=False)
    on, usual = ~observed.ended, np.ones(len(scaled), dtype=np.bool_)
    spread = observed.change.std(axis=0)
    # Unusual steps are found by a stiff model, which cannot follow single steps.
    rest = _rest(observed, _trend(observed, usual))
    usual = usual_rows(studentised_errors(z, rest[:, :-1], usual, max(noise, _STIFF)), spread)
    trend = _trend(observed, usual)
    rest = _rest(observed, trend)
    if on[usual].all():
        weights, errors = regress(z[:, usual], rest[usual], noise)
    else:
        parts = (usual, slice(None, -1)), (on & usual, slice(-1, None))
        each = [regress(z[:, rows], rest[rows, which], noise) for rows, which in parts]
        weights, errors = np.column_stack([one[0] for one in each]), np.concatenate([one[1] for one in each])
    errors *= float(len(scaled) >= _TELLING)
    edge = np.append(np.where(bounded, 1.0, _FAR), 0.0)
    limits = np.stack([-edge, edge])
    limits[:, -1] = observed.rewards.min(), observed.rewards.max()
    kernel_weights: FloatArray = solve_triangular(factor, weights, lower=True, trans="T", check_finite=False)
    return Dynamics(length_scales, points, trend, kernel_weights, limits, errors)


def usual_rows(errors: FloatArray, spread: FloatArray) -> BoolArray:
    """Say by errors (n, k) of predictions from all other steps which are usual; impacts and the like mislead."""
    size = np.abs(errors)
    usual = np.maximum(_UNUSUAL * MEDIAN * np.median(size, axis=0), _LARGE * spread)
    rows: BoolArray = np.asarray((size <= usual + np.finfo(np.float64).tiny).all(axis=1))
    return rows if rows.sum() >= 0.5 * len(rows) else np.ones_like(rows)


def regress(z: FloatArray, y: FloatArray, least: float) -> tuple[FloatArray, FloatArray]:
    """Return weights (m, k) of features (m, n) for outputs (n, k), and errors at steps that are left out: (k,).

    Every output has the ridge of the largest evidence. Outputs share length scales, but not their noise: rewards may be
    exact where next states are not. The error of a step that is left out is the one of the fit divided by 1 minus its
    leverage. The size is that of the median step, as a standard deviation: few steps of great leverage decide the mean.
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
    every = 1 + n // _TESTED
    errors, rows = np.empty(y.shape[1]), z[:, ::every]
    for number in np.unique(chosen):
        own = chosen == number
        half = solve_triangular(factors[number], rows, lower=True, check_finite=False)
        left = np.maximum(1.0 - np.vecdot(half.T, half.T), 1e-9)
        left_out = (y[::every, own] - rows.T @ weights[:, own]) / left[:, None]
        errors[own] = MEDIAN * np.median(np.abs(left_out), axis=0)
    return weights, errors


def studentised_errors(z: FloatArray, y: FloatArray, usual: BoolArray, ridge: float) -> FloatArray:
    """Return studentised errors of predictions of outputs (n, k) from features (m, n) of other usual steps: (n, k)."""
    matrix = z[:, usual] @ z[:, usual].T
    matrix.flat[:: len(matrix) + 1] += ridge
    half = solve_triangular(np.linalg.cholesky(matrix), z, lower=True, check_finite=False)
    errors = y - half.T @ (half[:, usual] @ y[usual])
    leverage = np.where(usual, np.vecdot(half.T, half.T), 0.0)
    found: FloatArray = errors / np.sqrt(np.maximum(1.0 - leverage, 1e-9))[:, None]
    return found
