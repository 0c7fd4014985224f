"""The model of KernelControl on noisy data: errors by leaving out, and length scales that noise does not shorten."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl.algorithms.control.model import Observed, fit_kernel, kernel_prior, regress
from tolerances import ALGEBRA


@pytest.mark.parametrize("least", [1e-3, 10.0])
def test_ridges_have_the_largest_evidence_and_errors_are_those_of_fits_that_leave_out_each_step(least):
    """The evidence of an output is that of the Gaussian process with the n × n matrix zᵀz + ridge·I."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((6, 40))
    y = np.column_stack([z.T @ rng.standard_normal(6), rng.standard_normal(40)])
    y[:, 0] += 0.1 * rng.standard_normal(40)
    weights, errors = regress(z, y, least)
    for output in range(2):
        own, evidence = y[:, output], {}
        for ridge in [least, *(r for r in (1e-2, 1e-1, 1.0) if r > least)]:
            kernel = z.T @ z + ridge * np.eye(40)
            evidence[ridge] = 40.0 * np.log(own @ np.linalg.solve(kernel, own)) + np.linalg.slogdet(kernel)[1]
        best = min(evidence, key=evidence.get)
        assert output == 0 or len(evidence) == 1 or best == 1.0  # pure noise wants the largest ridge
        wanted = np.linalg.solve(z @ z.T + best * np.eye(6), z @ own)
        np.testing.assert_allclose(weights[:, output], wanted, rtol=ALGEBRA)
        missed = []
        for i in range(40):
            others = z[:, np.arange(40) != i]
            without = np.linalg.solve(others @ others.T + best * np.eye(6), others @ np.delete(own, i))
            missed.append(own[i] - z[:, i] @ without)
        np.testing.assert_allclose(errors[output], 1.4826 * np.median(np.abs(missed)), rtol=ALGEBRA)


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
