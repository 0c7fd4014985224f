"""Coordinates that predict something are found, coordinates that predict nothing are not numbered."""

from __future__ import annotations

import numpy as np
import pytest

from scorecards import factored
from scorecards.coordinates import LEVEL, _scores, coordinates_repeat, narrowed, predictive_coordinates
from scorecards.factored import FactoredLearner
from scorecards.learners import choose_learner
from scorecards.numbered_states import GrowingLearner
from scorecards.probe import Seen, play_at_random
from stepped_worlds import Drift, Errand

TUNED = {"preset": "tuned", "known_reward": False}


def episodes_of(env, n, seed=0):
    rng = np.random.default_rng(seed)
    return [play_at_random(env, rng) for _ in range(n)]


def coins(rng, n_steps, n_coins):
    """An episode of coin flips alone."""
    boards = list(rng.integers(0, 2, size=(n_steps + 1, n_coins)).astype(np.float32))
    return Seen(boards, rng.integers(0, 2, size=n_steps).tolist(), rng.normal(size=n_steps).tolist())


def test_scores_are_correlations_times_the_root_of_the_number_of_rows():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(50, 3)), rng.normal(size=(50, 2)) * [1.0, 1e-6] + [0.0, 5.0]
    both = np.corrcoef(first.T, second.T)[:3, 3:]
    np.testing.assert_allclose(_scores(first, second), np.sqrt(50) * both, rtol=1e-9)
    assert _scores(np.ones((50, 1)), second).tolist() == [[0.0, 0.0]]


def test_noise_is_kept_no_more_often_than_the_level_says():
    rng = np.random.default_rng(1)
    kept = sum(bool(predictive_coordinates([coins(rng, 30, 6) for _ in range(10)])) for _ in range(400))
    assert kept <= 400 * LEVEL + 3.0 * np.sqrt(400 * LEVEL)


@pytest.mark.parametrize(("n_steps", "n_episodes"), [(1, 200), (4, 100), (20, 60)])
def test_what_lasts_or_pays_is_kept_and_coin_flips_are_not(n_steps, n_episodes):
    found = predictive_coordinates(episodes_of(Errand(n_steps, 20), n_episodes))
    assert set(found) <= {0, 1, 2}
    assert 0 in found
    assert n_steps == 1 or found == [0, 1, 2]


def test_an_effect_that_is_not_linear_is_found_value_by_value():
    """The reward is that of the middle value of three, which no straight line shows."""
    rng = np.random.default_rng(2)
    boards = rng.integers(0, 3, size=(401, 2)).astype(np.float32)
    rewards = (boards[:-1, 1] == 1).astype(float).tolist()
    assert predictive_coordinates([Seen(list(boards), [0] * 400, rewards)]) == [1]


def test_a_coordinate_that_turns_over_at_every_step_is_kept():
    rng = np.random.default_rng(4)
    turning = np.arange(101) % 2
    boards = np.column_stack([rng.integers(0, 2, size=101), turning]).astype(np.float32)
    assert predictive_coordinates([Seen(list(boards), [0] * 100, rng.normal(size=100).tolist())]) == [1]


def test_few_steps_prove_nothing():
    """Coin flips agree by chance in a short record, however perfect the agreement looks."""
    rng = np.random.default_rng(3)
    assert predictive_coordinates([coins(rng, 1, 30) for _ in range(6)]) == []


def test_coordinates_repeat_where_observations_do_not():
    assert coordinates_repeat(episodes_of(Errand(5, 30), 10))
    assert not coordinates_repeat(episodes_of(Drift(5), 10))
    assert not coordinates_repeat(episodes_of(Drift(5, n_more=2), 10))


def test_narrowed_episodes_have_the_chosen_coordinates_in_order():
    [episode] = episodes_of(Errand(3, 2), 1)
    part = narrowed(episode, [2, 0])
    np.testing.assert_array_equal(np.stack(part.observations), np.stack(episode.observations)[:, 0, [2, 0]])
    assert part.actions == episode.actions
    assert part.rewards == episode.rewards


def test_the_errand_is_learned_among_thirty_coins():
    env = Errand(6, 30)
    learner, used = choose_learner(env, 0)
    assert isinstance(learner, FactoredLearner)
    assert used == "matrix-rl"
    late = []
    for episode in range(600):
        learner.play()
        late += [env.carried == env.wanted] if episode >= 400 else []
    assert learner.coordinates == [0, 1, 2]
    assert np.mean(late) > 0.9


def test_a_new_choice_learns_from_all_episodes(monkeypatch):
    monkeypatch.setattr(factored, "MOST_STEPS", 100)
    env = Errand(5, 3)
    learner = FactoredLearner(
        env, lambda own, seen: GrowingLearner(own, "matrix-rl", TUNED, 0, seen), episodes_of(env, 4)
    )
    choices = [learner.coordinates]
    for played in range(1, 61):
        learner.play()
        if learner.coordinates != choices[-1]:
            choices.append(learner.coordinates)
        assert len(learner._learner._episodes) == 4 + played
    assert len(choices) > 1
    assert learner._episodes == []  # nothing is kept once coordinates are not chosen again
