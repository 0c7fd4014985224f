"""Kernel-UCBVI against its definition (sums over all past transitions) and against plain counts."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl.algorithms.baselines.kernel_ucbvi import KernelUCBVI, KernelUCBVISettings
from matrixrl.errors import InvalidInput
from worlds import WORLDS, random_batch


def with_history(engine, world, episodes=8):
    """Return what happened at each stage: (s, a, r, s')."""
    rng = np.random.default_rng(1)
    stages = [[] for _ in range(world.mdp.horizon)]
    for _ in range(episodes):
        batch = random_batch(world, rng, 1, world.mdp.horizon)
        rewards = rng.random(batch.states.shape)
        engine.update(batch.states, batch.actions, batch.following, batch.ones, rewards)
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
    settings = KernelUCBVISettings(
        stages=stages, bandwidth=0.4, beta=0.2, lipschitz=0.7, scale=0.05, known_reward=known
    )
    engine = KernelUCBVI(mdp.task, world.features, settings, [0], points=points)
    history = with_history(engine, world)
    plan = engine.next_plan()
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
    settings = KernelUCBVISettings(
        stages="pooled", bandwidth=1e-3, beta=1e-9, lipschitz=0.0, scale=0.1, known_reward=known
    )
    engine = KernelUCBVI(mdp.task, world.features, settings, [0])
    history = with_history(engine, world, episodes=30)
    np.testing.assert_array_equal(engine.similarity, np.eye(5))
    counts, earned = np.zeros((5, 3, 5)), np.zeros((5, 3))
    for s, a, r, after in (step for steps in history for step in steps):
        counts[s, a, after] += 1
        earned[s, a] += r
    visits = counts.sum(axis=2)
    assert visits.min() > 0
    reward = mdp.task.reward if known else earned / visits
    values = np.zeros(5)
    plan = engine.next_plan()
    for h in reversed(range(horizon)):
        q = reward + (counts / visits[:, :, None]) @ values + 0.1 * horizon / np.sqrt(visits)
        values = q.max(axis=1).clip(0, horizon - h)
        np.testing.assert_allclose(plan.values[0, h], values, atol=1e-6)


def test_neighbours_share_what_was_seen():
    world = WORLDS["tabular"](3)

    def doubt(bandwidth):
        settings = KernelUCBVISettings(stages="pooled", bandwidth=bandwidth, scale=0.01, known_reward=True)
        engine = KernelUCBVI(world.mdp.task, world.features, settings, [0])
        for _ in range(20):  # always the same pair
            one = np.ones((1, 4))
            engine.update(0 * one.astype(int), 0 * one.astype(int), 0 * one.astype(int), one, one)
        count = engine.visits[0, 0, 0] @ engine.similarity
        return count[1]

    assert doubt(0.01) < 1e-12 < 1.0 < doubt(0.5)


def test_bandwidth_of_the_paper_shrinks_with_n_at_the_rate_of_the_dimension():
    world = WORLDS["tabular"](3)
    for p in (1, 2):
        points = np.random.default_rng(4).random((5, p))
        engine = KernelUCBVI(world.mdp.task, world.features, KernelUCBVISettings(n_episodes=64), [0], points=points)
        assert engine.bandwidth == pytest.approx(64 ** (-1 / (2 * p + 1)))


def test_points_of_another_problem_are_refused():
    world = WORLDS["tabular"](3)
    with pytest.raises(InvalidInput, match=r"^points must have shape \(5, any\)"):
        KernelUCBVI(world.mdp.task, world.features, KernelUCBVISettings(), [0], points=np.zeros((4, 1)))
