"""States and actions keep the numbers of the environment: Discrete(n, start=k), for every agent and every call."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from continuum import Line, line
from matrixrl import Agent, InvalidInput, KernelMatrixRL, MatrixRL, from_gymnasium, run_seeds
from matrixrl.envs import NoisyActions
from named_agents import BASELINE_AGENTS, predicted

FIRST_STATE, FIRST_ACTION, HORIZON = 5, -3, 4


class Shifted(gym.Env):
    """Three states numbered from 5 and two actions numbered from −3: the upper one moves right, and the end pays."""

    observation_space = gym.spaces.Discrete(3, start=FIRST_STATE)
    action_space = gym.spaces.Discrete(2, start=FIRST_ACTION)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = FIRST_STATE
        return self.state, {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.state = min(self.state + 1, FIRST_STATE + 2) if action == FIRST_ACTION + 1 else FIRST_STATE
        return self.state, float(self.state == FIRST_STATE + 2), False, False, {}


class ShiftedTable(Shifted):
    """The same with a transition table under its own numbers."""

    @property
    def P(self):
        def row(s, a):
            following = min(s + 1, FIRST_STATE + 2) if a == FIRST_ACTION + 1 else FIRST_STATE
            return [(1.0, following, float(following == FIRST_STATE + 2), False)]

        actions = (FIRST_ACTION, FIRST_ACTION + 1)
        return {s: {a: row(s, a) for a in actions} for s in range(FIRST_STATE, FIRST_STATE + 3)}


class ShiftedVectors(Shifted):
    observation_space = gym.spaces.Box(-1.0, 3.0, (1,))

    def reset(self, *, seed=None, options=None):
        state, info = super().reset(seed=seed)
        return np.array([state - FIRST_STATE], dtype=np.float32), info

    def step(self, action):
        state, *rest = super().step(action)
        return np.array([state - FIRST_STATE], dtype=np.float32), *rest


ACTIONS = {FIRST_ACTION, FIRST_ACTION + 1}
BANDITS = {"lin-ucb", "kernel-ucb"}  # for a horizon of 1
AGENTS = ["matrix-rl", "kernel-matrix-rl", *sorted(set(BASELINE_AGENTS) - BANDITS)]


@pytest.mark.parametrize("env", [Shifted, ShiftedTable])
@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_speaks_in_the_numbers_of_the_environment(name, env):
    agent = Agent(env(), _made(name), horizon=HORIZON, seed=0)
    assert agent.learn(30).n_episodes == 30
    assert agent.predict(FIRST_STATE, 0) in ACTIONS
    assert agent.policy.act(FIRST_STATE, 0) in ACTIONS
    assert agent.predict(FIRST_STATE, 0) == predicted(agent).act(FIRST_STATE, 0)
    episode = agent.begin_episode()
    action = episode.act(FIRST_STATE)
    assert action in ACTIONS
    episode.observe(FIRST_STATE, action, 0.0, FIRST_STATE + 2)
    for bad in (0, FIRST_STATE - 1, FIRST_STATE + 3):
        with pytest.raises(InvalidInput, match="obs must be in 5 … 7"):
            agent.predict(bad, 0)
    with pytest.raises(InvalidInput, match="action must be in -3 … -2"):
        episode.observe(FIRST_STATE, 0, 0.0, FIRST_STATE)
    with pytest.raises(InvalidInput, match="next_obs must be in 5 … 7"):
        episode.observe(FIRST_STATE, action, 0.0, 0)


def _made(name):
    from matrixrl.algorithms import make_algorithm

    return make_algorithm(name, {"known_reward": False})


def test_what_is_learned_does_not_depend_on_the_numbers(tmp_path):
    agent = MatrixRL(ShiftedTable(), horizon=HORIZON, seed=0, preset="tuned")
    history = agent.learn(60)
    assert history.regret[-10:].max() < 1e-9
    assert [agent.predict(FIRST_STATE + s, 0) for s in range(3)] == [FIRST_ACTION + 1] * 3
    agent.save(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a", ShiftedTable())
    np.testing.assert_array_equal(loaded.learn(3).returns, agent.learn(3).returns)


@pytest.mark.parametrize("env", [Shifted, ShiftedTable, ShiftedVectors])
def test_run_seeds_plays_with_the_numbers_of_the_environment(env):
    result = run_seeds(env(), n_episodes=3, seeds=2, horizon=HORIZON, **_learned(env))
    assert result.returns.shape == (2, 3)


def _learned(env):
    return {} if env is not Shifted else {"known_reward": False}


def test_the_continuous_agent_and_noise_use_the_numbers_too():
    agent = KernelMatrixRL(NoisyActions(ShiftedVectors(), 0.2), horizon=HORIZON, seed=0)
    agent.learn(2)
    assert agent.predict([0.0], 0) in ACTIONS


class ShiftedLine(Line):
    action_space = gym.spaces.Discrete(2, start=FIRST_ACTION)

    def step(self, action):
        return super().step(action - FIRST_ACTION)


def test_functions_of_states_with_an_environment_use_its_numbers_of_actions():
    agent, plain = (MatrixRL(line(env=env), columns=50, seed=0) for env in (ShiftedLine(), Line()))
    np.testing.assert_array_equal(agent.learn(2).returns, plain.learn(2).returns)
    assert agent.predict([0.0], 0) == plain.predict([0.0], 0) + FIRST_ACTION


def test_a_table_with_other_numbers_than_the_spaces_is_refused():
    class Wrong(ShiftedTable):
        P = {0: {0: []}}  # noqa: RUF012

    with pytest.raises(InvalidInput, match=r"env.unwrapped.P must be dictionaries"):
        from_gymnasium(Wrong(), horizon=3)
