"""Incremental widths: widths by downdates equal widths recomputed, after ten thousand episodes."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl.linalg import DensePairs, DiagonalPairs
from tolerances import ALGEBRA


def recomputed(rows, visited):
    """w² from a solve with the whole data, no incremental code."""
    matrix = np.eye(rows.shape[1]) + rows[visited].T @ rows[visited]
    return np.einsum("pd,dp->p", rows, np.linalg.solve(matrix, rows.T)), np.linalg.slogdet(matrix)[1]


@pytest.mark.parametrize(("d", "horizon"), [(20, 4), (6, 12)])  # downdates, and recomputation when H >= d
def test_after_ten_thousand_episodes(d, horizon, rng):
    rows = rng.dirichlet(np.full(d, 0.3), size=60)
    pairs = DensePairs(rows, n_replicas=2)
    visits = rng.integers(0, 60, (10_000, 2, horizon))
    for episode in visits:
        pairs.update(episode, np.ones(episode.shape))
    for replica in range(2):
        exact, logdet = recomputed(rows, visits[:, replica].ravel())
        np.testing.assert_allclose(pairs.width_sq[replica], exact, rtol=ALGEBRA)
        assert pairs.logdet[replica] == pytest.approx(logdet, rel=ALGEBRA)
    assert pairs.drift < ALGEBRA
    assert (pairs.drift > 0) == (horizon < d)  # it was measured where downdates happened


def test_the_drift_that_is_recorded_is_the_drift_there_was(rng):
    rows = rng.standard_normal((30, 8))
    pairs = DensePairs(rows, n_replicas=1, refresh_every=50)
    for _ in range(49):
        pairs.update(rng.integers(0, 30, (1, 3)), np.ones((1, 3)))
    widths = pairs.width_sq  # brings them up to date
    widths *= 1.0 + 1e-3  # as if rounding had gone wrong
    pairs.update(np.array([[0]]), np.ones((1, 1)))
    assert pairs.drift == pytest.approx(1e-3, rel=0.2)


def test_one_hot_widths_are_counts_and_equal_the_dense_code(rng):
    """Tabular width is 1/√(1 + count), whichever class keeps it."""
    dense, diagonal = DensePairs(np.eye(7), 2), DiagonalPairs(7, 2)
    count = np.zeros((2, 7))
    for _ in range(40):
        visited = rng.integers(0, 7, (2, 3))
        taken = (rng.random((2, 3)) < 0.8).astype(float)
        dense.update(visited, taken)
        diagonal.update(visited, taken)
        for b in range(2):
            np.add.at(count[b], visited[b], taken[b])
    np.testing.assert_allclose(diagonal.width_sq, 1 / (1 + count), rtol=1e-14)
    np.testing.assert_allclose(dense.width_sq, diagonal.width_sq, rtol=ALGEBRA)
    np.testing.assert_allclose(dense.logdet, diagonal.logdet, rtol=ALGEBRA)
    rhs = rng.standard_normal((2, 7, 3))
    np.testing.assert_allclose(dense.solve(rhs), diagonal.solve(rhs), rtol=ALGEBRA)
