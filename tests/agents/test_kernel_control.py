"""KernelControl as an agent: what it learns, what it refuses, and that it comes back bit for bit."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from matrixrl import CheckpointError, InvalidInput, KernelControl, KernelMatrixRL, MatrixRL, make, run_seeds
from matrixrl.envs import CartPoleSwingUp, PointObservations


class TwoForces(gym.Env):
    """A point in the plane that two forces move; the reward is the closeness to the origin. Nothing is declared."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), dtype=np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), dtype=np.float32)
    horizon = 30

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.concatenate([self.np_random.uniform(-1, 1, 2), np.zeros(2)])
        return self.state.copy(), {}

    def step(self, action):
        place, speed = self.state[:2], self.state[2:]
        speed = 0.9 * speed + 0.2 * np.asarray(action, dtype=np.float64)
        self.state = np.concatenate([place + 0.3 * speed, speed])
        return self.state.copy(), float(-np.abs(self.state[:2]).sum()), False, False, {}


def test_several_continuous_actions_without_bounds_of_observations_or_rewards():
    agent = KernelControl(TwoForces(), seed=0)
    history = agent.learn(n_episodes=7)
    assert history.returns[6:].min() > -25.0  # random play earns about -70
    action = agent.predict(np.array([1.0, -1.0, 0.0, 0.0]), 0)
    assert action.dtype == np.float32
    assert action[0] < 0.0 < action[1]
    assert not agent.guarantee
    assert "measured, not proven" in agent.guarantee.reason


def test_a_sparse_goal_is_found_in_two_episodes_and_kept():
    for seed in (0, 1):
        returns = KernelControl(make("mountain-car", sparse=True), seed=seed).learn(n_episodes=6).returns
        assert returns[:2].max() == 1.0
        assert returns[2:].mean() >= 0.75


def test_saved_between_episodes_it_goes_on_bit_for_bit(tmp_path):
    def env():
        return gym.make("Pendulum-v1", max_episode_steps=25)

    whole = KernelControl(env(), seed=3)
    expected = whole.learn(n_episodes=4).returns
    first = KernelControl(env(), seed=3)
    first.learn(n_episodes=2)
    first.save(tmp_path / "a")
    again = KernelControl.load(tmp_path / "a", env())
    np.testing.assert_array_equal(again.learn(n_episodes=2).returns, expected)
    np.testing.assert_array_equal(again.algorithm.length_scales(), whole.algorithm.length_scales())


def test_a_plan_is_made_again_during_the_first_episode_unless_that_is_switched_off():
    env = make("mountain-car", sparse=True)
    for revise, wanted in ((True, True), (False, False)):
        agent = KernelControl(env, seed=0, revise=revise)
        episode = agent.begin_episode()
        obs, _ = env.reset(seed=0)
        for _ in range(30):
            action = episode.act(obs)
            following, reward, terminated, _, _ = env.step(action)
            episode.observe(obs, action, reward, following, terminated)
            obs = following
        assert (episode.data.plan.plans[0].world is not None) == wanted


def test_regret_of_a_known_problem_is_exact_and_falls():
    env = PointObservations(make("double-integrator"))
    history = KernelControl(env, seed=0).learn(n_episodes=12)
    assert np.isfinite(history.regret).all()
    assert history.regret[6:].mean() < history.regret[:3].mean() / 2


def test_seeds_in_parallel_are_agents_one_by_one():
    result = run_seeds("cart-pole", agent="kernel-control", n_episodes=3, seeds=[4], env_settings={"horizon": 40})
    alone = KernelControl("cart-pole", env_settings={"horizon": 40}, seed=4).learn(n_episodes=3)
    np.testing.assert_array_equal(result.returns[0], alone.returns)


def test_a_reward_that_a_wrapper_changed_is_not_held_against_the_range_of_the_environment():
    class Doubled(gym.RewardWrapper):
        def reward(self, reward):
            return 2.0 * reward

    agent = KernelControl(Doubled(gym.make("CartPole-v1", max_episode_steps=20)), seed=0)
    assert agent.learn(n_episodes=2).returns.max() > 2.0


