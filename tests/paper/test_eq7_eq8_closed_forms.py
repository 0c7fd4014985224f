"""YW19 (7) and (8): the closed forms, with H (E2) and the width of the queried pair (E4)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from matrixrl.core.sets import ColumnBall, ColumnClosedForm, FrobeniusBall, FrobeniusClosedForm
from tolerances import EXACT
from worlds import WORLDS, algorithm_with_data, ball_setting, set_bounds


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize(("closed", "exact"), [(FrobeniusClosedForm, FrobeniusBall), (ColumnClosedForm, ColumnBall)])
def test_the_closed_form_is_its_formula_and_above_the_exact_maximum(name, closed, exact, rng):
    world, algorithm, rows, _, v, radius = ball_setting(name, rng)
    psi, horizon = world.features.psi, world.mdp.horizon
    ours, _ = set_bounds(world, algorithm, v, radius, kind=closed)
    width = np.sqrt(algorithm.model.design.width_sq[0])
    if closed is FrobeniusClosedForm:
        bonus = 2 * psi.constants.c_psi * horizon * radius * width  # (8) with E2
    else:
        bonus = 2 * psi.constants.c_psi_max_norm * horizon * radius * math.sqrt(max(world.core.shape)) * width  # (7)
    np.testing.assert_allclose(ours, rows @ algorithm.model.core_matrix()[0] @ v[0] + bonus, rtol=1e-10, atol=EXACT)
    solved, _ = set_bounds(world, algorithm, v, radius, kind=exact)
    assert (solved <= ours + EXACT).all()  # V <= H, so ‖v‖ <= C_ψ H


@pytest.mark.parametrize("name", WORLDS)
def test_c_psi_by_enumeration_of_all_sign_vectors(name):
    """sup ‖Ψᵀv‖ over the cube is at a vertex: exact where we say so, a bound elsewhere."""
    world = WORLDS[name](3)
    psi = world.features.psi
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * psi.n_states)).reshape(psi.n_states, -1)
    moved = psi.table.T @ signs
    euclid = np.linalg.norm(moved, axis=0).max()
    assert np.abs(moved).max() == pytest.approx(psi.constants.c_psi_max_norm)
    assert euclid <= psi.constants.c_psi * (1 + EXACT)
    if psi.constants.c_psi_is_exact:
        assert euclid == pytest.approx(psi.constants.c_psi)


def test_e2_without_h_the_closed_form_is_not_optimistic():
    """(8) as printed, without H, falls below the exact maximum it stands for."""
    rng = np.random.default_rng(0)
    world, algorithm, rows, _, _, radius = ball_setting("tabular", rng)
    horizon = 50
    v = np.full((1, 5), float(horizon))
    exact, _ = set_bounds(world, algorithm, v, radius, kind=FrobeniusBall)
    printed = rows @ algorithm.model.core_matrix()[0] @ v[
        0
    ] + 2 * world.features.psi.constants.c_psi * radius * np.sqrt(algorithm.model.design.width_sq[0])
    assert (printed < exact).all()


def test_e4_the_width_is_that_of_the_queried_pair(rng):
    """Pairs that were visited often get a smaller bonus than pairs that were not."""
    world = WORLDS["tabular"](0)
    algorithm, _ = algorithm_with_data(world, rng, episodes=0)
    pairs = np.array([[0] * 30])
    algorithm.model.design.update(pairs, np.ones(pairs.shape))
    ours, _ = set_bounds(world, algorithm, np.ones((1, 5)), 0.7, kind=FrobeniusClosedForm)
    bonus = ours - phi_mean(world, algorithm)
    assert bonus[0] < 0.2 * bonus[1]


def phi_mean(world, algorithm):
    return world.features.phi.dot((algorithm.model.core_matrix() @ np.ones((1, 5, 1)))[:, :, 0]).ravel()


def test_when_d_psi_exceeds_four_d_the_printed_factor_would_not_do():
    """2√(dβ) covers √(d'β) only up to d' = 4d: ours takes the larger dimension."""
    from matrixrl.core.sets import SetContext

    context = SetContext(np.ones(9), d=1, horizon=1, c_psi=3.0, c_psi_max_norm=1.0)
    assert ColumnClosedForm().bind(context).factor == 3.0
    assert 2 * math.sqrt(context.d) < math.sqrt(context.d_psi)
