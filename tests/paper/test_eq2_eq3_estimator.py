"""YW19 (2) and (3): the estimate by three routes, and its unbiasedness by enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from tolerances import ALGEBRA, EXACT
from worlds import WORLDS, algorithm_with_data, model_radii


def regression_data(world, seen, replica):
    """Return the design rows φ and the targets K_ψ⁻¹ψ, step by step."""
    phi, psi = world.features.phi.table, world.features.psi.table
    gram_inverse = np.linalg.inv(psi.T @ psi)
    x, y = [], []
    for batch in seen:
        for s, a, f in zip(batch.states[replica], batch.actions[replica], batch.following[replica], strict=True):
            x.append(phi[s, a])
            y.append(gram_inverse @ psi[f])
    return np.array(x), np.array(y)


@pytest.mark.parametrize("name", WORLDS)
def test_incremental_estimate_is_the_direct_solve_and_the_ridge_minimiser(name, rng):
    world = WORLDS[name](3)
    algorithm, seen = algorithm_with_data(world, rng, episodes=30, n_replicas=2)
    cores = algorithm.model.core_matrix()
    for replica in range(2):
        x, y = regression_data(world, seen, replica)
        d = x.shape[1]
        direct = np.linalg.solve(np.eye(d) + x.T @ x, x.T @ y)  # (2)
        stacked = np.linalg.lstsq(np.vstack([x, np.eye(d)]), np.vstack([y, np.zeros((d, y.shape[1]))]), rcond=None)[
            0
        ]  # (3) as plain least squares
        gradient = x.T @ (x @ cores[replica] - y) + cores[replica]  # half the gradient of (3)
        np.testing.assert_allclose(cores[replica], direct, atol=ALGEBRA)
        np.testing.assert_allclose(cores[replica], stacked, atol=ALGEBRA)
        assert np.abs(gradient).max() < ALGEBRA * len(x)


@pytest.mark.parametrize("name", WORLDS)
def test_the_regression_target_is_unbiased_by_enumeration(name):
    world = WORLDS[name](5)
    psi = world.features.psi.table
    targets = psi @ np.linalg.inv(psi.T @ psi)
    phi = world.features.phi.table
    for s in range(world.mdp.n_states):
        for a in range(world.mdp.n_actions):
            row = world.mdp.transitions.rows(np.array([s]), np.array([a]))[0]
            expected = sum(p * np.outer(phi[s, a], t) for p, t in zip(row, targets, strict=True))
            np.testing.assert_allclose(expected, np.outer(phi[s, a], phi[s, a]) @ world.core, atol=EXACT)


@pytest.mark.parametrize("name", WORLDS)
def test_assumption_1_holds_for_generated_worlds(name):
    world = WORLDS[name](7)
    table = np.einsum("sai,ij,tj->sat", world.features.phi.table, world.core, world.features.psi.table)
    states, actions = np.divmod(np.arange(world.mdp.n_states * world.mdp.n_actions), world.mdp.n_actions)
    rows = world.mdp.transitions.rows(states, actions)
    np.testing.assert_allclose(table.reshape(rows.shape), rows, atol=EXACT)


@pytest.mark.slow
def test_the_estimate_converges_to_the_core(rng):
    world = WORLDS["low rank"](1)
    algorithm, _ = algorithm_with_data(world, rng, episodes=4000)
    error = np.linalg.norm(algorithm.model.core_matrix()[0] - world.core)
    early, _ = algorithm_with_data(world, rng, episodes=20)
    assert error < 0.25 * np.linalg.norm(early.model.core_matrix()[0] - world.core)


@pytest.mark.parametrize("radius", ["theorem", "self-normalised", "block", "log-det", "proof"])
@pytest.mark.parametrize("ridge", [0.01, 1.0, 5.0])
def test_a_ridge_is_a_scale_of_the_features(ridge, radius):
    """λ with φ is 1 with φ/√λ: estimate, widths, radii, decisions (docs/proofs.md, section 3)."""
    from matrixrl import MatrixRL, make

    env = make("linear-mdp", n_states=30, d=6, horizon=4)
    phi = env.unwrapped.mdp.features.phi.table
    one = MatrixRL(env, seed=2, set="normalised", ridge=ridge, radius=radius)
    two = MatrixRL(env, phi=phi / np.sqrt(ridge), seed=2, set="normalised", ridge=1.0, radius=radius)
    np.testing.assert_allclose(one.learn(40).upper, two.learn(40).upper, rtol=1e-9)
    np.testing.assert_allclose(model_radii(one.algorithm), model_radii(two.algorithm), rtol=1e-9)


def test_a_ridge_with_one_hot_features_is_a_prior_count():
    from matrixrl import MatrixRL, make

    agent = MatrixRL(make("river-swim", n_states=4), seed=0, ridge=0.25)
    agent.learn(20)
    counts = agent.algorithm.model.design.counts
    np.testing.assert_allclose(agent.algorithm.model.design.width_sq, 1 / (0.25 + counts))
    np.testing.assert_allclose(agent.algorithm.model.design.logdet, np.log((0.25 + counts) / 0.25).sum(axis=1))
    np.testing.assert_allclose(
        agent.algorithm.model.core_matrix()[0], agent.algorithm.model.cross_moment[0] / (0.25 + counts[0])[:, None]
    )
