"""Policies that a user gives: what is proven about them, wherever their episodes were played."""

from __future__ import annotations

import itertools

import gymnasium as gym
import numpy as np
import pytest

from matrixrl import FiniteMDP, InvalidInput, MatrixRL, ProtocolError, Task, compare_returns, evaluate
from matrixrl.algorithms.baselines import PSRL
from matrixrl.certificates import Certificate, Comparison, PolicyCertificate
from matrixrl.problems import tabular
from matrixrl.records import Guarantee

H, S = 4, 3
MDP = tabular(n_states=S, n_actions=2, horizon=H, seed=1).mdp
TASK = Task(MDP.task.reward, H, start=int(np.argmax(MDP.task.start)))
GIVEN, OTHER = np.random.default_rng(0).integers(0, 2, (2, H, S))


def played(policy=GIVEN, n=50, seed=0, **settings):
    """Return an agent that played a given policy in its own MDP, and the log of it."""
    agent = MatrixRL(MDP, seed=seed, **settings)
    agent.learn(n, policy=policy)
    return agent, agent._seen.all()[0]


def table_of(log):
    """Return a log as a dictionary of columns."""
    names = {"state": log.states, "action": log.actions, "reward": log.rewards, "next_state": log.next_states}
    names = {name: column.astype(float) for name, column in names.items()}
    return {"episode": log.episodes, "step": log.stages, **names}


def tell(agent, log, policy, begin=None):
    """Report episodes of a log one by one."""
    for one in log.parts(1):
        episode = agent.begin_episode(policy=policy) if begin is None else begin()
        for s, a, r, following in zip(one.states, one.actions, one.rewards, one.next_states, strict=True):
            episode.observe(int(s), int(a), float(r), int(following))
        episode.end()


