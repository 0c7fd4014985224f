"""`greedy`, `recommend` and `compare`: policies that leave the agent, as a practitioner uses them."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from continuum import Line, line
from matrixrl import (
    Agent,
    FiniteMDP,
    InvalidInput,
    KernelMatrixRL,
    MatrixRL,
    Policy,
    ProtocolError,
    Task,
    evaluate,
)
from matrixrl.core.backup import PolicyIntervals
from matrixrl.core.start import Start
from matrixrl.play.ledger import CertifiedPolicy
from matrixrl.problems import low_rank, tabular
from tolerances import ALGEBRA
from worlds import Hidden

S, A, H = 4, 3, 5
RIVER = {"env_settings": {"n_states": 3, "horizon": 8}}


def river(episodes=60, **settings):
    agent = MatrixRL("river-swim", **RIVER, seed=0, switch_growth=0.1, **settings)
    agent.learn(episodes)
    return agent


def played(agent, mdp, episodes=25):
    """Play random actions, never action 2 in state 0, and return counts (S, A, S) and sums of rewards (S, A)."""
    n_states, n_actions = mdp.n_states, mdp.n_actions
    counts, paid = np.zeros((n_states, n_actions, n_states)), np.zeros((n_states, n_actions))
    rng = np.random.default_rng(0)
    for _ in range(episodes):
        episode, state = agent.begin_episode(), 0
        while not episode.is_finished:
            action = int(rng.integers(n_actions if state else n_actions - 1))
            law = mdp.transitions.rows(np.array([state]), np.array([action]))[0]
            following = int(rng.choice(n_states, p=law))
            reward = float(rng.random() < mdp.task.reward[state, action])
            episode.observe(state, action, reward, following)
            counts[state, action, following] += 1
            paid[state, action] += reward
            state = following
        episode.end()
    return counts, paid


def best_policy(reward, next_values):
    """Return the greedy table and its values by backward induction; `next_values` maps (S,) to (S, A)."""
    values, table = np.zeros(S), np.zeros((H, S), dtype=int)
    for h in reversed(range(H)):
        q = np.clip(reward + next_values(values), 0.0, H)
        table[h] = (q + 1e-9 * H * np.arange(A)[::-1] / A).argmax(axis=1)
        values = q.max(axis=1)
    return table, values


class TestGreedy:
    @pytest.mark.parametrize("known", [True, False])
    @pytest.mark.parametrize("compiled", [True, False])
    @pytest.mark.parametrize("preset", ["optimistic", "tuned"])
    def test_it_is_best_in_the_empirical_model(self, known, compiled, preset):
        """A pair that was never tried is worth the smallest next value, and its learned reward 0."""
        mdp = tabular(n_states=S, n_actions=A, horizon=H, seed=3).mdp
        agent = MatrixRL(mdp, seed=0, known_reward=known, compiled=compiled, preset=preset)
        counts, paid = played(agent, mdp)
        n = counts.sum(axis=2)
        assert n[0, 2] == 0.0
        reward = mdp.task.reward if known else paid / np.maximum(n, 1.0)

        def next_values(values):
            return np.where(n > 0.0, (counts @ values) / np.maximum(n, 1.0), values.min())

        table, values = best_policy(reward, next_values)
        np.testing.assert_array_equal(agent.greedy().table, table)
        np.testing.assert_allclose(agent.algorithm.estimated_plan().values[0, 0], values, rtol=ALGEBRA)

    @pytest.mark.parametrize("known", [True, False])
    def test_with_a_ball_it_is_best_in_the_ridge_estimate(self, known):
        """M_n moved to the nearest matrix whose rows sum to one."""
        mdp = tabular(n_states=S, n_actions=A, horizon=H, seed=4).mdp
        agent = MatrixRL(mdp, seed=0, known_reward=known, set="normalised")
        counts, paid = played(agent, mdp)
        n = counts.sum(axis=2)
        law = counts / (1.0 + n)[:, :, None]
        law += (1.0 - law.sum(axis=2, keepdims=True)) / S
        table, values = best_policy(mdp.task.reward if known else paid / (1.0 + n), lambda values: law @ values)
        np.testing.assert_array_equal(agent.greedy().table, table)
        np.testing.assert_allclose(agent.algorithm.estimated_plan().values[0, 0], values, rtol=ALGEBRA)

    @pytest.mark.parametrize("name", ["psrl", "ucbvi", "ucrl2", "epsilon-greedy"])
    def test_baselines_with_counts_have_it_too(self, name):
        mdp = tabular(n_states=S, n_actions=A, horizon=H, seed=5).mdp
        agent = Agent(mdp, name, seed=0, known_reward=False)
        counts, paid = played(agent, mdp)
        n = counts.sum(axis=2)
        law = np.where(n[:, :, None] > 0.0, counts / np.maximum(n, 1.0)[:, :, None], 1.0 / S)
        table, values = best_policy(paid / np.maximum(n, 1.0), lambda values: law @ values)
        np.testing.assert_allclose(agent.algorithm.estimated_plan().values[0, 0], values, rtol=ALGEBRA)
        chosen = agent.greedy()
        np.testing.assert_array_equal(chosen.table, table)
        assert chosen.certificate is None
        assert chosen.basis is None

    def test_all_columns_are_the_whole_problem(self):
        mdp = low_rank(n_states=12, n_actions=3, d=3, horizon=4, seed=6).mdp
        agents = [MatrixRL(mdp, seed=0, set="normalised", **more) for more in ({}, {"columns": 12})]
        for agent in agents:
            played(agent, mdp)
        np.testing.assert_array_equal(agents[0].greedy().table, agents[1].greedy().table)
        with pytest.raises(ProtocolError, match="without sampled columns"):
            agents[1].compare(agents[1].greedy(), [0] * 12)

    def test_its_certificate_is_about_itself(self):
        agent = river(100)
        chosen = agent.greedy()
        shown, best = chosen.certificate, agent.recommend().certificate
        assert shown.guarantee
        truth = evaluate(agent.problem.mdp, chosen)[0, 0]
        assert shown.lower <= truth <= shown.upper == best.upper
        assert shown.lower <= best.lower
        assert "best in the estimated model" in chosen.description

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: KernelMatrixRL(Line(), reward_range=(0.0, 1.0), seed=0), "needs numbered states; agent.predict"),
            (lambda: MatrixRL(line(), columns=50, seed=0), "needs numbered states; agent.predict"),
            (lambda: Agent("river-swim", "random", seed=0), "random has no estimated model; agent.policy"),
            (lambda: Agent("river-swim", "q-learning", seed=0), "has no estimated model"),
        ],
    )
    def test_it_is_refused_in_words(self, make, words):
        with pytest.raises(ProtocolError, match=words):
            make().greedy()


class Ending(Hidden):
    """Three states from 10 on, two actions from −1 on; the last state ends the episode."""

    observation_space = gym.spaces.Discrete(3, start=10)
    action_space = gym.spaces.Discrete(2, start=-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 10, {}

    def step(self, action):
        obs, *rest = super().step(action + 1)
        return obs + 10, *rest


class TestEnvironments:
    def test_numbers_and_the_end_state(self, tmp_path):
        agent = MatrixRL(Ending(), horizon=4, known_reward=False, seed=0, delta=0.2, switch_growth=0.1)
        agent.learn(150)
        chosen = agent.recommend()
        assert (chosen.n_states, chosen.n_observed) == (4, 3)
        assert [chosen.act(obs, 0) for obs in (10, 11)] == [0, 0]
        with pytest.raises(InvalidInput, match="obs must be in 10 … 12"):
            chosen.act(13, 0)
        chosen.to_csv(tmp_path / "p.csv")
        assert (tmp_path / "p.csv").read_text().splitlines()[1] == "0,10,0"
        chosen.save(tmp_path / "p.json")
        ways = [chosen, Policy.load(tmp_path / "p.json"), chosen.table, chosen.act, np.eye(2)[chosen.table]]
        usual = [[0, 0, 0], lambda *_: -1, np.zeros((4, 4), dtype=int), [[1.0, 0.0]] * 3]
        found = {agent.compare(way, other) for way in ways for other in usual}
        assert len(found) <= 2  # a table of probabilities is not recognised as the certified policy
        assert all(0.0 < one.lower <= 1.0 <= one.upper and one.probably_better for one in found)

    def test_the_policy_of_another_problem(self):
        agent = river(1)
        other = MatrixRL("river-swim", env_settings={"n_states": 3, "horizon": 7}, seed=0).policy
        with pytest.raises(InvalidInput, match=r"whose shape is .*; got a policy whose shape is"):
            agent.compare(other, [0, 0, 0])
        with pytest.raises(InvalidInput, match="incumbent must hold actions 0 … 1"):
            agent.compare([0, 0, 0], [0, 2, 0])


class TestMasks:
    def agent(self, **settings):
        mdp = tabular(n_states=3, n_actions=3, horizon=4, seed=0).mdp
        law = mdp.transitions.rows(np.repeat(np.arange(3), 3), np.tile(np.arange(3), 3)).reshape(3, 3, 3)
        allowed = np.ones((3, 3), dtype=bool)
        allowed[0, 0] = allowed[1, 2] = False  # which are the best actions there
        agent = MatrixRL(FiniteMDP(law, mdp.task.reward, 4), allowed=allowed, seed=0, **settings)
        agent.learn(40)
        return agent, law

    @pytest.mark.parametrize("settings", [{}, {"known_reward": False}, {"set": "normalised"}], ids=str)
    def test_policies_take_allowed_actions_and_the_truth_is_inside(self, settings):
        agent, law = self.agent(**settings)
        reward = agent.problem.mdp.task.reward
        mixed = np.array([[0.0, 0.5, 0.5], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
        for chosen in (agent.greedy(), agent.recommend()):
            assert not (chosen.table[:, 0] == 0).any()
            assert not (chosen.table[:, 1] == 2).any()
            values = np.zeros((2, 3))
            for h in reversed(range(4)):
                q = reward + law @ values[0], reward + law @ values[1]
                values = np.stack([q[0][np.arange(3), chosen.table[h]], (mixed * q[1]).sum(axis=1)])
            shown = agent.compare(chosen, mixed)
            assert shown.lower <= values[0, 0] - values[1, 0] <= shown.upper
            assert shown.guarantee

    def test_other_actions_are_refused(self):
        agent, _ = self.agent()
        for given in ([0, 1, 1], np.full((3, 3), 1.0 / 3.0), lambda *_: 2):
            with pytest.raises(InvalidInput, match="incumbent"):
                agent.compare([1, 1, 1], given)

    def test_the_end_state_may_be_left_out(self):
        def allowed(obs):
            return [0] if obs == 10 else [-1, 0]

        agent = MatrixRL(Ending(), horizon=4, known_reward=False, seed=0, delta=0.2, switch_growth=0.1, allowed=allowed)
        agent.learn(60)
        assert agent.compare(agent.greedy(), [1, 0, 0]).guarantee
        with pytest.raises(InvalidInput, match="incumbent"):
            agent.compare(agent.greedy(), [0, 0, 0])


class TestCompare:
    def test_before_the_first_episode_nothing_is_known(self):
        agent = MatrixRL("river-swim", **RIVER, seed=0, known_reward=False)
        shown = agent.compare([1, 1, 1], [0, 0, 0])
        assert (shown.lower, shown.upper) == (-8.0, 8.0)
        assert not shown.probably_better
        assert shown.guarantee

    def test_it_changes_nothing(self):
        agent = river()
        before = agent.algorithm.state(), agent._ledger.header()
        agent.compare([1, 1, 1], [0, 0, 0])
        assert agent._ledger.header() == before[1]
        assert all(np.array_equal(array, before[0][name]) for name, array in agent.algorithm.state().items())

    @pytest.mark.slow
    def test_the_recommended_policy_keeps_its_lower_bound_from_returns(self):
        rng = np.random.default_rng(0)
        law = rng.dirichlet(np.ones(30), size=(30, 2))
        reward = np.zeros((30, 2))
        reward[:, 1] = 1.0
        agent = MatrixRL(FiniteMDP(law, reward, 4), seed=0, known_reward=False, switch_growth=0.1)
        agent.learn(300)
        chosen = agent.recommend()
        assert chosen.basis == "returns"
        incumbent = np.full((30, 2), 0.5)
        shown = agent.compare(chosen, incumbent)
        assert shown.policy == (chosen.certificate.lower, chosen.certificate.upper)
        assert shown.incumbent[1] <= chosen.certificate.upper
        other = chosen.table.copy()
        other[0, 0] = 1 - other[0, 0]
        assert agent.compare(other, incumbent).policy[0] < shown.policy[0]
        assert agent.compare(incumbent, chosen).upper == -shown.lower
        assert shown.lower >= chosen.certificate.lower - shown.incumbent[1]

    def test_what_was_certified_is_not_used_for_a_state_that_is_named(self):
        mdp = tabular(n_states=3, n_actions=2, horizon=3, seed=0).mdp
        agent = MatrixRL(Task(mdp.task.reward, 3), seed=0)
        rng = np.random.default_rng(0)
        for first in [0] * 30:
            episode, state = agent.begin_episode(), first
            while not episode.is_finished:
                action = episode.act(state)
                following = int(rng.choice(3, p=mdp.transitions.rows(np.array([state]), np.array([action]))[0]))
                episode.observe(state, action, float(mdp.task.reward[state, action]), following)
                state = following
            episode.end()
        chosen = agent.recommend()
        agent._ledger.note(1e-3 + chosen.certificate.lower, None)
        assert agent.compare(chosen, [0, 0, 0]).policy[1] == pytest.approx(1e-3 + chosen.certificate.lower)
        shown = agent.compare(chosen, [0, 0, 0], start=1)
        other = np.zeros((1, 3, 3), dtype=int)
        found = agent.algorithm.certifier.bound_policies(chosen.table[None], other, Start.at(1))
        assert shown.policy == (float(found.lower[0, 0]), float(found.upper[0, 0]))
        assert shown.start == "state 1"
        assert shown.guarantee

    def test_the_truth_on_a_river(self):
        agent = river(200)
        mdp, chosen = agent.problem.mdp, agent.recommend()
        for incumbent in ([0, 0, 0], [1, 1, 1], [0, 1, 1]):
            table = np.tile(incumbent, (8, 1))
            truth = (evaluate(mdp, chosen) - evaluate(mdp, table))[0, 0]
            shown = agent.compare(chosen, incumbent)
            assert shown.lower <= truth <= shown.upper
            assert shown.delta == 0.05
        assert agent.compare(chosen, [0, 0, 0]).probably_better
        assert agent.compare([0, 0, 0], chosen).probably_worse

    def test_a_saved_agent_says_the_same(self, tmp_path):
        agent = river()
        agent.recommend()
        shown = agent.compare(agent.greedy(), [0, 0, 0])
        agent.save(tmp_path / "a.npz")
        loaded = MatrixRL.load(tmp_path / "a.npz")
        assert loaded.compare(loaded.greedy(), [0, 0, 0]) == shown

    def test_a_selection_of_episodes_withdraws_the_proof(self):
        agent = river(200)
        episode = agent.begin_episode()
        episode.observe(0, 1, 0.0, 1)
        episode.abandon()
        shown = agent.compare(agent.recommend(), [0, 0, 0])
        assert shown.lower > 0.0
        assert "abandoned" in shown.guarantee.reason
        assert not shown.probably_better
        assert "estimated, not proven" in repr(shown)

    def test_bounds_that_contradict_each_other_prove_nothing(self):
        agent = river(100)
        agent._ledger.note(0.01, CertifiedPolicy(7.9, np.ones((8, 3), dtype=np.uint8), "model"))
        shown = agent.compare([1, 1, 1], [0, 0, 0])
        assert "contradict" in shown.guarantee.reason
        assert shown.lower <= shown.upper
        assert all(low <= high for low, high in (shown.policy, shown.incumbent))

    @pytest.mark.parametrize("crossed", [0, 2], ids=["values", "difference"])
    @pytest.mark.parametrize("start", [None, 1])
    def test_bounds_of_the_model_that_contradict_each_other_prove_nothing_for_any_start(self, start, crossed):
        agent = river(20)
        lower, upper = np.zeros((3, 1)), np.ones((3, 1))
        lower[crossed], upper[crossed] = 0.8, 0.2
        agent._algorithm.certifier.bound_policies = lambda *_: PolicyIntervals(lower, upper, np.array([0]))
        shown = agent.compare([1, 1, 1], [0, 0, 0], start=start)
        assert "contradict" in shown.guarantee.reason
        assert not shown.probably_better
        assert shown.lower <= shown.upper
        assert (agent.alarm is None) == (start == 1)  # nothing is remembered of a state that is named

    def test_returns_that_contradict_the_difference_prove_nothing(self):
        """The model says that the policy earns more than the incumbent; both are then certified to earn the same."""
        agent = river(200)
        right = np.ones((8, 3), dtype=int)
        other = right.copy()
        other[-1] = 0
        before = agent.compare(right, other)
        assert before.lower > 0.1
        assert before.guarantee
        low = before.policy[0]
        agent._ledger.note(low + 0.05, CertifiedPolicy(low + 0.01, other, "returns"))
        shown = agent.compare(right, other)
        assert shown.policy == (low, low + 0.05)
        assert shown.incumbent == (low + 0.01, low + 0.05)
        assert "contradict" in shown.guarantee.reason
        assert shown.lower < shown.upper

    def test_groups_that_do_not_share_a_law_raise_the_alarm(self):
        law = np.zeros((2, 2, 2))
        law[:, 0, 0] = law[:, 1, 1] = 1.0
        phi = np.zeros((2, 2, 2))
        phi[0, :, 0] = phi[1, :, 1] = 1.0
        agent = MatrixRL(Task(np.array([[0.0, 0.1], [0.5, 0.6]]), 6), phi=phi, seed=0)
        rng = np.random.default_rng(0)
        for _ in range(60):
            episode, state = agent.begin_episode(), 0
            while not episode.is_finished:
                action = int(rng.integers(2))
                episode.observe(state, action, [[0.0, 0.1], [0.5, 0.6]][state][action], action)
                state = action
            episode.end()
        assert "alarm" in agent.compare([1, 1], [0, 0]).guarantee.reason
