"""Theorems 1 and 2 as numbers, the lemma behind them; Assumption 1's residual; what inspect says."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from matrixrl import FiniteMDP, InvalidInput, run_seeds
from matrixrl.core import regularity
from matrixrl.core.embedding import embedding, reward_residual
from matrixrl.core.regularity import theorem_1_bound, theorem_2_bound, theorem_3_bound
from matrixrl.features import Features, OneHotPsi, TablePhi, one_hot
from matrixrl.play import Simulation, inspect_problem
from matrixrl.problems import tabular
from worlds import WORLDS, model_radii


def test_the_theorems_number_by_number():
    k = regularity(one_hot(6, 2))
    steps, logarithm = 1000 * 24, math.log(1000 * 24 / 12)
    common = math.sqrt(1 + 1) * logarithm * 24**2 * math.sqrt(steps)
    assert theorem_1_bound(k, horizon=24, n_episodes=1000) == pytest.approx(common * 12**1.5)
    assert theorem_2_bound(k, horizon=24, n_episodes=1000) == pytest.approx(math.sqrt(6) * common * 12)
    assert theorem_2_bound(k, horizon=24, n_episodes=1000, c=0.5) == pytest.approx(math.sqrt(6) * common * 6)


def test_the_theorems_with_other_constants_and_for_one_step():
    """C_ψ outside the root and C_M + C_ψ'² inside (E5); the logarithm is at least 1."""
    k = replace(regularity(one_hot(6, 2)), c_core=3.0, c_psi_inv=2.0, c_phi=0.5)
    root, log = math.sqrt(3.0 + 4.0), math.log(0.5 * 7 * 20)
    common = 5.0 * root * log * 7**2 * math.sqrt(140)
    assert theorem_1_bound(k, horizon=7, n_episodes=20, c_psi=5.0) == pytest.approx(common * 12**1.5)
    assert theorem_2_bound(k, horizon=7, n_episodes=20, c_psi=5.0) == pytest.approx(common * 12)
    assert theorem_1_bound(k, horizon=1, n_episodes=1, c=0.5) == pytest.approx(0.5 * root * 12**1.5)
    assert theorem_2_bound(k, horizon=1, n_episodes=1) == pytest.approx(math.sqrt(6) * root * 12)
    third = {"c_psi": 3.0, "norm": 0.5, "effective_dim": 4.0}
    assert theorem_3_bound(**third, horizon=7, n_episodes=20, c=2.0) == pytest.approx(
        2.0 * 3.0 * 0.5 * math.log(140) * 4.0 * 7**2 * math.sqrt(140)
    )
    assert theorem_3_bound(**third, horizon=1, n_episodes=1) == pytest.approx(3.0 * 0.5 * 4.0)


def test_the_simplified_bound_of_the_paper():
    """C_M = C_ψ = C_ψ' = 1: O(d^{3/2} H² log T √T)."""
    k = regularity(one_hot(6, 2))
    simple = 12**1.5 * 24**2 * math.log(1000 * 24 / 12) * math.sqrt(24_000)
    assert theorem_1_bound(k, horizon=24, n_episodes=1000) == pytest.approx(math.sqrt(2) * simple)


def test_the_bound_behind_it_holds_step_by_step():
    """Lemma "induction" for the Frobenius ball: Q − (r + PV) <= 2 C_ψ H √β w whenever M* is inside."""
    from matrixrl.envs import RiverSwim

    mdp = RiverSwim(4, 8).mdp
    simulation = Simulation(mdp, n_episodes=40, seeds=[0], settings={"set": "frobenius", "radius": "self-normalised"})
    for _ in range(40):
        algorithm = simulation.algorithm
        belief, plan = algorithm.model.bounds(algorithm.clock, "agent")[0], algorithm.advice()
        width = np.sqrt(algorithm.model.design.width_sq).reshape(1, 2, 4)
        radius = model_radii(algorithm)[:, :, None]
        for h in range(7):
            values = plan.values[:, h + 1]
            surplus = belief.bound(values) - mdp.transitions.expect(values)
            assert (surplus <= 2 * algorithm.model.confidence.regularity.c_psi * 8 * radius * width + 1e-9).all()
        simulation.advance()


