"""The regression behind the linear baselines against its definition: a loop over all past transitions."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl.algorithms.baselines.linear import EllipsoidSettings, LinearModel, norm_bound
from small_worlds import WORLDS, phi_rows, random_batch

EPISODES = 7
REPLICAS = 2


def played(name, rng, stages, ridge=1.0):
    """Return a world, the model after some episodes, and the episodes with rewards."""
    world = WORLDS[name](3)
    n_groups = world.mdp.horizon if stages == "separate" else 1
    model = LinearModel(world.features.phi, REPLICAS, n_groups, ridge=ridge)
    seen = []
    for episode in range(EPISODES):
        batch = random_batch(world, rng, REPLICAS, world.mdp.horizon)
        weights = batch.ones
        if episode % 2:
            weights[:, -1] = 0.0  # an episode that ended early
        rewards = rng.random(batch.states.shape) * weights
        model.update(batch.steps(rewards, weights > 0.0))
        seen.append((batch, weights, rewards))
    return world, model, seen


def steps_of(world, seen, replica, stage=None):
    """Yield φ, r and s' of every step that was taken, one after the other."""
    rows = phi_rows(world)
    for batch, weights, rewards in seen:
        for h in range(world.mdp.horizon):
            if weights[replica, h] and stage in (None, h):
                pair = batch.actions[replica, h] * world.mdp.n_states + batch.states[replica, h]
                yield rows[pair], rewards[replica, h], batch.following[replica, h]


@pytest.mark.parametrize("name", ["tabular", "low rank"])
@pytest.mark.parametrize("stages", ["pooled", "separate"])
@pytest.mark.parametrize("with_reward", [True, False])
def test_weights_equal_a_loop_over_all_past_transitions(name, stages, with_reward):
    rng = np.random.default_rng(0)
    world, model, seen = played(name, rng, stages, ridge=0.7)
    values = rng.random((REPLICAS, world.mdp.n_states)) * 5
    for h in range(world.mdp.horizon):
        found = model.weights(h, values, with_reward=with_reward)
        for b in range(REPLICAS):
            a = 0.7 * np.eye(world.features.phi.d)
            moment = np.zeros(world.features.phi.d)
            for phi, reward, after in steps_of(world, seen, b, None if stages == "pooled" else h):
                a += np.outer(phi, phi)
                moment += phi * (with_reward * reward + values[b, after])
            np.testing.assert_allclose(found[b], np.linalg.solve(a, moment), atol=1e-10)
            widths = [np.sqrt(x @ np.linalg.solve(a, x)) for x in phi_rows(world)]
            np.testing.assert_allclose(model.widths(h)[b].ravel(), widths, atol=1e-10)


@pytest.mark.parametrize("name", ["tabular", "low rank"])
@pytest.mark.parametrize("stages", ["pooled", "separate"])
def test_scatter_has_covariance_of_the_inverse_design(name, stages):
    # Linear in z, so its matrix J is found from unit vectors, and JJᵀ must be A⁻¹: no statistics needed.
    rng = np.random.default_rng(1)
    world, model, seen = played(name, rng, stages)
    d, horizon = world.features.phi.d, world.mdp.horizon
    for h in range(horizon):
        columns = []
        for i in range(d):
            z = np.zeros((REPLICAS, horizon, d))
            z[:, h, i] = 1.0
            columns.append(model.scatter(z)[:, h])
        root = np.stack(columns, axis=2)
        for b in range(REPLICAS):
            a = np.eye(d)
            for phi, _, _ in steps_of(world, seen, b, None if stages == "pooled" else h):
                a += np.outer(phi, phi)
            np.testing.assert_allclose(root[b] @ root[b].T, np.linalg.inv(a), atol=1e-10)


def test_learned_arrays_have_a_size_that_does_not_depend_on_episodes():
    rng = np.random.default_rng(2)
    world, model, _ = played("low rank", rng, "pooled")
    before = {name: array.shape for name, array in model.state_dict().items()}
    batch = random_batch(world, rng, REPLICAS, world.mdp.horizon)
    model.update(batch.steps(batch.ones))
    assert {name: array.shape for name, array in model.state_dict().items()} == before


def test_restored_arrays_are_copies():
    rng = np.random.default_rng(2)
    world, model, _ = played("tabular", rng, "pooled")
    saved = model.state_dict()
    kept = {name: array.copy() for name, array in saved.items()}
    model.load_state_dict(saved)
    batch = random_batch(world, rng, REPLICAS, world.mdp.horizon)
    model.update(batch.steps(batch.ones))
    for name, array in saved.items():
        np.testing.assert_array_equal(array, kept[name])


@pytest.mark.parametrize("name", list(WORLDS))
def test_norm_bound_holds_for_every_theta_with_bounded_predictions(name):
    rng = np.random.default_rng(4)
    world = WORLDS[name](5)
    rows = phi_rows(world)
    for _ in range(50):
        theta = rng.standard_normal(rows.shape[1])
        theta /= np.abs(rows @ theta).max()
        assert np.linalg.norm(theta) <= norm_bound(world.features.phi) * (1 + 1e-12)


def test_oful_radius_equals_theorem_2():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((9, 3))
    ridge, delta, noise, norm = 0.3, 0.05, 0.5, 2.0
    v = ridge * np.eye(3) + x.T @ x
    ratio = np.sqrt(np.linalg.det(v)) / np.sqrt(np.linalg.det(ridge * np.eye(3)))
    expected = noise * np.sqrt(2 * np.log(ratio / delta)) + np.sqrt(ridge) * norm
    logdet = np.array([np.linalg.slogdet(v / ridge)[1]])
    radius = EllipsoidSettings(delta=delta, ridge=ridge).oful_radius(logdet, noise=noise, norm=norm)
    assert radius[0] == pytest.approx(expected)