class TestWhereEpisodesWerePlayed:
    def test_played_told_and_logged_episodes_prove_the_same(self):
        agent, log = played()
        told, logged = MatrixRL(TASK, seed=3), MatrixRL(TASK, seed=4)
        tell(told, log, GIVEN)
        logged.learn_from(table_of(log), policy=GIVEN, verbose=False)
        shown = [one.certify(GIVEN) for one in (agent, told, logged)]
        assert {one.n_episodes for one in shown} == {50}
        for one in shown[1:]:
            assert (one.lower, one.upper, one.estimate) == pytest.approx(
                (shown[0].lower, shown[0].upper, shown[0].estimate)
            )
            assert one.guarantee
            assert one.digest == shown[0].digest
        assert "1 logged" not in shown[1].about
        assert "50 logged episodes" in shown[2].about
        assert "fixed before" in logged.assumptions
        assert "fixed before" not in MatrixRL(TASK, seed=0).assumptions

    def test_the_gaps_of_a_given_episode_are_charged_as_those_of_learn(self):
        agent, log = played(preset="optimistic", n=1)
        told = MatrixRL(MDP, seed=0, preset="optimistic")
        tell(told, log, GIVEN)
        assert told.bound().gaps == pytest.approx(agent.bound().gaps)
        assert told.guarantee

    def test_the_policy_answers_in_its_episode(self):
        agent = MatrixRL(MDP, seed=0)
        episode = agent.begin_episode(policy=lambda obs, stage: (obs + stage) % 2)
        for stage, obs in enumerate([0, 2, 1, 0]):
            assert episode.act(obs) == (obs + stage) % 2
            episode.observe(obs, episode.act(obs), float(MDP.task.reward[obs, episode.act(obs)]), [2, 1, 0, 0][stage])

    def test_episodes_that_were_not_given_do_not_count(self):
        agent, log = played()
        told = MatrixRL(TASK, seed=0)
        tell(told, log, None, begin=told.begin_episode)
        assert told.certify(GIVEN).n_episodes == 0
        assert told.certify(GIVEN).basis == "model"
        logged = MatrixRL(TASK, seed=0)
        logged.learn_from(table_of(log), verbose=False)
        assert logged.certify(GIVEN).n_episodes == 0
        assert agent.certify(OTHER).n_episodes == 0

    def test_logged_episodes_without_their_first_steps_do_not_count(self):
        _, log = played()
        columns = table_of(log)
        kept = (columns["episode"] % 2 == 0) | (columns["step"] > 0)
        agent = MatrixRL(TASK, seed=0)
        part = {name: column[kept] for name, column in columns.items()}
        agent.learn_from(part, policy=GIVEN, first_step=0, verbose=False)
        assert agent.n_logged_episodes == 50
        assert agent.certify(GIVEN).n_episodes == 25

    def test_a_logged_policy_may_be_random(self):
        rng = np.random.default_rng(0)
        chances = rng.dirichlet(np.ones(2), size=(H, S))
        rows = []
        start = int(np.argmax(MDP.task.start))
        law = MDP.transitions.law()
        for episode in range(400):
            s = start
            for h in range(H):
                a = int(rng.random() < chances[h, s, 1])
                following = int(rng.choice(S, p=law[s, a]))
                rows.append((episode, h, s, a, MDP.task.reward[s, a], following))
                s = following
        names = ("episode", "step", "state", "action", "reward", "next_state")
        agent = MatrixRL(TASK, seed=0)
        agent.learn_from(dict(zip(names, np.array(rows).T, strict=True)), policy=chances, verbose=False)
        shown = agent.certify(chances)
        weights = np.zeros((H, S))
        weights[0, start] = 1.0
        value = 0.0
        for h in range(H):
            pairs = weights[h][:, None] * chances[h]
            value += float((pairs * MDP.task.reward).sum())
            if h < H - 1:
                weights[h + 1] = np.einsum("sa,sat->t", pairs, law)
        assert shown.n_episodes == 400
        assert shown.lower <= value <= shown.upper
        assert shown.estimate == pytest.approx(value, abs=0.2)

    def test_it_is_saved_with_open_episodes(self, tmp_path):
        _, log = played()
        told = MatrixRL(TASK, seed=0)
        tell(told, log, GIVEN)
        episode = told.begin_episode(policy=OTHER)
        first = int(log.states[0])
        told.observe(first, int(OTHER[0, first]), float(MDP.task.reward[first, OTHER[0, first]]), 1)
        told.save(tmp_path / "a")
        again = MatrixRL.load(tmp_path / "a")
        for one in (told, again):
            [episode] = one.open_episodes
            for h in range(1, H):
                action = episode.act(1)
                assert action == OTHER[h, 1]
                episode.observe(1, action, float(MDP.task.reward[1, action]), 1)
            episode.end()
        assert again.certify(GIVEN) == told.certify(GIVEN)
        assert again.certify(OTHER) == told.certify(OTHER)
        assert again.compare(GIVEN, OTHER) == told.compare(GIVEN, OTHER)
        assert again.certify(OTHER).n_episodes == 1


