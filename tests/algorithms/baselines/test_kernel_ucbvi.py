"""Kernel-UCBVI against its definition (sums over all past transitions) and against plain counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from algorithms.playing import started
from matrixrl.errors import InvalidInput, ProtocolError
from matrixrl.problems import Problem
from matrixrl.records import Steps
from small_worlds import WORLDS, random_batch


def kernel_agent(world, points=None, **settings):
    return started("kernel-ucbvi", replace(Problem.of(world.mdp), points=points), **settings)


def with_history(agent, world, episodes=8):
    """Learn random episodes; return the steps of each stage: (s, a, r, s')."""
    rng = np.random.default_rng(1)
    stages = [[] for _ in range(world.mdp.horizon)]
    for _ in range(episodes):
        batch = random_batch(world, rng, 1, world.mdp.horizon)
        rewards = rng.random(batch.states.shape)
        agent.update(batch.steps(rewards))
        for h, steps in enumerate(stages):
            steps.append((batch.states[0, h], batch.actions[0, h], rewards[0, h], batch.following[0, h]))
    return stages


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("stages", ["pooled", "separate"])
@pytest.mark.parametrize("plane", [True, False])
def test_plan_equals_sums_over_all_past_transitions(known, stages, plane):
    world = WORLDS["tabular"](3)
    mdp = world.mdp
    points = np.random.default_rng(2).random((5, 2)) if plane else None
    settings = {"stages": stages, "bandwidth": 0.4, "beta": 0.2, "lipschitz": 0.7, "scale": 0.05}
    agent = kernel_agent(world, points, known_reward=known, **settings)
    history = with_history(agent, world)
    plan = agent.plan()
    place = np.linspace(-1, 1, 5)[:, None] if points is None else points
    horizon, values = mdp.horizon, np.zeros(5)
    for h in reversed(range(horizon)):
        data = history[h] if stages == "separate" else [step for steps in history for step in steps]
        q = np.zeros((5, 3))
        for s in range(5):
            for a in range(3):
                count, reward, following = 0.2, 0.0, 0.0
                for t, b, r, after in data:
                    weight = (a == b) * np.exp(-((place[s] - place[t]) ** 2).sum() / (2 * 0.4**2))
                    count += weight
                    reward += weight * r
                    following += weight * values[after]
                bonus = 0.05 * (horizon / np.sqrt(count) + 0.2 * horizon / count + 0.7 * 0.4)
                q[s, a] = (mdp.task.reward[s, a] if known else reward / count) + following / count + bonus
        values = q.max(axis=1).clip(0, horizon - h)
        np.testing.assert_allclose(plan.values[0, h], values, atol=1e-10)


@pytest.mark.parametrize("known", [True, False])
def test_a_vanishing_bandwidth_gives_tabular_ucbvi(known):
    world = WORLDS["tabular"](3)
    mdp, horizon = world.mdp, world.mdp.horizon
    settings = {"stages": "pooled", "bandwidth": 1e-3, "beta": 1e-9, "lipschitz": 0.0, "scale": 0.1}
    agent = kernel_agent(world, known_reward=known, **settings)
    history = with_history(agent, world, episodes=30)
    np.testing.assert_array_equal(agent.similarity, np.eye(5))
    counts, earned = np.zeros((5, 3, 5)), np.zeros((5, 3))
    for s, a, r, after in (step for steps in history for step in steps):
        counts[s, a, after] += 1
        earned[s, a] += r
    visits = counts.sum(axis=2)
    assert visits.min() > 0
    reward = mdp.task.reward if known else earned / visits
    values = np.zeros(5)
    plan = agent.plan()
    for h in reversed(range(horizon)):
        q = reward + (counts / visits[:, :, None]) @ values + 0.1 * horizon / np.sqrt(visits)
        values = q.max(axis=1).clip(0, horizon - h)
        np.testing.assert_allclose(plan.values[0, h], values, atol=1e-6)


def test_neighbours_share_what_was_seen():
    world = WORLDS["tabular"](3)

    def doubt(bandwidth):
        agent = kernel_agent(world, stages="pooled", bandwidth=bandwidth, scale=0.01, known_reward=True)
        start = np.zeros((1, 4), int)
        for _ in range(20):  # always the same pair
            agent.update(Steps.of(start, start, np.ones((1, 4)), start))
        count = agent.model.visits()[0, 0] @ agent.similarity
        return count[1]

    assert doubt(0.01) < 1e-12 < 1.0 < doubt(0.5)


def test_bandwidth_of_the_paper_shrinks_with_n_at_the_rate_of_the_dimension():
    world = WORLDS["tabular"](3)
    for p in (1, 2):
        points = np.random.default_rng(4).random((5, p))
        agent = kernel_agent(world, points, n_episodes=64)
        assert agent.bandwidth == pytest.approx(64 ** (-1 / (2 * p + 1)))


def test_points_of_another_problem_are_refused():
    world = WORLDS["tabular"](3)
    with pytest.raises(InvalidInput, match=r"^points must have shape \(5, any\)"):
        kernel_agent(world, np.zeros((4, 1)))


@pytest.mark.parametrize("stages", ["pooled", "separate"])
def test_smoothed_counts_are_no_estimated_model(stages):
    with pytest.raises(ProtocolError, match="kernel-ucbvi has no estimated model"):
        kernel_agent(WORLDS["tabular"](3), stages=stages).estimated_plan()
