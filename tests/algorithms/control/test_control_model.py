"""The model of KernelControl and episodes simulated in it, each against a second route."""

from __future__ import annotations

import numpy as np

from matrixrl.algorithms.control.model import Dynamics, Observed, fit_dynamics
from matrixrl.algorithms.control.plan import ActionGrid
from matrixrl.algorithms.control.world import END_GRID, ValueFunction, WorldModel, end_kernel, fit_arrivals, simulate
from matrixrl.features.kernels import rbf
from matrixrl.spaces import DiscreteCodec


def ends_at_a_threshold(rng, n):
    """Return ends of episodes whose first coordinate exceeds 0.5."""
    before = np.column_stack([rng.uniform(0.45, 0.5, n), rng.uniform(-1, 1, (n, 3))])
    return before, before + np.array([0.06, 0.0, 0.0, 0.0]), rng.normal(size=n)


def world_of(seed=0, bonus=0.1):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.uniform(-0.5, 0.5, (200, 4)), np.eye(3)[rng.integers(3, size=200)]])
    change = 0.2 * np.sin(2.0 * x[:, :4]) * x[:, 4:5] + 0.1 * x[:, 5:6]
    observed = Observed(x, change, np.cos(x[:, 0]) + x[:, 6], np.zeros(200, dtype=np.bool_))
    dynamics = fit_dynamics(observed, np.linspace(0.5, 2.0, 7), 1e-4, np.array([True, False, False, True]), 150)
    return WorldModel(dynamics, fit_arrivals(x[:, :4], ends_at_a_threshold(rng, 6), rng), bonus)


def test_outcomes_of_all_actions_at_once_are_those_of_pairs():
    world, actions = world_of(), np.eye(3)
    states = np.random.default_rng(1).uniform(-1, 1, (40, 4))
    ahead = world.lookahead(actions)(states)
    following, pays, goes_on = world.outcomes(np.repeat(states, 3, axis=0), np.tile(actions, (40, 1)))
    np.testing.assert_allclose(ahead.following, following, atol=1e-9)
    np.testing.assert_allclose(ahead.pays, pays, atol=1e-9)
    np.testing.assert_allclose(ahead.goes_on, goes_on, atol=1e-8)
    assert 0.0 < goes_on.mean() < 1.0


def test_a_threshold_of_one_coordinate_is_found_from_a_few_ends():
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (600, 4)) * [0.5, 1, 1, 1]
    arrivals = fit_arrivals(states, ends_at_a_threshold(rng, 4), rng)
    others = rng.uniform(-1, 1, (300, 3))
    beyond, short = (np.column_stack([np.full(300, x), others]) for x in (0.57, 0.4))
    assert (arrivals.ends(beyond)[0] > 0.5).mean() > 0.95
    assert (arrivals.ends(short)[0] > 0.5).mean() < 0.05
    far = beyond + np.array([2.0, 0.0, 0.0, 0.0])  # beyond all that was seen, as at the border of it
    border = np.clip(far, *arrivals.end_range)
    np.testing.assert_array_equal(np.stack(arrivals.ends(far)), np.stack(arrivals.ends(border)))


def test_stored_parts_of_coordinates_are_the_kernel_of_ends():
    rng = np.random.default_rng(0)
    states = rng.uniform(-0.5, 0.5, (300, 4))
    arrivals = fit_arrivals(states, ends_at_a_threshold(rng, 5), rng)
    low, high = arrivals.end_range
    x = low + (high - low) * rng.integers(END_GRID, size=(200, 4)) / (END_GRID - 1)
    direct = end_kernel(x, arrivals.end_points) @ arrivals.end_weights
    sure, pays = arrivals.ends(x)
    np.testing.assert_allclose(sure, np.clip((direct[:, 0] - 0.3) / 0.4, 0, 1), atol=1e-7)
    np.testing.assert_allclose(pays, arrivals.end_pay[0] + direct[:, 1], atol=1e-7)
    assert 0.0 < sure.mean() < 1.0


def test_each_output_has_the_ridge_of_the_largest_evidence():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (60, 3))
    exact, noisy = np.sin(4 * x[:, 0]) * x[:, 1], np.cos(3 * x[:, 2]) + rng.normal(0, 0.3, 60)
    observed = Observed(x, np.column_stack([exact, noisy]), np.zeros(60), np.zeros(60, dtype=np.bool_))
    model = fit_dynamics(observed, np.full(3, 0.5), 1e-5, np.array([False, False]), 60)
    new = rng.uniform(-1, 1, (30, 3))
    rows, scaled = np.column_stack([np.ones(60), x]), x / 0.5
    trend = np.linalg.solve(rows.T @ rows + 60e-6 * np.eye(4), rows.T @ observed.change)
    chosen = []
    for j, rest in enumerate((observed.change - rows @ trend).T):
        found = []
        for ridge in 10.0 ** np.arange(-5.0, 1.0):
            matrix = rbf(scaled, scaled) + ridge * np.eye(60)
            alpha = np.linalg.solve(matrix, rest)
            mean = new[:, j] + np.column_stack([np.ones(30), new]) @ trend[:, j] + rbf(new / 0.5, scaled) @ alpha
            found.append((60 * np.log(rest @ alpha) + np.linalg.slogdet(matrix)[1], ridge, mean))
        _, ridge, mean = min(found, key=lambda one: one[0])
        np.testing.assert_allclose(model.predict(new)[0][:, j], np.clip(mean, *model.limits[:, j]), atol=2e-4)
        chosen.append(ridge)
    assert chosen[0] < 1e-3 < chosen[1]


def test_simulated_episodes_without_mistakes_show_a_plan_that_gets_stuck():
    horizon, trend = 20, np.zeros((4, 2))
    trend[3, 0], trend[1, 1] = 0.05, 1.0  # the second action moves; the reward is the position
    limits = np.array([[-9.0, -9.0], [9.0, 9.0]])
    dynamics = Dynamics(np.ones(3), np.zeros((1, 3)), trend, np.zeros((1, 2)), limits, np.zeros(2))
    none = np.empty((0, 1)), np.empty((0, 1)), np.empty(0)
    world = WorldModel(dynamics, fit_arrivals(np.zeros((1, 1)), none, np.random.default_rng(0)), 0.0)
    flat = ValueFunction(np.zeros((1, 1)), *(np.zeros(shape) for shape in ((horizon, 1), horizon, horizon, horizon)))
    grid = ActionGrid.of(DiscreteCodec(2), 5)
    earned, visited = simulate(world, flat, grid.planned, np.zeros((1, 1)), np.zeros(1))
    rng = np.random.default_rng(0)
    mistaken = rng.random((horizon, 1))[:, 0] < 0.1
    moves = mistaken & (rng.integers(2, size=(horizon, 2))[:, 0] == 1)
    positions = 0.05 * np.cumsum(moves)
    assert moves.any()
    np.testing.assert_allclose(earned, 0.5 * positions[:-1].sum())  # the other half never moves
    np.testing.assert_allclose(visited[::2, 0], positions)
    shaken = simulate(world, flat, grid.planned, np.zeros((1, 1)), np.full(1, 0.1))[1]
    assert 0.05 < np.diff(shaken[1::2, 0]).std() < 0.2