class TestWhatIsCompared:
    def test_both_have_returns(self):
        """The interval is inside that of the model at half of δ, and inside that of returns at the other half."""
        agent = MatrixRL(MDP, seed=0, delta=0.1)
        for table in (GIVEN, OTHER):
            agent.learn(80, policy=table)
        shown = agent.compare(GIVEN, OTHER)
        halved = agent.algorithm.certifier.bound_policies(GIVEN[None], OTHER[None], None, 2)
        apart = agent._ledger.given.difference(GIVEN, OTHER, 0.05)
        assert shown.lower >= max(halved.lower[2, 0], apart[0]) - 1e-12
        assert shown.upper <= min(halved.upper[2, 0], apart[1]) + 1e-12
        assert shown.policy[0] >= agent.certify(GIVEN).lower - 1e-12
        truth = [evaluate(MDP, table)[0] @ MDP.task.start for table in (GIVEN, OTHER)]
        assert shown.lower <= truth[0] - truth[1] <= shown.upper
        assert shown.lower <= shown.estimate <= shown.upper

    def test_the_model_at_half_of_delta_is_that_of_an_agent_with_half_of_delta(self):
        for settings in ({}, {"set": "normalised"}, {"set": "sandwich"}, {"known_reward": False}):
            one, other = (MatrixRL(MDP, seed=0, delta=delta, **settings) for delta in (0.1, 0.05))
            for agent in (one, other):
                agent.learn(30, policy=GIVEN)
            ours = one.algorithm.certifier.bound_policies(GIVEN[None], OTHER[None], None, 2)
            theirs = other.algorithm.certifier.bound_policies(GIVEN[None], OTHER[None])
            np.testing.assert_allclose(ours.lower, theirs.lower, atol=1e-12)
            np.testing.assert_allclose(ours.upper, theirs.upper, atol=1e-12)

    def test_a_start_that_is_estimated_has_half_of_its_part_too(self):
        task = Task(MDP.task.reward, H)
        one, other = (MatrixRL(task, seed=0, delta=delta) for delta in (0.1, 0.05))
        _, log = played()
        for agent in (one, other):
            tell(agent, log, GIVEN)
        assert one._ledger.start(2)[0].radius == other._ledger.start()[0].radius > one._ledger.start()[0].radius
        assert one.certify(GIVEN).basis in ("returns", "model and returns")
        halved = other.algorithm.certifier.bound_policies(OTHER[None], OTHER[None], other._ledger.start()[0])
        found = one.certify(OTHER)
        assert (found.lower, found.upper) == pytest.approx((halved.lower[0, 0], halved.upper[0, 0]))

    def test_the_returns_of_a_frozen_policy_have_half_of_their_part_too(self):
        agent = MatrixRL("river-swim", env_settings={"n_states": 4, "horizon": 20}, seed=0)
        agent.learn(600)
        usual = np.ones((20, 4), dtype=int)
        agent.learn(10, policy=usual)
        frozen = next(iter(agent._ledger.returns._frozen.values()))
        delta = agent.algorithm.claims.returns_delta
        bound, whole = (agent._ledger.returns.lower(frozen, part) for part in (0.5 * delta, delta))
        model = agent.algorithm.certifier.bound_policies(frozen[None], usual[None], None, 2).lower[0, 0]
        assert model < bound < whole
        assert agent.compare(frozen, usual).policy[0] == pytest.approx(bound)
        assert agent._ledger.returns.lower(1 - frozen, delta) is None

    def test_a_named_start_has_the_model_only(self):
        agent, _ = played()
        shown = agent.certify(GIVEN, start=1)
        assert (shown.basis, shown.n_episodes) == ("model", 0)
        assert "state 1" in shown.start

    def test_the_model_counts_where_it_knows_more(self):
        agent = MatrixRL(MDP, seed=0)
        agent.learn(1500)
        for table in (GIVEN, OTHER):
            agent.learn(1, policy=table)
        model = agent.algorithm.certifier.bound_policies(GIVEN[None], OTHER[None], None, 2)
        by_returns = agent._ledger.given.interval(GIVEN, 0.025)
        found = agent.certify(GIVEN)
        assert by_returns[0] < model.lower[0, 0]
        assert model.upper[0, 0] < by_returns[1]
        assert (found.lower, found.upper) == (model.lower[0, 0], model.upper[0, 0])
        assert found.basis == "model and returns"

    def test_without_returns_compare_has_all_of_delta(self):
        agent, _ = played()
        before = agent.algorithm.certifier.bound_policies(OTHER[None], 1 - OTHER[None])
        shown = agent.compare(OTHER, 1 - OTHER)
        assert shown.lower >= before.lower[2, 0]
        assert shown.upper <= before.upper[2, 0]
        assert "by the model" in shown.about


