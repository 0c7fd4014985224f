"""Section 2: unknown rewards by ridge regression that shares A_n; the extra regret is of lower order."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from matrixrl import FiniteMDP, MatrixRL, MDPEnv, Task, make, run_seeds
from matrixrl.algorithms import Steps
from matrixrl.problems import low_rank, tabular
from tolerances import ALGEBRA
from worlds import WORLDS, Hidden, algorithm_with_data


@pytest.mark.parametrize("name", WORLDS)
def test_theta_is_the_ridge_solution(name, rng):
    world = WORLDS[name](1)
    algorithm, seen = algorithm_with_data(world, rng, episodes=20, known_reward=False)
    table = world.features.phi.table
    x = np.concatenate([table[b.states[0], b.actions[0]] for b in seen])
    y = np.concatenate([world.mdp.task.reward[b.states[0], b.actions[0]] for b in seen])
    d = x.shape[1]
    theta = np.linalg.lstsq(np.vstack([x, np.eye(d)]), np.append(y, np.zeros(d)), rcond=None)[0]
    ours = algorithm.model.design.solve(algorithm.model.reward_moment[:, :, None])[0, :, 0]
    np.testing.assert_allclose(ours, theta, atol=ALGEBRA)


@pytest.mark.parametrize("make_world", [tabular, low_rank])
def test_rewards_are_inside_their_bounds_as_often_as_promised(make_world):
    """300 runs of 30 episodes with 0/1 rewards, at all times; δ = 0.2, half of it for rewards."""
    extra = {"d": 3} if make_world is low_rank else {}
    world = make_world(n_states=5, n_actions=2, horizon=4, seed=3, **extra)
    rng = np.random.default_rng(0)
    runs = 300
    algorithm, _ = algorithm_with_data(world, rng, episodes=0, n_replicas=runs, delta=0.2, known_reward=False)
    truth = world.mdp.task.reward.T
    inside = np.ones(runs, dtype=bool)
    for _ in range(30):
        states, actions = rng.integers(0, 5, (runs, 4)), rng.integers(0, 2, (runs, 4))
        paid = (rng.random((runs, 4)) < world.mdp.task.reward[states, actions]).astype(float)
        algorithm.update(Steps.of(states, actions, paid, states))
        belief = algorithm.model.bounds(algorithm.clock, "agent")[0]
        upper, lower = belief.most, belief.least
        inside &= ((lower <= truth + 1e-12) & (truth <= upper + 1e-12)).all(axis=(1, 2))
    assert binom.sf(int((~inside).sum()) - 1, runs, 0.1) > 1e-6


def test_the_agent_never_reads_the_true_rewards():
    """Pitfall of the public notebook: rewards in the task are garbage, the environment pays the true ones."""
    mdp = make("river-swim", n_states=4, horizon=8).unwrapped.mdp
    histories = []
    for reward in (mdp.task.reward, np.random.default_rng(0).random((4, 2))):
        agent = MatrixRL(Task(reward, 8), seed=1, known_reward=False, preset="tuned")
        env = MDPEnv(mdp)
        env.reset(seed=1)
        for _ in range(40):
            obs, _ = env.reset()
            episode = agent.begin_episode()
            while not episode.is_finished:
                action = episode.act(obs)
                following, paid, *_ = env.step(action)
                episode.observe(obs, action, paid, following)
                obs = following
            episode.end()
        histories.append(agent.history)
    honest, lied = histories
    np.testing.assert_array_equal(honest.returns, lied.returns)
    np.testing.assert_array_equal(honest.upper, lied.upper)
    assert np.ptp(honest.returns) > 0.0  # it did learn something, and differently from episode to episode


def test_rewards_need_not_be_given_where_they_are_unknown():
    agent = MatrixRL(Hidden(), horizon=6, seed=0, known_reward=False, preset="tuned")
    assert agent.learn(60).returns[-10:].min() == 1.0


@pytest.mark.parametrize("kind", ["normalised", "tightest"])
@pytest.mark.parametrize("noisy", [False, True])
def test_the_extra_regret_is_of_lower_order(noisy, kind):
    settings = {"n_states": 6, "horizon": 24, "noisy_rewards": noisy}
    agent = {"preset": "tuned", "set": kind, "known_reward": False}
    unknown = run_seeds("river-swim", n_episodes=1000, seeds=8, env_settings=settings, **agent)
    assert unknown.final_regret.mean() < 100


def test_noisy_rewards_have_the_right_mean_and_range():
    mdp = FiniteMDP(np.full((2, 1, 2), 0.5), [[0.3], [-0.5]], 2, reward_range=(-1.0, 1.0), noisy_rewards=True)
    u = (np.arange(10_000) + 0.5) / 10_000
    for state, mean in ((0, 0.3), (1, -0.5)):
        paid = mdp.earn(np.full(10_000, state), np.zeros(10_000, dtype=int), u)
        assert set(paid.tolist()) == {-1.0, 1.0}
        assert paid.mean() == pytest.approx(mean, abs=1e-3)


def test_noisy_rewards_are_the_same_in_the_environment_and_the_simulation():
    settings = {"n_states": 4, "horizon": 8, "noisy_rewards": True}
    together = run_seeds(
        "river-swim", n_episodes=30, seeds=[2], env_settings=settings, preset="tuned", known_reward=False
    )
    alone = MatrixRL(make("river-swim", **settings), seed=2, preset="tuned", known_reward=False)
    np.testing.assert_allclose(alone.learn(30).returns, together.returns[0], atol=ALGEBRA)
    assert set(np.unique(together.returns % 1)) == {0.0}
