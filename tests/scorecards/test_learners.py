"""Which agent plays which environment, and the adapter of vectors."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from matrixrl.algorithms.control.algorithm import MOST_COORDINATES
from matrixrl.errors import InvalidInput
from scorecards.learners import RandomLearner, choose_learner
from scorecards.numbered_states import GrowingLearner
from scorecards.probe import observations_repeat, play_at_random
from scorecards.timesteps import number_of_actions
from scorecards.vectors import SteppedGym, VectorLearner, as_log
from stepped_worlds import Drift, Sea


def episodes_of(env, n=10):
    rng = np.random.default_rng(0)
    return [play_at_random(env, rng) for _ in range(n)]


def test_boards_repeat_and_vectors_do_not():
    assert observations_repeat(episodes_of(Sea(50)))
    assert not observations_repeat(episodes_of(Drift(50)))


@pytest.mark.parametrize(
    ("env", "kind", "name"),
    [
        (Sea(5), GrowingLearner, "matrix-rl"),
        (Drift(5), VectorLearner, "kernel-control"),
        (Drift(5, n_more=MOST_COORDINATES), RandomLearner, "random"),
    ],
)
def test_what_is_observed_chooses_the_agent(env, kind, name):
    learner, used = choose_learner(env, 0)
    assert isinstance(learner, kind)
    assert used == name
    assert np.isfinite(learner.play())


def test_the_log_of_random_episodes_has_every_step_once():
    episodes = episodes_of(Drift(7, n_more=1), 3)
    log = as_log(episodes)
    assert log["terminated"].tolist() == ([False] * 6 + [True]) * 3
    assert log["episode"].tolist() == [0] * 7 + [1] * 7 + [2] * 7
    for k in range(3):
        own = log["episode"] == k
        seen = np.stack(episodes[k].observations)[:, 0]
        np.testing.assert_array_equal(np.stack([log["obs_0"], log["obs_1"]], axis=1)[own], seen[:-1])
        np.testing.assert_array_equal(np.stack([log["next_obs_0"], log["next_obs_1"]], axis=1)[own], seen[1:])
        assert log["reward"][own].tolist() == episodes[k].rewards


def test_the_adapter_keeps_steps_rewards_and_ends():
    env = SteppedGym(Drift(3), 1)
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    ends = []
    for _ in range(3):
        following, reward, terminated, truncated, _ = env.step(1)
        assert following[0] == pytest.approx(obs[0] + 0.2)
        assert reward == pytest.approx(-(following[0] ** 2))
        obs = following
        ends.append((terminated, truncated))
    assert ends == [(False, False), (False, False), (True, False)]
    assert env.action_space == gym.spaces.Discrete(2)


def test_continuous_actions_are_refused():
    class Pushed(Drift):
        def action_spec(self):
            return object()

    with pytest.raises(InvalidInput, match="discrete actions"):
        number_of_actions(Pushed(3))
