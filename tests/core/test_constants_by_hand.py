"""Constants that the bounds use, computed by hand on features that are not of size one."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import FiniteMDP
from matrixrl.core import SETS, SetContext, reward_regularity
from matrixrl.core.embedding import embedding
from matrixrl.features import Features, OneHotPsi, TablePhi


def test_the_size_of_features_is_in_units_of_the_ridge():
    phi = TablePhi(np.array([[[3.0, 0.0]], [[0.0, 4.0]], [[0.0, 1.0]]]))
    assert reward_regularity(phi, 0.5).c_phi == pytest.approx(16.0 / (0.5 * 2))


def test_the_share_of_transitions_that_features_explain():
    """One feature for both pairs explains their mean law alone."""
    P = np.array([[[0.8, 0.2]], [[0.4, 0.6]]])
    mdp = FiniteMDP(P, np.zeros((2, 1)), horizon=2)
    fit = embedding(mdp.transitions, Features(TablePhi(np.ones((2, 1, 1))), OneHotPsi(2)))
    assert fit.explained == pytest.approx(1.0 - 4 * 0.2**2 / (0.8**2 + 0.2**2 + 0.4**2 + 0.6**2))
    assert fit.residual == pytest.approx(0.2)


def test_the_surplus_of_the_normalised_column_ball():
    context = SetContext(np.ones(3), 5, 10, c_psi=2.0, c_psi_max_norm=1.5)
    made = SETS["normalised-column"]().bind(context)
    assert made.surplus == pytest.approx(2.0 * np.sqrt(3.0) * 1.5 * 10)
