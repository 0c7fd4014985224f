"""Certificates are about one stated start: declared, estimated from first states, or named (docs/proofs.md, 6.1)."""

from __future__ import annotations

import itertools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from matrixrl import FiniteMDP, InvalidInput, MatrixRL, Policy, ProtocolError, Task, from_gymnasium, run_seeds
from matrixrl.core.start import estimated_start, log_start_ratio
from tolerances import ALGEBRA

H = 10
ROUNDING = 1e-9


def customers(**start):
    """Two kinds of customers: kind 0 earns 0 and kind 1 earns 1 in each of ten steps; there is nothing to decide."""
    return Task(np.array([[0.0], [1.0]]), H, **start)


def serve(agent, kind, horizon=H):
    """Report the episode of one customer."""
    episode = agent.begin_episode()
    for _ in range(horizon):
        episode.observe(kind, 0, float(kind), kind)
    return episode.end()


def claims(agent):
    """Return every claim about the value of the only policy: lower bound, upper bound, guarantee."""
    found = [agent.certificate(), agent.recommend().certificate, agent.greedy().certificate]
    compared = agent.compare([0, 0], [0, 0])
    return [(c.lower, c.upper, c.guarantee) for c in found] + [
        (*interval, compared.guarantee) for interval in (compared.policy, compared.incumbent)
    ]


def assert_true(agent, value):
    """No claim that is proven excludes the value of the only policy, which is also the best one."""
    for lower, upper, guarantee in claims(agent):
        assert not guarantee or lower - ROUNDING <= value <= upper + ROUNDING


class TestDeclaredStart:
    def test_certificates_of_consecutive_episodes_hold_the_value_of_the_distribution(self):
        agent, rng = MatrixRL(customers(start=[0.5, 0.5]), seed=0), np.random.default_rng(0)
        assert_true(agent, 5.0)
        for _ in range(20):
            serve(agent, int(rng.integers(2)))
            assert_true(agent, 5.0)
        for _ in range(40):
            serve(agent, int(rng.integers(2)))
        shown = agent.certificate()
        assert shown.guarantee
        assert shown.upper - shown.lower < 2.0
        assert shown.start == "the declared start distribution"
        for words in (str(shown), shown._repr_html_(), str(shown.as_dict()), repr(agent.compare([0, 0], [0, 0]))):
            assert "the declared start distribution" in words

    def test_the_order_of_logged_rows_does_not_matter(self):
        kinds = np.random.default_rng(1).integers(2, size=80)
        for start, words in ({"start": [0.5, 0.5]}, "declared"), ({}, "estimated from 80 episodes"):
            shown = []
            for order in (np.arange(80), np.argsort(kinds, kind="stable"), np.argsort(-kinds, kind="stable")):
                agent = MatrixRL(customers(**start), seed=0)
                agent.learn_from(log_of(kinds[order]), verbose=False)
                assert_true(agent, 5.0)
                shown.append(agent.certificate())
            assert shown[0].guarantee
            assert words in shown[0].start
            for other in shown[1:]:
                assert (other.lower, other.upper) == pytest.approx((shown[0].lower, shown[0].upper), abs=1e-12)

    def test_a_user_who_always_begins_in_the_good_state_gets_no_false_bound_from_returns(self):
        """P is known and first states are declared as random: 2.5 in place of the 5 that every episode earns."""
        agent = MatrixRL(FiniteMDP(np.eye(2)[:, None], np.array([[0.0], [1.0]]), 5, start=[0.5, 0.5]), seed=0)
        for n in range(200):
            serve(agent, 1, horizon=5)
            if n % 40 == 5:
                assert_true(agent, 2.5)
        assert_true(agent, 2.5)
        assert "first states contradict the declared start" in agent.alarm
        assert "first states contradict the declared start" in agent.regret_certificate().guarantee.reason
        named = agent.certificate(start=1)
        assert named.guarantee
        assert named.lower > 4.5

    def test_returns_of_episodes_that_the_library_began_count(self):
        """Every state may follow, so that the model needs the law of all of them, and returns are the better basis."""
        rng = np.random.default_rng(0)
        reward = np.zeros((30, 2))
        reward[:, 1] = 1.0
        mdp = FiniteMDP(rng.dirichlet(np.ones(30), size=(30, 2)), reward, 4, start=np.full(30, 1 / 30))
        agent = MatrixRL(mdp, seed=0, known_reward=False)
        agent.learn(300)
        assert agent.recommend().basis == "returns"
        assert agent.regret_certificate().guarantee
        assert agent.alarm is None

    @pytest.mark.parametrize("start", [0, [1.0, 0.0]])
    def test_a_first_state_outside_the_declared_start_is_refused_and_changes_nothing(self, start):
        agent = MatrixRL(customers(start=start), seed=0)
        serve(agent, 0)
        before = agent.certificate()
        episode = agent.begin_episode()
        for call in (lambda: episode.act(1), lambda: episode.observe(1, 0, 1.0, 1)):
            with pytest.raises(InvalidInput, match="obs must be 0 at the first step"):
                call()
        assert episode.stage == 0
        episode.act(0)
        episode.observe(0, 0, 0.0, 1)  # any state may follow
        episode.observe(1, 0, 1.0, 1)
        episode.abandon()
        assert before.start == "state 0, the declared start"
        assert agent.n_episodes == 1

    def test_a_test_of_the_declared_start_sums_to_at_most_one(self):
        """The process behind the alarm has mean at most 1: summed over all sequences of six first states."""
        start = np.array([0.2, 0.5, 0.3])
        total = 0.0
        for sequence in itertools.product(range(3), repeat=6):
            counts = np.bincount(sequence, minlength=3)
            total += np.exp(log_start_ratio(counts, start)) * np.prod(start[list(sequence)])
        assert total <= 1.0 + ALGEBRA

    def test_false_alarms_are_rare_and_true_ones_come_soon(self):
        """100 sequences of 40 fair first states at level 0.05: 15 or more alarms have chance 4e-5."""
        rng, alarms = np.random.default_rng(3), 0
        for _ in range(100):
            counts, alarmed = np.zeros(2, dtype=np.int64), False
            for first in rng.integers(2, size=40):
                counts[first] += 1
                alarmed = alarmed or log_start_ratio(counts, np.full(2, 0.5)) > np.log(1 / 0.05)
            alarms += alarmed
        assert alarms < 15
        assert log_start_ratio(np.array([0, 12]), np.full(2, 0.5)) > np.log(1 / 0.05)


