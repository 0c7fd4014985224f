"""docs/proofs.md, section 3: weights of next states in the estimate, and the set `weighted`."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from matrixrl import make, run_seeds
from matrixrl.algorithms import UCMatrixRL
from matrixrl.features import OneHotPsi, SparsePsi, TablePsi, weighted_psi
from matrixrl.problems import Problem, low_rank
from tolerances import ALGEBRA, EXACT

SMALL = {"n_factors": 3, "n_states": 12, "n_actions": 3, "d": 4, "horizon": 5}


def x_of(psi: TablePsi) -> np.ndarray:
    """Return x(s') = K⁻¹Dψ(s') of all states (S, d_psi), as the estimate uses them."""
    return psi.solve_gram(psi.rows(np.arange(psi.n_states)))


@pytest.mark.parametrize("kind", [TablePsi, lambda table: SparsePsi(sparse.csr_array(table))], ids=["table", "sparse"])
def test_the_mean_of_x_is_that_of_the_core_and_no_expected_value_changes(rng, kind):
    table = (np.eye(4)[rng.integers(4, size=30)] + 0.1 * rng.random((30, 4))) * rng.random((30, 1)) ** 3
    core, phi, values = rng.standard_normal((5, 4)), rng.standard_normal((7, 5)), rng.standard_normal((2, 30))
    law = phi @ core @ table.T  # any signed P = φᵀMψ: the identity is linear
    psi = weighted_psi(kind(table))
    np.testing.assert_allclose(law @ x_of(psi), phi @ core, atol=ALGEBRA)
    np.testing.assert_allclose(phi @ core @ psi.project(values).T, law @ values.T, atol=ALGEBRA)
    np.testing.assert_allclose(psi.total, table.sum(axis=0), atol=EXACT)
    assert psi.constants.noise_scale < kind(table).constants.noise_scale
    assert psi.constants.dual_norm == pytest.approx(np.linalg.norm(x_of(psi), axis=1).max())


def test_disjoint_columns_are_regressed_as_latent_next_states():
    """M_n of `factors` is the ridge regression of one-hot factors on φ; noise and C_ψ' are those of one-hot ψ."""
    learner = UCMatrixRL(set="weighted").start(Problem.of(make("factors", **SMALL).unwrapped.mdp), [0])
    features, rng = learner.problem.features, np.random.default_rng(0)
    pairs, following = rng.integers(36, size=(1, 50)), rng.integers(12, size=(1, 50))
    learner.model.update(pairs, following, np.zeros((1, 50)), np.ones((1, 50)))
    phi, latent = features.phi.rows(pairs[0]), np.eye(3)[following[0] % 3]
    np.testing.assert_allclose(
        learner.model.core_matrix()[0], np.linalg.solve(np.eye(4) + phi.T @ phi, phi.T @ latent), atol=ALGEBRA
    )
    constants = learner.model.confidence.regularity
    assert constants.c_psi_inv == pytest.approx(1.0)
    assert constants.noise_scale <= 1.0
    plain = UCMatrixRL(set="normalised").start(Problem.of(make("factors", **SMALL).unwrapped.mdp), [0])
    assert learner.claims.regret_bound(10**9) < plain.claims.regret_bound(10**9)


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        (np.eye(3), False),
        ([[1.0, 0], [0, 1.0], [0.6, 0.8]], False),  # of one length
        ([[0.1, 0], [0.9, 0], [0, 0.9], [0, 0.1]], True),
        ([[0.1, 0], [0.9, 0], [0, 0.9], [0, 0.1], [0, 0]], True),
        (np.random.default_rng(0).random((30, 4)) * np.linspace(0.01, 1.0, 30)[:, None] ** 3, False),  # L is larger
    ],
)
def test_weights_are_used_where_they_help(table, changes):
    psi = TablePsi(table)
    assert (weighted_psi(psi) is not psi) == changes
    again = weighted_psi(psi)
    assert weighted_psi(again) is again  # weights of one's own are kept
    one_hot = OneHotPsi(3)
    assert weighted_psi(one_hot) is one_hot


@pytest.mark.parametrize(
    ("name", "settings", "chosen"),
    [
        ("factors", {}, "weighted"),
        ("factors", {"preset": "tuned"}, "normalised"),
        ("factors", {"ridge": 0.5}, "normalised"),
        ("linear-lock", {}, "normalised"),
        ("river-swim", {}, "value-targeted"),
    ],
)
def test_tightest_takes_it_where_weights_help(name, settings, chosen):
    mdp = make(name).unwrapped.mdp
    assert UCMatrixRL(**settings).start(Problem.of(mdp), [0]).settings.set == chosen


def test_certificates_have_the_bias_of_each_pair():
    """Plans have √λ‖M*‖; certificates λ‖A⁻¹φ‖‖M*‖/w, which falls with the data (section 10.1)."""
    rng = np.random.default_rng(1)
    world = low_rank(n_states=12, n_actions=3, d=3, horizon=4)
    learner = UCMatrixRL(ridge=2.0).start(Problem.of(world.mdp), [0])
    learner.model.update(rng.integers(36, size=(1, 400)), rng.integers(12, size=(1, 400)), *np.ones((2, 1, 400)))
    design, constants = learner.model.design, learner.model.confidence.regularity
    plan, certificate = (
        learner.model.confidence.radii(design, learner.clock, level=level).models for level in ("agent", "proven")
    )
    rows, inverse = learner.problem.features.phi.flat, np.linalg.inv(design.matrix[0])
    width = np.sqrt(np.einsum("pi,ij,pj->p", rows, inverse, rows))
    noise = plan[0, 0] - constants.core_norm
    bias = np.sqrt(2.0) * np.linalg.norm(rows @ inverse, axis=1) / width * constants.core_norm
    np.testing.assert_allclose(certificate[0], noise + bias, rtol=ALGEBRA)
    assert (certificate < 0.9 * plan).any()


@pytest.mark.parametrize("known", [True, False])
def test_bounds_hold(known):
    """In at most δ = 0.5 of the runs a bound fails; they are wide, so that it should be in none."""
    options = {"n_episodes": 300, "seeds": 4, "env_settings": SMALL, "certify": True, "known_reward": known}
    result = run_seeds("factors", delta=0.5, **options)
    value = result.optimal_value - result.regret
    assert (result.upper >= result.optimal_value - 1e-9).all()
    assert (result.certified[..., 0] <= value + 1e-9).all()
    assert result.guarantee
    assert not result.alarms.any()
    wider = run_seeds("factors", delta=0.5, set="normalised", **options)
    assert np.diff(result.certified[:, -1]).mean() < 0.9 * np.diff(wider.certified[:, -1]).mean()
