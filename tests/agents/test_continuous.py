"""KernelMatrixRL on continuous states."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import RBFSampler

from agents.helpers import assert_same_arrays, interrupted_at
from continuum import Buffer
from matrixrl import InvalidInput, KernelMatrixRL, MatrixRL, ProtocolError, make, run_seeds
from matrixrl.algorithms.continuous import ContinuousSettings
from matrixrl.algorithms.continuous.base import Experience
from matrixrl.algorithms.continuous.model import KernelModel, optimistic_plan
from matrixrl.features import kernel_features
from matrixrl.features.kernels import ObservationScale, as_kernel
from matrixrl.features.state_maps import InducingMap
from matrixrl.play import Simulation


def steps(rng, n, p=2, n_actions=2):
    obs, following = rng.uniform(-1, 1, (n, p)), rng.uniform(-1, 1, (n, p))
    return Experience(obs, rng.integers(0, n_actions, n), rng.random(n), following, rng.random(n) < 0.1)


def model_of(settings, *, p=2, n_actions=2, kernel=None, reach=1.0):
    state_map = InducingMap(as_kernel(kernel or RBF(0.7)), p, budget=settings.budget, tolerance=settings.tolerance)
    scale = ObservationScale(np.full(p, -reach), np.full(p, reach))
    return KernelModel(n_actions, scale, state_map, ridge=settings.ridge, correlation=settings.action_correlation)


def plan_of(model, settings, rng, *, horizon=4):
    options = {"horizon": horizon, "max_return": settings.max_return, "anchors": settings.anchors}
    return optimistic_plan(model, (0.0, 1.0), settings.exploration, rng, **options)


def exact_values(data, settings, horizon, kernel, low, high):
    """Backward induction with dense kernel matrices and nothing of ours: Q at all next states for every stage."""
    rho = settings.action_correlation
    same = np.where(data.actions[:, None] == data.actions, 1.0, rho)
    gram = kernel(data.obs, data.obs) * same
    across = kernel(data.next_obs, data.obs)
    inner = np.linalg.inv(gram + settings.ridge * np.eye(len(gram)))
    values, q = np.zeros(len(gram)), None
    found = []
    for h in reversed(range(horizon)):
        top, bottom = max((horizon - h) * high, 0.0), min((horizon - h) * low, 0.0)
        target = data.rewards + np.where(data.terminated, 0.0, values) - top
        columns = []
        for a in range(2):
            k = across * np.where(data.actions == a, 1.0, rho)
            width = np.maximum(1.0 - np.einsum("ij,jk,ik->i", k, inner, k), 0.0)
            bonus = settings.exploration * (top - bottom) * np.sqrt(width)
            columns.append(top + k @ inner @ target + bonus)
        q = np.stack(columns, axis=1)
        values = np.clip(q.max(axis=1), bottom, top)
        found.append(q)
    return found[::-1]


@pytest.mark.parametrize("rho", [0.0, 0.5])
@pytest.mark.parametrize("exploration", [0.0, 0.2])
def test_with_every_point_planning_is_exact_kernel_regression(rho, exploration):
    """The route through coordinates against dense kernel matrices, all stages, both actions."""
    settings = ContinuousSettings(action_correlation=rho, exploration=exploration, ridge=0.1, tolerance=0.0, budget=500)
    model, rng, data = model_of(settings), np.random.default_rng(0), None
    for _ in range(3):  # three episodes, folded in one after the other
        more = steps(rng, 20)
        model.update(more)
        data = more if data is None else data.followed_by(more)
    plan = plan_of(model, settings, rng)
    for h, truth in enumerate(exact_values(data, settings, 4, RBF(0.7), 0.0, 1.0)):
        ours = plan.q(h, *model.bounds(0.0).describe(data.next_obs))
        np.testing.assert_allclose(ours, truth, atol=1e-6)


def test_one_stage_is_a_gaussian_process():
    """H = 1: what is regressed is the reward less the most it can be; the width is the posterior deviation."""
    settings = ContinuousSettings(ridge=0.05, tolerance=0.0, budget=500, action_correlation=0.0, exploration=0.0)
    model, rng = model_of(settings), np.random.default_rng(1)
    data = steps(rng, 50)
    model.update(data)
    plan = plan_of(model, settings, rng, horizon=1)
    where = rng.uniform(-1, 1, (10, 2))
    z, residual = model.bounds(0.0).describe(where)
    for a in range(2):
        taken = data.actions == a
        process = GaussianProcessRegressor(RBF(0.7), alpha=0.05, optimizer=None)
        process.fit(data.obs[taken], data.rewards[taken] - 1.0)
        mean, deviation = process.predict(where, return_std=True)
        np.testing.assert_allclose(plan.q(0, z, residual)[:, a], 1.0 + mean, atol=1e-6)
        np.testing.assert_allclose(plan.bounds.widths(z, residual)[:, a], deviation, atol=1e-5)


def test_folding_in_is_fitting_at_once():
    settings = ContinuousSettings(tolerance=0.0, budget=400)
    rng = np.random.default_rng(2)
    parts = [steps(rng, 15) for _ in range(4)]
    slowly, at_once = model_of(settings), model_of(settings)
    for part in parts:
        slowly.update(part)
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.followed_by(part)
    at_once.update(whole)
    where = rng.uniform(-1, 1, (8, 2))
    plans = [plan_of(m, settings, rng) for m in (slowly, at_once)]
    for h in range(4):
        answers = [p.q(h, *m.bounds(0.0).describe(where)) for p, m in zip(plans, (slowly, at_once), strict=True)]
        np.testing.assert_allclose(answers[0], answers[1], atol=1e-6)


def test_an_inducing_budget_is_close_to_the_exact_kernel_and_says_how_close():
    rng = np.random.default_rng(3)
    data = steps(rng, 120)
    where = rng.uniform(-1, 1, (30, 2))
    errors = []
    for budget in (10, 40, 240):
        settings = ContinuousSettings(tolerance=0.0, budget=budget, exploration=0.0, ridge=0.1)
        model = model_of(settings)
        model.update(data)
        plan = plan_of(model, settings, rng)
        errors.append((plan.q(0, *model.bounds(0.0).describe(where)), model.bounds(0.0).describe(where)[1].max()))
    exact = errors[-1][0]
    off = [np.abs(q - exact).max() for q, _ in errors]
    assert off[1] < 0.1 * off[0]
    assert errors[1][1] < errors[0][1]


def test_anchors_at_every_next_state_are_close_to_all_of_them():
    """With as many coordinates as states the regression on anchors interpolates; fewer anchors are an estimate."""
    rng = np.random.default_rng(4)
    data = steps(rng, 80)
    where = rng.uniform(-1, 1, (20, 2))
    answers = {}
    for anchors in (None, 79, 40):
        settings = ContinuousSettings(tolerance=1e-3, budget=300, exploration=0.0, ridge=0.1, anchors=anchors)
        model = model_of(settings)
        model.update(data)
        plan = plan_of(model, settings, np.random.default_rng(0))
        answers[anchors] = plan.q(0, *model.bounds(0.0).describe(where))
    assert np.abs(answers[79] - answers[None]).max() < 0.2
    assert np.abs(answers[40] - answers[None]).max() < 1.0


def test_observations_are_scaled_by_bounds_or_by_what_was_seen():
    scale = ObservationScale(np.array([-1.2, -np.inf, 3.0]), np.array([0.6, np.inf, 3.0]))
    assert scale.see(np.array([[0.0, -4.0, 3.0]])) is True
    assert scale.see(np.array([[0.0, 3.0, 3.0]])) is False
    np.testing.assert_allclose(scale(np.array([[0.6, 2.0, 3.0]])), [[1.0, 0.5, 0.0]], atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_cart_pole_is_balanced_within_a_dozen_episodes(seed):
    history = KernelMatrixRL(make("cart-pole"), seed=seed).learn(14)
    assert history.returns[-4:].mean() > 120
    assert history.returns[0] < 100


@pytest.mark.parametrize("seed", range(3))
def test_sparse_mountain_car_finds_the_goal_within_five_episodes(seed):
    history = KernelMatrixRL(make("mountain-car", sparse=True), seed=seed).learn(8)
    assert history.returns[:5].max() == 1.0
    assert history.upper.max() <= 1.0


@pytest.mark.parametrize(
    "settings",
    [
        {"features": "fourier", "budget": 80},
        {"features": "nystroem", "budget": 20},
        {"features": "fourier-basis"},
        {"features": "tiles"},
        {"anchors": 50},
        {"transformer": RBFSampler(n_components=50, random_state=0)},
        {"kernel": "laplacian"},
        {"kernel": lambda x, y: np.exp(-((x[:, None] - y[None]) ** 2).sum(axis=2))},
    ],
    ids=lambda settings: ",".join(settings),
)
def test_every_representation_plays(settings):
    history = KernelMatrixRL(make("mountain-car", sparse=True, horizon=60), seed=0, **settings).learn(3)
    assert history.n_episodes == 3
    assert np.isfinite(history.upper).all()


def test_learning_in_two_parts_with_a_save_between_is_learning_at_once(tmp_path):
    whole = KernelMatrixRL(make("cart-pole", horizon=60), seed=5).learn(8)
    agent = KernelMatrixRL(make("cart-pole", horizon=60), seed=5)
    agent.learn(5)
    agent.save(tmp_path / "a")
    loaded = KernelMatrixRL.load(tmp_path / "a", make("cart-pole", horizon=60))
    np.testing.assert_array_equal(loaded.learn(3).returns, whole.returns)
    np.testing.assert_array_equal(loaded.history.upper, whole.upper)


def test_an_interrupt_leaves_no_trace():
    whole = KernelMatrixRL(make("mountain-car", horizon=40), seed=6).learn(4)
    agent = KernelMatrixRL(make("mountain-car", horizon=40), seed=6)
    agent.learn(2)
    with interrupted_at(agent, step=7):
        agent.learn(1)
    np.testing.assert_array_equal(agent.learn(2).upper, whole.upper)


def test_predicting_changes_nothing():
    agent = KernelMatrixRL(make("mountain-car", horizon=40), seed=6, anchors=20)
    agent.learn(2)
    before = agent.algorithm.state()
    first = [agent.predict([-0.5, 0.01 * i], stage=i) for i in range(5)]
    assert_same_arrays(agent.algorithm.state(), before)
    assert first == [agent.predict([-0.5, 0.01 * i], stage=i) for i in range(5)]


def test_a_finite_problem_gets_the_finite_agent(tmp_path):
    """The same runs as MatrixRL with the kernel's features, sets and certificates included; saved and loaded."""
    env = make("grid-world", size=5, horizon=12)
    agent = KernelMatrixRL(env, length_scale=0.6, seed=2, preset="tuned")
    features = kernel_features(env.unwrapped.points, 4, k_phi=RBF(0.6))
    other = MatrixRL(make("grid-world", size=5, horizon=12), phi=features.phi, seed=2, preset="tuned")
    np.testing.assert_array_equal(agent.learn(15).regret, other.learn(15).regret)
    assert agent.certificate().lower <= agent.certificate().upper
    agent.save(tmp_path / "a")
    loaded = KernelMatrixRL.load(tmp_path / "a", make("grid-world", size=5, horizon=12))
    np.testing.assert_array_equal(loaded.learn(3).returns, agent.learn(3).returns)
    together = run_seeds(
        "grid-world",
        n_episodes=15,
        seeds=[1, 2],
        env_settings={"size": 5, "horizon": 12},
        agent="kernel-matrix-rl",
        length_scale=0.6,
        preset="tuned",
    )
    np.testing.assert_allclose(together.regret[1], other.history.regret[:15], atol=1e-9)
    assert together.settings["length_scale"] == 0.6