class TestEstimatedStart:
    def test_the_ball_covers_the_distribution_at_all_times(self):
        """δ = 0.5, 120 runs of 60 episodes: at most 60 misses are expected, and 80 or more have chance 2e-4."""
        rng, misses = np.random.default_rng(0), 0
        for run in range(120):
            law = (np.array([0.97, 0.01, 0.01, 0.01]), np.full(4, 0.25), rng.dirichlet(np.full(4, 0.5)))[run % 3]
            counts, missed = np.zeros(4, dtype=np.int64), False
            for _ in range(60):
                counts[rng.choice(4, p=law)] += 1
                start = estimated_start(counts, 0.5)
                distance = start.weights @ np.log(start.weights / law[start.states])
                missed = missed or distance > start.radius
            misses += missed
        assert misses < 80

    def test_the_process_behind_the_ball_sums_to_at_most_one(self):
        """δ exp(n KL(μ̂‖μ) − β) has mean at most 1: summed over all sequences of six first states, for several μ."""
        for law in ([0.2, 0.5, 0.3], [0.9, 0.05, 0.05], [0.0, 0.4, 0.6]):
            total = 0.0
            for sequence in itertools.product(range(3), repeat=6):
                chance = float(np.prod(np.array(law)[list(sequence)]))
                if chance > 0.0:
                    start = estimated_start(np.bincount(sequence, minlength=3), 0.1)
                    distance = start.weights @ np.log(start.weights / np.array(law)[start.states])
                    total += chance * np.exp(6.0 * (distance - start.radius)) / 0.1
            assert 0.1 < total <= 1.0 + ALGEBRA

    def test_the_mean_over_first_states_is_bounded_by_the_ball(self):
        """Against distributions on a fine grid: the largest and the smallest mean with KL(μ̂‖μ) ≤ β/n."""
        counts, values = np.array([5, 0, 12]), np.array([2.0, 7.0, -1.0])
        start = estimated_start(counts, 0.1)
        shares, grid = counts / counts.sum(), np.linspace(0.0, 1.0, 401)
        means = []
        for p in grid:
            for q in grid[grid <= 1.0 - p + 1e-12]:
                law = np.array([p, max(1.0 - p - q, 0.0), q])
                seen = shares > 0.0
                if (law[seen] > 0.0).all() and shares[seen] @ np.log(shares[seen] / law[seen]) <= start.radius:
                    means.append(law @ values)
        upper = start.mean(values[start.states], 7.0, sign=1.0)
        lower = start.mean(values[start.states], -1.0, sign=-1.0)
        assert max(means) <= upper + ROUNDING
        assert upper - max(means) < 0.1
        assert lower - ROUNDING <= min(means)
        assert min(means) - lower < 0.1

    def test_certificates_cover_the_value_of_the_distribution(self):
        """δ = 0.5, 16 agents that are asked four times: 8 misses are expected at most, 14 or more have chance 0.002.

        No miss is measured. With the first state of the last episode in place of the distribution every agent misses.
        """
        rng, misses = np.random.default_rng(5), 0
        for run in range(16):
            share, missed = (0.5, 0.05)[run % 2], False
            agent = MatrixRL(customers(), seed=run, delta=0.5)
            for n in range(16):
                serve(agent, int(rng.random() < share))
                if n in (0, 3, 7, 15):
                    for lower, upper, guarantee in claims(agent):
                        assert guarantee
                        missed = missed or not lower - ROUNDING <= 10.0 * share <= upper + ROUNDING
            misses += missed
        assert misses < 14

    def test_states_in_which_no_episode_began_yet_count(self):
        """If the good state is the first one with chance p, n episodes miss it with chance (1 − p)^n = 0.06 > δ."""
        agent = MatrixRL(Task(np.array([[0.0], [1.0]]), 1), seed=0, delta=0.05)
        for n in range(1, 41):
            serve(agent, 0, horizon=1)
            if n in (1, 10, 40):
                shown = agent.certificate()
                assert shown.upper >= 1.0 - 0.06 ** (1 / n)
                assert shown.lower == pytest.approx(0.0, abs=1e-12)

    def test_a_certificate_before_the_first_episode_is_of_the_same_start_as_later_ones(self):
        """State 0 is worth 3.5 and state 1 is worth 4: the first bound must not be that of state 0."""
        agent = MatrixRL(Task(np.array([[0.875], [1.0]]), 4), seed=0)
        before = agent.certificate()
        assert before.upper >= 4.0 - ROUNDING
        assert before.lower <= 3.5 + ROUNDING
        assert before.start == "the distribution of first states, before any episode"
        for _ in range(60):
            episode = agent.begin_episode()
            for _ in range(4):
                episode.observe(1, 0, 1.0, 1)
            episode.end()
        after = agent.certificate()
        assert after.upper >= 4.0 - ROUNDING
        assert after.lower > 3.8
        assert agent.alarm is None
        assert after.guarantee

    def test_the_parts_of_delta_add_up(self):
        """Without a declared start the model has 19/20 of δ, with one it has all of it."""
        for set_name in ("value-targeted", "normalised"):
            for start, share in ({}, 0.95), ({"start": 1}, 1.0), ({"start": [0.5, 0.5]}, 1.0):
                agent = MatrixRL(customers(**start), seed=0, delta=0.2, set=set_name)
                assert agent.algorithm.model.confidence.delta == pytest.approx(share * 0.2, rel=1e-12)
                assert agent.certificate().delta == 0.2

    def test_all_episodes_count_for_regret_and_returns(self):
        agent, rng = MatrixRL(customers(), seed=0), np.random.default_rng(2)
        for _ in range(200):
            serve(agent, int(rng.random() < 0.5))
        shown = agent.regret_certificate()
        assert shown.guarantee
        assert shown.start == "the distribution of first states, estimated from 200 episodes"
        assert "drawn from one distribution" in agent.assumptions
        assert "drawn from one distribution" not in MatrixRL(customers(start=0), seed=0).assumptions

    def test_an_episode_that_is_abandoned_for_its_first_state_withdraws_the_claim(self):
        agent = MatrixRL(customers(), seed=0)
        serve(agent, 1)
        assert agent.certificate().guarantee
        episode = agent.begin_episode()
        episode.act(0)
        episode.abandon()
        for shown in (agent.certificate(), agent.compare([0, 0], [0, 0]), agent.regret_certificate()):
            assert "first state was seen" in shown.guarantee.reason
        assert agent.certificate(start=0).guarantee


