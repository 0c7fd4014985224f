"""Mistakes that people made: each is one error that names the argument and the thing that works."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from matrixrl import Agent, Features, FiniteMDP, KernelMatrixRL, MatrixRL, Task, make, one_hot, run_seeds
from matrixrl.errors import MatrixRLError
from matrixrl.features import OneHotPhi, OneHotPsi
from matrixrl.play import Simulation
from matrixrl.problems import read_problem
from named_agents import AGENTS
from surface import Answering, Vectors

P, R = np.full((3, 2, 3), 1.0 / 3.0), np.linspace(0.0, 1.0, 6).reshape(3, 2)
PHI, PSI = np.random.default_rng(0).random((6, 2, 3)), np.random.default_rng(1).random((6, 2))


def swim(**options):
    return MatrixRL("river-swim", **{"seed": 0, **options})


def nan_kernel(x, y):
    return np.full((len(x), len(y)), np.nan)


def closed_episode():
    agent = swim()
    episode = agent.begin_episode()
    episode.abandon()
    agent.predict(0, episode=episode)


MISTAKES = {
    "phi and psi swapped": (lambda: swim(phi=PSI, psi=PHI), "phi must be .* phi and psi are swapped"),
    "maps swapped": (lambda: swim(phi=OneHotPsi(6), psi=OneHotPhi(6, 2)), "phi must be .* swapped"),
    "psi is a phi": (lambda: swim(psi=OneHotPhi(6, 2)), "psi must be .* swapped"),
    "Features as phi": (lambda: swim(phi=one_hot(6, 2)), "phi must be a feature map or an array; got Features"),
    "phi of length 1e-6": (
        lambda: swim(phi=1e-6 * np.eye(12).reshape(6, 2, 12), set="normalised"),
        "phi must not be shorter .* Multiply the features by 1e\\+06, or pass ridge=1e-12",
    ),
    "noisy_rewards='False'": (lambda: FiniteMDP(P, R, 3, noisy_rewards="False"), "noisy_rewards must be true or false"),
    "masked rewards": (lambda: Task(np.ma.masked_array(R, mask=R > 0.5), 3), "reward must not have masked entries"),
    "complex P": (lambda: FiniteMDP(P + 0j, R, 3), "P must be an array of numbers; .*complex"),
    "terminated='no'": (lambda: swim().begin_episode().observe(0, 0, 0.0, 0, "no"), "terminated must be true or false"),
    "a billion seeds": (lambda: run_seeds("river-swim", n_episodes=1, seeds=10**9), "seeds must fit in memory"),
    "a range of them": (lambda: run_seeds("river-swim", n_episodes=1, seeds=range(10**9)), "seeds must fit in memory"),
    "1e12 episodes": (lambda: run_seeds("river-swim", n_episodes=10**12), "n_episodes must fit in memory"),
    "learn 1e12": (lambda: swim().learn(10**12), "n_episodes must fit in memory"),
    "oversize river": (lambda: make("river-swim", n_states=10**9), "n_states and copies must fit in memory"),
    "oversize sea": (lambda: make("deep-sea", size=10**5), "size must fit in memory"),
    "oversize soft grid": (lambda: make("soft-grid", side=10**6), "side and copies must fit in memory"),
    "oversize linear": (lambda: make("linear-mdp", d=10**9), "n_states, n_actions, d and d_psi must fit in memory"),
    "save(None)": (lambda: swim().save(None), "path must be a path"),
    "save('')": (lambda: swim().save(""), "path must be a path that is not empty"),
    "save('a\\0b')": (lambda: swim().save("a\0b"), r"path must be a path without null characters; got 'a\\x00b'"),
    "blas_threads=-1": (lambda: swim().learn(1, blas_threads=-1), "blas_threads must be at least 1; got -1"),
    "callback=3": (lambda: swim().learn(1, callback=3), "callback must be a function of 1 argument; got 3"),
    "callback of none": (lambda: swim().learn(1, callback=lambda: None), "callback must be a function of 1 argument"),
    "env.step gives None": (
        lambda: MatrixRL(Answering(step=None), known_reward=False).learn(1),
        r"env.step must return \(observation, reward, terminated, truncated, info\); got None",
    ),
    "env.step of old": (
        lambda: MatrixRL(Answering(step=(0, 0.0, False, {})), known_reward=False).learn(1),
        r"env.step must return .*; got \(0, 0.0, False, \{\}\)",
    ),
    "env.reset of old": (
        lambda: MatrixRL(Answering(reset=0), known_reward=False).learn(1),
        r"env.reset must return \(observation, info\); got 0",
    ),
    "NaN kernel": (lambda: KernelMatrixRL("grid-world", k_phi=nan_kernel), "k_phi must be finite"),
    "NaN kernel of vectors": (lambda: KernelMatrixRL(Vectors(), kernel=nan_kernel).learn(1), "kernel must be finite"),
    "n_states to the agent": (
        lambda: swim(n_states=4),
        r"n_states is not an agent setting.* env_settings=\{'n_states'",
    ),
    "horizon to the agent": (lambda: swim(horizon=4), r"horizon cannot be changed .* env_settings=\{'horizon': …\}"),
    "n_states to run_seeds": (lambda: run_seeds("river-swim", n_episodes=1, n_states=4), "env_settings="),
    "is_slippery": (lambda: MatrixRL("gym:FrozenLake-v1", is_slippery=False), r"env_settings=\{'is_slippery': False\}"),
    "radius=2.0": (
        lambda: swim(radius=2.0),
        'radius must be one of block, .*; got 2.0. Or give an object; .*"constant"',
    ),
    "set=3": (lambda: swim(set=3), "set must be one of tightest, normalised, .*; got 3. Or give an object, such as"),
    "features=": (lambda: swim(features=one_hot(6, 2)), "features is not an agent setting; .* Pass phi=… and psi=…"),
    "discount=": (
        lambda: swim(discount=0.9),
        "discount cannot be changed on an environment of matrixrl, .* Build a FiniteMDP with",
    ),
    "vectors with phi": (lambda: KernelMatrixRL(Vectors(), phi=PHI), "phi cannot be changed .* Pass kernel=…"),
    "vectors with MatrixRL": (lambda: MatrixRL(Vectors()), "problem must have numbered .* KernelControl learns from"),
    "load with a seed": (lambda: MatrixRL.load("x", seed=3), "seed must be left out, as it is saved with the agent"),
    "Simulation of a Problem": (
        lambda: Simulation(read_problem(make("river-swim")), n_episodes=1, seeds=[0], horizon=4),
        "horizon must be left out for a Problem that was read before",
    ),
    "settings of a Problem": (
        lambda: Simulation(read_problem(make("river-swim")), n_episodes=1, seeds=[0], env_settings={"n_states": 3}),
        "env_settings must be empty for an environment that is already made",
    ),
    "episode of another": (
        lambda: swim().predict(0, episode=swim().begin_episode()),
        "episode must be an open episode of this agent; got one that was ended, abandoned or begun by another agent",
    ),
    "closed episode": (closed_episode, "episode must be an open episode of this agent"),
    "kernel-ucbvi too large": (
        lambda: AGENTS["kernel-ucbvi"]("soft-grid", env_settings={"side": 300}),
        'problem must fit in memory for kernel-ucbvi; .* Use stages="pooled"',
    ),
    "trust_code='False'": (lambda: swim(trust_code="False"), "trust_code must be true or false"),
    "psi_pinv='no'": (lambda: swim(psi_pinv="no"), "psi_pinv must be true or false"),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_error_that_names_the_argument_and_what_works(call, words):
    with pytest.raises(MatrixRLError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_what_looked_like_a_mistake_and_works():
    features = Features(PHI.tolist(), PSI)
    assert (features.phi.d, features.psi.d_psi) == (3, 2)
    assert Task(R, 3, features=Features(R[:, :, None], R)).features.phi.d == 1
    assert run_seeds("river-swim", n_episodes=1, seeds=np.arange(2)).seeds == [0, 1]
    assert Agent("river-swim", "psrl", preset="tuned").settings.preset == "tuned"
    assert swim(phi=1e-6 * np.eye(12).reshape(6, 2, 12), ridge=1e-12).learn(2).n_episodes == 2
    assert swim(phi=1e-6 * np.eye(12).reshape(6, 2, 12)).learn(2).n_episodes == 2  # counts have no scale


class Combined(Answering):
    observation_space = gym.spaces.MultiDiscrete([3, 2])
    action_space = gym.spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([0, 1]), {}

    def step(self, action):
        assert self.action_space.contains(np.asarray(action)), action
        return np.array([2, 0]), 0.5, False, False, {}


class Switches(Combined):
    observation_space = gym.spaces.MultiBinary(2)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([0, 1], dtype=np.int8), {}

    def step(self, action):
        return np.array([1, 1], dtype=np.int8), 0.5, False, False, {}


class Mixed(Answering):
    observation_space = gym.spaces.Dict({"a": gym.spaces.Box(-1, 1, (2,)), "b": gym.spaces.Discrete(2)})
    action_space = gym.spaces.Discrete(2)


@pytest.mark.parametrize("make_env", [Combined, Switches])
def test_combinations_of_numbers_need_no_wrapper(make_env):
    assert MatrixRL(make_env(), seed=0).learn(2).n_episodes == 2


def test_the_advice_about_continuous_actions_and_tuples_works():
    from matrixrl.envs import GridActions

    with pytest.raises(MatrixRLError, match=r"matrixrl\.envs\.GridActions"):
        KernelMatrixRL(gym.make("Pendulum-v1"))
    assert KernelMatrixRL(GridActions(gym.make("Pendulum-v1")), horizon=5, seed=0).learn(1).n_episodes == 1
    with pytest.raises(MatrixRLError, match=r"observation_space\['a'\] must be finite.*wrappers\.FlattenObservation"):
        MatrixRL(Mixed())
    flat = gym.wrappers.FlattenObservation(gym.make("Blackjack-v1"))
    assert KernelMatrixRL(flat, horizon=5, reward_range=(-1, 1), seed=0).learn(2).n_episodes == 2
