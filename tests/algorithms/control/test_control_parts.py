"""The parts of KernelControl, each against a second route."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl.algorithms.control.model import Observed, fit_dynamics, usual_rows
from matrixrl.algorithms.control.plan import ActionGrid
from matrixrl.algorithms.control.world import Backups, backward, fit_arrivals, outlook, value_points
from matrixrl.features.kernels import rbf
from matrixrl.spaces import BoxCodec, DiscreteCodec

NO_ENDS = np.zeros(200, dtype=np.bool_)


def pairs(seed=0, n=200):
    return np.random.default_rng(seed).uniform(-1, 1, (n, 3))


def fit(x, change, rewards=None, budget=200):
    ended = np.zeros(len(x), dtype=np.bool_)
    observed = Observed(x, change, np.zeros(len(x)) if rewards is None else rewards, ended)
    return fit_dynamics(observed, np.ones(3), 1e-6, np.array([False, False]), budget)


def test_a_linear_system_is_known_everywhere_from_a_few_steps():
    a, x = np.array([[0.1, 0.0, 0.05], [-0.2, 0.1, 0.3]]), pairs(n=20)
    model = fit(x, x @ a.T + 0.01, x[:, 0] - 2 * x[:, 2])
    far = 2.0 * pairs(seed=1)
    following, rewards = model.predict(far)
    np.testing.assert_allclose(following, far[:, :2] + far @ a.T + 0.01, atol=1e-4)
    np.testing.assert_allclose(rewards, np.clip(far[:, 0] - 2 * far[:, 2], *model.limits[:, 2]), atol=1e-4)


def test_with_all_steps_as_inducing_points_the_model_is_kernel_ridge_regression_of_the_rest():
    x = pairs(n=40)
    change = np.column_stack([np.sin(3 * x[:, 0]) * x[:, 2], np.cos(2 * x[:, 1])])
    observed = Observed(x, change, np.zeros(40), np.zeros(40, dtype=np.bool_))
    model = fit_dynamics(observed, np.full(3, 0.4), 1e-2, np.array([False, False]), 40)
    assert len(model.points) == 40
    rows = np.column_stack([np.ones(40), x])
    trend = np.linalg.solve(rows.T @ rows + 40e-6 * np.eye(4), rows.T @ change)
    scaled, new = x / 0.4, pairs(seed=1, n=30)
    weights = np.linalg.solve(rbf(scaled, scaled) + 1e-2 * np.eye(40), change - rows @ trend)
    direct = new[:, :2] + np.column_stack([np.ones(30), new]) @ trend + rbf(new / 0.4, scaled) @ weights
    np.testing.assert_allclose(model.predict(new)[0], direct, atol=1e-5)


def test_a_few_impacts_do_not_change_the_model_of_everything_else():
    x = pairs()
    change = 0.1 * np.column_stack([np.sin(2 * x[:, 0]), x[:, 2] * np.cos(x[:, 1])])
    struck = change.copy()
    struck[[3, 50, 120]] = 2.0
    new = 0.8 * pairs(seed=1)
    clean, robust = (fit(x, one).predict(new)[0] for one in (change, struck))
    assert np.abs(robust - clean).max() < 0.1  # the linear trend still sees them
    assert np.median(np.abs(robust - clean)) < 0.01


def test_noise_is_not_taken_for_impacts():
    errors = np.random.default_rng(0).normal(size=(2000, 3))
    assert usual_rows(errors, np.ones(3)).all()
    assert usual_rows(np.zeros((10, 2)), np.zeros(2)).all()


def test_novelty_is_the_posterior_variance_of_a_gaussian_process():
    seen, new = pairs(n=30)[:, :2], 2.0 * pairs(seed=1, n=50)[:, :2]
    none = seen[:0], seen[:0], np.empty(0)
    found = fit_arrivals(seen, none, np.random.default_rng(0)).novelty(new)
    k = rbf(new, seen)
    direct = 1.0 - (k * np.linalg.solve(rbf(seen, seen) + 1e-3 * np.eye(30), k.T).T).sum(axis=1)
    np.testing.assert_allclose(found, direct, atol=5e-3)  # inducing points may miss 1e-5 of the kernel
    assert fit_arrivals(seen, none, np.random.default_rng(0)).novelty(np.array([[9.0, 9.0]]))[0] > 0.999


def test_ends_that_were_seen_are_ends_and_the_states_before_them_are_not():
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (1500, 2)) * [0.5, 1.0]
    before = np.column_stack([np.full(8, 0.495), rng.uniform(-1, 1, 8)])
    after = before + np.array([0.01, 0.0])
    pay = np.linspace(1.0, 2.0, 8)
    arrivals = fit_arrivals(states, (before, after, pay), rng)
    assert (arrivals.ends(after)[0] > 0.5).all()
    assert (arrivals.ends(before)[0] < 0.5).all()
    assert (arrivals.ends(states)[0] > 0.5).mean() < 0.05
    assert np.abs(arrivals.ends(after)[1] - pay).max() < 0.5


def test_values_at_states_without_neighbours_are_those_of_a_table():
    rng = np.random.default_rng(0)
    states = 1000.0 * np.arange(6.0)[:, None]
    following = rng.integers(6, size=(6, 3))
    pays, goes_on = rng.normal(size=18), (rng.random(18) > 0.2).astype(np.float64)
    backups = Backups(states, pays, goes_on, states[following.ravel()], 3)
    low, high, soft = np.full(7, -100.0), np.full(7, 100.0), 0.3
    points, chosen = value_points(states, 10, 1e-4)
    assert sorted(chosen.tolist()) == list(range(6))
    value = backward(points, backups, low, high, softness=soft, tolerance=1e-4)
    v = np.zeros(6)
    for h in range(6, -1, -1):
        q = pays.reshape(6, 3) + goes_on.reshape(6, 3) * v[following]
        best = (1 - soft) * q.max(axis=1) + soft * q.mean(axis=1)
        v = best.mean() + (best - best.mean()) / (1 + 1e-3)  # the ridge of the regression
        np.testing.assert_allclose(value.at(h, states), v, atol=1e-6)
    np.testing.assert_array_equal(value.at(7, states), 0.0)


@pytest.mark.parametrize(
    ("rewards", "ended", "is_blind"),
    [
        (np.zeros(200), NO_ENDS, True),
        (np.ones(200), NO_ENDS, True),
        (np.ones(200), np.arange(200) == 20, False),  # an end that costs the rewards of later steps
        (np.where(np.arange(200) == 20, 1.0, 0.0), np.arange(200) == 20, False),
        (np.linspace(-1, 0, 200), NO_ENDS, False),
    ],
)
def test_rewards_are_blind_until_they_depend_on_more_than_the_action(rewards, ended, is_blind):
    actions = pairs()[:, 2:]
    found = outlook(rewards, actions, ended, 50, 0.001)
    assert found.is_blind == is_blind
    costs = outlook(rewards - 0.1 * actions[:, 0] ** 2, actions, ended, 50, 0.001)
    assert costs.is_blind == is_blind
    if is_blind:
        assert costs.bonus >= 50 * 0.09  # more than an episode can cost
    assert (found.low <= found.high).all()
    assert found.high[0] >= rewards.max()


def test_the_grid_of_actions_has_the_ends_and_the_middle_and_few_of_many_dimensions():
    one = ActionGrid.of(BoxCodec.of([-2.0], [2.0], (1,), "float32"), 5)
    np.testing.assert_allclose(one.planned[:, 0], [-1, -0.5, 0, 0.5, 1])
    np.testing.assert_allclose(one.coordinates(one.numbers), one.planned)
    for q in (2, 3, 6, 10):
        grid = ActionGrid.of(BoxCodec.of([-1.0] * q, [1.0] * q, (q,), "float64"), 5)
        assert 2 < len(grid.planned) <= 64
        assert grid.planned.shape[1] == q
        near = grid.around(grid.planned[0], 0.5)
        assert np.abs(near).max() <= 1.0
    discrete = ActionGrid.of(DiscreteCodec(3), 5)
    np.testing.assert_array_equal(discrete.coordinates(np.array([2, 0])), np.eye(3)[[2, 0]])
    assert set(discrete.groups.tolist()) == {0}