class TestNamedState:
    def test_bounds_of_a_state_are_its_own_and_leave_nothing_behind(self):
        agent, rng = MatrixRL(customers(start=[0.5, 0.5]), seed=0), np.random.default_rng(0)
        for _ in range(60):
            serve(agent, int(rng.integers(2)))
        before = agent.certificate()
        for state, value in ((0, 0.0), (1, 10.0)):
            compared = agent.compare([0, 0], [0, 0], start=state)
            policies = agent.recommend(start=state), agent.greedy(start=state)
            for shown in (agent.certificate(start=state), *(policy.certificate for policy in policies)):
                assert shown.lower - ROUNDING <= value <= shown.upper + ROUNDING
                assert shown.upper - shown.lower < 1.0
                assert (bool(shown.guarantee), shown.start) == (True, f"state {state}")
            assert compared.policy[0] - ROUNDING <= value <= compared.policy[1] + ROUNDING
            assert compared.start == f"state {state}"
        assert agent.certificate() == before
        assert agent.alarm is None

    def test_a_state_that_the_problem_does_not_have_is_refused(self):
        agent = MatrixRL(customers(), seed=0)
        for call in (agent.certificate, agent.recommend, agent.greedy):
            with pytest.raises(InvalidInput, match="start must be"):
                call(start=2)
        with pytest.raises(InvalidInput, match="start must be"):
            agent.compare([0, 0], [0, 0], start=-1)


