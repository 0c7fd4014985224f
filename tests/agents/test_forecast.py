"""Forecasts: copies of an agent that play on in problems drawn from what was seen."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import Agent, InvalidInput, KnownDynamics, MatrixRL, ProtocolError, Task
from matrixrl.agents.forecast import _first, _rounded
from matrixrl.algorithms.baselines import PSRL
from matrixrl.algorithms.matrix_rl.imagined import Imagination
from matrixrl.certificates import Forecast
from matrixrl.play.ledger import FrozenReturns
from matrixrl.problems import tabular

MDP = tabular(n_states=4, n_actions=2, horizon=4, seed=1).mdp
RIVER = {"n_states": 4, "horizon": 20}
NEVER_ONE = np.zeros(4, dtype=int)


def played(n=100, problem=MDP, **settings):
    agent = MatrixRL(problem, seed=0, **settings)
    agent.learn(n)
    return agent


def explored(**settings):
    """Return an agent that has tried every pair."""
    agent, rng = MatrixRL(MDP, seed=0, **settings), np.random.default_rng(5)
    for _ in range(60):
        agent.learn(1, policy=rng.integers(0, 2, (4, 4)))
    assert (agent.visits > 0).all()
    return agent


def imagination(agent):
    return Imagination(agent.algorithm, agent._seen.all()[0])


def dynamics():
    def step(s, a, w):
        return min(max(s + a - w, 0), 3), float(s == 3)

    return KnownDynamics(step, n_states=4, n_actions=2, outcomes=2, horizon=4, start=0, law=[0.6, 0.4])


SETTINGS = [{}, {"known_reward": False}, {"phi": np.eye(4)[[0, 1, 1, 2, 2, 3, 3, 0]].reshape(4, 2, 4)}]


class TestImaginedProblems:
    @pytest.mark.parametrize("settings", SETTINGS, ids=["pairs", "rewards", "groups"])
    def test_the_estimate_is_the_value_of_the_estimated_model(self, settings):
        """Expected visits times rewards are what `estimate_policies` finds by backward induction."""
        agent = explored(**settings)
        law, table = imagination(agent).estimate(), np.random.default_rng(0).integers(0, 2, (4, 4))
        by_pair = law.visits(table).sum(axis=0)
        reward = agent.problem.finite_task.reward.T.ravel()
        if settings.get("known_reward") is False:
            reward = np.bincount(law.pairs, law.chances * law.rewards, minlength=8)  # to 1/64
        [value] = agent.algorithm.certifier.estimate_policies([table])
        assert by_pair @ reward == pytest.approx(value, abs=4 / 128 if "known_reward" in settings else 1e-9)
        random = np.stack([np.full((4, 4), 0.25), np.full((4, 4), 0.75)], axis=1)
        [value] = agent.algorithm.certifier.estimate_policies([random])
        by_pair = law.visits(random).sum(axis=0)
        assert by_pair @ reward == pytest.approx(value, abs=4 / 128 if "known_reward" in settings else 1e-9)

    def test_known_dynamics_move_as_they_are_known_to(self):
        agent = played(problem=dynamics())
        law, table = imagination(agent).estimate(), np.ones((4, 4), dtype=int)
        tables = agent.problem.task.dynamics
        np.testing.assert_array_equal(law.table.indices, tables.next_states.reshape(8, 2)[law.pairs, law.outcomes])
        visits = law.visits(table).reshape(4, 2, 4)
        assert visits.sum(axis=(1, 2)) == pytest.approx(1.0)
        assert (visits[:, 0] == 0.0).all()

    def test_drawn_laws_have_the_mean_and_the_spread_of_a_bootstrap(self):
        """Of a pair seen n times, the share p̂ of a next state varies by p̂(1 − p̂)/(n + 1): 400 draws, to a fifth."""
        agent = explored()
        seen, rng = imagination(agent), np.random.default_rng(0)
        drawn = np.array([seen.draw(rng)._law.chances for _ in range(400)])
        law = seen.estimate()
        n = agent.visits.T.ravel()[law.pairs]
        np.testing.assert_allclose(drawn.mean(axis=0), law.chances, atol=0.05)
        variance = law.chances * (1.0 - law.chances) / (n + 1.0)
        assert drawn.var(axis=0).sum() == pytest.approx(variance.sum(), rel=0.2)

    def test_episodes_that_are_played_are_those_expected(self):
        """20,000 rolled-out episodes visit pairs as often as expected; within five standard errors."""
        law, table = imagination(explored()).estimate(), np.random.default_rng(2).integers(0, 2, (4, 4))
        episodes, rng = 20_000, np.random.default_rng(3)
        steps = law.episodes(table, episodes, rng)
        pairs = np.concatenate([one.actions[0] * 4 + one.states[0] for one in steps])
        expected = law.visits(table).sum(axis=0)
        np.testing.assert_allclose(np.bincount(pairs, minlength=8) / episodes, expected, atol=5 * 2 / np.sqrt(episodes))
        assert all((one.states[0, 1:] == one.next_states[0, :-1]).all() for one in steps[:50])

    def test_blocks_have_as_many_visits_as_their_policies(self):
        run, before = imagination(agent := played()).draw(np.random.default_rng(0)), 100
        total = agent.algorithm.model.counts.totals().sum()
        while run.n_episodes < 20_000:
            run.play(0.5)
        counts = run._algorithm.model.counts.totals().sum()
        assert counts - total == pytest.approx(4 * (run.n_episodes - before), rel=0.02)
        assert run._algorithm.episode == run.n_episodes

    def test_an_episode_ends_where_the_problem_ends(self):
        task = Task(n_states=3, n_actions=1, horizon=5, start=0, end_state=2)
        agent = MatrixRL(task, seed=0)
        for k in range(6):
            episode = agent.begin_episode()
            episode.observe(0, 0, 0.0, 1)
            episode.observe(1, 0, 1.0, 2, terminated=True) if k % 2 else [
                episode.observe(1, 0, 0.5, 1) for _ in range(4)
            ]
            episode.end()
        law, table = imagination(agent).estimate(), np.zeros((5, 3), dtype=int)
        steps = law.episodes(table, 50, np.random.default_rng(0))
        assert {one.ended[0, -1].item() for one in steps} == {True, False}
        assert all(one.next_states[0, -1] == 2 for one in steps if one.ended[0, -1])
        assert law.visits(table).reshape(5, 1, 3)[:, :, 2].sum() == 0.0

    def test_imagined_episodes_count_as_played_ones(self):
        """FrozenReturns of played episodes, and of the same ones imagined one by one."""
        law, table = imagination(explored()).estimate(), np.random.default_rng(2).integers(0, 2, (4, 4))
        problem = played(1).problem
        real, imagined = (FrozenReturns(problem, 0.01) for _ in range(2))
        for number, steps in enumerate(law.episodes(table, 40, np.random.default_rng(0)), start=1):
            real.observe(number, lambda: table, steps, counts=True)
            if number < 8:
                imagined.observe(number, lambda: table, steps, counts=True)
            else:
                imagined.imagine(number, table, [steps], 1.0)
        assert real.best()[0] == imagined.best()[0] > 0.0


def test_nothing_of_the_agent_changes_and_the_forecast_is_the_same():
    agent = played(60)
    agent.recommend()  # certificates are remembered
    before = agent.state_dict()
    first = agent.forecast(gap=0.9)
    after = agent.state_dict()
    assert agent.forecast(gap=0.9) == first
    assert str(before) == str(after)
    other = played(60)
    other.recommend()
    other.learn(20)
    agent.learn(20)
    assert (agent.history.returns == other.history.returns).all()


class TestGap:
    def test_the_number_of_episodes_is_in_the_spread(self):
        """RiverSwim, 3 seeds: the gap after 300 episodes shrinks by a quarter; at least 2 in the spread."""
        inside = 0
        for seed in range(3):
            agent = MatrixRL("river-swim", env_settings=RIVER, seed=seed)
            agent.learn(300)
            goal = 0.75 * agent.recommend().certificate.gap
            found = agent.forecast(gap=goal)
            n = agent.n_episodes
            agent.learn(5_000, until_gap=goal)
            inside += found.fewest <= agent.n_episodes - n <= found.most
            assert found.fewest <= found.episodes <= found.most
        assert inside >= 2

    def test_what_is_reached_takes_no_episodes(self):
        agent = played(problem="river-swim", env_settings=RIVER)
        found = agent.forecast(gap=agent.recommend().certificate.gap)
        assert (found.episodes, found.fewest, found.most) == (0, 0, 0)
        assert "is reached" in str(found)

    def test_a_gap_that_is_far_too_small_is_never_reached(self):
        found = played(20).forecast(gap=1e-6)
        assert found.episodes is None
        assert "never expected at this rate" in str(found)
        assert any("explore_for" in words for words in found.helps)
        assert found.as_dict()["episodes"] is None
        assert "never at this rate" in found._repr_html_()

    def test_nothing_is_foretold_where_nothing_is_proven(self):
        agent = MatrixRL(MDP, seed=0, phi=np.ones((4, 2, 1)))
        agent.learn(20)
        found = agent.forecast(gap=0.5)
        assert found.episodes is None
        assert "nothing is proven" in found.helps[0]

    def test_after_a_log_with_an_estimated_start(self):
        agent = MatrixRL(Task(n_states=1, n_actions=2, horizon=2), seed=0)
        n = 60
        log = {
            "episode": np.arange(n) // 2,
            "state": np.zeros(n, dtype=int),
            "action": np.arange(n) % 2,
            "reward": (np.arange(n) % 2).astype(float),
            "next_state": np.zeros(n, dtype=int),
        }
        agent.learn_from(log, verbose=False, first_step=0)
        found = agent.forecast(gap=0.7 * agent.recommend().certificate.gap)
        assert 0 < found.fewest <= found.episodes <= found.most


class TestDecide:
    def test_a_test_by_returns_takes_as_long_as_foretold(self):
        """Two policies by turns, 4 seeds; the test is decided within the spread in at least 2."""
        inside, right, wrong = 0, np.ones(4, dtype=int), np.array([1, 1, 0, 1])
        for seed in range(4):
            agent = MatrixRL("river-swim", env_settings=RIVER, seed=seed, set="normalised")
            for _ in range(30):
                agent.learn(1, policy=right)
                agent.learn(1, policy=wrong)
            found, n = agent.forecast(decide=(right, wrong)), agent.n_episodes
            while not agent.compare(right, wrong).probably_better:
                agent.learn(1, policy=right)
                agent.learn(1, policy=wrong)
            needed = agent.n_episodes - n
            inside += found.fewest <= needed <= (np.inf if found.most is None else found.most)
            assert agent.forecast(decide=(right, wrong)).episodes == 0
        assert inside >= 2

    def test_by_the_model(self):
        agent = explored()
        found = agent.forecast(decide=(np.ones(4, dtype=int), np.zeros(4, dtype=int)))
        assert 0 < found.fewest <= found.episodes <= found.most

    def test_the_same_policy_is_decided(self):
        agent = played(20)
        assert agent.forecast(decide=(NEVER_ONE, np.zeros((4, 4), dtype=int))).episodes == 0


def test_numbers_have_two_digits_and_are_rounded_outwards():
    assert [_rounded(x) for x in (0.2, 1.0, 7.3, 99.0, 101.0, 2278.3, 1.4e6)] == [1, 1, 8, 99, 110, 2300, 1400000]
    assert [_rounded(x, down=True) for x in (0.2, 7.3, 109.0)] == [1, 7, 100]
    assert _rounded(np.inf) is None


def test_the_first_time_that_nothing_lacks():
    assert _first(iter([(0, 3.0), (10, 1.0), (20, -1.0)])) == pytest.approx(15.0)
    assert _first(iter([(0, 3.0), (10, 1.0)])) == np.inf


def test_words():
    found = Forecast("a gap of at most 2", None, 500, None, "it rains", ("an umbrella",))
    assert "never expected at this rate, and after 500 more episodes at best, if it rains; what may" in repr(found)


def test_what_is_refused():
    agent = played(10)
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
    with pytest.raises(ProtocolError, match="default set"):
        played(10, set="normalised").forecast(gap=1.0)
