"""Agents on problems with known dynamics: outcomes that are reported or found, logs, files, certificates."""

from __future__ import annotations

import numpy as np
import pytest

import matrixrl
from matrixrl import InvalidInput, KnownDynamics, MatrixRL, run_seeds

LAW = np.array([0.1, 0.3, 0.3, 0.2, 0.1])


def shop(**options) -> KnownDynamics:
    """Return a shop whose stock may become negative: every outcome has a next state of its own."""
    return KnownDynamics(
        lambda stock, order, demand: (
            (min(stock + order, 8) - demand + 4, 0.5 * demand - 0.2 * abs(stock - 6))
            if stock >= 4
            else (stock + order, -1.0)
        ),
        outcomes=5,
        n_states=13,
        n_actions=4,
        horizon=6,
        start=3,
        **options,
    )


def lossy(**options) -> KnownDynamics:
    """Return a shop that does not see the demand that it loses."""
    return KnownDynamics(
        lambda stock, order, demand: (max(min(stock + order, 5) - demand, 0), float(min(stock + order, demand))),
        outcomes=5,
        n_states=6,
        n_actions=3,
        horizon=6,
        start=2,
        **options,
    )


def told(agent: MatrixRL, problem: KnownDynamics, n: int, *, report: bool, seed: int = 0) -> None:
    """Let an agent learn from n episodes of ask and tell."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        episode, state = agent.begin_episode(), int(np.argmax(problem.start))
        while not episode.is_finished:
            action = episode.act(state)
            outcome = int(rng.choice(5, p=LAW))
            following, reward, ended = problem.transition(state, action, outcome)
            known = {"outcome": outcome} if report else {}
            episode.observe(state, action, reward, following, ended, **known)
            state = following
        episode.end()


class TestOutcomes:
    def test_found_ones_are_those_that_are_reported(self):
        problem, both = shop(), []
        for report in (True, False):
            agent = MatrixRL(problem, seed=0)
            told(agent, problem, 5, report=report)
            both.append(agent)
        idle = int(both[1].visits[:4].sum())  # nothing depends on the outcome there, so that it cannot be seen
        assert [int(agent.algorithm.model.counts.totals().sum()) for agent in both] == [30, 30 - idle]
        assert idle > 0

    def test_one_that_does_not_matter_need_not_be_seen(self, tmp_path):
        problem = shop()
        agent = MatrixRL(problem, seed=0)
        episode = agent.begin_episode()
        with pytest.raises(InvalidInput, match="next state and reward must be those of some outcome"):
            episode.observe(3, 3, -1.0, 5)
        episode.observe(3, 3, -1.0, 6)
        episode.observe(6, 0, 2.0, 6, outcome=4)
        episode.observe(6, 0, 2.0, 6)
        episode.observe(6, 0, 0.5 * 3, 7)
        assert episode.data.outcomes == [-1, 4, 4, 3]
        agent.save(tmp_path / "open")
        assert MatrixRL.load(tmp_path / "open").open_episodes[0].data.outcomes == [-1, 4, 4, 3]
        episode.end()
        agent.export(tmp_path / "log.csv")
        other = MatrixRL(problem, seed=0)
        other.learn_from(tmp_path / "log.csv", verbose=False)
        assert other._seen.all()[0].outcomes.tolist() == [-1, 4, 4, 3]
        assert other.algorithm.model.counts.totals().tolist() == [[3.0]]

    def test_one_that_does_not_fit_is_refused_and_changes_nothing(self):
        problem = lossy()
        agent = MatrixRL(problem, seed=0)
        episode = agent.begin_episode()
        with pytest.raises(InvalidInput, match=r"outcome must be one that leads from state 2 and action 1"):
            episode.observe(2, 1, 1.0, 2, outcome=2)
        with pytest.raises(InvalidInput, match="outcome must be one of the 5 outcomes"):
            episode.observe(2, 1, 1.0, 2, outcome=9)
        with pytest.raises(InvalidInput, match="next state and reward must be those of some outcome"):
            episode.observe(2, 1, 1.0, 5)
        with pytest.raises(InvalidInput, match="outcome must be reported, as several outcomes of state 2 and action 1"):
            episode.observe(2, 1, 3.0, 0)
        assert episode.stage == 0
        episode.observe(2, 1, 1.0, 2)  # found
        episode.observe(2, 1, 3.0, 0, outcome=4)
        assert episode.data.outcomes == [1, 4]

    def test_one_is_found_by_its_reward_or_by_its_next_state(self):
        for step in (lambda _s, _a, w: (0, float(w)), lambda _s, _a, w: (int(w), 1.0)):
            problem = KnownDynamics(step, outcomes=3, n_states=3, n_actions=1, horizon=1, start=0)
            agent = MatrixRL(problem, seed=0)
            episode, (following, reward, _) = agent.begin_episode(), problem.transition(0, 0, 2)
            episode.observe(0, 0, reward, following)
            assert episode.data.outcomes == [2]

    def test_repeated_reports(self):
        agent = MatrixRL(lossy(), seed=0)
        episode = agent.begin_episode()
        episode.observe(2, 1, 3.0, 0, outcome=4, step=0)
        episode.observe(2, 1, 3.0, 0, outcome=4, step=0)
        with pytest.raises(InvalidInput, match="step must be reported once"):
            episode.observe(2, 1, 3.0, 0, outcome=3, step=0)

    def test_an_outcome_of_another_problem_is_refused(self):
        agent = MatrixRL("river-swim", seed=0)
        episode = agent.begin_episode()
        with pytest.raises(InvalidInput, match="outcome must be left out"):
            episode.observe(0, 0, 0.0, 0, outcome=1)

    def test_time_outs_are_refused(self):
        agent = MatrixRL(lossy(law=LAW), seed=0)
        episode = agent.begin_episode()
        episode.act(2)
        with pytest.raises(InvalidInput, match="time_out"):
            episode.time_out()


class TestLogs:
    def played(self) -> MatrixRL:
        agent = MatrixRL(lossy(law=LAW), seed=0)
        agent.learn(n_episodes=6)
        return agent

    def test_what_is_exported_teaches_the_same(self, tmp_path):
        agent, other = self.played(), MatrixRL(lossy(), seed=1)
        assert agent.export(tmp_path / "log.csv") == 36
        learned = other.learn_from(tmp_path / "log.csv", verbose=False)
        assert learned.plan.columns["outcome"] == ("outcome",)
        for name, array in agent.algorithm.model.state_dict().items():
            assert np.array_equal(array, other.algorithm.model.state_dict()[name])
        assert other.certificate().lower == agent.certificate().lower

    def log(self, **more):
        rows = {"episode": [0, 0], "state": [2, 2], "action": [1, 1], "reward": [1.0, 3.0], "next_state": [2, 0]}
        return rows | more

    def test_outcomes_that_are_empty_are_found(self):
        agent = MatrixRL(lossy(), seed=0)
        agent.learn_from(self.log(outcome=[None, 4]), verbose=False)
        assert agent._seen.all()[0].outcomes.tolist() == [1, 4]

    @pytest.mark.parametrize(("missing", "n_steps"), [("drop_episode", 2), ("cut_episode", 3)])
    def test_outcomes_that_are_empty_and_cannot_be_found_may_be_left_out(self, missing, n_steps):
        """The second row of the second episode may have sold 3 of a demand of 3 or 4."""
        rows = {"episode": [0, 0, 1, 1], "state": [2, 2, 2, 2], "action": [1] * 4, "reward": [1.0, 3.0, 1.0, 3.0]}
        rows |= {"next_state": [2, 0, 2, 0], "outcome": [1, 4, None, None]}
        with pytest.raises(InvalidInput, match="outcome must be reported"):
            MatrixRL(lossy()).learn_from(rows, verbose=False)
        agent = MatrixRL(lossy())
        learned = agent.learn_from(rows, missing=missing, verbose=False)
        assert agent.n_logged_steps == n_steps
        assert not learned.guarantee  # which rows are left out depends on what happened in them

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({}, "outcome must be reported, as several"),
            ({"outcome": [1, 0]}, "outcome must be one that leads from"),
            ({"outcome": [1, 7]}, "must be one of the 5 outcomes"),
            ({"next_state": [2, 5]}, "next state and reward must be those of some outcome"),
        ],
    )
    def test_wrong_rows_are_named_and_nothing_is_learned(self, more, words):
        agent = MatrixRL(lossy(), seed=0)
        with pytest.raises(InvalidInput, match=words) as error:
            agent.learn_from(self.log(**more), verbose=False)
        assert "row 1 (counted from 0)" in str(error.value)
        assert agent.n_logged_steps == 0


class TestFiles:
    def test_it_goes_on_as_if_it_had_never_stopped(self, tmp_path):
        problem = lossy(law=LAW)
        whole, first = MatrixRL(problem, seed=3), MatrixRL(problem, seed=3)
        whole.learn(n_episodes=8)
        first.learn(n_episodes=5)
        first.save(tmp_path / "agent")
        second = MatrixRL.load(tmp_path / "agent", problem)
        second.learn(n_episodes=3)
        assert second.history.returns.tolist() == whole.history.returns.tolist()
        assert second.certificate() == whole.certificate()

    def test_open_episodes_without_the_problem(self, tmp_path):
        agent = MatrixRL(lossy(), seed=3)
        told(agent, lossy(), 2, report=True)
        episode = agent.begin_episode()
        episode.observe(2, 1, 3.0, 0, outcome=4)
        agent.save(tmp_path / "agent")
        loaded = MatrixRL.load(tmp_path / "agent")
        assert loaded.open_episodes[0].data.outcomes == [4]
        for one in (agent, loaded):
            one.open_episodes[0].observe(0, 2, 2.0, 0, outcome=3)
            one.end_episode()
        assert loaded.certificate() == agent.certificate()

    def test_another_problem_is_refused(self, tmp_path):
        agent = MatrixRL(lossy(law=LAW), seed=3)
        agent.learn(n_episodes=2)
        agent.save(tmp_path / "agent")
        other = lossy(law=LAW[::-1])
        with pytest.raises(InvalidInput):
            MatrixRL.load(tmp_path / "agent", other)


class TestEverythingElse:
    def test_an_agent_that_knows_learns_faster_than_one_that_does_not(self):
        problem = lossy(law=LAW)
        knows = run_seeds(problem, n_episodes=60, seeds=4)
        pairs = run_seeds(problem.mdp, n_episodes=60, seeds=4)
        assert knows.regret.sum(axis=1).mean() < 0.7 * pairs.regret.sum(axis=1).mean()

    def test_certificates_comparisons_and_recommendations(self):
        problem = lossy(law=LAW)
        agent = MatrixRL(problem, seed=0)
        agent.learn(n_episodes=400)
        best = matrixrl.solve(problem.mdp)
        certificate = agent.certificate()
        assert certificate.guarantee
        assert certificate.lower <= best.start_value <= certificate.upper
        assert certificate.upper - certificate.lower < 0.3 * 6 * problem.unit
        recommended = agent.recommend()
        comparison = agent.compare(agent.greedy(), np.zeros((6, 6), dtype=int))
        assert comparison.lower > 0.0
        assert recommended.certificate.lower >= certificate.lower
        value = matrixrl.evaluate(problem.mdp, agent.greedy().table)[0, 2]
        assert value == pytest.approx(best.start_value, abs=0.05)
        low, high = agent.algorithm.certifier.bound_actions()
        truth = matrixrl.problems.optimal_q(problem.mdp).transpose(0, 2, 1)
        unit = (truth - problem.reward_range[0] * np.arange(6, 0, -1)[:, None, None]) / problem.unit
        assert (low[0] <= unit + 1e-9).all()
        assert (unit <= high[0] + 1e-9).all()

    @pytest.mark.parametrize("preset", ["budget", "optimistic", "tuned"])
    def test_presets_and_discounts(self, preset):
        problem = lossy(law=LAW, discount=0.9)
        result = run_seeds(problem, n_episodes=20, seeds=2, preset=preset, certify=True)
        assert result.regret[:, -5:].mean() < result.regret[:, :2].mean() + 1e-12

    def test_baselines_learn_it_as_any_other_task(self):
        agent = matrixrl.Agent(lossy(law=LAW), "psrl", seed=0)
        agent.learn(n_episodes=3)
        assert agent.n_episodes == 3

    def test_words(self):
        agent = MatrixRL(lossy(), seed=0)
        assert "rewards learned" not in str(agent)
        assert "its outcome is drawn from the law" in agent.assumptions
        assert "outcomes" in lossy()._repr_html_()


def test_states_and_actions_may_have_names(tmp_path):
    """What is learned is that of numbers, also after a file; the environment of the problem has numbers."""
    days, settings = ["mon", "tue"], {"outcomes": 4, "horizon": 6, "law": [[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]]}

    def step(stock, day, bought, demand):
        sold = min(stock + bought, demand)
        return min(5, stock + bought - sold), 1 - day, 0.2 * sold - 0.1 * (demand - sold)

    def by_name(state, action, demand):
        stock, day, reward = step(state[0], days.index(state[1]), int(action[-1]), demand)
        return (stock, days[day]), reward

    def by_number(state, action, demand):
        stock, day, reward = step(int(state[0]), int(state[1]), action, demand)
        return (stock, day), reward

    space = {"stock": range(6), "day": days}
    named = KnownDynamics(
        by_name,
        states=space,
        actions=["buy 0", "buy 1", "buy 2"],
        start=(0, "mon"),
        laws=lambda s, _: days.index(s[1]),
        **settings,
    )
    numbered = KnownDynamics(by_number, states=(6, 2), n_actions=3, start=(0, 0), laws=lambda s, _: s[1], **settings)
    agents = [MatrixRL(problem, seed=0) for problem in (named, numbered)]
    histories = [agent.learn(40) for agent in agents]
    np.testing.assert_array_equal(histories[0].returns, histories[1].returns)
    agents[0].save(tmp_path / "agent")
    again = MatrixRL.load(tmp_path / "agent", named)
    certificates = [agent.recommend().certificate for agent in (*agents, again)]
    assert certificates[0].lower == certificates[1].lower == certificates[2].lower
    assert again.recommend().act((0, "mon"), stage=0) == f"buy {agents[1].recommend().act((0, 0), stage=0)}"
    episode = again.begin_episode()
    action = episode.act((0, "mon"))
    with pytest.raises(InvalidInput, match=r"obs\.day must be one of mon, tue"):
        episode.observe((0, "wed"), action, 0.0, (0, "tue"))
    following, reward = by_name((0, "mon"), action, 2)
    episode.observe((0, "mon"), action, reward, following)
    assert episode.act(following) in {"buy 0", "buy 1", "buy 2"}
    with pytest.raises(InvalidInput, match="states"):
        KnownDynamics(by_name, states=["a", "a"], n_actions=3, horizon=6, outcomes=4)