class TestSaved:
    @pytest.mark.parametrize("start", [{}, {"start": [0.5, 0.5]}, {"start": 1}], ids=str)
    def test_a_saved_agent_and_its_policy_keep_the_start(self, start, tmp_path):
        agent, rng = MatrixRL(customers(**start), seed=0), np.random.default_rng(4)
        for _ in range(20):
            serve(agent, 1 if start == {"start": 1} else int(rng.integers(2)))
        agent.save(tmp_path / "agent.npz")
        loaded = MatrixRL.load(tmp_path / "agent.npz")
        assert loaded.certificate() == agent.certificate()
        for one in (agent, loaded):
            serve(one, 1)
        chosen, other = agent.recommend(), loaded.recommend()
        assert other.certificate == chosen.certificate
        np.testing.assert_array_equal(other.table, chosen.table)
        for name in ("policy.json", "policy.npz"):
            chosen.save(tmp_path / name)
            again = Policy.load(tmp_path / name)
            assert again == chosen
            assert again.certificate.start == agent.certificate().start
            assert again.certificate.start in repr(again)

    def test_the_doubt_about_first_states_is_saved(self, tmp_path):
        agent = MatrixRL(customers(start=[0.5, 0.5]), seed=0)
        for _ in range(40):
            serve(agent, 1)
        agent.save(tmp_path / "agent.npz")
        assert "contradict the declared start" in MatrixRL.load(tmp_path / "agent.npz").alarm


class Tabled(gym.Env):
    """An environment with a transition table and no `initial_state_distrib`; state s pays s/2 forever."""

    observation_space, action_space = spaces.Discrete(3), spaces.Discrete(1)
    P = {s: {0: [(1.0, s, s / 2, False)]} for s in range(3)}  # noqa: RUF012

    def __init__(self, *firsts):
        self.firsts, self.place = firsts, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.choice(self.firsts))
        return self.place, {}

    def step(self, action):
        return self.place, self.place / 2, False, False, {}


