"""The sandwich in agents: replicas, switching, doubling, ask and tell, checkpoints, alarms and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from matrixrl import Agent, CheckpointError, FiniteMDP, InvalidInput, MatrixRL, evaluate, run_seeds, solve
from matrixrl.cli.main import app
from matrixrl.core import SandwichBounds
from matrixrl.core.sets import FrobeniusBall, NormalisedColumnBall, Sandwich, SandwichOrBall
from matrixrl.features import Features, OneHotPsi, TablePhi
from matrixrl.problems import tabular
from tolerances import ALGEBRA


def linear_mdp(seed=0, **changes):
    """Return a linear MDP with 10 states, unknown next-state measures and rewards linear in φ."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(3, 0.5), size=(10, 2))
    law = phi @ rng.dirichlet(np.full(10, 0.2), size=3)
    features = Features(TablePhi(phi), OneHotPsi(10))
    return FiniteMDP(law, phi @ rng.random(3), 4, features=features, **changes)


CASES = [
    {"set": "sandwich"},
    {"set": "sandwich-or-ball"},
    {"set": "sandwich-or-ball", "known_reward": False},
    {"set": "sandwich", "switch_growth": 0.5},
    {"set": "sandwich-or-ball", "keep_data": False},
    {"set": "sandwich", "keep_data": True, "ties": "estimate", "exploration": 0.3},
    {"set": "sandwich", "ties": "estimate", "exploration": 0.3},
    {"set": "sandwich", "radius": "self-normalised"},
    {"set": "sandwich", "preset": "tuned"},
]


def named(settings):
    return "doubling-matrix-rl" if "keep_data" in settings else "matrix-rl"


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_replicas_together_are_those_one_by_one(settings):
    settings = {"agent": named(settings), **settings}
    together = run_seeds(linear_mdp(), n_episodes=20, seeds=[3, 1], certify=True, **settings)
    for i, seed in enumerate([3, 1]):
        alone = run_seeds(linear_mdp(), n_episodes=20, seeds=[seed], certify=True, **settings)
        np.testing.assert_allclose(alone.regret[0], together.regret[i], atol=ALGEBRA)
        np.testing.assert_allclose(alone.upper[0], together.upper[i], atol=ALGEBRA)
        np.testing.assert_allclose(alone.certified[0], together.certified[i], atol=ALGEBRA)
        assert alone.certificate[0].optimal_lower == pytest.approx(together.certificate[i].optimal_lower)
    shown = together.mean_certificate()
    assert shown.optimal_lower == pytest.approx(np.mean([c.optimal_lower for c in together.certificate]))
    assert shown.as_dict()["optimal_interval"] == list(shown.optimal_interval)


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_a_saved_agent_goes_on_bit_for_bit(settings, tmp_path):
    agent = Agent(linear_mdp(), named(settings), seed=0, **settings)
    agent.learn(9)
    agent.save(tmp_path / "agent.mrl")
    loaded = Agent.load(tmp_path / "agent.mrl", env=linear_mdp())
    assert loaded.certificate() == agent.certificate()
    np.testing.assert_array_equal(agent.learn(9).upper, loaded.learn(9).upper)
    assert loaded.certificate() == agent.certificate()


def test_an_object_is_saved_by_class_and_parameters(tmp_path):
    agent = MatrixRL(linear_mdp(), seed=0, set=SandwichOrBall(NormalisedColumnBall()))
    agent.learn(5)
    assert agent.guarantee
    agent.save(tmp_path / "agent.mrl")
    loaded = MatrixRL.load(tmp_path / "agent.mrl", env=linear_mdp(), set=SandwichOrBall(NormalisedColumnBall()))
    assert loaded.certificate() == agent.certificate()
    with pytest.raises(CheckpointError):
        MatrixRL.load(tmp_path / "agent.mrl", env=linear_mdp(), set=SandwichOrBall())


def test_ask_and_tell_gives_both_intervals():
    mdp, rng = linear_mdp(), np.random.default_rng(0)
    agent = MatrixRL(mdp, seed=0, set="sandwich-or-ball")
    for _ in range(60):
        episode, state = agent.begin_episode(), 0
        while not episode.is_finished:
            action = episode.act(state)
            following = int(mdp.transitions.sample(np.array([state]), np.array([action]), rng.random(1))[0])
            episode.observe(state, action, float(mdp.task.reward[state, action]), following)
            state = following
        episode.end()
    shown, best = agent.certificate(), solve(mdp).start_value
    value = evaluate(mdp, agent.policy.table.astype(int))[0, 0]
    low, high = shown.optimal_interval
    assert shown.lower <= value <= best <= shown.upper == high
    assert shown.lower < low <= best
    assert shown.guarantee
    assert shown.gap == shown.upper - shown.lower > high - low


