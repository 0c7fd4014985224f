"""Bounds of a few pairs, products with M_n and compiled values of policies are those of all pairs, M_n and NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from matrixrl import MatrixRL, make
from matrixrl.algorithms import UCMatrixRL
from matrixrl.core import SETS
from matrixrl.core.backup import ValueBounds, pessimistic_values, upper_policy_values
from matrixrl.core.matrix_bounds import FewPairs, MatrixBounds, VisitedCore
from matrixrl.core.sets import Reach
from matrixrl.features import Features, OneHotPsi, TablePhi, TablePsi
from matrixrl.problems import Problem, low_rank, tabular
from tolerances import ALGEBRA, EXACT
from worlds import random_steps

N_STATES, N_ACTIONS, HORIZON = 30, 3, 5


def bounds_of(psi, *, n_steps=6, phi=None, **chosen):
    rng = np.random.default_rng(4)
    world = tabular(n_states=N_STATES, n_actions=N_ACTIONS, horizon=HORIZON, seed=1).mdp
    phi = TablePhi(rng.dirichlet(np.ones(4), (N_STATES, N_ACTIONS))) if phi is None else phi
    features = Features(phi, OneHotPsi(N_STATES) if psi == "one-hot" else TablePsi(rng.random((N_STATES, 3))))
    algorithm = UCMatrixRL(**chosen).start(Problem.of(world, features), [0, 1])
    for _ in range(n_steps):
        algorithm.update(random_steps(world, rng, 2))
    return algorithm, algorithm.model.bounds(algorithm.clock, "agent")[0], rng


@pytest.mark.parametrize("psi", ["one-hot", "table"])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("known_reward", [True, False])
def test_bounds_of_a_few_pairs_are_those_of_all(psi, name, known_reward):
    _, bounds, rng = bounds_of(psi, set=name, exploration=0.2, known_reward=known_reward)
    few = np.zeros((2, N_ACTIONS, N_STATES), dtype=bool)
    few[0, 1, 3] = few[1, 2, 7] = few[0, 0, 29] = True
    part, values = bounds.restricted(few), rng.random((2, N_STATES))
    assert isinstance(part, FewPairs)
    at = few.any(axis=0)
    for sign in (1.0, -1.0):
        for given in (values, None):
            for clip in (False, True):
                found, wanted = (b.any_q(given, sign=sign, clip=clip)[:, at] for b in (part, bounds))
                np.testing.assert_allclose(found, wanted, atol=ALGEBRA)
            np.testing.assert_allclose(*(b.q(given, sign=sign)[:, at] for b in (part, bounds)), atol=ALGEBRA)
        np.testing.assert_allclose(*(b.bound(values, sign=sign)[:, at] for b in (part, bounds)), atol=ALGEBRA)
    assert bounds.restricted(np.ones_like(few)) is bounds


def test_empty_sets_stay_empty():
    _, bounds, rng = bounds_of("one-hot", set="normalised", exploration=0.2)
    [reach] = bounds.reaches
    empty = rng.random(reach.half_width.shape) < 0.5
    bounds = replace(bounds, reaches=(Reach(reach.half_width, empty, 3.0 * reach.half_width),))
    few = np.zeros((2, N_ACTIONS, N_STATES), dtype=bool)
    few[:, :2, :4] = True
    values = rng.random((2, N_STATES))
    found, wanted = (b.any_q(values)[:, few[0]] for b in (bounds.restricted(few), bounds))
    np.testing.assert_allclose(found, wanted, atol=ALGEBRA)


def test_the_budget_is_the_same_by_few_pairs_and_by_all(monkeypatch):
    world, budgets = low_rank(n_states=40, n_actions=3, d=4, horizon=5, seed=0).mdp, []
    for method in (MatrixBounds.restricted, ValueBounds.restricted):
        monkeypatch.setattr(MatrixBounds, "restricted", method)
        agent = MatrixRL(world, seed=0)
        agent.learn(20)
        budgets.append((agent.algorithm.budget.earned, agent.algorithm.budget.charged))
    np.testing.assert_allclose(*budgets, atol=ALGEBRA)
    assert budgets[0][0] > 0.0


def test_products_are_those_with_the_estimate_also_after_more_was_learned():
    many = TablePhi(np.random.default_rng(3).dirichlet(np.ones(12), (N_STATES, N_ACTIONS)))  # A⁻¹ is updated
    algorithm, bounds, rng = bounds_of("one-hot", set="normalised", n_steps=2, phi=many)
    core, values = algorithm.model.core_matrix(), rng.random((2, N_STATES, 3))
    assert isinstance(bounds.core_matrix, VisitedCore)
    for _ in range(3):
        algorithm.update(random_steps(algorithm.problem.mdp, rng, 2))
    assert np.abs(algorithm.model.core_matrix() - core).max() > 1e-3
    np.testing.assert_allclose(bounds.core_matrix @ values, core @ values, atol=EXACT)
    np.testing.assert_allclose(bounds.core_matrix @ values[0, :, 0], core @ values[0, :, 0], atol=EXACT)
    np.testing.assert_allclose(np.asarray(bounds.core_matrix), core, atol=EXACT)


@pytest.mark.parametrize("psi", ["one-hot", "table"])
@pytest.mark.parametrize("name", [name for name in SETS if name != "intersection"])
def test_compiled_values_of_a_policy_are_those_of_numpy(psi, name):
    algorithm, bounds, rng = bounds_of(psi, set=name, exploration=0.005)
    policy = rng.integers(0, N_ACTIONS, (2, HORIZON, N_STATES))
    if bounds.compiled_policy_backup() is None:
        assert name == "normalised-column"
        assert psi == "table"
        return
    ceiling = 0.7 * np.arange(HORIZON, -1, -1)[:, None] + rng.random((2, HORIZON + 1, N_STATES))
    for found, wanted in (
        [pessimistic_values(bounds, policy, algorithm.frame, compiled=c) for c in (True, False)],
        [upper_policy_values(bounds, policy, ceiling, algorithm.frame, compiled=c) for c in (True, False)],
    ):
        np.testing.assert_allclose(found, wanted, atol=ALGEBRA)
        assert 0.0 < wanted[:, 0].max() < HORIZON


def test_blocks_of_states_make_one_plan():
    """More states than a compiled backup takes at once, and not a multiple of them."""
    env, plans = make("linear-mdp", n_states=5_000, n_actions=2, d=5, horizon=3), []
    for compiled in (True, False):
        agent = MatrixRL(env, seed=0, compiled=compiled, measure_regret=False)
        agent.learn(4)
        plans.append(agent.algorithm.plan())
    np.testing.assert_allclose(plans[0].values, plans[1].values, atol=ALGEBRA)
    np.testing.assert_array_equal(plans[0].policy, plans[1].policy)
