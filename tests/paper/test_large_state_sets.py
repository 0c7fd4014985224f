"""YW19 section 3, implementation: random columns for ΨᵀV and K_ψ, and Q only where it is asked."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, stats

from matrixrl import InvalidInput, MatrixRL, make, run_seeds
from matrixrl.algorithms.matrix_rl.sampled import SampledMatrixRL
from matrixrl.core import SETS
from matrixrl.core.models.sampled import column_sampler, inclusion_probabilities
from matrixrl.features import FunctionPhi, SparsePsi, TablePhi, TablePsi
from matrixrl.problems import low_rank
from tolerances import ALGEBRA

WORLD = low_rank(n_states=40, n_actions=3, d=4, d_psi=3, horizon=5, seed=0)
PSI = WORLD.features.psi.table


@pytest.mark.parametrize("weights", ["norm", "uniform"])
def test_sampled_columns_estimate_psi_v_and_the_gram_without_bias(weights):
    """The mean of 4,000 draws against the truth, each entry at 5 standard errors (chance of failing 1e-5)."""
    rng = np.random.default_rng(0)
    values = rng.random(40)
    draw = column_sampler(weights, 8, 40, WORLD.features.psi.norms_sq)
    found = []
    for _ in range(4000):
        c = draw(rng)
        assert len(c.states) == len(c.weights) == 8
        rows = PSI[c.states]
        weighted = rows * c.weights[:, None]
        found.append(np.concatenate([weighted.T @ values[c.states], (weighted.T @ rows).ravel()]))
    truth = np.concatenate([PSI.T @ values, (PSI.T @ PSI).ravel()])
    error = np.mean(found, axis=0) - truth
    assert (np.abs(error) <= 5.0 * np.std(found, axis=0) / np.sqrt(4000)).all()
    assert np.std(found, axis=0).max() > 1e-3  # the draws do differ


@pytest.mark.parametrize("weights", ["norm", "uniform"])
@pytest.mark.parametrize("m", [40, 1000])
def test_at_full_rate_every_state_is_taken_once(weights, m):
    c = column_sampler(weights, m, 40, WORLD.features.psi.norms_sq)(np.random.default_rng(0))
    np.testing.assert_array_equal(c.states, np.arange(40))
    np.testing.assert_array_equal(c.weights, np.ones(40))
    assert c.is_all


def test_states_are_drawn_in_proportion_to_the_squared_norm_and_large_ones_always():
    sizes = np.array([0.0, 1.0, 2.0, 3.0, 100.0])
    chance = inclusion_probabilities(sizes, 3)
    np.testing.assert_allclose(chance, [0.0, 1 / 3, 2 / 3, 1.0, 1.0])
    draw = column_sampler("norm", 3, 5, lambda: sizes)
    counts = np.zeros(5)
    rng = np.random.default_rng(1)
    for _ in range(6000):
        np.add.at(counts, draw(rng).states, 1)
    assert counts[0] == 0
    assert counts[3] == counts[4] == 6000
    assert stats.binomtest(int(counts[1]), 6000, 1 / 3).pvalue > 1e-4


@pytest.mark.parametrize("weights", ["norm", "uniform"])
def test_the_error_falls_with_the_number_of_columns(weights):
    """Stratified draws: sixteen times as many columns, at least four times less error (1/√m)."""
    psi = np.random.default_rng(5).random((4096, 4)) * np.linspace(0.2, 2.0, 4096)[:, None]
    values = np.random.default_rng(6).random(4096)
    truth, sizes, errors = psi.T @ values, np.vecdot(psi, psi), []
    for m in (32, 512):
        draw, rng = column_sampler(weights, m, 4096, lambda: sizes), np.random.default_rng(2)
        runs = [draw(rng) for _ in range(200)]
        off = [(psi[c.states] * c.weights[:, None]).T @ values[c.states] - truth for c in runs]
        errors.append(np.sqrt(np.mean(np.square(off))))
    assert errors[1] < errors[0] / 3.4  # 4 in expectation


def test_weights_of_next_states_need_all_states():
    with pytest.raises(InvalidInput, match="set must be another one for sampled columns"):
        run_seeds(WORLD.mdp, n_episodes=4, seeds=1, columns=40, set="weighted")


@pytest.mark.parametrize("kind", [name for name in SETS if name != "weighted"])
@pytest.mark.parametrize("known", [True, False])
def test_all_columns_are_ordinary_planning(kind, known):
    """The lazy route, Q where it is asked from values at columns, against the table of all pairs; the whole run."""
    settings = {"preset": "optimistic", "set": kind, "known_reward": known, "exploration": 0.3}
    full = run_seeds(WORLD.mdp, n_episodes=25, seeds=3, certify=True, **settings)
    lazy = run_seeds(WORLD.mdp, n_episodes=25, seeds=3, certify=True, columns=40, **settings)
    np.testing.assert_allclose(lazy.regret, full.regret, atol=ALGEBRA)
    np.testing.assert_allclose(lazy.upper, full.upper, atol=1e-8)
    np.testing.assert_allclose(lazy.certified, full.certified, atol=1e-8)
    assert lazy.settings_guarantee == full.settings_guarantee


@pytest.mark.parametrize("changes", [{}, {"switch_growth": 0.5}], ids=str)
def test_all_columns_are_ordinary_planning_with_every_schedule(changes):
    settings = {"preset": "optimistic", "radius": "theorem", "exploration": 0.1, **changes}
    full = run_seeds(WORLD.mdp, n_episodes=40, seeds=2, **settings)
    lazy = run_seeds(WORLD.mdp, n_episodes=40, seeds=2, columns=40, **settings)
    np.testing.assert_allclose(lazy.regret, full.regret, atol=ALGEBRA)
    assert lazy.n_plans == full.n_plans


def test_epochs_that_double_have_all_columns():
    with pytest.raises(InvalidInput, match="columns must be left out with doubling"):
        run_seeds(WORLD.mdp, agent="doubling-matrix-rl", n_episodes=4, seeds=2, columns=40)


def test_features_in_blocks_keep_their_radii_when_queried():
    """φ = action ⊗ state features falls into one block for each action."""
    world = low_rank(n_states=30, n_actions=3, d=3, horizon=4, seed=2)
    table = world.features.phi.table
    blocked = np.zeros((30, 3, 9))
    for a in range(3):
        blocked[:, a, 3 * a : 3 * a + 3] = table[:, a]
    chosen = {"preset": "optimistic", "set": "normalised", "ties": "random", "seed": 0}
    full, lazy = MatrixRL(world.mdp, phi=blocked, **chosen), MatrixRL(world.mdp, phi=blocked, columns=30, **chosen)
    np.testing.assert_allclose(full.learn(30).upper, lazy.learn(30).upper, atol=1e-8)
    assert lazy.algorithm.model.confidence.blocks.count == 3


def test_an_end_state_is_always_among_the_columns():
    """FrozenLake with an end state, in dense features of full rank so that columns can be sampled."""
    env = make("gym:FrozenLake-v1", horizon=10)
    rng = np.random.default_rng(0)
    phi = np.linalg.qr(rng.standard_normal((17 * 4, 17 * 4)))[0].reshape(17, 4, -1)
    full = MatrixRL(env, phi=phi, seed=1, preset="tuned").learn(30)
    lazy = MatrixRL(make("gym:FrozenLake-v1", horizon=10), phi=phi, seed=1, preset="tuned", columns=17).learn(30)
    np.testing.assert_allclose(lazy.regret, full.regret, atol=ALGEBRA)
    few = MatrixRL(env, phi=phi, psi=np.ones((17, 1)), seed=1, columns=3)
    assert 16 in few.algorithm.state()["columns_0"]
    few.learn(3)
    assert 16 in few.algorithm.state()["columns_0"]


@pytest.mark.slow
def test_fewer_columns_learn_almost_as_well_and_say_that_bounds_are_estimates():
    given = {"n_episodes": 60, "seeds": 2, "env_settings": {"side": 20}, "preset": "tuned"}
    full, few = run_seeds("soft-grid", **given), run_seeds("soft-grid", **given, columns=150)
    assert few.final_regret.mean() < 1.5 * full.final_regret.mean()
    assert "150 sampled columns" in str(few.settings_guarantee)
    assert "150 sampled columns" in few.certificate[0].guarantee.reason


def test_fixed_columns_stay_and_resampled_ones_change():
    seen = {}
    for kind in ("fixed", "resampled"):
        agent = MatrixRL(WORLD.mdp, seed=0, columns=10, column_draw=kind)
        first = agent.algorithm.state()["columns_0"].copy()
        agent.learn(3)
        seen[kind] = np.array_equal(first, agent.algorithm.state()["columns_0"])
    assert seen == {"fixed": True, "resampled": False}


def test_sparse_psi_is_the_dense_one():
    rng = np.random.default_rng(0)
    table = rng.standard_normal((30, 5)) * (rng.random((30, 5)) < 0.4) + np.eye(30, 5)
    dense, thin = TablePsi(table), SparsePsi(sparse.coo_array(table))
    values, moments = rng.random((2, 30)), rng.random((2, 4, 5))
    np.testing.assert_allclose(thin.project(values), dense.project(values), atol=ALGEBRA)
    np.testing.assert_allclose(thin.solve_gram(moments), dense.solve_gram(moments), atol=ALGEBRA)
    np.testing.assert_allclose(thin.rows(np.array([[3, 1]])), table[[[3, 1]]], atol=0)
    for name in ("total", "dual_norm", "noise_scale", "c_psi", "c_psi_is_exact", "c_psi_max_norm"):
        np.testing.assert_allclose(getattr(thin.constants, name), getattr(dense.constants, name), atol=ALGEBRA)
    positive = np.abs(table)
    assert SparsePsi(sparse.csr_array(positive)).constants.c_psi == pytest.approx(TablePsi(positive).constants.c_psi)
    assert SparsePsi(sparse.csr_array(positive)).constants.c_psi_is_exact


def test_learning_with_sparse_psi_and_functions_is_learning_with_tables():
    features = WORLD.features
    table = features.phi.table
    function = FunctionPhi(lambda states: table[states], n_states=40, n_actions=3)
    rng = np.random.default_rng(0)
    weights, pairs = rng.random((2, 4)), rng.integers(0, 120, (2, 7))
    np.testing.assert_allclose(function.dot(weights), features.phi.dot(weights), atol=ALGEBRA)
    np.testing.assert_allclose(function.rows(pairs), features.phi.rows(pairs), atol=0)
    for columns in (None, 15):
        usual = MatrixRL(WORLD.mdp, seed=3, columns=columns).learn(20)
        other = MatrixRL(WORLD.mdp, phi=function, psi=sparse.csr_array(PSI), seed=3, columns=columns).learn(20)
        np.testing.assert_allclose(other.regret, usual.regret, atol=ALGEBRA)
        np.testing.assert_allclose(other.upper, usual.upper, atol=1e-8)


def test_a_long_function_is_multiplied_in_chunks(monkeypatch):
    monkeypatch.setattr("matrixrl.features.phi._SMALL_TABLE", 0)
    monkeypatch.setattr("matrixrl.features.phi._CHUNK", 7)
    table = WORLD.features.phi.table
    function = FunctionPhi(lambda states: table[states], n_states=40, n_actions=3)
    weights = np.random.default_rng(0).random((2, 4))
    np.testing.assert_allclose(function.dot(weights), TablePhi(table).dot(weights), atol=ALGEBRA)


def test_no_table_of_all_states_is_made_while_it_learns(monkeypatch):
    """One table of the policy takes longer than a hundred episodes on sampled columns."""

    def refuse(self, plan):
        raise AssertionError("a table of all states")

    agent = MatrixRL(make("soft-grid", side=20), columns=50, preset="tuned", measure_regret=False, seed=0)
    monkeypatch.setattr(SampledMatrixRL, "policy_table", refuse)
    assert agent.learn(n_episodes=5).n_episodes == 5