def test_an_episode_that_ends_early_and_rewards_in_their_own_unit():
    mdp = linear_mdp()
    scaled = FiniteMDP(mdp.transitions, mdp.task.reward * 20 - 10, 4, features=mdp.features, reward_range=(-10.0, 10.0))
    one, two = (MatrixRL(problem, seed=0, set="sandwich") for problem in (mdp, scaled))
    one.learn(20), two.learn(20)
    for name in ("upper", "lower", "optimal_lower"):
        assert getattr(two.certificate(), name) == pytest.approx(20 * getattr(one.certificate(), name) - 40)


@pytest.mark.parametrize("kind", ["sandwich", "sandwich-or-ball"])
def test_one_hot_pairs_and_kernels_are_features_too(kind):
    for agent, env in (("matrix-rl", tabular(n_states=4, horizon=4).mdp), ("kernel-matrix-rl", "river-swim")):
        sizes = {"n_states": 4, "horizon": 5} if env == "river-swim" else None
        result = run_seeds(env, agent=agent, n_episodes=60, seeds=2, set=kind, env_settings=sizes)
        assert result.guarantee
        assert (result.upper >= result.optimal_value - ALGEBRA).all()
        for shown in result.certificate:
            assert shown.lower <= shown.optimal_interval[0] <= result.optimal_value <= shown.upper


def test_wrong_features_raise_the_alarm():
    """All pairs of an action share one feature vector, and the laws of the states differ: P is not linear in φ."""
    world = tabular(n_states=4, n_actions=2, horizon=6, seed=0).mdp
    phi = np.ones((4, 2, 2)) * [1.0, 0.0]
    phi[:, 1] = [2.0, 0.0]
    wrong = FiniteMDP(world.transitions, world.task.reward, 6, features=Features(TablePhi(phi), OneHotPsi(4)))
    agent = MatrixRL(wrong, seed=0, set="sandwich", c_core=1.0)
    agent.learn(300)
    assert "alarm" in agent.certificate().guarantee.reason
    assert not MatrixRL(wrong, seed=0, set="sandwich").guarantee


def test_a_bound_outside_the_range_of_v_star_counts_as_a_contradiction():
    agent = MatrixRL(linear_mdp(), seed=0, set="sandwich", ridge=1e-3)
    agent.learn(3)
    honest = agent.algorithm.model.bounds(agent.algorithm.clock, "agent")[0]
    none = np.zeros_like(honest.half_width)
    shrunk = SandwichBounds(honest.ball, False, none, none)
    tuned = SandwichBounds(honest.ball, False, none, honest.alarm_half_width)
    signed = agent.algorithm.problem.features.phi.flat @ agent.algorithm.model.core_matrix()[0]
    values = (signed[signed.clip(max=0.0).sum(axis=1).argmin()] < 0.0)[None].astype(float)
    assert (signed @ values[0]).min() < -0.05  # p̂ is signed, so without a radius it leaves the range of the values
    assert shrunk.optimal_q(values, values).contradicted[0] > 0
    assert honest.optimal_q(values, values).contradicted[0] == 0
    assert tuned.optimal_q(values, values).contradicted[0] == 0  # a small radius of the agent contradicts nothing


@pytest.mark.parametrize(
    ("env", "settings", "words"),
    [
        ("linear-mdp", {"set": "sandwich"}, "set must be a ball for these features: 'sandwich' needs one-hot ψ"),
        (linear_mdp(), {"set": Sandwich(), "columns": 5}, "columns must be left out with the set 'sandwich'"),
        (linear_mdp(), {"set": "sandwitch"}, "sandwich-or-ball"),
    ],
    ids=["psi", "columns", "name"],
)
def test_what_is_refused(env, settings, words):
    with pytest.raises(InvalidInput, match=words):
        MatrixRL(env, **settings)


def test_the_ball_of_a_sandwich_must_be_normalised():
    with pytest.raises(InvalidInput, match="ball must be normalised"):
        Sandwich(FrobeniusBall())


def test_a_subclass_with_another_ball_bound_claims_nothing():
    class Own(NormalisedColumnBall):
        def split(self, v):
            return super().split(v)

    agent = MatrixRL(linear_mdp(), set=Sandwich(Own()))
    assert agent.guarantee.reason == "the confidence set declares no proof"
    assert agent.algorithm.claims.regret_bound(10**9) is None


def test_they_are_listed():
    shown = CliRunner().invoke(app, ["list", "sets"]).output
    assert "sandwich" in shown
    assert "sandwich-or-ball" in shown