def test_what_kernels_cannot_do_is_said():
    class Many(TwoForces):
        observation_space = gym.spaces.Box(-1.0, 1.0, (100,), dtype=np.float64)

    class Muscles(TwoForces):
        action_space = gym.spaces.Box(-1.0, 1.0, (20,), dtype=np.float64)

    class Free(TwoForces):
        action_space = gym.spaces.Box(-np.inf, np.inf, (2,), dtype=np.float64)

    for kind, words in ((Many, "at most 64 coordinates"), (Muscles, "1 to 14"), (Free, "must have bounds")):
        with pytest.raises(InvalidInput, match=words):
            KernelControl(kind())
    with pytest.raises(InvalidInput, match="KernelControl"):
        KernelMatrixRL(CartPoleSwingUp())
    with pytest.raises(InvalidInput, match="vectors as states"):
        KernelControl("river-swim")


def test_a_saved_agent_of_another_space_of_actions_is_refused(tmp_path):
    agent = KernelControl(TwoForces(), seed=0)
    agent.learn(n_episodes=1)
    agent.save(tmp_path / "a")

    class Stronger(TwoForces):
        action_space = gym.spaces.Box(-3.0, 3.0, (2,), dtype=np.float32)

    with pytest.raises(CheckpointError, match="action space"):
        KernelControl.load(tmp_path / "a", Stronger())


def test_logs_have_continuous_actions_as_numbers_of_the_environment(tmp_path):
    """One column for each coordinate, in the environment's unit; a value out of bounds is refused with its row."""
    agent, file = KernelControl(TwoForces(), seed=0), tmp_path / "log.csv"
    agent.learn(n_episodes=2)
    assert agent.export(file) == 60
    rows = np.genfromtxt(file, delimiter=",", names=True)
    played = np.array([agent.problem.env_action(int(n)) for n in agent._seen.all()[0].actions])
    np.testing.assert_allclose(np.stack([rows["action_0"], rows["action_1"]], axis=1), played, atol=1e-7)
    other = KernelControl(TwoForces(), seed=1)
    other.learn_from(str(file), verbose=False)
    np.testing.assert_array_equal(other.algorithm.experience().actions, agent.algorithm.experience().actions)
    words = ("terminated", "truncated", "source")
    columns = {name: rows[name].copy() for name in rows.dtype.names if name not in words}
    columns["action_1"][7] = 1.5
    with pytest.raises(InvalidInput, match=r"row 7 .*'action_1' must be in"):
        KernelControl(TwoForces(), seed=1).learn_from(columns, verbose=False)


def test_plans_within_an_episode_learn_from_clipped_rewards_too():
    agent = KernelControl(TwoForces(), seed=0, reward_range=(-0.5, 0.0), reward_outside="clip")
    agent.learn(n_episodes=3)
    episode = agent.begin_episode()
    obs = agent.problem.env.reset(seed=1)[0]
    for _ in range(8):
        action = episode.act(obs)
        following, reward, *_ = agent.problem.env.step(action)
        episode.observe(obs, action, reward, following)
        limits = episode.data.plan.plans[0].world.dynamics.limits[:, -1]
        assert -0.5 <= limits[0] <= limits[1] <= 0.0
        obs = following
    assert agent.algorithm.experience().rewards.min() == -0.5


def test_a_vector_environment_has_continuous_actions():
    def make_one():
        return gym.make("Pendulum-v1", max_episode_steps=20)

    agent = KernelControl(make_one(), seed=0)
    agent.learn(4, env=gym.vector.SyncVectorEnv([make_one, make_one]))
    assert agent.n_episodes == 4


def test_a_wrapper_of_rewards_withdraws_the_known_range():
    env = gym.wrappers.TransformReward(gym.make("CartPole-v1", max_episode_steps=30), lambda reward: 10.0 * reward)
    assert KernelControl(env, seed=0).learn(n_episodes=1).returns[0] >= 10.0
    assert "1 continuous number" in str(KernelControl(gym.make("Pendulum-v1"), seed=0))


def test_load_needs_the_environment_as_the_documents_say(tmp_path):
    """On vectors no file holds the task, also for ask and tell; an agent on numbered states needs none."""
    path = tmp_path / "agent.npz"
    KernelControl("pendulum", seed=0).save(path)
    with pytest.raises(CheckpointError, match="env must be the problem"):
        KernelControl.load(path)
    assert KernelControl.load(path, env="pendulum").n_episodes == 0
    MatrixRL("river-swim", seed=0).save(path)
    episode = MatrixRL.load(path).begin_episode()
    assert episode.act(0) in (0, 1)
