"""The model of KernelControl on noisy data: errors by leaving out, and length scales that noise does not shorten."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl.algorithms.control.dynamics import Observed, fit_kernel, kernel_prior, regress
from tolerances import ALGEBRA


@pytest.mark.parametrize("ridge", [1e-3, 10.0])
def test_errors_are_those_of_fits_that_leave_out_each_step(ridge):
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal((6, 40)), rng.standard_normal((40, 3))
    weights, errors = regress(z, y, ridge)
    np.testing.assert_allclose(weights, np.linalg.solve(z @ z.T + ridge * np.eye(6), z @ y), rtol=ALGEBRA)
    missed = []
    for i in range(40):
        others = np.arange(40) != i
        without, _ = regress(z[:, others], y[others], ridge)
        missed.append(y[i] - z[:, i] @ without)
    np.testing.assert_allclose(errors, 1.4826 * np.median(np.abs(missed), axis=0), rtol=ALGEBRA)


@pytest.mark.parametrize("size", [0.01, 1.0, 2.0, 3.0])
def test_noise_is_fitted_as_noise_and_not_as_short_length_scales(size):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (250, 3))
    clean = np.column_stack([np.sin(4.0 * x[:, 0]), np.cos(4.0 * x[:, 1])])
    change = clean + size * clean.std() * rng.standard_normal(clean.shape)
    observed = Observed(x, change, np.zeros(250), np.zeros(250, dtype=np.bool_))
    found = np.exp(fit_kernel(observed, None, kernel_prior(2, np.zeros(1, dtype=np.int64)), rng))
    assert 0.2 < found[:2].min() <= found[:2].max() < 1.0
    assert found[-1] < 2.0 * max(size**2, 1e-3)
    assert size < 1.0 or found[-1] > 0.5 * size**2


def test_no_steps_have_no_errors():
    weights, errors = regress(np.empty((2, 0)), np.empty((0, 3)), 1e-3)
    assert not weights.any()
    assert not errors.any()
