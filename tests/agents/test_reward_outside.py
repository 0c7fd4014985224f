"""Rewards outside the declared range are refused or clipped."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from agents.helpers import assert_same_agent
from continuum import line
from matrixrl import Agent, InvalidInput, KernelMatrixRL, MatrixRL, Task, run_seeds
from matrixrl.play import Simulation
from matrixrl.play.resume import restore_simulation, save_simulation
from named_agents import BASELINE_AGENTS

N_STATES, N_ACTIONS, HORIZON = 4, 2, 5
BASELINES = sorted(set(BASELINE_AGENTS) - {"lin-ucb", "kernel-ucb"})  # those are for a horizon of 1


class Surprise(gym.Env):
    """A walk on a circle without a table; one step in ten pays 2.5 and one in ten −0.5, all others in [0, 1]."""

    observation_space = gym.spaces.Discrete(N_STATES)
    action_space = gym.spaces.Discrete(N_ACTIONS)
    horizon = HORIZON

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return 0, {}

    def step(self, action):
        self.state = (self.state + int(action)) % N_STATES
        u = self.np_random.random()
        reward = 2.5 if u < 0.1 else -0.5 if u < 0.2 else u
        return self.state, reward, False, False, {}


class SurpriseVectors(Surprise):
    observation_space = gym.spaces.Box(0.0, 3.0, (1,))

    def reset(self, *, seed=None, options=None):
        _, info = super().reset(seed=seed)
        return np.zeros(1, dtype=np.float32), info

    def step(self, action):
        state, *rest = super().step(action)
        return np.array([state], dtype=np.float32), *rest


def play(agent, rng, episodes, rewards):
    """Tell the agent random steps with given rewards (episodes, H)."""
    for n in range(episodes):
        episode = agent.begin_episode()
        for h in range(HORIZON):
            s, a, t = rng.integers(N_STATES), rng.integers(N_ACTIONS), rng.integers(N_STATES)
            episode.observe(int(s), int(a), float(rewards[n, h]), int(t))
        episode.end()


def task(reward_range, **timing):
    return Task(np.zeros((N_STATES, N_ACTIONS)), HORIZON, reward_range=reward_range, **timing)


def drawn(rng, episodes=12):
    """Rewards in [0, 1] with a few in [−1, 3], the first of them in the third episode."""
    rewards = rng.random((episodes, HORIZON))
    rewards[2, 1], rewards[5, 0], rewards[5, 3], rewards[8, 4] = 3.0, -1.0, 2.0, 1.5
    return rewards


def test_a_reward_outside_is_refused_by_default_with_the_range_that_was_declared():
    agent = MatrixRL(task((0.0, 1.0)), known_reward=False, seed=0)
    episode = agent.begin_episode()
    words = r"reward must lie in \[0, 1\], the declared range of rewards; got 2.5\. .* reward_outside='clip'"
    with pytest.raises(InvalidInput, match=words):
        episode.observe(0, 0, 2.5, 0)
    assert episode.stage == 0
    episode.observe(0, 0, 1.0 + 1e-12, 0)  # rounding
    with pytest.raises(InvalidInput, match="reward must lie in"):
        MatrixRL(Surprise(), known_reward=False, seed=0).learn(20)
    with pytest.raises(InvalidInput, match="reward_outside must be one of error, clip"):
        MatrixRL(Surprise(), known_reward=False, reward_outside="widen")


@pytest.mark.parametrize("bad", [np.nan, np.inf, "1", None, 1e13])
def test_what_is_no_reward_at_all_is_always_refused(bad):
    agent = MatrixRL(task((0.0, 1.0)), known_reward=False, reward_outside="clip", seed=0)
    with pytest.raises(InvalidInput, match="reward must be"):
        agent.begin_episode().observe(0, 0, bad, 0)


@pytest.mark.parametrize("name", ["matrix-rl", "kernel-matrix-rl", *BASELINES])
def test_clipping_learns_from_the_nearest_reward_inside_and_reports_what_was_earned(name):
    rewards = drawn(np.random.default_rng(3))
    clipped, told = (
        Agent(task((0.0, 1.0)), name, known_reward=False, seed=0, reward_outside=policy) for policy in ("clip", "error")
    )
    play(clipped, np.random.default_rng(4), len(rewards), rewards)
    play(told, np.random.default_rng(4), len(rewards), rewards.clip(0.0, 1.0))
    for key, array in told.algorithm.state().items():
        np.testing.assert_array_equal(clipped.algorithm.state()[key], array, err_msg=key)
    np.testing.assert_array_equal(clipped.history.returns, rewards.sum(axis=1))
    words = "4 rewards outside the declared range [0, 1] (the first in episode 3) were clipped: the bounds hold for the"
    assert clipped.guarantee.reason.startswith(words)


def test_sampled_columns_can_clip():
    agent = MatrixRL(line(), columns=50, reward_outside="clip", known_reward=False, seed=0)
    episode = agent.begin_episode()
    episode.observe([0.0], 0, 9.0, [0.1])
    episode.end()
    assert "clipped" in agent.guarantee.reason


@pytest.mark.parametrize(
    ("make", "env"),
    [
        (lambda env, **o: MatrixRL(env, known_reward=False, **o), Surprise),
        (lambda env, **o: MatrixRL(env, known_reward=False, switch_growth=0.3, **o), Surprise),
        (lambda env, **o: KernelMatrixRL(env, known_reward=False, **o), Surprise),
        (lambda env, **o: KernelMatrixRL(env, reward_range=(0, 1), **o), SurpriseVectors),
    ],
    ids=["matrix-rl", "rare switching", "kernel", "vectors"],
)
def test_learn_survives_surprises_and_a_saved_agent_goes_on(make, env, tmp_path):
    agent = make(env(), reward_outside="clip", seed=1)
    history = agent.learn(8)
    assert history.n_episodes == 8
    assert agent.algorithm._outside.total > 0
    low, high = agent.problem.task.reward_range
    assert (low, high) == (0.0, 1.0)
    agent.save(tmp_path / "a")
    loaded = type(agent).load(tmp_path / "a", env())
    assert loaded.guarantee == agent.guarantee
    assert loaded.problem.reward_outside == "clip"
    agent.learn(5)
    loaded.learn(5)
    assert_same_agent(loaded, agent)


def test_run_seeds_goes_on_and_says_so():
    result = run_seeds(Surprise(), n_episodes=10, seeds=2, known_reward=False, reward_outside="clip")
    assert result.returns.max() > HORIZON * 0.5
    assert "clipped" in result.guarantee.reason


def test_a_simulation_in_two_blocks_is_the_whole_one():
    options = {
        "n_episodes": 8,
        "seeds": [0],
        "settings": {"known_reward": False},
        "reward_outside": "clip",
    }
    whole = Simulation(Surprise(), **options).run()
    first = Simulation(Surprise(), window=range(4), **options)
    first.run()
    second = Simulation(Surprise(), window=range(4, 8), **options)
    restore_simulation(second, save_simulation(first))
    np.testing.assert_array_equal(second.run().upper, whole.upper[:, 4:])
    assert second.result().guarantee == whole.guarantee