class TestWhatIsClaimed:
    def test_returns_need_no_features(self):
        """The features cannot represent P, so nothing is proven by the model, and returns prove what they did."""
        agent = MatrixRL(MDP, seed=0, phi=np.ones((S, 2, 1)))
        agent.learn(50, policy=GIVEN)
        agent.learn(50, policy=OTHER)
        assert not agent.certificate().guarantee
        shown = agent.certify(GIVEN)
        assert shown.guarantee
        assert shown.basis == "returns"
        assert (shown.lower, shown.upper) == agent._ledger.given.interval(GIVEN, 0.025)
        assert agent.compare(GIVEN, OTHER).guarantee
        assert not agent.compare(GIVEN, 1 - GIVEN).guarantee
        assert not agent.certify(1 - GIVEN).guarantee

    def test_first_states_that_contradict_the_start_end_what_returns_prove(self):
        agent = MatrixRL(Task(MDP.task.reward, H, start=[0.5, 0.5, 0.0]), seed=0)
        for number in range(60):
            episode = agent.begin_episode(policy=GIVEN)
            state = 0 if number else 1
            for h in range(H):
                episode.observe(state, int(GIVEN[h, state]), float(MDP.task.reward[state, GIVEN[h, state]]), state)
            episode.end()
        shown = agent.certify(GIVEN)
        assert agent._ledger.start_doubt
        assert shown.guarantee
        assert shown.basis == "model"

    def test_an_episode_that_was_left_out_ends_the_proof(self):
        agent, _ = played()
        episode = agent.begin_episode(policy=GIVEN)
        first = int(np.argmax(MDP.task.start))
        episode.observe(first, int(GIVEN[0, first]), float(MDP.task.reward[first, GIVEN[0, first]]), 0)
        episode.abandon()
        assert not agent.certify(GIVEN).guarantee

    def test_other_actions_and_early_ends_widen_the_interval(self):
        _, log = played(n=20)
        whole, other, early = (MatrixRL(TASK, seed=0) for _ in range(3))
        tell(whole, log, GIVEN)
        tell(other, log, 1 - GIVEN)
        for one in log.parts(1):
            episode = early.begin_episode(policy=GIVEN)
            episode.observe(int(one.states[0]), int(one.actions[0]), float(one.rewards[0]), int(one.next_states[0]))
            episode.end()
        widths = [np.diff(one._ledger.given.interval(table, 0.5))[0] for one, table in ((whole, GIVEN), (early, GIVEN))]
        assert widths[0] < widths[1]
        low, high = other._ledger.given.interval(1 - GIVEN, 0.5)
        assert other.certify(1 - GIVEN).trivial == pytest.approx((low, high), abs=1e-3)

    def test_words_name_policy_start_and_data(self):
        agent, _ = played(n=1200)
        shown = agent.certify(GIVEN)
        for words in (shown.digest[:8], "1,200 episodes, 1,200 of them its own", "the declared start", "estimated"):
            assert words in str(shown)
        assert shown.share_left == pytest.approx(shown.width / (shown.trivial[1] - shown.trivial[0]))
        assert shown.as_dict()["digest"] == shown.digest
        assert "possible without data" in shown._repr_html_()
        for certificate, words in (
            (agent.certificate(), "the plan to come, from 1,200 episodes"),
            (agent.recommend().certificate, "the policy with the best proof"),
            (agent.greedy().certificate, "best by the estimate"),
        ):
            assert words in certificate.about
            assert certificate.lower <= certificate.estimate <= certificate.upper
            assert certificate.trivial[0] <= certificate.lower
            assert certificate.upper <= certificate.trivial[1] + 1e-9
        assert "chosen by proof" in agent.recommend().description
        assert "chosen by estimate" in agent.greedy().description


