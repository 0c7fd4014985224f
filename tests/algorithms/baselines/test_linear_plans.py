"""Plans of RLSVI, LSVI-UCB and UCRL-VTR against plain loops that follow the papers line by line."""

from __future__ import annotations

import numpy as np
import pytest

import matrixrl
from algorithms.playing import started
from matrixrl.algorithms.baselines.ucrl_vtr import ValueModel
from matrixrl.errors import InvalidInput
from matrixrl.features import Features, OneHotPsi, TablePhi
from matrixrl.problems import Problem, low_rank
from matrixrl.random_streams import generator
from small_worlds import WORLDS, phi_rows, random_batch

NAMES = ["tabular", "low rank"]


def with_history(agent, world, rng, episodes=5):
    """Learn random episodes; return them as lists of (pair, r, s'), one for each stage, and the values of the plans."""
    horizon = world.mdp.horizon
    stages = [[] for _ in range(horizon)]
    targets = []
    for _ in range(episodes):
        plan = agent.plan()
        batch = random_batch(world, rng, 1, horizon)
        rewards = world.mdp.task.reward[batch.states, batch.actions]
        agent.update(batch.steps(rewards))
        for h in range(horizon):
            pair = int(batch.actions[0, h] * world.mdp.n_states + batch.states[0, h])
            stages[h].append((pair, float(rewards[0, h]), int(batch.following[0, h])))
            targets.append((pair, plan.values[0, h + 1].copy(), int(batch.following[0, h])))
    return stages, targets


def regression(rows, data, values, ridge, reward_counts):
    """Ridge regression of r + V(s') on φ, transition by transition."""
    a, moment = ridge * np.eye(rows.shape[1]), np.zeros(rows.shape[1])
    for pair, reward, after in data:
        a += np.outer(rows[pair], rows[pair])
        moment += rows[pair] * (reward * reward_counts + values[after])
    return np.linalg.solve(a, moment), a


def used(stages, h, setting):
    return stages[h] if setting == "separate" else [step for stage in stages for step in stage]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("stages", ["pooled", "separate"])
def test_lsvi_ucb_is_algorithm_1_of_its_paper(name, known, stages):
    world = WORLDS[name](2)
    mdp, rows = world.mdp, phi_rows(world)
    settings = {"stages": stages, "scale": 0.003, "n_episodes": 30, "delta": 0.2, "known_reward": known}
    agent = started("lsvi-ucb", mdp, **settings)
    history, _ = with_history(agent, world, np.random.default_rng(3))
    plan = agent.plan()
    d, horizon = rows.shape[1], mdp.horizon
    beta = 0.003 * d * horizon * np.sqrt(np.log(2 * d * horizon * 30 / 0.2))
    values = np.zeros(mdp.n_states)
    for h in reversed(range(horizon)):
        w, a = regression(rows, used(history, h, stages), values, 1.0, not known)
        q = np.zeros((mdp.n_states, mdp.n_actions))
        for s in range(mdp.n_states):
            for action in range(mdp.n_actions):
                phi = rows[action * mdp.n_states + s]
                bonus = beta * np.sqrt(phi @ np.linalg.solve(a, phi))
                q[s, action] = min(w @ phi + bonus + known * mdp.task.reward[s, action], horizon)
        values = q.max(axis=1)
        np.testing.assert_allclose(plan.values[0, h], values, atol=1e-8)
        chosen = q[np.arange(mdp.n_states), plan.policy[0, h]]
        np.testing.assert_allclose(chosen, values, atol=1e-7)
    assert 0.0 < plan.values.max() <= horizon


def test_lsvi_ucb_with_the_constants_of_the_paper_is_certain_of_nothing_yet():
    world = WORLDS["tabular"](2)
    agent = started("lsvi-ucb", world.mdp, n_episodes=100)
    with_history(agent, world, np.random.default_rng(3), episodes=60)
    assert (agent.plan().values[:, :-1] == world.mdp.horizon).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("stages", "clip"), [("pooled", True), ("separate", False)])
