"""LinUCB against a hand-written OFUL loop; KernelUCB against its dual and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from matrixrl.algorithms.baselines.bandits import KernelUCB, KernelUCBSettings, LinUCB, LinUCBSettings
from matrixrl.errors import InvalidInput
from matrixrl.problems import FiniteMDP, RegretEvaluator, low_rank
from worlds import WORLDS


def bandit(seed=0):
    return low_rank(n_states=12, n_actions=4, d=3, horizon=1, seed=seed, noisy_rewards=True).mdp


def test_lin_ucb_equals_a_hand_written_oful_loop():
    mdp = bandit()
    table = mdp.task.features.phi.table
    engine = LinUCB(mdp.task, mdp.task.features, LinUCBSettings(ridge=0.4, delta=0.05, norm=1.5), [0])
    rng = np.random.default_rng(1)
    v, b = 0.4 * np.eye(3), np.zeros(3)
    for _ in range(60):
        plan = engine.next_plan()
        theta = np.linalg.solve(v, b)
        ratio = np.sqrt(np.linalg.det(v) / np.linalg.det(0.4 * np.eye(3)))
        beta = 0.5 * np.sqrt(2 * np.log(ratio / 0.05)) + np.sqrt(0.4) * 1.5
        upper = np.array([[x @ theta + beta * np.sqrt(x @ np.linalg.inv(v) @ x) for x in row] for row in table])
        np.testing.assert_array_equal(plan.policy[0, 0], upper.argmax(axis=1))
        np.testing.assert_allclose(plan.values[0, 0], upper.max(axis=1).clip(0, 1), atol=1e-10)
        s = int(rng.integers(12))
        a = int(plan.policy[0, 0, s])
        reward = float(rng.random() < mdp.task.reward[s, a])
        engine.update(*(np.array([[i]]) for i in (s, a, 0)), np.ones((1, 1)), np.array([[reward]]))
        v += np.outer(table[s, a], table[s, a])
        b += reward * table[s, a]


def with_data(settings, points=None, n=40, n_states=9, n_actions=2):
    """Return a KernelUCB with data, and the data: states, actions, rewards."""
    rng = np.random.default_rng(2)
    mdp = FiniteMDP(np.full((n_states, n_actions, n_states), 1 / n_states), rng.random((n_states, n_actions)), 1)
    engine = KernelUCB(mdp.task, mdp.task.features, settings, [0], points=points)
    states, actions, rewards = rng.integers(0, n_states, n), rng.integers(0, n_actions, n), rng.random(n)
    for s, a, r in zip(states, actions, rewards, strict=True):
        engine.update(*(np.array([[i]]) for i in (s, a, 0)), np.ones((1, 1)), np.array([[r]]))
    return engine, states, actions, rewards


def test_kernel_ucb_mean_and_width_are_those_of_a_gaussian_process_for_each_action():
    ridge, length = 0.3, 0.4
    engine, states, actions, rewards = with_data(KernelUCBSettings(ridge=ridge, length_scale=length))
    line = np.linspace(-1, 1, 9)[:, None]
    mean, width = engine.estimate()
    for a in range(2):
        own = actions == a
        process = GaussianProcessRegressor(RBF(length), alpha=ridge, optimizer=None)
        process.fit(line[states[own]], rewards[own])
        expected, deviation = process.predict(line, return_std=True)
        np.testing.assert_allclose(mean[0, a], expected, atol=1e-7)
        np.testing.assert_allclose(width[0, a] * np.sqrt(ridge), deviation, atol=1e-7)


def test_kernel_ucb_equals_the_dual_formula_with_correlated_actions_and_points_in_the_plane():
    points = np.random.default_rng(3).random((9, 2))
    settings = KernelUCBSettings(ridge=0.5, length_scale=0.6, action_correlation=0.4, n_episodes=100, delta=0.2)
    engine, states, actions, rewards = with_data(settings, points=points)

    def kernel(s, a, t, b):
        return np.exp(-((points[s] - points[t]) ** 2).sum() / (2 * 0.6**2)) * (1.0 if a == b else 0.4)

    seen = list(zip(states, actions, strict=True))
    gram = np.array([[kernel(*p, *q) for q in seen] for p in seen]) + 0.5 * np.eye(len(seen))
    plan, (mean, width) = engine.next_plan(), engine.estimate()
    eta = np.sqrt(2 * np.log(2 * 100 * 2 / 0.2))
    best = np.zeros(9)
    for s in range(9):
        upper = []
        for a in range(2):
            k = np.array([kernel(s, a, *p) for p in seen])
            mu = k @ np.linalg.solve(gram, rewards)
            deviation = np.sqrt(kernel(s, a, s, a) - k @ np.linalg.solve(gram, k))
            np.testing.assert_allclose(mean[0, a, s], mu, atol=1e-7)
            np.testing.assert_allclose(width[0, a, s], deviation / np.sqrt(0.5), atol=1e-7)
            upper.append(mu + eta / np.sqrt(0.5) * deviation)
        assert plan.policy[0, 0, s] == np.argmax(upper)
        best[s] = min(max(upper), 1.0)
    np.testing.assert_allclose(plan.values[0, 0], best, atol=1e-7)


@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_lin_ucb_finds_good_arms(preset):
    mdp, seeds = bandit(4), list(range(8))
    engine = LinUCB(mdp.task, mdp.task.features, LinUCBSettings.resolve({"preset": preset}), seeds)
    judge, rng, lost = RegretEvaluator(mdp), np.random.default_rng(5), []
    for _ in range(600):
        plan = engine.next_plan()
        lost.append(judge.regret(plan.policy).mean())
        states = rng.integers(0, 12, (8, 1))
        actions = np.take_along_axis(plan.policy[:, 0], states, axis=1).astype(int)
        rewards = mdp.earn(states, actions, rng.random((8, 1)))
        engine.update(states, actions, states, np.ones((8, 1)), rewards)
    random = np.mean([judge.regret(rng.integers(0, 4, (1, 1, 12)))[0] for _ in range(200)])
    assert np.mean(lost[-100:]) < 0.3 * random


@pytest.mark.parametrize("known", [True, False])
def test_bandits_always_learn_their_rewards(known):
    assert LinUCBSettings.resolve({"known_reward": known}).known_reward is False
    assert KernelUCBSettings.resolve({"known_reward": known}).known_reward is False


@pytest.mark.parametrize(("engine", "settings"), [(LinUCB, LinUCBSettings), (KernelUCB, KernelUCBSettings)])
def test_episodes_of_more_than_one_step_are_refused(engine, settings):
    world = WORLDS["tabular"](0)
    with pytest.raises(InvalidInput, match=r"^horizon must be 1 for .*, a bandit algorithm; got 4"):
        engine(world.mdp.task, world.features, settings(), [0])
