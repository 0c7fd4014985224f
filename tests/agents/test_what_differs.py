"""What does not fit a saved agent or simulation is said: which part of the problem differs, and both values."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from matrixrl import CheckpointError, FiniteMDP, KernelMatrixRL, MatrixRL, make
from matrixrl.features import TablePhi
from matrixrl.play import Simulation
from matrixrl.play.resume import restore_simulation, save_simulation
from matrixrl.problems import Task, differing_fields, fingerprint

S, A, H = 4, 2, 5


def mdp(**changes):
    rng = np.random.default_rng(0)
    size = {"s": S, "a": A, **changes.pop("sizes", {})}
    law = rng.dirichlet(np.ones(size["s"]), (size["s"], size["a"]))
    law[-1] = np.eye(size["s"])[-1]
    reward = rng.random((size["s"], size["a"]))
    reward[-1] = 0.0
    return FiniteMDP(**{"transitions": law, "reward": reward, "horizon": H, "start": 0, **changes})


def reward(entry):
    table = mdp().task.reward.copy()
    table[entry] = 0.25
    return table


def transitions():
    states, actions = np.divmod(np.arange(S * A), A)
    table = mdp().transitions.rows(states, actions).reshape(S, A, S).copy()
    table[1, 0] = np.eye(S)[2]
    return table


CHANGES = {
    "horizon": {"horizon": 7},
    "range of rewards": {"reward_range": (-1.0, 2.0)},
    "end state": {"end_state": S - 1},
    "rewards": {"reward": reward((2, 1))},
    "start": {"start": 2},
    "transitions": {"transitions": transitions()},
    "noise of rewards": {"noisy_rewards": True},
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_field_of_an_mdp_that_differs_is_named(name, tmp_path):
    MatrixRL(mdp(), seed=0).save(tmp_path / "a")
    with pytest.raises(CheckpointError, match=rf"the checkpoint was saved from; got one that differs in {name}\."):
        MatrixRL.load(tmp_path / "a", mdp(**CHANGES[name]))
    MatrixRL.load(tmp_path / "a", mdp())


@pytest.mark.parametrize("name", CHANGES)
def test_the_same_of_a_simulation(name):
    def simulation(first, **changes):
        return Simulation(mdp(**changes), n_episodes=4, seeds=[0], window=range(first, first + 2))

    one = simulation(0)
    one.run()
    state = save_simulation(one)
    with pytest.raises(CheckpointError, match=f"a simulation that differs in {name}$"):
        restore_simulation(simulation(2, **CHANGES[name]), state)
    restore_simulation(simulation(2), state)


def test_sizes_and_spaces(tmp_path):
    MatrixRL(mdp(), seed=0).save(tmp_path / "a")
    words = (
        r"observation space Discrete\(6\) \(saved: Discrete\(4\)\), "
        r"action space Discrete\(3\) \(saved: Discrete\(2\)\)"
    )
    with pytest.raises(CheckpointError, match=words):
        MatrixRL.load(tmp_path / "a", mdp(sizes={"s": 6, "a": 3}))
    with pytest.raises(CheckpointError, match="observation_space"):
        MatrixRL.load(tmp_path / "a", gym.make("CartPole-v1"))
    KernelMatrixRL(make("cart-pole"), seed=0).save(tmp_path / "b")
    with pytest.raises(CheckpointError, match=r"env must be .* observations are vectors"):
        KernelMatrixRL.load(tmp_path / "b", make("river-swim"))
    with pytest.raises(CheckpointError, match="horizon"):
        KernelMatrixRL.load(tmp_path / "b", make("cart-pole", horizon=100))
    with pytest.raises(CheckpointError, match="bounds of observations"):
        KernelMatrixRL.load(tmp_path / "b", make("mountain-car"))


class Hidden(gym.Env):
    observation_space, action_space, horizon = gym.spaces.Discrete(3), gym.spaces.Discrete(2), 4


def test_an_environment_without_a_table(tmp_path):
    MatrixRL(Hidden(), reward=np.eye(3, 2), seed=0).save(tmp_path / "a")
    assert MatrixRL.load(tmp_path / "a", Hidden()).problem.task.knows_reward  # those of the file
    larger = Hidden()
    larger.observation_space = gym.spaces.Discrete(5)
    with pytest.raises(CheckpointError, match=r"observation space Discrete\(5\) \(saved: Discrete\(3\)\)"):
        MatrixRL.load(tmp_path / "a", larger)
    MatrixRL(mdp(), seed=0).save(tmp_path / "b")
    four = Hidden()
    four.observation_space = gym.spaces.Discrete(4)
    with pytest.raises(CheckpointError, match="no known transitions"):
        MatrixRL.load(tmp_path / "b", four)


def test_features_of_a_simulation():
    def simulation(first, width, scale=1.0):
        phi = scale * np.random.default_rng(1).random((S, A, width))
        options = {"phi": TablePhi(phi), "settings": {"set": "normalised"}}
        return Simulation(mdp(), n_episodes=4, seeds=[0], window=range(first, first + 2), **options)

    one = simulation(0, 3)
    one.run()
    state = save_simulation(one)
    with pytest.raises(CheckpointError, match=r"differs in features phi$"):
        restore_simulation(simulation(2, 2), state)
    with pytest.raises(CheckpointError, match=r"differs in features phi$"):
        restore_simulation(simulation(2, 3, scale=2.0), state)
    restore_simulation(simulation(2, 3), state)


def test_spaces_of_a_simulation():
    class Shifted(Hidden):
        def __init__(self, start):
            self.observation_space = gym.spaces.Discrete(3, start=start)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return int(self.observation_space.start), {}

        def step(self, action):
            return int(self.observation_space.start), 0.0, False, False, {}

    def simulation(first, start):
        return Simulation(Shifted(start), n_episodes=4, seeds=[0], window=range(first, first + 2))

    one = simulation(0, 0)
    one.run()
    state = save_simulation(one)
    with pytest.raises(CheckpointError, match=r"differs in spaces$"):
        restore_simulation(simulation(2, 7), state)
    restore_simulation(simulation(2, 0), state)


def test_nothing_differs_between_equal_problems_and_unknown_rewards_are_not_compared():
    task, other = Task(np.eye(3, 2), 4), Task(n_states=3, n_actions=2, horizon=4)
    assert differing_fields(fingerprint(task), fingerprint(task)) == []
    assert differing_fields(fingerprint(task), fingerprint(other)) == []
    assert differing_fields(fingerprint(task), fingerprint(Task(np.zeros((3, 2)), 4))) == ["rewards"]
