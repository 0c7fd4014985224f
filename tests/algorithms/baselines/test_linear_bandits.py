"""LinUCB against a hand-written OFUL loop; KernelUCB against its dual and against scikit-learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from algorithms.playing import started
from matrixrl.algorithms.baselines import BASELINES
from matrixrl.errors import InvalidInput
from matrixrl.problems import FiniteMDP, Problem, RegretEvaluator, low_rank
from matrixrl.records import Steps
from small_worlds import WORLDS


def bandit(seed=0):
    return low_rank(n_states=12, n_actions=4, d=3, horizon=1, seed=seed, noisy_rewards=True).mdp


def one_step(s, a, reward):
    return Steps.of(*(np.array([[x]]) for x in (s, a, reward, 0)))


def test_lin_ucb_equals_a_hand_written_oful_loop():
    mdp = bandit()
    table = mdp.task.features.phi.table
    agent = started("lin-ucb", mdp, ridge=0.4, delta=0.05, norm=1.5)
    rng = np.random.default_rng(1)
    v, b = 0.4 * np.eye(3), np.zeros(3)
    for _ in range(60):
        plan = agent.plan()
        theta = np.linalg.solve(v, b)
        ratio = np.sqrt(np.linalg.det(v) / np.linalg.det(0.4 * np.eye(3)))
        beta = 0.5 * np.sqrt(2 * np.log(ratio / 0.05)) + np.sqrt(0.4) * 1.5
        upper = np.array([[x @ theta + beta * np.sqrt(x @ np.linalg.inv(v) @ x) for x in row] for row in table])
        np.testing.assert_array_equal(plan.policy[0, 0], upper.argmax(axis=1))
        np.testing.assert_allclose(plan.values[0, 0], upper.max(axis=1).clip(0, 1), atol=1e-10)
        s = int(rng.integers(12))
        a = int(plan.policy[0, 0, s])
        reward = float(rng.random() < mdp.task.reward[s, a])
        agent.update(one_step(s, a, reward))
        v += np.outer(table[s, a], table[s, a])
        b += reward * table[s, a]


def with_data(points=None, n=40, n_states=9, n_actions=2, **settings):
    """Return a KernelUCB with data, and the data: states, actions, rewards."""
    rng = np.random.default_rng(2)
    mdp = FiniteMDP(np.full((n_states, n_actions, n_states), 1 / n_states), rng.random((n_states, n_actions)), 1)
    agent = started("kernel-ucb", replace(Problem.of(mdp), points=points), **settings)
    states, actions, rewards = rng.integers(0, n_states, n), rng.integers(0, n_actions, n), rng.random(n)
    for s, a, r in zip(states, actions, rewards, strict=True):
        agent.update(one_step(s, a, r))
    return agent, states, actions, rewards


def test_kernel_ucb_mean_and_width_are_those_of_a_gaussian_process_for_each_action():
    ridge, length = 0.3, 0.4
    agent, states, actions, rewards = with_data(ridge=ridge, length_scale=length)
    line = np.linspace(-1, 1, 9)[:, None]
    mean, width = agent.model.reward_estimate()
    for a in range(2):
        own = actions == a
        process = GaussianProcessRegressor(RBF(length), alpha=ridge, optimizer=None)
        process.fit(line[states[own]], rewards[own])
        expected, deviation = process.predict(line, return_std=True)
        np.testing.assert_allclose(mean[0, a], expected, atol=1e-7)
        np.testing.assert_allclose(width[0, a] * np.sqrt(ridge), deviation, atol=1e-7)


def test_kernel_ucb_equals_the_dual_formula_with_correlated_actions_and_points_in_the_plane():
    points = np.random.default_rng(3).random((9, 2))
    settings = {"ridge": 0.5, "length_scale": 0.6, "action_correlation": 0.4, "n_episodes": 100, "delta": 0.2}
    agent, states, actions, rewards = with_data(points, **settings)

    def kernel(s, a, t, b):
        return np.exp(-((points[s] - points[t]) ** 2).sum() / (2 * 0.6**2)) * (1.0 if a == b else 0.4)

    seen = list(zip(states, actions, strict=True))
    gram = np.array([[kernel(*p, *q) for q in seen] for p in seen]) + 0.5 * np.eye(len(seen))
    plan, (mean, width) = agent.plan(), agent.model.reward_estimate()
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
    agent = started("lin-ucb", mdp, seeds, preset=preset)
    judge, rng, lost = RegretEvaluator(mdp), np.random.default_rng(5), []
    for _ in range(600):
        plan = agent.plan()
        lost.append(judge.regret(plan.policy).mean())
        states = rng.integers(0, 12, (8, 1))
        actions = np.take_along_axis(plan.policy[:, 0], states, axis=1).astype(int)
        rewards = mdp.earn(states, actions, rng.random((8, 1)))
        agent.update(Steps.of(states, actions, rewards, states))
    random = np.mean([judge.regret(rng.integers(0, 4, (1, 1, 12)))[0] for _ in range(200)])
    assert np.mean(lost[-100:]) < 0.3 * random


@pytest.mark.parametrize("name", ["lin-ucb", "kernel-ucb"])
@pytest.mark.parametrize("known", [True, False])
def test_bandits_always_learn_their_rewards(name, known):
    assert BASELINES[name](known_reward=known).settings.known_reward is False


@pytest.mark.parametrize("name", ["lin-ucb", "kernel-ucb"])
def test_episodes_of_more_than_one_step_are_refused(name):
    with pytest.raises(InvalidInput, match=r"^horizon must be 1 for .*"):
        started(name, WORLDS["tabular"](0).mdp)
