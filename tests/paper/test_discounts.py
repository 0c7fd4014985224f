"""Discounted rewards (docs/proofs.md, section 16): the same backups with γV, and a tail for problems without an end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrixrl import FiniteMDP, MatrixRL, evaluate, run_seeds, solve
from matrixrl.algorithms import UCMatrixRL
from matrixrl.problems import Problem, endless_values
from matrixrl.problems.task import effective_horizon, total_weight
from matrixrl.records import Steps

EXACT = {"rtol": 1e-12, "atol": 1e-12}


def law(seed=0, n_states=3, n_actions=2):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(n_states, 0.7), size=(n_states, n_actions)), rng.random((n_states, n_actions))


@given(st.integers(0, 10_000), st.floats(0.05, 1.0), st.integers(1, 8))
def test_the_optimum_is_that_of_rewards_that_shrink_with_the_stage(seed, gamma, horizon):
    """The identity Σ γ^h r_h = Σ r'_h with r'_h = γ^h r_h, an undiscounted problem with a reward for each stage."""
    table, reward = law(seed)
    found = solve(FiniteMDP(table, reward, horizon, discount=gamma))
    shrinking = np.stack([gamma**h * reward for h in range(horizon)])
    wanted = solve(FiniteMDP(table, shrinking, horizon) if horizon > 1 else FiniteMDP(table, reward, 1))
    weights = gamma ** np.arange(horizon + 1.0)
    np.testing.assert_allclose(weights[:, None] * found.values, wanted.values, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("known_set", ["tightest", "likelihood", "normalised"])
def test_plans_are_those_of_rewards_that_shrink_with_the_stage(known_set, compiled):
    """With the same data, V_h of a discounted plan times γ^h is V_h of the plan with shrinking rewards and one law."""
    gamma, horizon, rng = 0.8, 5, np.random.default_rng(0)
    table, reward = law()
    settings = {"set": known_set, "delta": 0.1}
    plain = FiniteMDP(table, reward, horizon, discount=gamma)
    staged = FiniteMDP([table] * horizon, np.stack([gamma**h * reward for h in range(horizon)]), horizon)
    shared = np.tile(np.eye(6).reshape(3, 2, 6), (1, horizon, 1))
    one = MatrixRL(plain, phi=np.eye(6).reshape(3, 2, 6), seed=0, compiled=compiled, **settings).algorithm
    other = MatrixRL(staged, phi=shared, seed=0, compiled=compiled, **settings).algorithm
    for _ in range(30):
        states = rng.integers(3, size=(1, horizon + 1))
        actions = rng.integers(2, size=(1, horizon))
        arrays = states[:, :-1], actions, np.zeros((1, horizon)), states[:, 1:]
        one.update(Steps.of(*arrays))
        other.update(Steps.of(arrays[0], staged.stages.inner(actions, np.arange(horizon)[None]), *arrays[2:]))
    weights = gamma ** np.arange(horizon + 1.0)[:, None]
    ours, theirs = one.plan(), other.plan()
    np.testing.assert_allclose(weights * ours.values[0], theirs.values[0], atol=1e-7)
    low, lower = (a.certifier.certify(p).lower[0] for a, p in ((one, ours), (other, theirs)))
    assert low == pytest.approx(lower, abs=1e-6)


def test_values_without_an_end_solve_the_equation_of_the_optimum():
    table, reward = law(4, n_states=6, n_actions=3)
    mdp = FiniteMDP(table, reward, discount=0.9)
    values = endless_values(mdp)
    np.testing.assert_allclose(values, (reward + 0.9 * table @ values).max(axis=1), rtol=1e-11)
    by_iteration = np.zeros(6)
    for _ in range(600):
        by_iteration = (reward + 0.9 * table @ by_iteration).max(axis=1)
    np.testing.assert_allclose(values, by_iteration, atol=1e-10)
    assert solve(mdp).start_value == pytest.approx(values[0])


def test_one_state_is_worth_the_geometric_series():
    mdp = FiniteMDP([[[1.0]]], [[0.5]], discount=0.75)
    assert solve(mdp).start_value == pytest.approx(2.0)
    assert evaluate(mdp, np.zeros((mdp.horizon, 1), dtype=int))[0, 0] == pytest.approx(
        0.5 * total_weight(0.75, mdp.horizon)
    )


@given(st.floats(0.01, 0.999), st.floats(1e-6, 0.5))
def test_the_effective_horizon_is_the_smallest_that_cuts_off_so_little(gamma, accuracy):
    horizon = effective_horizon(gamma, accuracy)
    assert gamma**horizon <= accuracy * (1.0 + 1e-9)
    assert horizon == 1 or gamma ** (horizon - 1) > accuracy * (1.0 - 1e-9)


@given(st.floats(0.01, 1.0), st.integers(1, 50))
def test_the_total_weight_is_the_sum_of_powers(gamma, n):
    assert total_weight(gamma, n) == pytest.approx(float(np.sum(gamma ** np.arange(n))), rel=1e-9)


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_certificates_hold_for_infinitely_many_steps(low):
    """With accuracy 0.3 the plan of the cut episode alone is below V*: the tail makes the bound hold."""
    table, reward = law(2)
    mdp = FiniteMDP(table, (1.0 - low) * reward + low, discount=0.7, accuracy=0.3, reward_range=(low, 1.0))
    assert mdp.horizon == 4
    result = run_seeds(mdp, n_episodes=4000, seeds=[3], certify=True, compiled=True)
    best = solve(mdp).start_value
    assert best == pytest.approx(endless_values(mdp)[0])
    lower, upper = result.certified[0].T
    cut = (1.0 - low) * mdp.task.tail
    assert (upper >= best).all()
    assert (result.upper[0] >= best).all()
    assert upper[-1] - cut < best, "the data are too few for this test to mean anything"
    assert (lower <= best - result.regret[0] + 1e-9).all()
    assert (result.regret >= 0.0).all()
    first = run_seeds(mdp, n_episodes=150, seeds=[3], certify=True, compiled=False)
    np.testing.assert_allclose(first.certified, result.certified[:, :150], atol=1e-6)
    np.testing.assert_allclose(first.upper, result.upper[:, :150], atol=1e-6)


@pytest.mark.parametrize("name", ["tightest", "normalised"])
def test_compiled_episodes_are_those_of_numpy(name):
    table, reward = law(5)
    mdp = FiniteMDP(table, reward, 6, discount=0.6)
    one, other = (run_seeds(mdp, n_episodes=60, seeds=2, set=name, compiled=compiled) for compiled in (True, False))
    np.testing.assert_allclose(one.returns, other.returns, rtol=1e-12)
    np.testing.assert_allclose(one.regret, other.regret, atol=1e-10)
    assert one.returns.max() <= total_weight(0.6, 6)


def test_regret_is_that_of_playing_on_with_the_smallest_rewards():
    """V*(∞) − V^π(H steps) − γ^H/(1 − γ) times the smallest reward, from its definition."""
    table, reward = law(1)
    mdp = FiniteMDP(table, 2.0 * reward - 1.0, discount=0.6, accuracy=0.2, reward_range=(-1.0, 1.0))
    agent = MatrixRL(mdp, seed=0)
    history = agent.learn(1)
    worst = FiniteMDP(table, 2.0 * reward - 1.0, mdp.horizon, discount=0.6, reward_range=(-1.0, 1.0))
    plan = MatrixRL(mdp, seed=0).algorithm.plan()
    played = float(evaluate(worst, plan.policy[0])[0, 0]) - 0.6**mdp.horizon / 0.4
    assert history.regret[0] == pytest.approx(endless_values(mdp)[0] - played)


@pytest.mark.parametrize("endless", [True, False])
def test_returns_and_the_bounds_from_them_are_discounted(endless):
    table, reward = law(6)
    mdp = FiniteMDP(table, reward, None if endless else 6, discount=0.8, accuracy=0.1)
    agent = MatrixRL(mdp, seed=0)
    agent.learn(500)
    log, history = agent._seen.all()[0], agent.history
    weights = 0.8 ** np.arange(mdp.horizon)
    np.testing.assert_allclose(history.returns, log.rewards.reshape(500, -1) @ weights)
    certified, best = agent.recommend().certificate, solve(mdp).start_value
    assert certified.lower <= best <= certified.upper
    assert agent.regret_certificate().upper >= history.cumulative_regret[-1]
    frozen = agent._ledger.returns.best()
    assert frozen is not None
    assert frozen[0] <= best


def test_the_regret_bound_allows_for_what_is_cut_off():
    table, reward = law()
    endless = FiniteMDP(table, reward, discount=0.5, accuracy=0.2)
    ended = FiniteMDP(table, reward, endless.horizon, discount=0.5)
    bounds = [UCMatrixRL().start(Problem.of(mdp), [0]).claims.regret_bound(10) for mdp in (endless, ended)]
    assert bounds[0] - bounds[1] == pytest.approx(10 * 0.5**endless.horizon / 0.5)


def test_comparisons_of_policies_without_an_end_hold_for_all_that_may_follow():
    table, reward = law(8)
    mdp = FiniteMDP(table, reward, discount=0.7, accuracy=0.3)
    agent = MatrixRL(mdp, seed=0)
    agent.learn(2000)
    one, other = np.zeros((mdp.horizon, 3), dtype=int), np.ones((mdp.horizon, 3), dtype=int)
    found, tail = agent.compare(one, other), mdp.task.tail
    difference = float((evaluate(mdp, one) - evaluate(mdp, other))[0, 0])
    assert found.lower <= difference - tail
    assert found.upper >= difference + tail
