"""Random play on vectors, where a plan has no table."""

from __future__ import annotations

import numpy as np
import pytest

from algorithms.playing import started
from matrixrl.errors import InvalidInput
from matrixrl.problems import ContinuousTask, Problem
from matrixrl.random_streams import generator
from matrixrl.records import Steps

SEEDS = [3, 4]
TASK = ContinuousTask(2, -np.ones(2), np.ones(2), n_actions=3, horizon=5, reward_range=(0.0, 1.0), max_return=None)


@pytest.fixture
def agent():
    return started("random", Problem(TASK, name="vectors"), SEEDS)


def test_each_step_draws_one_action_from_the_stream_of_each_replica(agent):
    expected = [generator(seed, "agent") for seed in SEEDS]
    states = np.zeros((2, 2))
    for _ in range(3):
        plan = agent.plan()
        for h in range(5):
            actions = agent.act(plan, h, states)
            assert actions.dtype == np.int64
            assert actions.tolist() == [int(rng.integers(3)) for rng in expected]
        agent.update(Steps.of(np.zeros((2, 4, 2)), np.zeros((2, 4), int), np.zeros((2, 4)), np.zeros((2, 4, 2))))
    assert (agent.episode, agent.n_plans.tolist()) == (3, [3, 3])
    assert agent.guarantee.reason == "random play learns nothing"


def test_without_exploration_nothing_is_drawn(agent):
    before = agent.state()
    assert agent.act(agent.advice(), 0, np.zeros((2, 2)), explore=False).tolist() == [0, 0]
    assert np.array_equal(agent.state()["streams"], before["streams"])


def test_it_goes_on_where_it_was_saved(agent):
    plan, states = agent.plan(), np.zeros((2, 2))
    agent.act(plan, 0, states)
    other = started("random", Problem(TASK), [8, 9])
    other.restore(agent.state())
    again = other.plan_from_arrays(plan.arrays())
    for h in range(1, 5):
        assert np.array_equal(agent.act(plan, h, states), other.act(again, h, states))


def test_a_plan_promises_nothing_and_has_no_table(agent):
    plan = agent.plan()
    assert np.isnan(agent.upper(plan)).tolist() == [True, True]
    with pytest.raises(InvalidInput, match=r"^problem must have numbered states"):
        agent.policy_table(plan)
    with pytest.raises(InvalidInput, match="the arrays must be"):
        agent.plan_from_arrays({"policy": np.zeros((1, 5, 2))})
