"""Radii of the paper, number by number: Theorems 1 and 2, the log-det form, the proof's own conditions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from matrixrl.core import RADII, RadiusInputs, regularity
from matrixrl.core.radius import ConstantRadius, LogDetRadius, ProofRadius, TheoremRadius
from matrixrl.features import Features, OneHotPhi, TablePsi, one_hot


def inputs(**changes):
    """RiverSwim-6 after two replicas saw 30 and 300 steps."""
    features = one_hot(6, 2)
    design = features.phi.design(2)
    rng = np.random.default_rng(0)
    design.update(rng.integers(0, 12, (2, 300)), (np.arange(300) < [[30], [300]]).astype(float))
    base = {
        "regularity": regularity(features),
        "horizon": 24,
        "episode": 10,
        "n_episodes": 3000,
        "delta": 0.05,
        "design": design,
        "blocks": features.phi.blocks(),
    }
    return RadiusInputs(**{**base, **changes})


def test_theorem_radius_for_one_hot_features():
    beta = 2.0 * (1.0 + 1.0) * math.log(3000 * 24 / 12) * 12
    np.testing.assert_allclose(TheoremRadius(c=2.0)(inputs()).ravel(), np.sqrt([beta, beta]))


def test_without_n_in_advance_the_running_n_stands_for_it():
    beta = (1.0 + 1.0) * math.log(10 * 24 / 12) * 12
    np.testing.assert_allclose(TheoremRadius()(inputs(n_episodes=None)).ravel(), np.sqrt([beta, beta]))


def test_beta_is_at_least_one_as_the_lemma_asks():
    assert TheoremRadius(c=1e-9)(inputs())[0, 0] == 1.0


def test_log_det_radius():
    given = inputs()
    beta = 1.0 * 12 + 3.0 * given.design.logdet * math.log(10 * 24 / 0.05)
    np.testing.assert_allclose(LogDetRadius(c=3.0)(given).ravel() ** 2, beta)


def test_proof_radius_is_the_smallest_that_meets_both_conditions():
    given = inputs()
    logdet, log = given.design.logdet, math.log(math.pi * 10 * 24 / 0.05)

    def meets(beta):
        v = 8.0 * beta * logdet
        return (beta**2 >= 32 * v * log + 8**4 * log**4) & (beta / 2 >= 12.0 + 2 * logdet)

    beta = ProofRadius()(given).ravel() ** 2
    assert meets(beta * (1 + 1e-9)).all()
    assert not meets(beta * (1 - 1e-6)).any()


def test_the_radii_of_the_paper_with_constants_that_are_not_one():
    """For one-hot features C_M = C_ψ' = 1, where squares and products cannot be told apart."""
    other = replace(regularity(one_hot(6, 2)), c_core=3.0, c_psi_inv=2.0, c_phi=0.5)
    given = inputs(regularity=other)
    logdet = given.design.logdet
    beta = (3.0 + 4.0) * math.log(3000 * 24 * 0.5) * 12
    np.testing.assert_allclose(TheoremRadius()(given).ravel() ** 2, [beta, beta])
    beta = 3.0 * 12 + 4.0 * logdet * math.log(10 * 24 / 0.05)
    np.testing.assert_allclose(LogDetRadius()(given).ravel() ** 2, beta)
    log = math.log(math.pi * 10 * 24 / 0.05)
    roots = [np.roots([1.0, -32 * 8.0 * 4.0 * x * log, -(8**4) * log**4]).max() for x in logdet]
    np.testing.assert_allclose(ProofRadius()(given).ravel() ** 2, np.real(roots))
    # a norm so large that the other condition decides: β = 2(‖M*‖_F² + 2 C_ψ'² ln det A)
    large = inputs(regularity=replace(other, c_core=1e6))
    np.testing.assert_allclose(ProofRadius()(large).ravel() ** 2, 2 * (12e6 + 2 * 4.0 * logdet))


def test_without_data_the_logarithm_of_the_theorem_is_not_negative():
    tiny = replace(regularity(one_hot(6, 2)), c_phi=1e-9)
    assert TheoremRadius()(inputs(regularity=tiny))[0, 0] == 1.0
    assert LogDetRadius()(inputs(regularity=replace(tiny, c_core=1e-9, c_psi_inv=1e-9)))[0, 0] == 1.0


def test_constant_radius_scales_with_psi():
    """The same β means the same exploration whatever the unit of ψ."""
    scaled = Features(OneHotPhi(6, 2), TablePsi(np.eye(6) * 4.0))
    assert ConstantRadius(beta=9.0)(inputs())[0, 0] == 3.0
    ours = ConstantRadius(beta=9.0)(inputs(regularity=regularity(scaled)))[0, 0]
    assert ours == pytest.approx(3.0 / 4.0)


@pytest.mark.parametrize("name", ["self-normalised", "log-det", "proof"])
def test_the_determinant_moves_with_the_data(name):
    """Pitfall of the public notebook: det(A) of a matrix that is never updated."""
    few, many = RADII[name]()(inputs())
    assert many.max() > few.max()


def test_the_order_of_the_radii():
    """By block below self-normalised below what the printed proof asks for."""
    given = inputs()
    block, whole, proof = (RADII[n]()(given) for n in ("block", "self-normalised", "proof"))
    assert (block <= whole).all()
    assert (whole < proof).all()


@pytest.mark.parametrize("name", RADII)
def test_every_radius_says_what_is_proven(name):
    radius = RADII[name]()
    assert radius.guarantee or len(radius.guarantee.reason) > 20
    assert radius.name == name
    assert "proven" in radius.summary
