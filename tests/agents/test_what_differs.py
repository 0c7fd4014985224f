"""What does not fit a saved agent or simulation is said: which part of the problem differs, and both values."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from matrixrl import CheckpointError, FiniteMDP, KernelMatrixRL, MatrixRL, make
from matrixrl.features import TablePhi
from matrixrl.problems import Task, fingerprint
from matrixrl.problems.fingerprint import differences, fingerprint_parts
from matrixrl.simulate import Simulation
from matrixrl.simulate.resume import restore_simulation, save_simulation

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
    "horizon": ({"horizon": 7}, r"got horizon 7 \(saved: 5\)\."),
    "range": ({"reward_range": (-1.0, 2.0)}, r"got range of rewards \(-1, 2\) \(saved: \(0, 1\)\)\."),
    "end": ({"end_state": S - 1}, r"got end state 3 \(saved: none\)\."),
    "reward": ({"reward": reward((2, 1))}, r"got rewards 0\.25 at \[2, 1\] \(saved: 0\.\d+\)\."),
    "rewards": ({"reward": reward(([0, 2], [1, 1]))}, r"got rewards 0\.25 at \[0, 1\] and 1 more \(saved: 0\.\d+\)\."),
    "start": ({"start": 2}, r"got start 0 at \[0\] and 1 more \(saved: 1\)\."),
    "transitions": ({"transitions": transitions()}, r"got other transitions\."),
    "noise": ({"noisy_rewards": True}, r"got noise of rewards 1 \(saved: 0\)\."),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_part_of_an_mdp_that_differs_is_named_with_both_values(name, tmp_path):
    changes, words = CHANGES[name]
    MatrixRL(mdp(), seed=0).save(tmp_path / "a")
    with pytest.raises(CheckpointError, match=rf"env must be the problem that the checkpoint was saved from; {words}"):
        MatrixRL.load(tmp_path / "a", mdp(**changes))
    MatrixRL.load(tmp_path / "a", mdp())


@pytest.mark.parametrize("name", CHANGES)
def test_the_same_of_a_simulation(name):
    changes, words = CHANGES[name]

    def simulation(first, **changes):
        return Simulation(mdp(**changes), n_episodes=4, seeds=[0], window=range(first, first + 2))

    one = simulation(0)
    one.run()
    state = save_simulation(one)
    shown = {"reward": "other rewards", "rewards": "other rewards", "start": "other start"}
    wanted = shown.get(name, words.removeprefix("got ").removesuffix(r"\."))
    with pytest.raises(CheckpointError, match=rf"in another problem, or with other features: {wanted}"):
        restore_simulation(simulation(2, **changes), state)
    restore_simulation(simulation(2), state)


def test_sizes_and_spaces(tmp_path):
    MatrixRL(mdp(), seed=0).save(tmp_path / "a")
    words = (
        r"action space Discrete\(3\) \(saved: Discrete\(2\)\), "
        r"observation space Discrete\(6\) \(saved: Discrete\(4\)\), "
        r"actions 3 \(saved: 2\), states 6 \(saved: 4\)"
    )
    with pytest.raises(CheckpointError, match=words):
        MatrixRL.load(tmp_path / "a", mdp(sizes={"s": 6, "a": 3}))
    with pytest.raises(CheckpointError, match=r"observation space vectors \(saved: Discrete\(4\)\)"):
        MatrixRL.load(tmp_path / "a", gym.make("CartPole-v1"))
    KernelMatrixRL(make("cart-pole"), seed=0).save(tmp_path / "b")
    with pytest.raises(CheckpointError, match=r"observation space Discrete\(6\) \(saved: vectors\)"):
        KernelMatrixRL.load(tmp_path / "b", make("river-swim"))
    with pytest.raises(CheckpointError, match=r"horizon 100 \(saved: 200\)"):
        KernelMatrixRL.load(tmp_path / "b", make("cart-pole", horizon=100))
    with pytest.raises(CheckpointError, match="another size of bounds of observations"):
        KernelMatrixRL.load(tmp_path / "b", make("mountain-car"))


class Hidden(gym.Env):
    observation_space, action_space, horizon = gym.spaces.Discrete(3), gym.spaces.Discrete(2), 4


def test_an_environment_without_a_table(tmp_path):
    MatrixRL(Hidden(), reward=np.eye(3, 2), seed=0).save(tmp_path / "a")
    assert MatrixRL.load(tmp_path / "a", Hidden()).problem.task.knows_reward  # those of the file
    larger = Hidden()
    larger.observation_space = gym.spaces.Discrete(5)
    with pytest.raises(CheckpointError, match=r"observation space Discrete\(5\) \(saved: Discrete\(3\)\), states 6"):
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
    with pytest.raises(CheckpointError, match=r"number of features phi 2 \(saved: 3\), other phi"):
        restore_simulation(simulation(2, 2), state)
    with pytest.raises(CheckpointError, match=r"with other features: other phi$"):
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
    with pytest.raises(CheckpointError, match=r"observation space Discrete\(3, start=7\) \(saved: Discrete\(3\)\)"):
        restore_simulation(simulation(2, 7), state)
    restore_simulation(simulation(2, 0), state)


def test_nothing_differs_between_equal_problems_and_unknown_rewards_are_not_compared():
    task, other = Task(np.eye(3, 2), 4), Task(n_states=3, n_actions=2, horizon=4)
    assert differences(fingerprint_parts(task), fingerprint_parts(task)) == ""
    assert differences(fingerprint(task), fingerprint_parts(other)) == ""
    assert differences(fingerprint(task), fingerprint_parts(Task(np.zeros((3, 2)), 4))) == "other rewards"
