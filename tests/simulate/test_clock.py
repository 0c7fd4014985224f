"""The seconds of episodes are those of playing: compiling, which happens once on a machine, is not part of them."""

from __future__ import annotations

import time

import pytest

from matrixrl.algorithms import UCMatrixRL
from matrixrl.algorithms.matrix_rl.certifier import MatrixRLCertifier
from matrixrl.play import Simulation
from matrixrl.play.player import CompiledPlayer

_LONG = 0.3


@pytest.mark.parametrize(
    ("kind", "method"), [(CompiledPlayer, "prepare"), (UCMatrixRL, "advice"), (MatrixRLCertifier, "certify")]
)
@pytest.mark.parametrize("runs", [True, False])
def test_loops_are_loaded_before_the_clock_starts(monkeypatch, kind, method, runs):
    original, calls = getattr(kind, method), []

    def slow(self, *arguments, **options):
        if not calls:
            time.sleep(_LONG)  # as long as compiling takes
        calls.append(method)
        return original(self, *arguments, **options)

    monkeypatch.setattr(kind, method, slow)
    # NumPy plays episodes with these settings, and only plans are compiled.
    settings = {} if kind is CompiledPlayer else {"switch_growth": 1.0, "set": "normalised"}
    run = Simulation(
        "river-swim", n_episodes=3, seeds=[0], compiled=True, certify=method == "certify", settings=settings
    )
    if runs:
        run.run()
    else:
        run.advance(3)
    assert calls
    assert run.clock.sum() < _LONG
