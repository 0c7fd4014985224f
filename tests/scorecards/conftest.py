"""A small MDP for the tests of scorecards."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import FiniteMDP


@pytest.fixture
def mdp():
    rng = np.random.default_rng(1)
    law = rng.random((4, 2, 4)) * (rng.random((4, 2, 4)) < 0.6) + 1e-12
    law[:, :, 3] = 0.0  # never reached, and not a start
    law /= law.sum(axis=2, keepdims=True)
    return FiniteMDP(law, rng.random((4, 2)), 5, start=[1.0, 0.0, 0.0, 0.0])
