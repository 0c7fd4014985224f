"""Counts and the empirical model against counting one step at a time."""

from __future__ import annotations

import numpy as np
import pytest

from algorithms.playing import started
from matrixrl.algorithms.baselines.tabular_model import PairCounts
from matrixrl.records import Steps
from small_worlds import WORLDS, random_batch
from tolerances import EXACT

S, A, H, B = 5, 3, 4, 2


@pytest.fixture
def counted(rng):
    """A model after three episodes with some steps not taken, and the steps that were: (b, h, s, a, s', r)."""
    model = PairCounts(B, A, S, horizon=H)
    world, steps = WORLDS["tabular"](3), []
    for _ in range(3):
        batch = random_batch(world, rng, B, H)
        taken = rng.random((B, H)) < 0.7
        rewards = rng.random((B, H)) * taken
        model.update(batch.steps(rewards, taken))
        steps += [
            (b, h, batch.states[b, h], batch.actions[b, h], batch.following[b, h], rewards[b, h])
            for b in range(B)
            for h in range(H)
            if taken[b, h]
        ]
    return model, steps


def test_counts_are_those_of_a_loop_and_leave_out_steps_not_taken(counted):
    model, steps = counted
    counts, transitions, rewards, stages = (np.zeros(s) for s in ((B, A * S), (B, A * S, S), (B, A * S), (B, H, S)))
    for b, h, s, a, following, reward in steps:
        counts[b, a * S + s] += 1
        transitions[b, a * S + s, following] += 1
        rewards[b, a * S + s] += reward
        stages[b, h, s] += 1
    assert 0 < counts.sum() < 3 * B * H
    np.testing.assert_array_equal(model.counts, counts)
    np.testing.assert_array_equal(model.transitions, transitions)
    np.testing.assert_array_equal(model.stage_visits, stages)
    np.testing.assert_allclose(model.reward_sums, rewards, atol=EXACT)


def test_next_values_average_over_what_followed_and_over_all_states_before_the_first_visit(counted, rng):
    model, steps = counted
    values = rng.random((B, S))
    expected = model.next_value(values)
    for b in range(B):
        for a in range(A):
            for s in range(S):
                seen = [following for c, _, x, u, following, _ in steps if (c, x, u) == (b, s, a)]
                mean = np.mean([values[b, y] for y in seen]) if seen else values[b].mean()
                assert expected[b, a, s] == pytest.approx(mean, abs=EXACT)


def test_mean_rewards_are_means_and_zero_before_the_first_visit(counted):
    model, steps = counted
    mean = model.reward_mean()
    for b, a, s in np.ndindex(B, A, S):
        seen = [reward for c, _, x, u, _, reward in steps if (c, x, u) == (b, s, a)]
        assert mean[b, a, s] == pytest.approx(np.mean(seen) if seen else 0.0, abs=EXACT)


def test_a_restored_model_is_the_same_to_the_bit_and_on_its_own(counted):
    model, _ = counted
    other = PairCounts(B, A, S, horizon=H)
    other.load_state_dict(model.state_dict())
    assert np.array_equal(other.transition_mean, model.transition_mean)
    start = np.zeros((B, 1), int)
    other.update(Steps.of(start, start, np.ones((B, 1)), start))
    assert other.counts.sum() == model.counts.sum() + B


def test_without_n_the_log_grows_with_the_episodes_to_what_n_would_give():
    without, planned = (started("ucbvi", WORLDS["tabular"](3).mdp, n_episodes=n) for n in (None, 100))
    assert planned.log_term(60.0) == pytest.approx(np.log(60.0 * 100 * H / 0.1), abs=EXACT)
    assert without.log_term(60.0) < planned.log_term(60.0)
    without.episode = 99
    assert without.log_term(60.0) == planned.log_term(60.0)
