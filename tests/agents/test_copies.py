"""An agent is pickled and deep-copied, and its copy goes on bit for bit without touching the original."""

from __future__ import annotations

import copy
import pickle
import threading

import gymnasium as gym
import numpy as np
import pytest

from agents.contract import CASES
from agents.helpers import assert_same_agent
from matrixrl import CheckpointError, InvalidInput, MatrixRL, ProtocolError
from named_agents import AGENTS

COPIES = {
    "pickle": lambda agent: pickle.loads(pickle.dumps(agent)),  # noqa: S301  # our own bytes
    "deepcopy": copy.deepcopy,
}


def test_every_agent_is_tried():
    assert {case.agent for case in CASES} == set(AGENTS)


@pytest.mark.parametrize("how", [*COPIES, "state"])
@pytest.mark.parametrize("case", {case.agent: case for case in CASES}.values(), ids=str)
def test_a_copy_goes_on_bit_for_bit(case, how):
    agent = case.build()
    agent.learn(2)
    agent.begin_episode()
    before = agent.algorithm.state()
    if how == "state":
        copied = case.build()
        copied.load_state_dict(agent.state_dict())
    else:
        copied = COPIES[how](agent)
    copied.abandon_episode()
    copied.learn(2)
    for name, array in before.items():
        np.testing.assert_array_equal(agent.algorithm.state()[name], array, err_msg=name)
    agent.abandon_episode()
    agent.learn(2)
    assert_same_agent(copied, agent)


def river(**given):
    return MatrixRL("river-swim", **{"seed": 0, **given})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"seed": 1}, "must be matrix-rl with seed 0"),
        ({"delta": 0.2}, "delta"),
        ({"env_settings": {"horizon": 7}}, "horizon"),
        ({"set": "normalised"}, "differs in .*set"),
    ],
    ids=str,
)
def test_a_state_of_another_agent_is_refused_and_changes_nothing(given, words):
    agent, other, same = river(), river(**given), river(**given)
    agent.learn(3)
    with pytest.raises(CheckpointError, match=words):
        other.load_state_dict(agent.state_dict())
    other.learn(2)
    same.learn(2)
    assert_same_agent(other, same)
    with pytest.raises(ProtocolError, match="new agent"):
        other.load_state_dict(agent.state_dict())


def test_a_state_that_does_not_fit_changes_nothing():
    agent, other, same = (river() for _ in range(3))
    agent.learn(3)
    agent.begin_episode()
    state = agent.state_dict()
    with pytest.raises(CheckpointError, match="gaps must be finite"):
        other.load_state_dict({**state, "gaps": float("inf")})  # a file could have 1e999
    state["arrays"]["episodes_plan"] = np.array([7])
    with pytest.raises(CheckpointError, match="cannot be restored"):
        other.load_state_dict(state)
    other.learn(2)
    same.learn(2)
    assert_same_agent(other, same)


class Locked(gym.Env):
    """An environment with a lock, which can be neither pickled nor copied."""

    observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)
    horizon = 2

    def __init__(self):
        self.lock = threading.Lock()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return int(action), 0.0, False, False, {}


@pytest.mark.parametrize("how", COPIES)
def test_an_environment_that_cannot_be_copied_is_named(how, tmp_path):
    agent = MatrixRL(Locked(), known_reward=False, seed=0)
    agent.learn(2)
    with pytest.raises(InvalidInput, match=r"env must be .*pickle takes.*Locked"):
        COPIES[how](agent)
    agent.save(tmp_path / "a")
    assert_same_agent(MatrixRL.load(tmp_path / "a", Locked()), agent)
