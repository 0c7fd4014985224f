"""KernelControl on tasks that nobody prepared: no time limit, rewards of any size, noise, and states without a law."""

from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest

from matrixrl import KernelControl, KernelMatrixRL, make
from matrixrl.algorithms.control.planner import ControlModel
from matrixrl.envs import CartPoleSwingUp, GridActions
from matrixrl.errors import MatrixRLWarning
from matrixrl.records import Steps

SMALL = {"candidates": 1, "value_points": 40, "support": 60}


class Point(gym.Env):
    """A point on a line that is pushed; the reward is its closeness to the origin. It declares no time limit.

    Args:
        factors: Factors of the rewards of the episodes, in turn; the last one stays.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), dtype=np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, factors=(1.0,)):
        self.factors, self.episode = factors, -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.place = self.np_random.uniform(-1.0, 1.0)
        return np.array([self.place]), {}

    def step(self, action):
        self.place = 0.9 * self.place + 0.2 * (2 * action - 1)
        factor = self.factors[min(self.episode, len(self.factors) - 1)]
        return np.array([self.place]), -factor * abs(self.place), False, False, {}


class Unrelated(gym.Env):
    """Twelve coordinates that are new noise in each step, or walk at random, whatever is done."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (12,), dtype=np.float64)
    action_space = gym.spaces.Discrete(3)
    horizon = 80

    def __init__(self, memory):
        self.memory = memory

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.standard_normal(12)
        return self.state.copy(), {}

    def step(self, action):
        self.state = self.memory * self.state + self.np_random.standard_normal(12)
        return self.state.copy(), float(np.sin(self.state[:3]).sum()), False, False, {}


def played_at_random(env, n_steps, settings=SMALL):
    """Return an agent that has seen random play in an environment, episode by episode, and has not planned."""
    agent = KernelControl(env, seed=0, **settings)
    rng, seed = np.random.default_rng(0), 0
    while len(agent.algorithm.experience(0).actions) < n_steps:
        seed += 1
        obs, done, rows = env.reset(seed=seed)[0], False, []
        while not done and len(rows) < agent.problem.task.horizon:
            number = int(rng.integers(agent.problem.actions.size))
            next_obs, reward, ended, cut, _ = env.step(agent.problem.env_action(number))
            rows.append((np.asarray(obs, float), number, float(reward), np.asarray(next_obs, float), ended))
            obs, done = next_obs, ended or cut
        columns = [np.array(column)[None] for column in zip(*rows, strict=True)]
        agent.algorithm.update(Steps.of(*columns))
    return agent


def test_without_a_time_limit_episodes_have_200_steps_and_the_user_is_told(tmp_path):
    for agent_class in (KernelControl, KernelMatrixRL):
        with pytest.warns(MatrixRLWarning, match=r"no time limit.*200 steps.*horizon=") as said:
            agent = agent_class(Point(), seed=0)
        assert len(said) == 1
        assert said[0].filename == __file__
        assert agent.problem.task.horizon == 200
        assert "200 steps" in str(agent)
    told = KernelControl(Point(), seed=0, horizon=7, **SMALL)  # a warning is an error in these tests
    assert told.learn(n_episodes=1).lengths.tolist() == [7]
    told.save(tmp_path / "a")
    assert KernelControl.load(tmp_path / "a", Point()).problem.task.horizon == 7


def test_a_range_of_rewards_that_grows_late_is_said_once():
    quiet = KernelControl(Point([1.0] * 6 + [100.0]), seed=0, horizon=6, **SMALL)
    quiet.learn(n_episodes=8)  # a range that was seen for a few steps may grow
    agent = KernelControl(Point([1.0] * 6 + [100.0, 1e4]), seed=0, horizon=40, **SMALL)
    with pytest.warns(MatrixRLWarning, match="episode 7 of Point.*range grew") as said:
        history = agent.learn(n_episodes=9)
    assert len(said) == 1
    assert history.returns[8] < -100.0
    assert "range of rewards seen so far" in agent.guarantee.reason