def test_the_kernel_generalises():
    """On an open grid neighbours behave alike: the kernel agent needs far fewer episodes than counting does."""
    settings = {"n_episodes": 60, "seeds": 2, "env_settings": {"size": 6}, "preset": "tuned"}
    counting = run_seeds("grid-world", **settings)
    kernel = run_seeds("grid-world", agent="kernel-matrix-rl", **settings)
    assert kernel.final_regret.mean() < 0.8 * counting.final_regret.mean()


def test_the_protocol_is_kept():
    agent = KernelMatrixRL(make("cart-pole", horizon=3), seed=0)
    with pytest.raises(ProtocolError, match="outside an episode"):
        agent.act(np.zeros(4))
    agent.begin_episode()
    with pytest.raises(ProtocolError, match="before any step was observed"):
        agent.end_episode()
    with pytest.raises(InvalidInput, match="obs must be a vector of 4"):
        agent.act(np.zeros(3))
    agent.observe(np.zeros(4), 0, 1.0, np.ones(4), terminated=True)
    with pytest.raises(ProtocolError, match="after the last step"):
        agent.act(np.zeros(4))
    episode = agent.end_episode()
    assert (episode.length, episode.episode_return) == (1, 1.0)


def test_actions_need_not_start_at_zero():
    class Shifted(gym.Wrapper):
        def __init__(self, env):
            super().__init__(env)
            self.action_space = gym.spaces.Discrete(2, start=1)

        def step(self, action):
            assert action in (1, 2)
            return self.env.step(action - 1)

    plain = KernelMatrixRL(make("cart-pole", horizon=30), seed=1).learn(4)
    shifted = KernelMatrixRL(Shifted(make("cart-pole", horizon=30)), seed=1).learn(4)
    np.testing.assert_array_equal(plain.returns, shifted.returns)


