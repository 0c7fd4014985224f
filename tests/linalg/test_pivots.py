"""Chosen points against the residuals that they leave."""

from __future__ import annotations

import numpy as np

from matrixrl.features.kernels import choose_pivots, rbf


def test_every_point_is_represented_up_to_the_tolerance_and_no_fewer_steps_would_do():
    x = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    chosen = choose_pivots(x, rbf, budget=60, tolerance=1e-3)
    assert len(set(chosen.tolist())) == len(chosen) < 60

    def residuals(points):
        k = rbf(x[points], x)
        return 1.0 - (k * np.linalg.solve(rbf(x[points], x[points]), k)).sum(axis=0)

    assert residuals(chosen).max() <= 1e-3 + 1e-9
    for count in range(1, len(chosen)):  # each point is the one with the largest residual before it
        left = residuals(chosen[:count])
        assert left.max() > 1e-3
        assert left[chosen[count]] >= left.max() - 1e-9


def test_the_budget_is_kept_and_nothing_gives_nothing():
    x = np.random.default_rng(0).uniform(-1, 1, (30, 2))
    assert len(choose_pivots(x, rbf, budget=5, tolerance=0.0)) == 5
    assert len(choose_pivots(x[:0], rbf, budget=5, tolerance=0.0)) == 0