class Hidden(Tabled):
    """The same without its table."""

    P = property()

    def __getattribute__(self, name):
        if name == "P":
            raise AttributeError(name)
        return super().__getattribute__(name)


class TestEnvironments:
    def test_a_reset_that_returns_another_state_than_0(self):
        agent = MatrixRL(Tabled(2), horizon=5, seed=0)
        history = agent.learn(60)
        shown = agent.certificate()
        assert shown.lower - ROUNDING <= 5.0 <= shown.upper + ROUNDING
        assert shown.lower > 3.0
        assert "estimated from 60 episodes" in shown.start
        assert agent.problem.mdp.task.start.tolist() == [0.0, 0.0, 1.0, 0.0]
        np.testing.assert_allclose(history.regret, 0.0, atol=1e-9)
        assert run_seeds(Tabled(2), horizon=5, n_episodes=2, seeds=1).returns.tolist() == [[5.0, 5.0]]

    def test_resets_that_differ_ask_for_the_start(self):
        with pytest.raises(InvalidInput, match="start must be given for Tabled"):
            MatrixRL(Tabled(1, 2), horizon=5, seed=0)
        agent = MatrixRL(Tabled(1, 2), horizon=5, seed=0, start=[0.0, 0.5, 0.5])
        agent.learn(40)
        shown = agent.certificate()
        assert shown.start == "the declared start distribution"
        assert shown.lower - ROUNDING <= 3.75 <= shown.upper + ROUNDING
        assert agent.recommend().basis == "model"  # the environment drew the first states, not the library

    def test_reading_the_start_does_not_move_the_environment(self):
        env, other = Tabled(2), Tabled(2)
        env.reset(seed=1)
        other.reset(seed=1)
        from_gymnasium(env, horizon=5)
        assert env.np_random.random() == other.np_random.random()

    def test_a_reset_outside_the_given_start_is_refused_and_changes_nothing(self):
        agent = MatrixRL(Tabled(1), horizon=5, seed=0, start=2)
        with pytest.raises(InvalidInput, match="obs must be 2 at the first step"):
            agent.learn(1)
        assert agent.n_episodes == 0
        assert agent.certificate().guarantee

    def test_a_start_that_is_given_for_an_environment_without_a_table(self, tmp_path):
        agent = MatrixRL(Hidden(2), horizon=5, seed=0, start=2, reward_range=(0.0, 1.0))
        agent.learn(30)
        assert agent.certificate().start == "state 2, the declared start"
        agent.save(tmp_path / "a.npz")
        assert MatrixRL.load(tmp_path / "a.npz", Hidden(2)).certificate() == agent.certificate()
        with pytest.raises(InvalidInput, match="start cannot be changed on a Task"):
            MatrixRL(customers(), start=1)
        with pytest.raises(InvalidInput, match="start rows must sum to one"):
            MatrixRL(Hidden(2), horizon=5, start=[0.5, 0.6, 0.1])

    def test_an_environment_that_cannot_be_copied_asks_for_the_start(self):
        env = Tabled(2)
        env.handle = (one for one in ())  # generators cannot be copied
        with pytest.raises(InvalidInput, match="start must be given for Tabled"):
            MatrixRL(env, horizon=5)
        assert MatrixRL(env, horizon=5, start=2).certificate().start == "state 2, the declared start"


def test_baselines_have_no_certificate_of_a_named_state_either():
    from matrixrl import Agent

    with pytest.raises(ProtocolError, match="no certificates"):
        Agent("river-swim", "psrl", seed=0).certificate(start=1)


def log_of(kinds):
    """Return a log of customers, ten rows each."""
    n = len(kinds)
    return {
        "episode": np.repeat(np.arange(n), H),
        "step": np.tile(np.arange(H), n),
        "state": np.repeat(kinds, H),
        "action": np.zeros(n * H, dtype=int),
        "reward": np.repeat(kinds, H).astype(float),
        "next_state": np.repeat(kinds, H),
    }
