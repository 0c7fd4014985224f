"""`recommend`, `regret_certificate` and exploring for a certificate, as a practitioner uses them."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import Agent, CheckpointError, FiniteMDP, InvalidInput, KernelMatrixRL, MatrixRL, ProtocolError, Task
from matrixrl.archive import read_archive, write_archive
from matrixrl.play.ledger import CertifiedPolicy
from matrixrl.problems import tabular

RIVER = {"env_settings": {"n_states": 3, "horizon": 8}}


def river(**settings):
    return MatrixRL("river-swim", **RIVER, **settings)


class TestRecommend:
    def test_bounds_only_improve(self):
        agent = river(seed=0)
        seen = []
        for _ in range(6):
            agent.learn(40)
            shown = agent.recommend().certificate
            seen.append((shown.lower, -shown.upper))
        assert seen == [tuple(np.max(seen[: i + 1], axis=0)) for i in range(6)]

    def test_a_better_policy_of_the_past_is_kept(self):
        agent = river(seed=0)
        agent.learn(50)
        table = np.ones((8, 3), dtype=np.uint8)
        agent._ledger.note(7.9, CertifiedPolicy(3.0, table, "model"))
        chosen = agent.recommend()
        assert chosen.certificate.lower == 3.0
        np.testing.assert_array_equal(chosen.table, table)

    def test_returns_certify_where_the_model_is_too_wide(self):
        """One action pays 1 and every state may follow: the model needs the law of all of them."""
        rng = np.random.default_rng(0)
        law = rng.dirichlet(np.ones(30), size=(30, 2))
        reward = np.zeros((30, 2))
        reward[:, 1] = 1.0
        agent = MatrixRL(FiniteMDP(law, reward, 4), seed=0, known_reward=False)
        agent.learn(300)
        chosen = agent.recommend()
        assert chosen.basis == "returns"
        assert agent.certificate().lower < chosen.certificate.lower <= 4.0

    def test_bounds_that_contradict_each_other_prove_nothing(self):
        agent = river(seed=0)
        agent.learn(100)
        agent._ledger.note(0.01, None)
        shown = agent.recommend().certificate
        assert "contradict" in shown.guarantee.reason
        assert shown.lower <= shown.upper
        assert "contradict" in agent.certificate().guarantee.reason

    def test_a_saved_agent_recommends_the_same(self, tmp_path):
        agent = river(seed=0)
        agent.learn(77)
        first = agent.recommend()
        agent.save(tmp_path / "a.npz")
        for env in ("river-swim", None):
            loaded = (
                MatrixRL.load(tmp_path / "a.npz")
                if env is None
                else MatrixRL.load(tmp_path / "a.npz", env=river(seed=1).problem.env)
            )
            again = loaded.recommend()
            assert again.certificate == first.certificate
            np.testing.assert_array_equal(again.table, first.table)
        loaded = MatrixRL.load(tmp_path / "a.npz", env=river(seed=1).problem.env)
        loaded.learn(60)
        agent.learn(60)
        assert loaded.recommend().certificate == agent.recommend().certificate

    def test_another_first_state_moves_no_bound_of_a_task_without_a_start(self):
        """Bounds are about the distribution of first states: they only improve, and regret stays proven."""
        mdp = tabular(n_states=3, n_actions=2, horizon=3, seed=0).mdp
        agent = MatrixRL(Task(mdp.task.reward, 3), seed=0)
        rng = np.random.default_rng(0)
        for first in [0] * 30 + [1]:
            episode, state = agent.begin_episode(), first
            while not episode.is_finished:
                action = episode.act(state)
                following = int(rng.choice(3, p=mdp.transitions.rows(np.array([state]), np.array([action]))[0]))
                episode.observe(state, action, float(mdp.task.reward[state, action]), following)
                state = following
            episode.end()
            if agent.n_episodes == 30:
                assert agent.regret_certificate().guarantee
                before = agent.recommend().certificate
        after = agent.recommend().certificate
        assert before.lower <= after.lower <= after.upper <= before.upper
        assert after.start == "the distribution of first states, estimated from 31 episodes"
        assert agent.regret_certificate().guarantee

    @pytest.mark.parametrize(
        "make",
        [
            lambda: Agent("river-swim", "psrl", seed=0),
            lambda: KernelMatrixRL("cart-pole", seed=0),
        ],
        ids=["baseline", "control"],
    )
    @pytest.mark.parametrize("call", ["recommend", "regret_certificate"])
    def test_it_is_refused_without_certificates(self, make, call):
        with pytest.raises(ProtocolError, match=f"{call} needs certificates and numbered states"):
            getattr(make(), call)()

    def test_before_the_first_episode_nothing_is_known(self):
        chosen = river(seed=0).recommend()
        assert (chosen.certificate.lower, chosen.certificate.upper) == (
            pytest.approx(0.0, abs=1.0),
            pytest.approx(8, abs=8),
        )
        assert river(seed=0).regret_certificate().upper == 0.0


def told(agent, first, steps, n_episodes):
    """Report episodes that earn 1 in each of so many steps, all in one state."""
    for _ in range(n_episodes):
        episode = agent.begin_episode()
        for h in range(steps):
            state = first if h == 0 else 1
            episode.observe(state, episode.act(state), 1.0, 1)
        episode.end()


class TestReturnsThatSayNothing:
    """State 0 pays nothing and state 1 pays 1, and nothing leads from one to the other; episodes start in 0."""

    def agent(self, **start):
        law = np.zeros((2, 1, 2))
        law[0, 0, 0] = law[1, 0, 1] = 1.0
        return MatrixRL(FiniteMDP(law, np.array([[0.0], [1.0]]), 5, **start), seed=0)

    def test_jumps_do_not_count(self):
        agent = self.agent()
        for _ in range(60):  # a jump from 0 to 1 without a transition
            episode = agent.begin_episode()
            episode.observe(0, 0, 0.0, 0)
            for _ in range(4):
                episode.observe(1, 0, 1.0, 1)
            episode.end()
        chosen = agent.recommend()
        assert chosen.certificate.lower == pytest.approx(0.0, abs=1e-9)
        assert "did not begin in the state" in agent.regret_certificate().guarantee.reason

    def test_episodes_that_were_ended_early(self):
        mdp = FiniteMDP(np.ones((1, 2, 1)), np.array([[0.0, -1.0]]), 10, reward_range=(-1.0, 0.0))
        agent = MatrixRL(mdp, seed=0)
        for _ in range(30):
            episode = agent.begin_episode()
            episode.observe(0, 1, -1.0, 0)
            episode.end()
        assert agent.regret_certificate().guarantee.reason == "an episode was ended before its last step"

    def test_a_random_start_is_kept_without_the_environment(self, tmp_path):
        agent = self.agent(start=np.array([0.5, 0.5]))
        agent.learn(33)
        assert agent.regret_certificate().guarantee
        agent.save(tmp_path / "a.npz")
        loaded = MatrixRL.load(tmp_path / "a.npz")
        assert loaded.regret_certificate() == agent.regret_certificate()
        told(loaded, 1, 5, 3)
        loaded.save(tmp_path / "b.npz")
        again = MatrixRL.load(tmp_path / "b.npz")
        assert again.n_episodes == 36
        assert again.recommend().certificate == loaded.recommend().certificate

    def test_an_episode_that_is_abandoned_after_its_random_first_state(self):
        agent = self.agent(start=np.array([0.5, 0.5]))
        agent.learn(5)
        agent.begin_episode().abandon()
        assert agent.regret_certificate().guarantee
        episode = agent.begin_episode()
        episode.act(0)
        episode.abandon()
        assert "random first state" in agent.regret_certificate().guarantee.reason

    def test_a_contradiction_is_remembered(self, tmp_path):
        """A table with rewards of one half, and every step pays 1: returns exceed the upper bound."""
        agent = MatrixRL(FiniteMDP(np.eye(2)[:, None], np.full((2, 1), 0.5), 5, start=1), seed=0)
        told(agent, 1, 5, 60)
        agent.recommend()
        agent.save(tmp_path / "a.npz")
        for one in (agent, MatrixRL.load(tmp_path / "a.npz")):
            for shown in (one.certificate(), one.recommend().certificate, one.regret_certificate()):
                assert "contradict" in shown.guarantee.reason
            assert one.regret_certificate().upper >= 0.0

    def test_learning_does_not_stop_on_a_gap_that_is_not_certified(self):
        mdp = tabular(n_states=3, n_actions=2, horizon=3, seed=0).mdp
        phi = np.ones((3, 2, 1))
        agent = MatrixRL(mdp, phi=phi, seed=0)
        assert agent.learn(30, until_gap=3.0).n_episodes == 30
        assert not agent.recommend().certificate.guarantee


class TestExploring:
    def test_a_new_purpose_makes_a_new_plan(self):
        agent = river(seed=0, switch_growth=50.0)
        agent.learn(30)
        plans = int(agent.algorithm.n_plans[0])
        agent.learn(2, explore_for="certificate")
        assert agent.algorithm.n_plans[0] > plans

    def test_a_file_saved_meanwhile_has_the_agent_s_own_setting(self, tmp_path):
        agent = river(seed=0)
        agent.learn(3, explore_for="certificate", callback=lambda _: agent.save(tmp_path / "a.npz"))
        loaded = MatrixRL.load(tmp_path / "a.npz")
        assert (loaded.settings.explore_for, loaded.algorithm.certifier.purpose) == ("regret", "regret")
        assert loaded.bound() == agent.bound()

    def test_a_tuned_agent_certifies_sooner(self):
        mdp = tabular(n_states=5, n_actions=3, n_successors=2, horizon=6, seed=3).mdp
        needed = {}
        for purpose in ("regret", "certificate"):
            agent = MatrixRL(mdp, seed=0, preset="tuned", explore_for=purpose)
            needed[purpose] = agent.learn(4000, until_gap=0.6).n_episodes
        assert needed["certificate"] < needed["regret"]
        assert agent.recommend().certificate.gap <= 0.6

    def test_learn_says_it_for_some_episodes(self):
        agent = river(seed=0)
        agent.learn(10)
        assert agent.guarantee
        agent.learn(5, explore_for="certificate")
        assert agent.settings.explore_for == "regret"
        assert agent.guarantee
        assert agent.bound().gaps > 0.0
        assert agent.certificate().guarantee

    def test_the_setting_is_no_proof_of_regret(self):
        agent = river(seed=0, explore_for="certificate")
        assert "not to earn" in agent.algorithm.guarantee.reason
        assert agent.algorithm.claims.regret_bound(10**9) is None
        agent.learn(40)
        assert agent.bound().gaps > 0.0  # so that it is a proof with these
        assert agent.guarantee

    def test_every_second_plan_tries_the_widest_action_that_may_be_the_best_at_one_stage(self):
        agent = river(seed=0, explore_for="certificate", compiled=False)
        agent.learn(9)
        algorithm = agent.algorithm
        stage = int(algorithm.n_plans[0] // 2) % 8
        belief = algorithm.model.bounds(algorithm.clock, "proven")[0]
        plan = algorithm.plan()
        assert algorithm.n_plans[0] == 10
        low_q, high_q = np.zeros((2, 8, 2, 3))
        low, high = np.zeros((2, 9, 3))
        for h in reversed(range(8)):
            high_q[h] = belief.q(None if h == 7 else high[None, h + 1])[0]
            low_q[h] = belief.q(None if h == 7 else low[None, h + 1], sign=-1.0)[0]
            high[h], low[h] = high_q[h].max(axis=0), low_q[h].max(axis=0)
        for h in range(8):
            for s in range(3):
                action = plan.policy[0, h, s]
                if h == stage:
                    wide = np.where(high_q[h, :, s] >= low[h, s], high_q[h, :, s] - low_q[h, :, s], -1.0)
                    assert wide[action] == wide.max()
                else:
                    assert high_q[h, action, s] == pytest.approx(high[h, s])

    @pytest.mark.parametrize("compiled", [True, False])
    def test_many_seeds_play_as_agents_do(self, compiled):
        from matrixrl import run_seeds

        together = run_seeds(
            "river-swim", n_episodes=12, seeds=[3, 1], explore_for="certificate", compiled=compiled, **RIVER
        )
        alone = river(seed=1, explore_for="certificate", compiled=compiled).learn(12)
        np.testing.assert_allclose(together.regret[1], alone.regret, atol=1e-9)

    def test_it_is_refused_where_nothing_is_certified(self):
        with pytest.raises(InvalidInput, match="explore_for must be left out for psrl"):
            Agent("river-swim", "psrl", seed=0).learn(1, explore_for="certificate")
        with pytest.raises(InvalidInput, match="explore_for must be 'regret' with sampled columns"):
            MatrixRL("soft-grid", columns=50, explore_for="certificate")
        with pytest.raises(InvalidInput, match="explore_for must be one of regret, certificate"):
            river(seed=0).learn(1, explore_for="fame")


@pytest.mark.parametrize(
    "change",
    [{"least_upper": "99"}, {"lower": 1}, {"basis": "magic"}, {"doubts": 1}, {"contradiction": False}, {"more": 1}],
    ids=str,
)
def test_impossible_bounds_in_a_file_are_refused(change, tmp_path):
    agent = river(seed=0)
    agent.learn(5)
    agent.recommend()
    agent.save(tmp_path / "a.npz")
    header, arrays = read_archive(tmp_path / "a.npz", "matrixrl-agent")
    header["certified"] |= change
    for name in ("format", "version"):
        header.pop(name)
    write_archive(tmp_path / "b.npz", "matrixrl-agent", header, arrays)
    with pytest.raises(CheckpointError, match=r"certified bounds|best policy must have"):
        MatrixRL.load(tmp_path / "b.npz")


@pytest.mark.parametrize("name", ["certified_best", "certified_frozen"])
def test_impossible_tables_in_a_file_are_refused(name, tmp_path):
    agent = river(seed=0)
    agent.learn(5)
    agent.recommend()
    agent.save(tmp_path / "a.npz")
    header, arrays = read_archive(tmp_path / "a.npz", "matrixrl-agent")
    arrays[name] = arrays[name] + arrays[name].dtype.type(7)
    for entry in ("format", "version"):
        header.pop(entry)
    write_archive(tmp_path / "b.npz", "matrixrl-agent", header, arrays)
    with pytest.raises(CheckpointError):
        MatrixRL.load(tmp_path / "b.npz")
