"""Length scales by evidence: the formula against a Gaussian, its gradient against differences, and what is found."""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from matrixrl.features.kernels import Prior, fit_length_scales, leave_one_out, matern_5_2, negative_evidence, rbf
from tolerances import ALGEBRA

FLAT = Prior(np.arange(2), np.zeros(3), np.full(3, 1e9))  # so wide that it adds nothing


def data(n=40, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    return x, np.column_stack([np.sin(3 * x[:, 0]), np.cos(3 * x[:, 0]) + 0.1 * rng.normal(size=n)])


def test_evidence_is_the_density_of_a_gaussian_at_its_best_variance():
    x, y = data()
    parameters = np.log([0.4, 1.5, 0.01])
    scaled = x / [0.4, 1.5]
    matrix = rbf(scaled, scaled) + 0.01 * np.eye(len(x))
    direct = 0.0
    for column in y.T:
        variance = column @ np.linalg.solve(matrix, column) / len(x)
        direct -= multivariate_normal(np.zeros(len(x)), variance * matrix).logpdf(column)
    constant = 2 * 0.5 * len(x) * (1 + np.log(2 * np.pi) - np.log(len(x)))
    assert abs(negative_evidence(parameters, x, y, FLAT)[0] + constant - direct) < ALGEBRA * abs(direct)


def test_the_gradient_is_that_of_differences_also_where_coordinates_share_a_length_scale():
    x, y = data()
    for prior in (
        Prior(np.arange(2), np.array([0.3, -0.2, -5.0]), np.array([0.5, 1.0, 2.0])),
        Prior(np.zeros(2, dtype=np.int64), np.array([0.3, -5.0]), np.array([0.5, 2.0])),
    ):
        at = prior.mean + 0.3
        gradient = negative_evidence(at, x, y, prior)[1]
        for i, unit in enumerate(1e-5 * np.eye(len(at))):
            ahead, behind = (negative_evidence(at + s * unit, x, y, prior)[0] for s in (1, -1))
            assert abs((ahead - behind) / 2e-5 - gradient[i]) < 1e-5 * (1 + abs(gradient[i]))


def test_a_coordinate_that_does_not_matter_gets_a_long_length_scale():
    x, y = data(80)
    found = np.exp(fit_length_scales(x, y, np.zeros(3), Prior(np.arange(2), np.zeros(3), np.ones(3)), iterations=60))
    assert found[0] < 1.0 < 3.0 < found[1]


def test_errors_of_leaving_one_out_are_those_of_fitting_the_others():
    x, y = data(15)
    parameters = np.log([0.4, 1.5, 0.01])
    scaled = x / [0.4, 1.5]
    found = leave_one_out(x, y, parameters, FLAT)
    for i in range(len(x)):
        others = np.delete(np.arange(len(x)), i)
        k = rbf(scaled[others], scaled[others]) + 0.01 * np.eye(len(others))
        cross = rbf(scaled[i : i + 1], scaled[others])[0]
        error = y[i] - cross @ np.linalg.solve(k, y[others])
        variance = 1.01 - cross @ np.linalg.solve(k, cross)
        np.testing.assert_allclose(found[i], error / np.sqrt(variance), atol=ALGEBRA)


def test_kernels_are_those_of_scikit_learn():
    from sklearn.gaussian_process.kernels import RBF, Matern

    x, y = np.random.default_rng(1).normal(size=(2, 7, 3))
    for own, other in ((rbf, RBF(1.0)), (matern_5_2, Matern(1.0, nu=2.5))):
        np.testing.assert_allclose(own(x, y), other(x, y), atol=ALGEBRA)
