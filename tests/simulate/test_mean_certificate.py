"""The certificates of several seeds: what is proven for each of them, and for their mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from matrixrl.algorithms.matrix_rl.certifier import MatrixRLCertifier
from matrixrl.certificates import Certificate
from matrixrl.play import Simulation, run_seeds
from matrixrl.records import Guarantee


@pytest.fixture(scope="module")
def result():
    return run_seeds("river-swim", n_episodes=3, seeds=3, env_settings={"n_states": 3})


@pytest.mark.parametrize(("delta", "total"), [(0.05, 0.15), (0.1, 0.3), (0.3, 0.9)])
def test_the_mean_of_k_certificates_may_fail_with_probability_k_delta(result, delta, total):
    """A mean of upper bounds is below V* only if one of them is: P ≤ δ + … + δ."""
    seeds = [Certificate(5.0 + k, 1.0 + k, delta, Guarantee(True)) for k in range(3)]
    mean = replace(result, certificate=seeds).mean_certificate()
    assert (mean.upper, mean.lower, mean.guarantee) == (6.0, 2.0, Guarantee(True))
    assert np.isclose(mean.delta, total, rtol=1e-12)


def test_the_mean_of_many_certificates_proves_nothing(result):
    many = replace(result, certificate=[Certificate(5.0, 1.0, 0.05, Guarantee(True))] * 20)
    mean = many.mean_certificate()
    assert mean.delta == 1.0
    assert "nothing is proven for the mean of 20 seeds" in mean.guarantee.reason
    assert all(certificate.guarantee for certificate in many.certificate), "each of them is proven"


@pytest.mark.parametrize("kind", ["normalised", "tightest"])
def test_only_the_last_window_of_a_run_has_final_certificates(kind, monkeypatch):
    computed = []
    original = MatrixRLCertifier.certify
    monkeypatch.setattr(MatrixRLCertifier, "certify", lambda self, *args: computed.append(1) or original(self, *args))
    given = {"n_episodes": 6, "seeds": [0, 1], "env_settings": {"n_states": 3}, "compiled": False}
    given["settings"] = {"set": kind}
    first = Simulation("river-swim", **given, window=range(3)).run()
    assert first.certificate == []
    assert computed == []
    whole = Simulation("river-swim", **given).run()
    assert len(whole.certificate) == 2
    assert computed == [1]