class TestWords:
    @pytest.mark.parametrize("scale", [1.0, 1e4, 1e7])
    def test_no_number_of_ordinary_size_has_an_exponent(self, scale):
        low, high, claim = -4.04231 * scale, 1.234567 * scale, Guarantee(True)
        shown = (
            Certificate(high, low, 0.05, claim, start="x", estimate=0.1 * scale, trivial=(2.0 * low, 2.0 * high)),
            Comparison(low, high, (low, high), (low, high), 0.05, claim, "x", 0.0, (2.0 * low, 2.0 * high)),
            PolicyCertificate(low, high, 0.05, claim, "model", 0.1 * scale, (2.0 * low, 2.0 * high), 0),
        )
        for one, text in itertools.product(shown, (repr, lambda one: one._repr_html_())):
            assert "e+" not in text(one)
            assert "50 % of" in (str(one) if not isinstance(one, Comparison) else one._repr_html_())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: MatrixRL(MDP, seed=0).certify(np.zeros((H + 1, S), dtype=int)), "policy must be a Policy"),
        (lambda: MatrixRL(MDP, seed=0).begin_episode(policy=np.full((H, S, 2), 0.5)), "policy must not be random"),
        (lambda: MatrixRL(TASK, seed=0).learn_from({}, policy="x"), "policy must be a Policy"),
        (lambda: compare_returns([1.0], [2.0], return_range=(0.0, 1.0)), r"incumbent must lie in \[0, 1\]"),
        (lambda: compare_returns([1.0], [1.0, 0.5], return_range=(0.0, 1.0), paired=True), "paired must have as many"),
        (lambda: compare_returns([1.0], [1.0], return_range=(1.0, 0.0)), "return_range must have low < high"),
        (lambda: compare_returns([1.0], [1.0], return_range=(0.0, 2.0), delta=1.0), "delta must be"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()


def test_an_algorithm_without_certificates_refuses():
    from matrixrl import Agent

    agent = Agent(MDP, PSRL(preset="tuned"), seed=0)
    agent.learn(3, policy=GIVEN)
    with pytest.raises(ProtocolError, match="certify needs certificates"):
        agent.certify(GIVEN)


def test_stages_discounts_and_the_end():
    """Laws that depend on the stage, a discount, an end state, an endless task: the truth is covered, δ = 0.05 each."""
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.ones(3), size=(3, 2))
    law[2] = [0.0, 0.0, 1.0]
    reward = rng.uniform(-1.0, 1.0, size=(3, 2))
    reward[2] = 0.0
    policy = np.array([1, 0, 0])
    for options in (
        {"horizon": 5, "end_state": 2, "discount": 0.8},
        {"discount": 0.7},
        {"horizon": 4, "stage_dependent": [0, 1, 0, 1], "end_state": 2},
    ):
        mdp = FiniteMDP(law, reward, reward_range=(-1.0, 1.0), **options)
        agent = MatrixRL(mdp, seed=0)
        agent.learn(300, policy=policy)
        table = np.tile(policy, (mdp.horizon, 1))
        values = evaluate(mdp, table)[0] @ mdp.task.start
        found = agent.certify(policy)
        assert found.n_episodes == 300
        assert found.lower - 1e-9 <= values <= found.upper + 1e-9
        assert found.trivial[0] <= values <= found.trivial[1]
        assert found.share_left < 0.35


def test_a_given_policy_that_a_reported_mask_forbids_is_refused():
    class Masked(gym.Env):
        observation_space, action_space, horizon = gym.spaces.Discrete(2), gym.spaces.Discrete(2), 3

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {"action_mask": np.array([1, 1])}

        def step(self, action):
            return 1, 0.0, False, False, {"action_mask": np.array([1, 0])}

    agent = MatrixRL(Masked(), seed=0)
    with pytest.raises(InvalidInput, match=r"policy must take actions that are allowed: one of \[0\] in state 1"):
        agent.learn(5, policy=[1, 1])
    assert agent.n_episodes == 0
    agent.learn(5, policy=[1, 0])
    assert agent.n_episodes == 5


def test_agents_without_bounds_of_given_policies_learn_from_no_log_of_one():
    _, log = played(n=3)
    agent = MatrixRL(TASK, preset="optimistic", planner="path")
    with pytest.raises(ProtocolError, match="needs bounds of given policies"):
        agent.learn_from(table_of(log), policy=GIVEN, verbose=False)
    assert agent.n_logged_steps == 0


@pytest.mark.parametrize("wrong", [[-1.0, 1.0], [0.0, H + 1.0]])
def test_saved_ranges_that_no_policy_has_are_refused(wrong):
    agent, _ = played(n=3)
    given = agent._ledger.given
    arrays = given.arrays() | {"given_ranges": np.array([wrong])}
    with pytest.raises(InvalidInput, match="returns of given policies"):
        type(given)(TASK, knows_reward=True).restore(arrays)
    type(given)(TASK, knows_reward=True).restore(given.arrays())
