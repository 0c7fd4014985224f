"""What KernelMatrixRL refuses, and that a refusal leaves no trace."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_approximation import RBFSampler

from agents.helpers import assert_same_agent, assert_same_arrays
from continuum import Buffer
from hostile import changed, npy
from matrixrl import CheckpointError, InvalidInput, KernelMatrixRL, MatrixRL, make


def test_a_damaged_checkpoint_is_refused(tmp_path):
    agent = KernelMatrixRL(make("mountain-car", horizon=30), seed=0)
    agent.learn(2)
    agent.save(tmp_path / "a")
    for name, value in {
        "learned_0_z": np.zeros((3, 3)),
        "learned_0_data_actions": np.full(60, 9),
        "learned_0_data_obs": np.full((60, 2), np.nan),
        "learned_0_map_factor": np.zeros((2, 2)),
        "history_returns": np.zeros(9),
    }.items():
        (tmp_path / "odd.npz").write_bytes(changed((tmp_path / "a").read_bytes(), {f"{name}.npy": npy(value)}))
        with pytest.raises(CheckpointError, match="cannot be restored"):
            KernelMatrixRL.load(tmp_path / "odd.npz", make("mountain-car", horizon=30))
    with pytest.raises(InvalidInput, match="kernel must be left out"):
        KernelMatrixRL.load(tmp_path / "a", make("mountain-car", horizon=30), kernel="rbf")
    with pytest.raises(CheckpointError, match="not 'kernel-matrix-rl'"):
        other = MatrixRL(make("river-swim"), seed=0)
        other.save(tmp_path / "b")
        KernelMatrixRL.load(tmp_path / "b", make("mountain-car"))


def test_what_cannot_be_used_is_said_with_the_wrapper_that_helps():
    with pytest.raises(InvalidInput, match=r"action_space must be finite.*GridActions"):
        KernelMatrixRL(gym.make("Pendulum-v1"))

    class Dictionary(gym.Env):
        observation_space = gym.spaces.Dict({"a": gym.spaces.Box(-1, 1, (2,))})
        action_space = gym.spaces.Discrete(2)

    with pytest.raises(InvalidInput, match="FlattenObservation"):
        KernelMatrixRL(Dictionary(), horizon=5)
    with pytest.raises(InvalidInput, match="horizon must not exceed"):
        KernelMatrixRL(gym.make("CartPole-v1"), horizon=501)
    with pytest.raises(InvalidInput, match="argument must be one of"):
        KernelMatrixRL(make("cart-pole"), budgte=3)
    with pytest.raises(InvalidInput, match="kernel must return shape"):
        KernelMatrixRL(make("cart-pole"), kernel=lambda *_: np.zeros(3)).learn(2)
    with pytest.raises(InvalidInput, match="reward must"):
        agent = KernelMatrixRL(make("cart-pole"))
        agent.begin_episode()
        agent.observe(np.zeros(4), 0, 7.0, np.zeros(4))


def test_a_kernel_that_fails_half_way_leaves_no_trace():
    calls = []

    def kernel(x, y):
        calls.append(len(x))
        if kernel.broken and len(calls) > kernel.after:
            raise RuntimeError("broken")
        return np.exp(-0.5 * ((x[:, None] - y[None]) ** 2).sum(axis=2) / 0.3**2)

    kernel.broken, kernel.after = False, 0
    env = make("mountain-car", horizon=30)
    agent = KernelMatrixRL(env, kernel=kernel, seed=0)
    agent.learn(2)
    before = agent.algorithm.state()
    calls.clear()
    kernel.broken, kernel.after = True, 34  # after the 30 queries of acting, while the episode is folded in
    with pytest.raises(RuntimeError, match="broken"):
        agent.learn(1)
    kernel.broken = False
    assert_same_arrays(agent.algorithm.state(), before)
    agent.learn(1)


def test_a_checkpoint_wants_the_same_rewards(tmp_path):
    agent = KernelMatrixRL(make("mountain-car", sparse=True, horizon=20), seed=0)
    agent.learn(1)
    agent.save(tmp_path / "a")
    with pytest.raises(InvalidInput, match="env must be the problem"):
        KernelMatrixRL.load(tmp_path / "a", make("mountain-car", horizon=20))
    odd = KernelMatrixRL(Buffer(), horizon=5, reward_range=(-2.0, 7.0), seed=0)
    odd.learn(1)
    odd.save(tmp_path / "b")
    loaded = KernelMatrixRL.load(tmp_path / "b", Buffer())
    assert loaded.problem.task.reward_range == (-2.0, 7.0)
    assert_same_agent(loaded, odd)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda x, y: np.exp(x[:, :1] - y[:, :1].T), "must be symmetric"),
        (lambda x, y: 1.0 - 3.0 * ((x[:, None] - y[None]) ** 2).sum(axis=2), "must be positive semi-definite"),
        (lambda x, y: -np.ones((len(x), len(y))), "must be positive semi-definite"),
        (RBF(1.0) + WhiteKernel(0.1), "Leave noise out"),
        ("sigmoid", "must be one of"),
        (np.eye(2), "must be a function"),
        (RBF, "must be a function"),
    ],
    ids=["asymmetric", "indefinite", "negative", "noise", "sigmoid", "matrix", "class"],
)
def test_a_kernel_that_is_none_is_refused(kernel, message):
    with pytest.raises(InvalidInput, match=message):
        KernelMatrixRL(make("mountain-car", horizon=40), kernel=kernel, seed=0).learn(2)


def test_a_kernel_that_sees_nothing_plays_at_random():
    history = KernelMatrixRL(Buffer(), horizon=5, kernel=lambda x, y: np.zeros((len(x), len(y))), seed=0).learn(3)
    assert history.n_episodes == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reward_range": 5}, "reward_range must be a pair of numbers"),
        ({"reward_range": (0, 1, 2)}, "reward_range must be a pair of numbers"),
        ({"max_return": -50.0}, "max_return"),
        ({"transformer": 3}, "features must have a method fit"),
        ({"kernel": "rbf", "transformer": RBFSampler()}, "must not be given together"),
    ],
    ids=str,
)
def test_bad_arguments_are_named(settings, message):
    with pytest.raises(InvalidInput, match=message):
        KernelMatrixRL(make("cart-pole", horizon=20), **settings)


def test_bad_calls_are_named():
    agent = KernelMatrixRL(make("cart-pole", horizon=20), seed=0)
    agent.begin_episode()
    for action in ("x", None, 1.7, 2, -1):
        with pytest.raises(InvalidInput, match="action must"):
            agent.observe(np.zeros(4), action, 1.0, np.zeros(4))
    with pytest.raises(InvalidInput, match="obs must"):
        agent.value(np.zeros((3, 5)), stage=0)
    with pytest.raises(InvalidInput, match="horizon must be 200"):
        KernelMatrixRL(make("cart-pole", sparse=True), horizon=8)
