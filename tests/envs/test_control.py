"""Classic control, dense and sparse, with and without noise."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from matrixrl import InvalidInput, KernelMatrixRL, make, solve
from matrixrl.envs import CONTROL, CartPoleSwingUp, GridActions, PointObservations


@pytest.mark.parametrize("name", CONTROL)
@pytest.mark.parametrize("settings", [{}, {"sparse": True}, {"noise": 0.3}, {"sparse": True, "noise": 0.3}], ids=str)
def test_every_task_has_its_declared_horizon_and_rewards(name, settings):
    """Horizon, reward range and (if sparse) the most an episode earns, over random play; seeds repeat."""
    runs = []
    for _ in range(2):
        env = make(name, **settings)
        low, high = env.get_wrapper_attr("reward_range")
        rewards = []
        env.action_space.seed(0)
        env.reset(seed=3)
        for _ in range(10_000):
            obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
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
    _, reward, terminated, _, _ = pendulum.step(np.zeros(1, dtype=np.float32))
    assert (reward, terminated) == (1.0, True)
    pole = make("cart-pole-swing-up", sparse=True)
    for angle, expected in ((0.1, (1.0, True)), (0.3, (0.0, False))):
        pole.reset(seed=0)
        pole.unwrapped._state = np.array([0.0, 0.0, angle, 0.0])
        assert pole.step(np.zeros(1))[1:3] == expected
    pole.reset(seed=0)
    pole.unwrapped._state = np.array([3.05, 5.0, np.pi, 0.0])
    assert pole.step(np.zeros(1))[1:3] == (0.0, True), "off the track"
    car = make("mountain-car", sparse=True)
    car.reset(seed=0)
    car.unwrapped.state = np.array([0.49, 0.06])
    assert car.step(2)[1:3] == (1.0, True)


@pytest.mark.parametrize(
    ("name", "action"), [("mountain-car", 2), ("mountain-car-continuous", np.ones(1, dtype=np.float32))]
)
def test_noise_changes_what_an_action_does(name, action):
    plain, noisy = make(name), make(name, noise=0.5)
    places = []
    for env in (plain, noisy):
        env.reset(seed=1)
        for _ in range(30):
            obs = env.step(action)[0]
        places.append(obs[0])
    assert places[0] != places[1]


def test_the_swing_up_is_found_by_name_and_by_id_and_keeps_its_horizon():
    by_name, by_id = make("cart-pole-swing-up", horizon=200), make("gym:matrixrl/CartPoleSwingUp-v0", horizon=200)
    assert by_name.unwrapped.horizon == by_id.unwrapped.horizon == 200
    assert isinstance(by_name.unwrapped, CartPoleSwingUp)
    for env in (by_name, by_id):
        env.reset(seed=4)
        steps = [env.step(np.zeros(1)) for _ in range(200)]
        assert [step[3] for step in steps] == [False] * 199 + [True]


def test_an_image_of_the_swing_up_shows_the_pole_where_it_is():
    env = make("cart-pole-swing-up", render_mode="rgb_array").unwrapped
    env.reset(seed=0)
    places = []
    for x, angle in ((0.0, 0.0), (0.0, np.pi), (1.5, np.pi / 2)):
        env._state = np.array([x, 0.0, angle, 0.0])
        image = env.render()
        assert image.shape == (240, 600, 3)
        rows, columns = np.nonzero((np.abs(image.astype(int) - [0xCA, 0x98, 0x65]) < 3).all(axis=2))
        places.append((rows.mean(), columns.mean()))
    (up, middle), (down, _), (_, right) = places
    assert up < 144 < down
    assert middle == pytest.approx(300, abs=4)
    assert right > 300 + 1.5 * 600 / 7, "right of the cart, where the pole points"
    assert CartPoleSwingUp().render() is None
    with pytest.raises(InvalidInput, match="render_mode must be one of rgb_array"):
        CartPoleSwingUp(render_mode="human")


def test_a_grid_of_torques():
    assert make("pendulum").action_space == gym.make("Pendulum-v1").action_space, "continuous by default"
    env = make("pendulum", torques=7)
    assert env.action_space.n == 7
    grid = env.env
    assert isinstance(grid, GridActions)
    assert [float(grid.action(i)[0]) for i in (0, 3, 6)] == [-2.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("cart-pole", {"torques": 3}, "torques is a setting of tasks with continuous actions"),
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
