"""docs/proofs.md, 11.6: gain over an incumbent and cost of learning, against sums over episodes and enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import matrixrl
from matrixrl import InvalidInput, KnownDynamics, MatrixRL, ProtocolError, Task, evaluate, solve
from matrixrl.agents import Earnings
from matrixrl.problems import tabular
from tolerances import ALGEBRA, EXACT

MDP = tabular(n_states=3, n_actions=2, horizon=4, seed=1).mdp
FIRST = int(np.argmax(MDP.task.start))
USUAL = np.random.default_rng(0).integers(0, 2, (4, 3))


def learned(n=50, seed=0, **settings):
    agent = MatrixRL(MDP, seed=seed, **settings)
    agent.learn(n)
    return agent


class TestSums:
    @pytest.mark.parametrize(("every", "since"), [(1, 0), (7, 0), (7, 3), (50, 0), (100, 49)])
    def test_every_block_is_a_sum_over_its_episodes(self, every, since):
        """With the bounds of certify and recommend, which are not those of `Earnings`."""
        agent = learned()
        shown, found = agent.certify(USUAL), agent.earnings(USUAL, every=every, since=since)
        low, high = agent.recommend().certificate.optimal_interval
        assert found.best.estimate == pytest.approx(agent.greedy().certificate.estimate, rel=EXACT)
        returns = agent.history.returns.tolist()
        blocks = [returns[first : first + every] for first in range(since, 50, every)]
        assert found.first.tolist() == list(range(since, 50, every))
        assert found.n_episodes.tolist() == [len(block) for block in blocks]
        for k, block in enumerate(blocks):
            assert found.received[k] == pytest.approx(math.fsum(block), rel=EXACT)
            assert found.mean_received[k] == pytest.approx(math.fsum(block) / len(block), rel=EXACT)
            gain = [math.fsum(x - v for x in block) for v in (shown.upper, shown.estimate, shown.lower)]
            assert found.gain[k] == pytest.approx(gain, abs=ALGEBRA)
            cost = [math.fsum(v - x for x in block) for v in (low, found.best.estimate, high)]
            assert found.cost[k] == pytest.approx(cost, abs=ALGEBRA)
            assert list(found.gain[k]) == sorted(found.gain[k])
            assert list(found.cost[k]) == sorted(found.cost[k])

    def test_the_sum_does_not_depend_on_the_blocks(self):
        agent = learned()
        whole = agent.earnings(USUAL, every=50)
        for every in (1, 7, 49):
            found = agent.earnings(USUAL, every=every)
            assert found.gain.sum(axis=0) == pytest.approx(whole.gain[0], rel=ALGEBRA)
            assert found.cost.sum(axis=0) == pytest.approx(whole.cost[0], rel=ALGEBRA)
        parts = agent.earnings(USUAL, every=50, since=20).gain[0] + agent.earnings(USUAL, every=20).gain[0]
        assert parts == pytest.approx(whole.gain[0], rel=ALGEBRA)

    def test_an_incumbent_that_is_played_gains_nothing_over_itself_by_its_returns(self):
        agent = MatrixRL(MDP, seed=0, known_reward=False)
        agent.learn(400, policy=USUAL)
        found = agent.earnings(USUAL, every=400)
        assert found.incumbent.basis == "returns"
        assert found.gain[0, 1] == pytest.approx(0.0, abs=400 * 1e-3)  # levels of returns are rounded
        assert found.gain[0, 0] < 0.0 < found.gain[0, 2]

    def test_the_best_policy_is_not_estimated_below_the_incumbent(self):
        """The model, with few data elsewhere, may say less than the returns of the incumbent."""
        river = {"n_states": 4, "horizon": 20}
        agent = MatrixRL("river-swim", env_settings=river, seed=0, compiled=True)
        agent.learn(300, policy=[1, 1, 1, 1])
        agent.learn(100)
        found = agent.earnings([1, 1, 1, 1], every=400)
        assert agent.greedy().certificate.estimate < found.incumbent.estimate == found.best.estimate


class TestKnownValues:
    """Where nothing is random the bounds are points, and values are sums along paths that are enumerated."""

    STEPS = 5

    @staticmethod
    def step(stock, order, lost):
        del lost
        left = (stock + order) % 3
        return left, float(2 * (stock == 2) - order + 0.25 * left)

    def problem(self, **options):
        given = {"horizon": self.STEPS} | options
        return KnownDynamics(self.step, outcomes=1, n_states=3, n_actions=2, start=1, **given)

    def enumerated(self):
        """Return the largest sum over all sequences of actions, and that of ordering nothing."""
        sums = {}
        for orders in itertools.product(range(2), repeat=self.STEPS):
            state, total = 1, 0.0
            for order in orders:
                state, paid = self.step(state, order, 0)
                total += paid
            sums[orders] = total
        return max(sums.values()), sums[(0,) * self.STEPS]

    def test_gain_and_cost_are_exact(self):
        best, nothing = self.enumerated()
        agent, paid = MatrixRL(self.problem(), seed=0), []
        rng = np.random.default_rng(0)
        for _ in range(6):
            episode, state = agent.begin_episode(), 1
            total = 0.0
            for _ in range(self.STEPS):
                order = int(rng.integers(2))  # not what the agent advises
                after, euros = self.step(state, order, 0)
                episode.observe(state, order, euros, after, outcome=0)
                state, total = after, total + euros
            episode.end()
            paid.append(total)
        found = agent.earnings([0, 0, 0], every=4)
        for k, block in enumerate((paid[:4], paid[4:])):
            assert found.gain[k] == pytest.approx([sum(block) - len(block) * nothing] * 3, abs=ALGEBRA)
            assert found.cost[k] == pytest.approx([len(block) * best - sum(block)] * 3, abs=ALGEBRA)
        assert found.best.guarantee
        assert found.incumbent.guarantee

    def test_an_endless_episode_may_earn_anything_after_its_last_step(self):
        """One state that pays 0.75 of [0, 1] for ever."""
        gamma, n = 0.9, 3
        task = Task(np.array([[0.75]]), start=0, discount=gamma, reward_range=(0.0, 1.0))
        agent, horizon = MatrixRL(task, seed=0), task.horizon
        for _ in range(n):
            episode = agent.begin_episode()
            for _ in range(horizon):
                episode.observe(0, 0, 0.75, 0)
            episode.end()
        found = agent.earnings([0], every=n)
        received = 0.75 * sum(gamma**h for h in range(horizon))
        after = gamma**horizon / (1.0 - gamma)
        assert found.received[0] == pytest.approx(n * received, rel=EXACT)
        assert found.gain[0, [0, 2]] == pytest.approx([-n * after, n * after], rel=ALGEBRA)
        assert found.cost[0, [0, 2]] == pytest.approx([-n * after, n * after], rel=ALGEBRA)
        assert found.gain[0, 1] == pytest.approx(0.0, abs=ALGEBRA)


def test_the_bounds_fail_in_at_most_a_share_delta_of_the_runs():
    """δ = 0.5: 12 runs, three looks and all first episodes each; some episodes are those of the incumbent."""
    best, usual = solve(MDP).start_value, evaluate(MDP, USUAL)[0, FIRST]
    missed = {"gain": 0, "cost": 0}
    for seed in range(12):
        agent, wrong = MatrixRL(MDP, seed=seed, delta=0.5, known_reward=False, compiled=True), set()
        for look in range(3):
            agent.learn(30, policy=USUAL if look % 2 else None)
            found, returns = agent.earnings(USUAL), agent.history.returns
            truth = {"gain": returns - usual, "cost": best - returns}
            for name, values in truth.items():
                since = [
                    np.cumsum(one[::-1]) for one in (getattr(found, name)[:, 0], values, getattr(found, name)[:, 2])
                ]
                if ((since[1] < since[0] - ALGEBRA) | (since[1] > since[2] + ALGEBRA)).any():
                    wrong.add(name)
            assert found.best.guarantee
            assert found.incumbent.guarantee
        for name in wrong:
            missed[name] += 1
    assert max(missed.values()) <= 6, missed


class TestWhereEpisodesArePlayed:
    def test_told_episodes_and_a_loaded_agent_say_the_same(self, tmp_path):
        agent, told = learned(20), MatrixRL(Task(MDP.task.reward, 4, start=FIRST), seed=0)
        log = agent._seen.all()[0]
        for one in log.parts(1):
            episode = told.begin_episode()
            for s, a, r, following in zip(one.states, one.actions, one.rewards, one.next_states, strict=True):
                episode.observe(int(s), int(a), float(r), int(following))
            episode.end()
        agent.save(tmp_path / "a.npz")
        loaded = MatrixRL.load(tmp_path / "a.npz").earnings(USUAL, every=6)
        shown = agent.earnings(USUAL, every=6)
        assert loaded.as_dict() == shown.as_dict()
        other = told.earnings(USUAL, every=6)
        assert np.array_equal(other.received, shown.received)
        assert other.gain == pytest.approx(shown.gain)

    def test_logged_episodes_do_not_count_and_inform(self):
        agent, wide = learned(10), learned(10)
        log = learned(200, seed=5)._seen.all()[0]
        columns = {"state": log.states, "action": log.actions, "reward": log.rewards, "next_state": log.next_states}
        agent.learn_from({"episode": log.episodes, "step": log.stages, **columns}, verbose=False)
        found, before = agent.earnings(USUAL, every=10), wide.earnings(USUAL, every=10)
        assert np.array_equal(found.received, before.received)
        assert np.ptp(found.gain) < np.ptp(before.gain)

    def test_nothing_is_claimed_where_first_states_contradict_the_declared_start(self):
        agent = MatrixRL(Task(np.array([[0.0], [1.0]]), 2, start=[0.5, 0.5]), seed=0)
        for _ in range(60):
            episode = agent.begin_episode()
            for _ in range(2):
                episode.observe(1, 0, 1.0, 1)
            episode.end()
        found = agent.earnings([0, 0], every=60)
        for one in (found.best, found.incumbent):
            assert "contradict the declared start" in one.guarantee.reason
        assert "not proven" in str(found)


class TestWords:
    def test_the_table_has_the_blocks_and_their_sum(self):
        found = learned().earnings(USUAL, every=20)
        *_, first, second, third, total = str(found).splitlines()
        assert [line.split()[0] for line in (first, second, third, total)] == ["0", "20", "40", "all"]
        assert total.split()[2] == f"{found.gain[:, 1].sum():,.4g}"
        assert "with probability 0.95" in str(found)
        assert "<Earnings: " in repr(found)
        assert "gain over the incumbent" in found._repr_html_()
        assert len(str(learned().earnings()).splitlines()) < 40, "long tables are cut"

    def test_a_frame_has_the_same_numbers(self):
        found = learned().earnings(USUAL, every=20)
        frame = found.to_frame()
        assert list(frame["gain_upper"]) == found.gain[:, 2].tolist()
        assert list(found.as_dict()["blocks"]) == list(frame.columns)
        assert "gain_lower" not in learned().earnings(every=20).to_frame()

    @pytest.mark.parametrize(
        ("call", "error", "words"),
        [
            (lambda: MatrixRL(MDP, seed=0).earnings(), ProtocolError, "none was played"),
            (lambda: learned(3).earnings(every=0), InvalidInput, "every must be at least 1"),
            (lambda: learned(3).earnings(since=3), InvalidInput, "since must be in 0 … 2"),
            (lambda: learned(3).earnings([0, 7, 0]), InvalidInput, "incumbent"),
            (lambda: matrixrl.Agent(MDP, "psrl", seed=0).earnings(), ProtocolError, "needs certificates"),
            (lambda: learned(3).earnings().gain, ProtocolError, "needs an incumbent"),
        ],
    )
    def test_mistakes_are_named(self, call, error, words):
        with pytest.raises(error, match=words):
            call()

    def test_what_cannot_be_estimated_is_left_out(self):
        found = learned().earnings(USUAL, every=50)
        without = Earnings(
            found.first, found.n_episodes, found.received, *unknown(found.best, found.incumbent), found.regret, (0, 0)
        )
        assert without.as_dict()["gain"]["estimate"] is None
        assert "–" in str(without)


def unknown(*shown):
    from dataclasses import replace

    return [replace(one, estimate=None) for one in shown]
