"""Classic control, dense and sparse, with and without noise."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import InvalidInput, KernelMatrixRL, make, solve
from matrixrl.envs import CONTROL, GridActions, PointObservations


@pytest.mark.parametrize("name", CONTROL)
@pytest.mark.parametrize("settings", [{}, {"sparse": True}, {"noise": 0.3}, {"sparse": True, "noise": 0.3}], ids=str)
def test_every_task_has_its_declared_horizon_and_rewards(name, settings):
    """Horizon, reward range and (if sparse) the most an episode earns, over random play; seeds repeat."""
    runs = []
    for _ in range(2):
        env = make(name, **settings)
        low, high = env.get_wrapper_attr("reward_range")
        rng, rewards = np.random.default_rng(0), []
        env.reset(seed=3)
        for _ in range(10_000):
            obs, reward, terminated, truncated, _ = env.step(int(rng.integers(env.action_space.n)))
            assert env.observation_space.contains(obs)
            assert low <= reward <= high
            rewards.append(reward)
            if terminated or truncated:
                break
        assert len(rewards) <= CONTROL[name].horizon
        if settings.get("sparse"):
            assert sum(rewards) <= env.get_wrapper_attr("max_return") == 1.0
        runs.append(rewards)
    assert runs[0] == runs[1]


def test_sparse_goals():
    cart = make("cart-pole", sparse=True, horizon=1)
    cart.reset(seed=0)
    assert cart.step(0)[1] == 1.0  # still up at the last step
    pendulum = make("pendulum", sparse=True)
    pendulum.reset(seed=0)
    pendulum.unwrapped.state = np.array([0.01, 0.0])
    _, reward, terminated, _, _ = pendulum.step(2)
    assert (reward, terminated) == (1.0, True)
    car = make("mountain-car", sparse=True)
    car.reset(seed=0)
    car.unwrapped.state = np.array([0.49, 0.06])
    assert car.step(2)[1:3] == (1.0, True)


def test_noise_changes_what_an_action_does():
    plain, noisy = make("mountain-car"), make("mountain-car", noise=0.5)
    places = []
    for env in (plain, noisy):
        env.reset(seed=1)
        for _ in range(30):
            obs = env.step(2)[0]
        places.append(obs[0])
    assert places[0] != places[1]


def test_a_grid_of_torques():
    env = make("pendulum", torques=7)
    assert env.action_space.n == 7
    grid = env.env
    assert isinstance(grid, GridActions)
    assert [float(grid.action(i)[0]) for i in (0, 3, 6)] == [-2.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("cart-pole", {"torques": 3}, "torques is a setting of pendulum only"),
        ("cart-pole", {"noise": 2.0}, "noise"),
        ("cart-pole", {"horizon": 0}, "horizon"),
        ("cart-pole", {"sparse": "yes"}, "sparse must be true or false"),
        ("pendulum", {"torques": 1}, "points"),
        ("cart-pole", {"size": 3}, "cart-pole setting must be one of"),
    ],
)
def test_bad_settings_are_named(name, settings, message):
    with pytest.raises(InvalidInput, match=message):
        make(name, **settings)


def test_the_double_integrator_moves_as_documented():
    """The mean of the next position and speed, away from the walls, against the formula."""
    env = make("double-integrator").unwrapped
    state = int(np.argmin(np.abs(env.points - [0.1, 0.2]).sum(axis=1)))
    place, speed = env.points[state]
    for action, push in enumerate((-1.0, 0.0, 1.0)):
        row = env.mdp.transitions.rows(np.array([state]), np.array([action]))[0]
        mean = row @ env.points
        assert mean[1] == pytest.approx(speed + 0.25 * push, abs=1e-9)
        assert mean[0] == pytest.approx(place + 0.25 * (speed + 0.25 * push), abs=1e-9)


def test_the_exact_regret_of_a_continuous_agent_is_measured():
    env = PointObservations(make("double-integrator", positions=21, speeds=15))
    agent = KernelMatrixRL(env, seed=0)
    history = agent.learn(15)
    optimum = solve(env.unwrapped.mdp).start_value
    assert history.regret.shape == (15,)
    assert (history.regret >= 0.0).all()
    assert history.regret[-5:].mean() < 0.45 * optimum
    assert history.regret[0] > 0.9 * optimum
    again = KernelMatrixRL(PointObservations(make("double-integrator", positions=21, speeds=15)), seed=0)
    again.begin_episode()
    obs, _ = again.problem.env.reset(seed=1)
    for _ in range(30):
        action = (again.act(obs) + 1) % 3
        following, reward, *_ = again.problem.env.step(action)
        again.observe(obs, action, reward, following)
        obs = following
    assert again.end_episode().regret is None  # the actions were not those of the agent


def test_point_observations_need_coordinates():
    with pytest.raises(InvalidInput, match="coordinates of its states"):
        PointObservations(make("river-swim"))
