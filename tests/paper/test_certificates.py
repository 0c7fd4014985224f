"""docs/proofs.md, 6: with probability 1 − δ, V_low <= V^π(s0) and V*(s0) <= V_opt, at all times."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from matrixrl import FiniteMDP, InvalidInput, MatrixRL, evaluate, make, run_seeds, solve
from matrixrl.core import SETS
from matrixrl.problems import low_rank, tabular
from matrixrl.records import Plan

WORLDS = {
    "tabular": lambda seed: tabular(n_states=4, n_actions=2, horizon=4, seed=seed).mdp,
    "low rank": lambda seed: low_rank(n_states=15, n_actions=3, d=3, horizon=4, seed=seed).mdp,
}
OF_THE_AGENT = [{}, {"preset": "tuned"}, {"known_reward": False}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *[(name, {**more, "set": "normalised"}) for name in WORLDS for more in OF_THE_AGENT],
        *[("tabular", {**more, "set": "tightest", "compiled": True}) for more in OF_THE_AGENT],
    ],
    ids=str,
)
def test_the_truth_is_inside_as_often_as_promised(name, settings):
    """3 worlds × 32 seeds × every one of 60 episodes, δ = 0.2 (chance of a false alarm below 1e-6)."""
    misses = runs = 0
    for seed in range(3):
        mdp = WORLDS[name](seed)
        result = run_seeds(mdp, n_episodes=60, seeds=32, delta=0.2, certify=True, **settings)
        value = result.optimal_value - result.regret  # V^π of every episode
        lower, upper = result.certified[:, :, 0], result.certified[:, :, 1]
        inside = (lower <= value + 1e-9) & (result.optimal_value <= upper + 1e-9)
        misses += int((~inside.all(axis=1)).sum())
        runs += 32
    assert binom.sf(misses - 1, runs, 0.2) > 1e-6


@pytest.mark.parametrize("kind", SETS)
def test_every_set_gives_a_certificate_around_the_truth(kind):
    agent = MatrixRL(make("linear-mdp", n_states=30, d=3, horizon=4), seed=0, set=kind)
    agent.learn(30)
    mdp = agent.problem.mdp
    shown = agent.certificate()
    truth = evaluate(mdp, agent.policy.table.astype(int))[0, 0]
    assert shown.lower <= truth <= solve(mdp).start_value <= shown.upper
    assert shown.gap == shown.upper - shown.lower >= 0
    assert shown.delta == 0.05
    assert shown.guarantee


@pytest.mark.parametrize("known_reward", [True, False])
def test_the_certificate_number_by_number(known_reward):
    """Two states, two actions, H = 2, counted by hand: the radius of each pair at its share of δ, both backups."""
    transitions = np.array([[[0.7, 0.3], [0.2, 0.8]], [[0.5, 0.5], [0.9, 0.1]]])
    reward, delta = np.array([[0.1, 0.3], [0.9, 0.6]]), 0.1
    settings = {"set": "normalised", "delta": delta, "known_reward": known_reward}
    agent = MatrixRL(FiniteMDP(transitions, reward, 2), seed=0, **settings)
    counts, paid = np.zeros((2, 2, 2)), np.zeros((2, 2))
    rng = np.random.default_rng(0)
    for _ in range(800):
        episode, state = agent.begin_episode(), 0
        while not episode.is_finished:
            action = episode.act(state)
            following = int(rng.random() < transitions[state, action, 1])
            episode.observe(state, action, float(reward[state, action]), following)
            counts[state, action, following] += 1
            paid[state, action] += reward[state, action]
            state = following
        episode.end()
    n = counts.sum(axis=2)
    share = delta if known_reward else delta / 2

    def radius(scale):
        return 1 / np.sqrt(1 + n) + (n > 0) * scale * np.sqrt(2 * np.log(4 / share) + np.log(1 + n))

    mean, slack, half = counts / (1 + n)[:, :, None], 1 / (1 + n), paid / (1 + n)
    reach = np.sqrt(radius(np.sqrt(0.5)) ** 2 / (1 + n) - slack**2 / 2)
    margin = np.zeros((2, 2)) if known_reward else radius(0.5) / np.sqrt(1 + n)
    most = reward if known_reward else np.clip(half + margin, 0, 1)
    least = reward if known_reward else np.clip(half - margin, 0, 1)

    def bound(values, sign):  # α + p̂(V − α) ± ‖V − α‖ reach, within the range of V
        alpha = values.mean()
        inner = alpha + mean @ (values - alpha) + sign * np.linalg.norm(values - alpha) * reach
        return np.clip(inner, values.min(), values.max())

    shown, policy = agent.certificate(), agent.policy.table.astype(int)
    upper = (most + bound(most.max(axis=1), 1.0))[0].max()
    at_end = least[[0, 1], policy[1]]
    lower = (least + bound(at_end, -1.0))[0, policy[0, 0]]
    assert shown.upper == pytest.approx(upper, abs=1e-9)
    assert shown.lower == pytest.approx(lower, abs=1e-9)
    assert 0.05 < shown.gap < 1.0


def test_the_gap_closes_and_learning_stops_on_it():
    agent = MatrixRL(make("linear-mdp", n_states=40, d=3, horizon=5), seed=0)
    wide = agent.certificate().gap
    target = wide / 4
    history = agent.learn(5000, until_gap=target)
    assert history.n_episodes < 5000
    assert agent.recommend().certificate.gap <= target
    with pytest.raises(InvalidInput, match="until_gap must be finite"):
        agent.learn(5, until_gap=-1.0)


def test_callbacks_see_certificates_only_if_asked_for():
    agent, seen = MatrixRL(make("river-swim", n_states=3, horizon=4), seed=0), []
    agent.learn(3, callback=lambda e: seen.append(e.certificate))
    agent.learn(3, callback=lambda e: seen.append(e.certificate), certify=True)
    assert seen[:3] == [None] * 3
    assert all(c.lower <= c.upper for c in seen[3:])
    assert np.isnan(agent.history.certified[:3]).all()
    assert np.isfinite(agent.history.certified[3:]).all()


def test_a_certificate_in_the_environments_own_unit():
    base = tabular(n_states=4, n_actions=2, horizon=5, seed=3).mdp
    scaled = FiniteMDP(base.transitions, base.task.reward * 20 - 10, 5, reward_range=(-10.0, 10.0))
    one, two = MatrixRL(base, seed=0), MatrixRL(scaled, seed=0)
    one.learn(40), two.learn(40)
    assert two.certificate().upper == pytest.approx(20 * one.certificate().upper - 50)
    assert two.certificate().lower == pytest.approx(20 * one.certificate().lower - 50)


def test_it_changes_nothing_of_the_run():
    plain = run_seeds("river-swim", n_episodes=20, seeds=2)
    certified = run_seeds("river-swim", n_episodes=20, seeds=2, certify=True)
    np.testing.assert_array_equal(plain.regret, certified.regret)
    assert np.isnan(plain.certified).all()


def test_during_an_episode_it_is_about_the_policy_being_played():
    agent = MatrixRL(make("river-swim", n_states=3, horizon=4), seed=0)
    agent.learn(10)
    episode = agent.begin_episode()
    playing = agent.algorithm.policy_table(episode.data.plan)[0].astype(int)
    shown = agent.certificate()
    assert shown.lower <= evaluate(agent.problem.mdp, playing)[0, 0] <= shown.upper


def test_an_alarm_takes_the_guarantee_away():
    from matrixrl.features import Features, OneHotPsi, TablePhi

    world = tabular(n_states=4, n_actions=2, horizon=6, seed=0).mdp
    phi = np.ones((4, 2, 2)) * [1.0, 0.0]
    phi[:, 1] = [2.0, 0.0]
    wrong = FiniteMDP(world.transitions, world.task.reward, 6, features=Features(TablePhi(phi), OneHotPsi(4)))
    agent = MatrixRL(wrong, seed=0, c_core=1.0)
    agent.learn(300)
    assert "alarm" in agent.certificate().guarantee.reason


@pytest.mark.slow
def test_the_lower_bound_is_of_the_policy_that_was_asked_about():
    """Any policy, also a bad one: below its own value, not that of the best action."""
    agent = MatrixRL(make("linear-mdp", n_states=30, d=3, horizon=4), seed=0)
    agent.learn(600)
    mdp = agent.problem.mdp
    worst = np.zeros((4, 30), dtype=int)
    values = np.zeros(30)
    for h in reversed(range(4)):
        q = mdp.task.reward + mdp.transitions.expect(values[None])[0].T
        worst[h] = q.argmin(axis=1)
        values = q.min(axis=1)
    lower = agent.algorithm.certifier.certify(Plan(worst[None], np.zeros((1, 5, 30)), np.zeros(1))).lower
    truth = evaluate(mdp, worst)[0, 0]
    assert truth - 0.3 < lower[0] <= truth
    assert lower[0] < agent.certificate().lower