@pytest.mark.parametrize("name", WORLDS)
def test_the_residual_is_zero_where_assumption_1_holds_and_the_core_is_found(name):
    world = WORLDS[name](2)
    found = embedding(world.mdp.transitions, world.features)
    assert found.residual < 1e-10
    assert found.explained == pytest.approx(1.0)
    np.testing.assert_allclose(found.core, world.core, atol=1e-8)


def test_the_residual_is_not_zero_where_it_fails():
    world = tabular(n_states=6, n_actions=2, seed=0).mdp
    blurred = Features(TablePhi(np.random.default_rng(0).random((6, 2, 3))), OneHotPsi(6))
    found = embedding(world.transitions, blurred)
    assert found.residual > 0.05
    assert 0.0 < found.explained < 0.99


def test_a_table_that_is_too_large_is_not_computed(monkeypatch):
    """S²A entries of P, S·A·d numbers of φ: 4 states and 3 actions have 48, and 24 for two features."""
    world = tabular(n_states=4, n_actions=3, seed=0).mdp
    features = Features(TablePhi(np.random.default_rng(0).random((4, 3, 2))), OneHotPsi(4))
    for limit, has_embedding, has_fit in ((48, True, True), (47, False, True), (24, False, True), (23, False, False)):
        monkeypatch.setattr("matrixrl.core.embedding._LARGEST", limit)
        assert (embedding(world.transitions, features) is not None) == has_embedding
        assert (reward_residual(world.task.unit_reward, features.phi) is not None) == has_fit


@pytest.mark.parametrize("c_core", [0.0, -1.0, math.inf, math.nan])
def test_a_given_norm_is_positive_and_finite(c_core):
    with pytest.raises(InvalidInput, match="c_core"):
        regularity(one_hot(3, 2), c_core=c_core)


def test_inspect_says_what_to_expect():
    chain = {"n_states": 4, "horizon": 20}
    good = inspect_problem("river-swim", env_settings=chain, settings={"set": "normalised"})
    assert good.sizes["blocks"] == 8
    assert good.optimal_value == pytest.approx(8.271, abs=5e-4)
    assert not [w for w in good.warnings if "explain" in w]
    assert good.cost["seconds_per_1000_episodes"] > 0
    assert [b["explicit"] for b in good.bounds] == [b["largest"] for b in good.bounds]  # trivial, and it says so
    assert any(f"nothing before N = {good.informative_from:.2g}" in w for w in good.warnings)
    counts = inspect_problem("river-swim", env_settings=chain, settings={"preset": "optimistic"})
    assert [b["explicit"] < b["largest"] for b in counts.bounds] == [False, False, False, True]
    assert 10_000 < counts.informative_from < 100_000
    assert not [w for w in counts.warnings if "explicit bound" in w]
    assert counts.effective_dimension["chosen"] == pytest.approx(good.effective_dimension["chosen"])
    tuned = inspect_problem("river-swim", settings={"preset": "tuned"})
    assert {b["explicit"] for b in tuned.bounds} == {None}
    assert not [w for w in tuned.warnings if "explicit bound" in w]
    world = tabular(n_states=6, n_actions=2, horizon=5, seed=0).mdp
    wrong = Features(TablePhi(np.random.default_rng(0).random((6, 2, 3))), OneHotPsi(6))
    bad = inspect_problem(FiniteMDP(world.transitions, world.task.reward, 5, features=wrong))
    assert any("the alarm may be raised" in w for w in bad.warnings)


@pytest.mark.parametrize("kind", ["normalised", "tightest"])
def test_growth_of_regret_is_sublinear(kind):
    """Regret of the last 500 episodes is below that of the first, with the proven radius."""
    result = run_seeds("river-swim", n_episodes=1500, seeds=4, preset="optimistic", set=kind)
    first, last = result.regret[:, :500].sum(), result.regret[:, -500:].sum()
    assert last < 0.7 * first
