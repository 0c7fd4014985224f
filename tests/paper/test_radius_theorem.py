"""Theorems 1 and 2: β = c (C_M + C_ψ'²) ln(N H C_φ) d, number by number."""

from __future__ import annotations

import math

import numpy as np
import pytest

from matrixrl.core import RADII, ConstantRadius, RadiusInputs, TheoremRadius, regularity
from matrixrl.features import one_hot


def inputs(**changes):
    base = {
        "regularity": regularity(one_hot(6, 2)),
        "horizon": 24,
        "episode": 10,
        "n_episodes": 3000,
        "delta": 0.05,
        "logdet": np.array([3.0, 5.0]),
    }
    return RadiusInputs(**{**base, **changes})


def test_theorem_radius_for_one_hot_features():
    beta = 2.0 * (1.0 + 1.0) * math.log(3000 * 24 / 12) * 12
    np.testing.assert_allclose(TheoremRadius(c=2.0)(inputs()), np.sqrt([beta, beta]))


def test_without_n_in_advance_the_running_n_stands_for_it():
    beta = (1.0 + 1.0) * math.log(10 * 24 / 12) * 12
    np.testing.assert_allclose(TheoremRadius()(inputs(n_episodes=None)), np.sqrt([beta, beta]))


def test_beta_is_at_least_one_as_the_lemma_asks():
    assert TheoremRadius(c=1e-9)(inputs())[0] == 1.0


def test_constant_radius_scales_with_psi():
    """The same β means the same exploration whatever the unit of ψ."""
    from matrixrl.features import Features, OneHotPhi, TablePsi

    scaled = Features(OneHotPhi(6, 2), TablePsi(np.eye(6) * 4.0))
    plain = ConstantRadius(beta=9.0)(inputs())[0]
    assert plain == 3.0
    assert ConstantRadius(beta=9.0)(inputs(regularity=regularity(scaled)))[0] == pytest.approx(3.0 / 4.0)


def test_the_square_of_width_is_not_used_for_the_width_and_logdet_moves():
    """Pitfall of the public notebook: det(A) of a matrix that is never updated."""
    low, high = RADII["self-normalised"]()(inputs())
    assert high > low


@pytest.mark.parametrize("name", RADII)
def test_every_radius_says_what_is_proven(name):
    radius = RADII[name]()
    assert radius.guarantee is True or len(radius.guarantee) > 20
    assert radius.name == name
    assert "proven" in radius.summary
