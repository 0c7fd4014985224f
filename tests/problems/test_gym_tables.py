from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from matrixrl import InvalidInput, MatrixRL, from_gymnasium, solve


def value_by_dictionary(env, horizon):
    """V* of a toy-text table by plain loops over its own dictionary: no code of ours."""
    table, n, n_actions = env.unwrapped.P, env.observation_space.n, env.action_space.n
    values = [0.0] * n
    for _ in range(horizon):
        values = [
            max(sum(p * (r + (0.0 if done else values[t])) for p, t, r, done in table[s][a]) for a in range(n_actions))
            for s in range(n)
        ]
    return float(np.dot(env.unwrapped.initial_state_distrib, values))


@pytest.mark.parametrize(
    ("name", "horizon", "reward_range"),
    [
        ("FrozenLake-v1", 30, (0.0, 1.0)),
        ("Taxi-v4", 25, (-10.0, 20.0)),
        ("CliffWalking-v1", 20, (-100.0, 0.0)),
    ],
)
def test_the_optimum_equals_loops_over_the_table(name, horizon, reward_range):
    env = gym.make(name)
    mdp = from_gymnasium(env, horizon=horizon)
    assert solve(mdp).start_value == pytest.approx(value_by_dictionary(env, horizon), abs=1e-10)
    assert mdp.task.reward_range == reward_range
    assert mdp.task.end_state == env.observation_space.n


def test_the_agent_learns_on_the_environment_itself():
    env = gym.make("FrozenLake-v1", is_slippery=False)
    agent = MatrixRL(env, horizon=12, seed=0, preset="tuned")
    history = agent.learn(150)
    assert history.regret[-20:].max() == 0.0
    assert history.returns[-20:].min() == 1.0
    assert 6 <= history.lengths[-1] <= 12  # every way to the goal in time is optimal


def test_horizon_comes_from_the_time_limit_or_must_be_given():
    assert from_gymnasium(gym.make("FrozenLake-v1")).horizon == 100
    with pytest.raises(InvalidInput, match="horizon must be given for CliffWalking"):
        from_gymnasium(gym.make("CliffWalking-v1"))


def test_a_declared_range_must_cover_the_rewards():
    with pytest.raises(InvalidInput, match="reward must lie in"):
        from_gymnasium(gym.make("CliffWalking-v1"), horizon=5, reward_range=(-1.0, 0.0))


def test_environments_without_a_table_are_refused_with_a_way_out():
    with pytest.raises(InvalidInput, match=r"transition table.*FiniteMDP"):
        from_gymnasium(gym.make("CartPole-v1"))
