"""docs/proofs.md, 2: the ball cut with "probabilities sum to one", against a solver, and its alarm."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from matrixrl.core.sets import FrobeniusBall, NormalisedBall
from tolerances import ALGEBRA, SOLVER
from worlds import WORLDS, set_bounds
from worlds import ball_setting as setting


def bounds(world, algorithm, v, radius, sign=1.0, kind=NormalisedBall, alarm_radius=None):
    found, belief = set_bounds(world, algorithm, v, radius, kind=kind, sign=sign, alarm_radius=alarm_radius)
    return found, belief.reaches[0]


def solve_for(phi, v, u, root, centre, radius, norm, sign):
    m = cp.Variable(centre.shape)
    problem = cp.Problem(
        cp.Maximize(sign * (phi @ m @ v)), [cp.norm(root @ (m - centre), norm) <= radius, phi @ m @ u == 1]
    )
    problem.solve(solver=cp.CLARABEL)
    return problem


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("norm", ["fro", 2])
@pytest.mark.parametrize("name", ["tabular", "low rank", "low rank, orthonormal psi"])
def test_maximum_equals_a_generic_convex_solver(name, norm, sign, rng):
    world, algorithm, rows, root, v, _ = setting(name, rng)
    radius = 1.6
    ours, reach = bounds(world, algorithm, v, radius, sign)
    assert reach.empty is None
    for pair in (0, len(rows) // 2, len(rows) - 1):
        found = solve_for(
            rows[pair], v[0], world.features.psi.total, root, algorithm.model.core_matrix()[0], radius, norm, sign
        )
        assert found.status == "optimal"
        assert sign * ours[pair] == pytest.approx(found.value, abs=SOLVER * max(1.0, abs(found.value)))


@pytest.mark.parametrize("name", WORLDS)
def test_never_above_the_uncut_ball_and_never_below_the_truth(name, rng):
    world, algorithm, rows, root, v, _ = setting(name, rng)
    radius = float(np.linalg.norm(root @ (world.core - algorithm.model.core_matrix()[0])))
    ours, reach = bounds(world, algorithm, v, radius * (1 + ALGEBRA))
    uncut, _ = bounds(world, algorithm, v, radius * (1 + ALGEBRA), kind=FrobeniusBall)
    lower, _ = bounds(world, algorithm, v, radius * (1 + ALGEBRA), sign=-1.0)
    truth = rows @ world.core @ v[0]
    assert reach.empty is None  # M* is in the ball, so the cut is not empty
    assert (ours <= uncut + ALGEBRA).all()
    assert (truth <= ours + ALGEBRA).all()
    assert (lower <= truth + ALGEBRA).all()


@pytest.mark.parametrize("name", WORLDS)
def test_the_maximum_is_attained_and_never_exceeded_by_normalised_members(name, rng):
    world, algorithm, rows, root, v, _ = setting(name, rng)
    radius, u, centre = 1.6, world.features.psi.total, algorithm.model.core_matrix()[0]
    ours, reach = bounds(world, algorithm, v, radius)
    assert reach.empty is None
    inverse_root = np.linalg.inv(root)
    for pair, phi in enumerate(rows):
        direction = inverse_root @ phi
        width = np.linalg.norm(direction)
        slack = 1.0 - phi @ centre @ u
        along = slack / (width * (u @ u)) * u  # the part of y that the constraint fixes
        room = np.sqrt(radius**2 - along @ along)
        across = v[0] - (v[0] @ u) / (u @ u) * u
        for sign in (1.0, *rng.standard_normal(5)):
            free = across if sign == 1.0 else rng.standard_normal(len(u))
            free = free - (free @ u) / (u @ u) * u
            y = along + room * free / np.linalg.norm(free)
            member = centre + inverse_root @ np.outer(direction / width, y)
            assert phi @ member @ u == pytest.approx(1.0)
            assert np.linalg.norm(root @ (member - centre)) == pytest.approx(radius)
            value = phi @ member @ v[0]
            assert value <= ours[pair] + ALGEBRA
            if sign == 1.0:
                assert value == pytest.approx(ours[pair], rel=ALGEBRA)


def test_bounds_are_clipped_to_what_an_average_can_be(rng):
    """Both sides of the clip: with a huge radius the bounds are exactly max V and min V."""
    world, algorithm, *_ = setting("low rank", rng)
    values = rng.random((1, world.mdp.n_states)) * 4 + 1
    _, belief = set_bounds(world, algorithm, world.features.psi.project(values), 1e3, kind=NormalisedBall)
    assert (belief.bound(values) == values.max()).all()
    assert (belief.bound(values, sign=-1.0) == values.min()).all()


def test_the_papers_ball_is_projected_to_zero_and_h(rng):
    """Π_[0,H] of (4): values of the unnormalised ball stay in [0, H] and reach H."""
    from matrixrl import MatrixRL, make

    plan = MatrixRL(make("river-swim"), seed=0, set="frobenius").algorithm.plan()
    assert plan.values.max() == 24.0
    assert plan.values.min() == 0.0


def test_it_does_not_depend_on_the_centre_of_v(rng):
    """Adding c·1 to V adds c to the bound: the set knows that P sums to one."""
    world, algorithm, _, _, v, _ = setting("low rank", rng)
    plain, _ = bounds(world, algorithm, v, 1.6)
    shifted, _ = bounds(world, algorithm, v + 3.0 * world.features.psi.total, 1.6)
    np.testing.assert_allclose(shifted, plain + 3.0, rtol=ALGEBRA)


def test_an_empty_cut_is_what_the_solver_calls_infeasible(rng):
    world, algorithm, rows, root, v, _ = setting("low rank", rng)
    slack = 1.0 - rows @ algorithm.model.core_matrix()[0] @ world.features.psi.total
    width = np.sqrt(algorithm.model.design.width_sq[0])
    needed = np.abs(slack) / (np.linalg.norm(world.features.psi.total) * width)
    pair = int(np.argmax(needed))
    u = world.features.psi.total
    for factor, empty in ((0.99, True), (1.01, False)):
        radius = float(needed[pair] * factor)
        ours, reach = bounds(world, algorithm, v, radius)
        found = solve_for(rows[pair], v[0], u, root, algorithm.model.core_matrix()[0], radius, "fro", 1.0)
        assert (reach.empty is not None and bool(reach.empty[0, pair])) is empty
        assert (found.status in ("infeasible", "infeasible_inaccurate")) is empty
        if empty:  # bounded by the uncut ball there
            uncut, _ = bounds(world, algorithm, v, radius, kind=FrobeniusBall)
            assert ours[pair] == pytest.approx(uncut[pair], rel=ALGEBRA)


def test_a_shrunken_radius_uses_the_nearest_normalised_model_without_alarm(rng):
    """Below the proven radius an empty cut says nothing about the features."""
    world, algorithm, rows, root, v, _ = setting("low rank", rng)
    core = algorithm.model.core_matrix()
    ours, reach = bounds(world, algorithm, v, 1e-6, alarm_radius=5.0)
    assert reach.empty is None
    u = world.features.psi.total
    for pair, phi in enumerate(rows):
        m = cp.Variable(world.core.shape)  # the nearest model whose probabilities sum to one
        cp.Problem(cp.Minimize(cp.sum_squares(root @ (m - core[0]))), [phi @ m @ u == 1]).solve(solver=cp.CLARABEL)
        assert ours[pair] == pytest.approx(phi @ m.value @ v[0], abs=1e-4)
        if pair == 3:
            break


def test_wrong_features_raise_the_alarm(rng):
    """Features that merge states with different futures, fed with much data, leave no probability model."""
    from matrixrl import FiniteMDP, MatrixRL
    from matrixrl.features import Features, OneHotPsi, TablePhi

    table = np.zeros((4, 2, 4))
    table[:, 0] = np.eye(4)[[1, 2, 3, 0]]
    table[:, 1] = np.eye(4)[[0, 0, 0, 0]]
    phi = np.zeros((4, 2, 2))
    phi[:, 0, 0], phi[:, 1, 0], phi[:, 1, 1] = 1.0, 2.0, 1.0  # φ(s,1) = 2·φ(s,0) + e2: sums to one no more
    phi[2:, 1, 1] = -1.0
    features = Features(TablePhi(phi), OneHotPsi(4))
    mdp = FiniteMDP(table, np.full((4, 2), 0.5), 8, features=features)
    agent = MatrixRL(mdp, seed=0, c_core=1.0)
    history = agent.learn(400)
    assert history.alarms.any()
    assert "alarm" in agent.guarantee.reason
