"""Forecasts: bounds of more of the same data, and how many episodes that takes."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import Agent, InvalidInput, MatrixRL, ProtocolError
from matrixrl.agents.forecast import _first, _rounded
from matrixrl.algorithms.baselines import PSRL
from matrixrl.certificates import Forecast
from matrixrl.problems import tabular

MDP = tabular(n_states=4, n_actions=2, horizon=4, seed=1).mdp
SETTINGS = [
    {},
    {"set": "normalised"},
    {"set": "sandwich"},
    {"set": "frobenius", "phi": np.eye(8)[:, ::-1].reshape(4, 2, 8) + 0.1},
    {"known_reward": False},
    {"phi": np.eye(4)[[0, 1, 1, 2, 2, 3, 3, 0]].reshape(4, 2, 4)},
]
RIVER = {"n_states": 4, "horizon": 20}


def intervals(certifier):
    tables = np.random.default_rng(0).integers(0, 2, (2, 1, 4, 4))
    found = certifier.bound_policies(*tables)
    bounds = certifier.certify(certifier.safest_plan())
    return np.concatenate([found.lower[:, 0], found.upper[:, 0], bounds.upper, bounds.lower])


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
class TestMoreData:
    def test_as_much_data_have_the_same_bounds(self, settings):
        agent = MatrixRL(MDP, seed=0, **settings)
        agent.learn(30)
        own = agent.algorithm.certifier
        log, _ = agent._seen.all()
        np.testing.assert_allclose(intervals(own.multiplied(1.0)), intervals(own), atol=1e-8)
        np.testing.assert_allclose(intervals(own.of_steps(log)), intervals(own), atol=1e-8)
        before = intervals(own)
        own.multiplied(8.0)
        own.of_steps(log.first(3))
        np.testing.assert_array_equal(intervals(own), before)  # nothing was changed

    def test_three_times_the_data_are_the_log_learned_three_times(self, settings):
        agent = MatrixRL(MDP, seed=0, **settings)
        agent.learn(30)
        log, _ = agent._seen.all()
        thrice = type(log).joined([log] * 3)
        own = agent.algorithm.certifier
        np.testing.assert_allclose(intervals(own.multiplied(3.0)), intervals(own.of_steps(thrice)), atol=1e-8)
        assert not np.allclose(intervals(own.multiplied(3.0)), intervals(own))


class TestGap:
    def test_the_number_of_episodes_is_in_the_spread(self):
        """RiverSwim, 3 seeds: the gap after 400 episodes shrinks by three tenths; at least 2 in the spread."""
        inside = 0
        for seed in range(3):
            agent = MatrixRL("river-swim", env_settings=RIVER, seed=seed)
            agent.learn(400)
            goal = 0.7 * agent.recommend().certificate.gap
            found = agent.forecast(gap=goal)
            n = agent.n_episodes
            agent.learn(10_000, until_gap=goal)
            inside += found.fewest <= agent.n_episodes - n <= found.most
            assert found.fewest <= found.episodes <= found.most
        assert inside >= 2

    def test_what_is_reached_takes_no_episodes(self):
        agent = MatrixRL("river-swim", env_settings=RIVER, seed=0)
        agent.learn(100)
        found = agent.forecast(gap=agent.recommend().certificate.gap)
        assert (found.episodes, found.fewest, found.most) == (0, 0, 0)
        assert "is reached" in str(found)

    def test_pairs_that_are_never_tried_may_keep_a_gap_open(self):
        agent = MatrixRL(MDP, seed=0)
        agent.learn(200, policy=np.zeros((4, 4), dtype=int))
        found = agent.forecast(gap=0.01)
        assert found.episodes is None
        assert "never expected at this rate" in str(found)
        assert "4 of 8 pairs were never tried" in found.helps
        assert any("explore_for" in words for words in found.helps)
        assert found.as_dict()["episodes"] is None
        assert "never at this rate" in found._repr_html_()

    def test_nothing_is_foretold_where_nothing_is_proven(self):
        agent = MatrixRL(MDP, seed=0, phi=np.ones((4, 2, 1)))
        agent.learn(20)
        found = agent.forecast(gap=0.5)
        assert found.episodes is None
        assert "nothing is proven" in found.helps[0]


class TestDecide:
    def test_a_test_by_returns_takes_as_long_as_foretold(self):
        """Two policies by turns, 8 seeds; the test is decided within the spread in at least 5."""
        inside, right, wrong = 0, np.ones(4, dtype=int), np.array([1, 1, 0, 1])
        for seed in range(8):
            agent = MatrixRL("river-swim", env_settings=RIVER, seed=seed, set="normalised")
            for _ in range(30):
                agent.learn(1, policy=right)
                agent.learn(1, policy=wrong)
            found, n = agent.forecast(decide=(right, wrong)), agent.n_episodes
            while not agent.compare(right, wrong).probably_better:
                agent.learn(1, policy=right)
                agent.learn(1, policy=wrong)
            needed = agent.n_episodes - n
            most = np.inf if found.most is None else found.most
            inside += found.fewest <= needed <= most
            assert agent.forecast(decide=(right, wrong)).episodes == 0
        assert inside >= 5

    def test_what_differs_in_pairs_that_are_never_tried_is_never_decided(self):
        agent = MatrixRL(MDP, seed=0)
        agent.learn(100, policy=np.zeros((4, 4), dtype=int))
        found = agent.forecast(decide=(np.zeros(4, dtype=int), np.ones(4, dtype=int)))
        assert found.episodes is None
        assert any("returns count" in words for words in found.helps)

    def test_the_same_policy_is_decided(self):
        agent = MatrixRL(MDP, seed=0)
        agent.learn(20)
        assert agent.forecast(decide=(np.zeros(4, dtype=int), np.zeros((4, 4), dtype=int))).episodes == 0


def test_numbers_have_two_digits_and_are_not_smaller():
    assert [_rounded(x) for x in (0.2, 1.0, 7.3, 99.0, 101.0, 2278.3, 1.4e6)] == [1, 1, 8, 99, 110, 2300, 1400000]


def test_the_first_time_that_nothing_lacks():
    assert _first(lambda k: 2.0**-k - 0.1) == pytest.approx(np.log2(10.0), abs=1e-2)
    assert _first(lambda k: 1.0 + 2.0**-k) is None


def test_words():
    found = Forecast("a gap of at most 2", None, 500, None, "it rains", ("an umbrella",))
    assert "never expected at this rate, and after 500 more episodes at best, if it rains; what may" in repr(found)


def test_what_is_refused():
    agent = MatrixRL(MDP, seed=0)
    agent.learn(10)
    for call, words in (
        (lambda: agent.forecast(), "gap must be given"),
        (lambda: agent.forecast(gap=1.0, decide=(1, 2)), "gap must be given"),
        (lambda: agent.forecast(gap=-1.0), "gap must be"),
        (lambda: agent.forecast(decide=[0]), "decide must be a pair"),
    ):
        with pytest.raises(InvalidInput, match=words):
            call()
    for other in (MatrixRL(MDP, seed=0), MatrixRL(MDP, seed=0, keep_log=False)):
        with pytest.raises(ProtocolError, match="keep_log=True"):
            other.forecast(gap=1.0)
    with pytest.raises(ProtocolError, match="forecast needs certificates"):
        Agent(MDP, PSRL(preset="tuned"), seed=0).forecast(gap=1.0)