def test_rlsvi_is_algorithm_1_of_its_paper(name, known, stages, clip):
    world = WORLDS[name](4)
    mdp, rows, seed, ridge = world.mdp, phi_rows(world), 6, 0.5
    settings = {"stages": stages, "clip": clip, "ridge": ridge, "noise": "horizon", "scale": 0.2, "known_reward": known}
    agent = started("rlsvi", mdp, [seed], **settings)
    history, _ = with_history(agent, world, np.random.default_rng(5))
    plan = agent.plan()
    d, horizon, sigma = rows.shape[1], mdp.horizon, 0.2 * mdp.horizon
    stream = generator(seed, "agent")
    normals = [stream.standard_normal((horizon, d)) for _ in range(6)][-1]
    values = np.zeros(mdp.n_states)
    for h in reversed(range(horizon)):
        mean, a = regression(rows, used(history, h, stages), values, ridge, not known)
        # The draw z ↦ mean + σ L⁻ᵀ z with A = LLᵀ has covariance σ²A⁻¹.
        theta = mean + sigma * np.linalg.inv(np.linalg.cholesky(a)).T @ normals[h]
        if known and h == horizon - 1:
            theta = np.zeros(d)
        q = (rows @ theta).reshape(mdp.n_actions, -1).T + known * mdp.task.reward
        values = q.max(axis=1)
        if clip:
            values = values.clip(0, horizon - h)
        np.testing.assert_allclose(plan.values[0, h], values, atol=1e-8)


def test_rlsvi_noise_of_the_paper_preset_is_russo_2019():
    world = WORLDS["tabular"](4)
    agent = started("rlsvi", world.mdp, known_reward=False)
    with_history(agent, world, np.random.default_rng(5), episodes=6)
    n_states, n_actions, horizon = 5, 3, 4
    expected = 0.5 * n_states * horizon**3 * np.log(2 * horizon * n_states * n_actions * 7)
    assert agent.sigma() ** 2 == pytest.approx(expected)


@pytest.mark.parametrize("name", [*NAMES, "tabular, rotated psi"])
@pytest.mark.parametrize("known", [True, False])
def test_ucrl_vtr_is_ridge_regression_on_phi_times_values(name, known):
    world = WORLDS[name](7)
    mdp, rows, psi = world.mdp, phi_rows(world), world.features.psi.table
    agent = started("ucrl-vtr", mdp, scale=0.02, ridge=0.5, delta=0.2, known_reward=known)
    history, targets = with_history(agent, world, np.random.default_rng(8))
    plan = agent.plan()
    d, horizon = rows.shape[1] * psi.shape[1], mdp.horizon
    a, moment = 0.5 * np.eye(d), np.zeros(d)
    for pair, v, after in targets:  # the values of the plan that was played then, not of today's
        x = np.kron(rows[pair], psi.T @ v)
        a += np.outer(x, x)
        moment += x * v[after]
    theta = np.linalg.solve(a, moment)
    radius = oful(a, 0.5, 0.2, 0.5 * horizon, np.sqrt(0.5) * agent.core_norm)
    reward = mdp.task.reward.T.ravel()
    if not known:
        w, gram = regression(rows, used(history, 0, "pooled"), np.zeros(mdp.n_states), 0.5, True)
        size = 0.02 * oful(gram, 0.5, 0.2, 0.5, np.sqrt(0.5) * agent.reward_norm)
        widths = np.array([np.sqrt(x @ np.linalg.solve(gram, x)) for x in rows])
        reward = (rows @ w + size * widths).clip(0, 1)
    values = np.zeros(mdp.n_states)
    for h in reversed(range(horizon)):
        q = np.zeros(len(rows))
        for pair, phi in enumerate(rows):
            x = np.kron(phi, psi.T @ values)
            q[pair] = reward[pair] + x @ theta + 0.02 * radius * np.sqrt(x @ np.linalg.solve(a, x))
        values = q.reshape(mdp.n_actions, -1).max(axis=0).clip(0, horizon - h)
        np.testing.assert_allclose(plan.values[0, h], values, atol=1e-7)


def oful(a, ridge, delta, noise, offset):
    return noise * np.sqrt(2 * np.log(1 / delta) + np.linalg.slogdet(a / ridge)[1]) + offset


def test_core_norm_covers_the_true_core():
    for name in NAMES:
        world = WORLDS[name](7)
        agent = started("ucrl-vtr", world.mdp)
        assert np.linalg.norm(world.core) <= agent.core_norm