def test_a_reward_range_that_nobody_declared_grows_with_what_is_seen():
    class Odd(gym.Env):
        observation_space = gym.spaces.Box(-1, 1, (1,))
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(1, dtype=np.float32), {}

        def step(self, action):
            return np.zeros(1, dtype=np.float32), (5.0 if action else -2.0), False, False, {}

    agent = KernelMatrixRL(Odd(), horizon=4, seed=0)
    assert agent.algorithm.reward_range(agent.algorithm.models[0]) == (0.0, 1.0)
    history = agent.learn(6)
    assert agent.algorithm.reward_range(agent.algorithm.models[0]) == (-2.0, 5.0)
    assert history.returns[-1] == 20.0


def test_an_observation_that_changes_in_place_is_copied():
    agent = KernelMatrixRL(Buffer(), horizon=4, seed=0)
    agent.learn(2)
    data = agent.algorithm.models[0].data
    np.testing.assert_array_equal(data.obs[1:4], data.next_obs[:3])
    np.testing.assert_allclose(np.abs(data.next_obs - data.obs), 0.1)


def test_a_change_of_unit_starts_the_points_anew():
    """Infinite bounds: folded in pieces or at once, the model is the same."""
    rng = np.random.default_rng(0)
    parts = [steps(rng, 20), steps(rng, 20)]
    parts[1] = Experience(
        3.0 * parts[1].obs, parts[1].actions, parts[1].rewards, parts[1].next_obs, parts[1].terminated
    )
    settings = ContinuousSettings(tolerance=0.0, budget=200, exploration=0.0, ridge=0.1)
    answers = []
    for order in ([parts[0], parts[1]], [parts[0].followed_by(parts[1])]):
        model = model_of(settings, reach=np.inf)
        for part in order:
            model.update(part)
        plan = plan_of(model, settings, rng)
        answers.append(plan.q(0, *model.bounds(0.0).describe(np.array([[0.5, 0.5], [-1.0, 0.2]]))))
        assert np.abs(model.map.points).max() <= 1.0
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        *({"features": name, "budget": 30} for name in ("fourier", "nystroem", "fourier-basis")),
        pytest.param({"features": "tiles"}, marks=pytest.mark.slow),
        {"transformer": RBFSampler(n_components=20, random_state=0)},
        {"kernel": RBF(0.5)},
    ],
    ids=str,
)
def test_every_representation_is_saved_and_goes_on(tmp_path, settings):
    world = {"sparse": True, "horizon": 30}
    whole = KernelMatrixRL(make("mountain-car", **world), seed=3, **settings).learn(5)
    agent = KernelMatrixRL(make("mountain-car", **world), seed=3, **settings)
    agent.learn(3)
    agent.save(tmp_path / "a")
    again = {key: value for key, value in settings.items() if key in ("transformer", "kernel")}
    loaded = KernelMatrixRL.load(tmp_path / "a", make("mountain-car", **world), **again)
    np.testing.assert_allclose(loaded.learn(2).upper, whole.upper, atol=1e-9)


def test_a_transformer_is_not_shared():
    sampler = RBFSampler(n_components=20, random_state=0)
    KernelMatrixRL(make("mountain-car", horizon=10), seed=0, transformer=sampler).learn(1)
    assert not hasattr(sampler, "random_weights_")


def test_runs_of_many_seeds():
    chosen = {"n_episodes": 3, "agent": "kernel-matrix-rl", "env_settings": {"horizon": 20}}
    run = Simulation("mountain-car", seeds=[0, 1], settings={"kernel": "rbf"}, **chosen)
    first = run.run()
    assert first.settings["kernel"] == "rbf"
    again = Simulation("mountain-car", seeds=[0, 1], settings={"kernel": "rbf"}, **chosen).run()
    np.testing.assert_array_equal(again.returns, first.returns)
    assert first.second_half(0) == pytest.approx(first.returns[0, 1:].mean())
    assert first.as_dict()["return_second_half"] == pytest.approx(first.returns[:, 1:].mean())
    with pytest.raises(InvalidInput, match="seeds must not be empty"):
        Simulation("mountain-car", seeds=[], **chosen)
    with pytest.raises(InvalidInput, match="agent setting must be one of"):
        Simulation("mountain-car", seeds=[0], settings={"seed": 3}, **chosen)