def test_a_reward_that_doubles_the_range_changes_the_plan_at_once(monkeypatch):
    made = []
    plan = ControlModel.plan
    monkeypatch.setattr(ControlModel, "plan", lambda self, *given: made.append(0) or plan(self, *given))
    agent = KernelControl(Point(), seed=0, horizon=220, **SMALL)
    agent.learn(n_episodes=1)
    rewards = agent.algorithm.experience().rewards
    low, high = rewards.min(), rewards.max()
    episode = agent.begin_episode()
    count = len(made)
    obs = np.array([0.5])
    for reward, again in ((low, 0), (low - 0.9 * (high - low), 0), (low - 1.1 * (high - low), 1)):
        action = episode.act(obs)
        episode.observe(obs, action, reward, 0.9 * obs + 0.2 * (2 * action - 1))
        assert len(made) == count + again


@pytest.mark.parametrize("memory", [0.0, 1.0])
def test_twelve_coordinates_without_a_law_are_said_once(memory):
    agent = played_at_random(Unrelated(memory), 400)
    with pytest.warns(MatrixRLWarning, match=r"hardly predicts \d+ of 12 coordinates.*deep RL") as said:
        plan = agent.algorithm.plan()
    agent.algorithm.plan()  # a second warning would be an error
    assert len(said) == 1
    assert np.abs(agent.algorithm.skill(plan.plans[0]).explained[:-1]).max() < 0.25


def test_more_coordinates_than_points_can_cover_are_said():
    class Points(gym.Env):
        """Six points on a line, each with its own force: the law is simple, but values have twelve arguments."""

        observation_space = gym.spaces.Box(-np.inf, np.inf, (12,), dtype=np.float64)
        action_space = gym.spaces.Box(-1.0, 1.0, (6,), dtype=np.float64)
        horizon = 20

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.state = self.np_random.uniform(-1.0, 1.0, 12)
            return self.state.copy(), {}

        def step(self, action):
            speed = 0.9 * self.state[6:] + 0.2 * action
            self.state = np.concatenate([self.state[:6] + 0.3 * speed, speed])
            return self.state.copy(), float(-np.abs(self.state[:6]).sum()), False, False, {}

    agent = played_at_random(Points(), 400)
    with pytest.warns(MatrixRLWarning, match=r"miss \d+% of its kernel.*12 coordinates.*deep RL"):
        plan = agent.algorithm.plan()
    assert agent.algorithm.skill(plan.plans[0]).explained.min() > 0.8


ORDINARY = {
    "cart-pole": lambda: gym.make("CartPole-v1"),
    "mountain-car": lambda: make("mountain-car", sparse=True),
    "mountain-car-continuous": lambda: gym.make("MountainCarContinuous-v0", max_episode_steps=200),
    "acrobot": lambda: make("acrobot", sparse=True),
    "pendulum": lambda: gym.make("Pendulum-v1"),
    "pendulum-3-torques": lambda: GridActions(gym.make("Pendulum-v1"), 3),
    "swing-up": CartPoleSwingUp,
}


@pytest.mark.parametrize("task", ORDINARY)
def test_ordinary_tasks_are_predicted_and_nothing_is_said(task):
    agent = played_at_random(ORDINARY[task](), 400, {"candidates": 1, "support": 300})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = agent.algorithm.plan()
    assert agent.algorithm.skill(plan.plans[0]).explained.min() > 0.8


def test_noise_is_no_surprise_to_a_model_that_was_fitted_to_it():
    class Noisy(gym.ObservationWrapper):
        def observation(self, observation):
            return observation + 0.05 * np.array([1.0, 1.0, 8.0]) * self.np_random.standard_normal(3)

    agent = played_at_random(Noisy(gym.make("Pendulum-v1")), 600)
    plan, data = agent.algorithm.plan().plans[0], agent.algorithm.experience()
    rows = range(0, 600, 3)
    surprising = [
        plan.is_surprised(data.obs[i], int(data.actions[i]), float(data.rewards[i]), data.next_obs[i]) for i in rows
    ]
    assert np.mean(surprising) < 0.1  # errors beyond 3 standard deviations, in any of four outputs
    elsewhere = [
        plan.is_surprised(data.obs[i], int(data.actions[i]), float(data.rewards[i]), -data.next_obs[i]) for i in rows
    ]
    assert np.mean(elsewhere) > 0.7