def test_blocks_of_one_hot_features_are_the_dense_regression():
    world = WORLDS["tabular"](9)
    phi = world.features.phi
    dense = Features(TablePhi(phi.table), OneHotPsi(phi.n_states))
    rng = np.random.default_rng(10)
    pair = [ValueModel(world.features, 2, ridge=0.3), ValueModel(dense, 2, ridge=0.3)]
    for _ in range(3):
        pairs = rng.integers(0, 3, (2, 8))  # three pairs only: many visits to one block in an episode
        values, targets = rng.random((2, 8, 5)) * 4, rng.random((2, 8))
        weights = (rng.random((2, 8)) < 0.8).astype(float)
        for one in pair:
            one.update(pairs, values, targets, weights)
    np.testing.assert_allclose(pair[0].logdet, pair[1].logdet, atol=1e-10)
    for mine, other in zip(*(one.predict(values[:, 0]) for one in pair), strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-10)


def test_long_runs_stay_close_to_an_inversion_from_scratch():
    world = WORLDS["tabular"](9)
    rng = np.random.default_rng(11)
    regression_ = ValueModel(world.features, 1, ridge=0.01)
    for _ in range(700):
        values = rng.random((1, 6, 5)) * 20
        regression_.update(rng.integers(0, 15, (1, 6)), values, values[:, :, 0], np.ones((1, 6)))
    exact = np.linalg.inv(regression_.matrix)
    np.testing.assert_allclose(regression_.inverse, exact, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(regression_.logdet, np.linalg.slogdet(regression_.matrix / 0.01)[1].sum(axis=1))


def test_ucrl_vtr_refuses_matrices_that_would_not_fit():
    world = low_rank(n_states=3000, n_actions=2, d=8, horizon=2, seed=0)
    wide = Features(world.features.phi, OneHotPsi(3000))
    with pytest.raises(InvalidInput, match=r"^features of ucrl-vtr must not need matrices"):
        started("ucrl-vtr", Problem.of(world.mdp, wide))


@pytest.mark.parametrize("name", NAMES)
def test_ucrl_vtr_withdraws_its_guarantee_once_rounding_of_long_features_may_matter(name):
    world = WORLDS[name](7)
    for length, is_proven in ((1.0, True), (1e6, False)):
        features = Features(TablePhi(length * world.features.phi.table), world.features.psi)
        agent = started("ucrl-vtr", Problem.of(world.mdp, features), known_reward=True)
        with_history(agent, world, np.random.default_rng(8))
        assert bool(agent.guarantee) == is_proven
        assert is_proven or "phi is so long compared with the ridge" in agent.guarantee.reason
        assert agent.plan().values.max() <= world.mdp.horizon


def test_a_regression_that_rounding_left_singular_keeps_the_eigenvalues_of_its_ridge():
    """Parallel features: exact eigenvalues of A are λ = 1 across them, which sums of size 10¹⁸ lose."""
    features = Features(TablePhi(np.array([[[1e9, 1e9]], [[3e9, 3e9]]])), OneHotPsi(2))
    model, rng = ValueModel(features, 1), np.random.default_rng(0)
    for _ in range(256):
        values = rng.random((1, 4, 2))
        model.update(rng.integers(0, 2, (1, 4)), values, values[:, :, 0], np.ones((1, 4)))
    assert np.linalg.slogdet(model.matrix)[0].min() <= 0
    np.testing.assert_allclose(np.linalg.eigvalsh(model.inverse).max(), 1.0)
    assert all(np.isfinite(found).all() for found in model.predict(values[:, 0]))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", ["lsvi-ucb", "rlsvi"])
def test_predict_is_greedy_in_the_estimate_without_bonus_or_noise(name, known):
    """With one-hot features the estimate divides sums over visits by λ + visits; the same route by hand."""
    agent = matrixrl.Agent("river-swim", name, env_settings={"n_states": 3}, seed=0, preset="tuned", known_reward=known)
    agent.learn(n_episodes=20)
    task = agent.problem.finite_task
    n, total, earned = np.zeros((3, 2)), np.zeros((3, 2, 3)), np.zeros((3, 2))
    seen, _ = agent._seen.all()
    for s, a, reward, following in zip(seen.states, seen.actions, seen.rewards, seen.next_states, strict=True):
        n[s, a] += 1
        total[s, a, following] += 1
        earned[s, a] += reward
    values = np.zeros(3)
    for h in reversed(range(task.horizon)):
        q = (total @ values + (0.0 if known else earned)) / (agent.settings.ridge + n)
        q += task.reward if known else 0.0
        assert [agent.predict(s, stage=h) for s in range(3)] == list(agent.greedy().table[h])
        best = q.max(axis=1)
        chosen = q[np.arange(3), agent.greedy().table[h]]
        np.testing.assert_allclose(chosen, best, rtol=1e-9)
        values = np.clip(best, 0.0, task.horizon - h)
