"""The factor is exact if every point is inducing, has the stated error otherwise, and is finite if ill-conditioned."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.kernel_approximation import Nystroem

from matrixrl.features.kernels import as_kernel
from matrixrl.features.state_maps import InducingMap
from tolerances import ALGEBRA


def factor_of(kernel, points, **settings):
    k = as_kernel(kernel)
    return InducingMap(k, points.shape[1], **settings), k


def test_with_every_point_the_kernel_is_exact():
    points = np.random.default_rng(0).random((40, 2))
    factor, k = factor_of(Matern(0.3, nu=1.5), points, budget=100, tolerance=0.0)
    z = factor.grow(points, factor.coordinates(points))
    residual = factor.residuals(points, z)
    assert factor.size == 40
    np.testing.assert_allclose(z @ z.T, k(points, points), atol=ALGEBRA)
    np.testing.assert_allclose(factor.coordinates(points), z, atol=ALGEBRA)
    assert residual.max() < ALGEBRA


def test_growing_in_pieces_is_growing_at_once():
    """Later points append zeros to the coordinates of earlier ones."""
    points = np.random.default_rng(1).random((30, 3))
    factor, k = factor_of(RBF(0.4), points, budget=100, tolerance=0.0)
    first = factor.grow(points[:10], factor.coordinates(points[:10]))
    factor.grow(points[10:], factor.coordinates(points[10:]))
    everything = factor.coordinates(points)
    np.testing.assert_allclose(everything[:10, :10], first, atol=ALGEBRA)
    np.testing.assert_allclose(everything[:10, 10:], 0.0, atol=1e-7)
    np.testing.assert_allclose(everything @ everything.T, k(points, points), atol=1e-7)


def test_with_the_same_points_it_is_nystroem():
    points = np.random.default_rng(2).random((50, 2))
    factor, _ = factor_of(RBF(0.5), points, budget=12, tolerance=0.0)
    factor.grow(points, factor.coordinates(points))
    other = Nystroem(gamma=0.5 / 0.5**2, n_components=12).fit(factor.points)
    z = factor.coordinates(points)
    np.testing.assert_allclose(z @ z.T, other.transform(points) @ other.transform(points).T, atol=1e-7)


@pytest.mark.parametrize("budget", [5, 15, 60])
def test_the_error_is_at_most_the_root_of_two_residuals(budget):
    points = np.random.default_rng(3).random((60, 2))
    factor, k = factor_of(RBF(0.3), points, budget=budget, tolerance=0.0)
    z = factor.grow(points, factor.coordinates(points))
    residual = factor.residuals(points, z)
    error = np.abs(k(points, points) - z @ z.T)
    assert (error <= np.sqrt(np.outer(residual, residual)) + 1e-9).all()
    assert factor.size <= budget
    if budget < 60:
        assert error.max() > 1e-4  # the bound is not trivial


def test_tolerance_bounds_the_residual_of_everything_seen():
    points = np.random.default_rng(4).random((200, 2))
    factor, _ = factor_of(RBF(0.4), points, budget=200, tolerance=1e-3)
    z = factor.grow(points, factor.coordinates(points))
    residual = factor.residuals(points, z)
    assert residual.max() <= 1e-3
    assert z.shape[1] == factor.size < 100


@pytest.mark.parametrize(
    ("kernel", "spread"),
    [(RBF(1e-6), 1.0), (RBF(50.0), 1.0), (1e12 * RBF(0.5), 1.0), (1e-12 * RBF(0.5), 1.0)],
    ids=["tiny length scale", "huge length scale", "huge amplitude", "tiny amplitude"],
)
def test_ill_conditioned_kernels_stay_finite_and_right(kernel, spread):
    """Duplicated points and extreme scales: rounding errors are never used as pivots."""
    points = np.random.default_rng(5).random((30, 2)) * spread
    points = np.concatenate([points, points[:15]])
    factor, k = factor_of(kernel, points, budget=100, tolerance=0.0)
    z = factor.grow(points, factor.coordinates(points))
    residual = factor.residuals(points, z)
    size = k.diagonal(points).max()
    assert np.isfinite(z).all()
    assert factor.size <= 30
    np.testing.assert_allclose(z @ z.T, k(points, points), atol=1e-9 * size)
    assert residual.max() <= 1e-9 * size


def test_no_candidates_change_nothing():
    factor, _ = factor_of(RBF(1.0), np.zeros((1, 2)))
    z = factor.grow(np.empty((0, 2)), np.empty((0, 0)))
    assert z.shape == (0, 0)
    assert factor.size == 0
