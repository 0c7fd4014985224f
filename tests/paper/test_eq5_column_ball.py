"""YW19 (5): the column ball with the norm that its lemma needs (E1), and the printed one."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest

from matrixrl.core.sets import ColumnBall, NormalisedColumnBall, chebyshev_centre
from printed_ball import PrintedColumnBall
from tolerances import ALGEBRA, SOLVER
from worlds import WORLDS, set_bounds
from worlds import ball_setting as setting


def column_sum(matrix):
    return cp.sum(cp.norm(matrix, 2, axis=0))


def row_sum(matrix):
    return cp.sum(cp.norm(matrix, 2, axis=1))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("name", ["tabular", "low rank", "low rank, orthonormal psi"])
@pytest.mark.parametrize(("kind", "norm"), [(ColumnBall, column_sum), (PrintedColumnBall, row_sum)])
def test_maximum_equals_a_generic_convex_solver(name, kind, norm, sign, rng):
    world, algorithm, rows, root, v, radius = setting(name, rng)
    ours, _ = set_bounds(world, algorithm, v, radius, kind=kind, sign=sign)
    d, d_psi = world.core.shape
    size = radius * math.sqrt(d_psi if kind is ColumnBall else d)
    for pair in (0, len(rows) // 2, len(rows) - 1):
        m = cp.Variable(world.core.shape)
        inside = norm(root @ (m - algorithm.model.core_matrix()[0])) <= size
        problem = cp.Problem(cp.Maximize(sign * (rows[pair] @ m @ v[0])), [inside])
        problem.solve(solver=cp.CLARABEL)
        assert sign * ours[pair] == pytest.approx(problem.value, abs=SOLVER * max(1.0, abs(problem.value)))


def test_e1_the_printed_norm_breaks_the_lemma_that_uses_it():
    """‖xᵀY‖₁ <= ‖x‖₂·‖Y‖ is what the lemma needs: false for row sums, true for column sums."""
    y, x = np.ones((1, 9)), np.ones(1)
    left = np.abs(x @ y).sum()
    rows, columns = np.linalg.norm(y, axis=1).sum(), np.linalg.norm(y, axis=0).sum()
    assert left == 9.0
    assert rows * np.linalg.norm(x) == 3.0 < left
    assert columns * np.linalg.norm(x) == 9.0 >= left


def test_e1_a_member_of_the_printed_ball_escapes_the_bound_of_the_lemma(rng):
    """Lemma "ball upper bound" for the printed ball: ‖φᵀ(M − M_n)‖₁ <= √(dβ) w fails for an actual member."""
    world, _algorithm, rows, root, _, radius = setting("low rank, orthonormal psi", rng)
    d, d_psi = world.core.shape
    pair = 0
    direction = np.linalg.solve(root, rows[pair])
    best = int(np.argmax(np.abs(direction)))
    error = np.zeros((d, d_psi))
    error[best] = radius * math.sqrt(d) / math.sqrt(d_psi)  # one row, norm √(dβ): on the surface of the ball
    ball = PrintedColumnBall().bind(_context(world))
    assert ball.contains(error[None] * (1 - 1e-12), np.array([radius]))[0]
    moved = np.abs(rows[pair] @ np.linalg.solve(root, error)).sum()
    width = np.linalg.norm(direction)
    share = abs(direction[best]) / width  # how much of the width this row carries
    assert moved == pytest.approx(radius * math.sqrt(d) * math.sqrt(d_psi) * share * width, rel=ALGEBRA)
    assert moved > radius * math.sqrt(d) * width


def _context(world):
    from worlds import set_context

    return set_context(world)


def test_the_column_lemma_holds_for_random_members(rng):
    """‖φᵀ(M − M_n)‖₁ <= √(d'β) w for members of the column ball."""
    world, algorithm, rows, root, _, radius = setting("low rank", rng)
    size = radius * math.sqrt(world.core.shape[1])
    width = np.sqrt(algorithm.model.design.width_sq[0])
    for _ in range(300):
        error = rng.standard_normal(world.core.shape)
        error *= size / np.linalg.norm(error, axis=0).sum()
        moved = np.abs(rows @ np.linalg.solve(root, error)).sum(axis=1)
        assert (moved <= size * width + ALGEBRA).all()


def test_the_bound_needs_the_operator_norm_only(rng):
    """docs/proofs.md, 5: D with operator norm √β and a larger Frobenius norm is outside the ball, inside the bound."""
    world, algorithm, rows, root, _, radius = setting("low rank", rng)
    d, d_psi = world.core.shape
    error = radius * np.linalg.qr(rng.standard_normal((d, d_psi)))[0]  # d >= d' orthonormal columns
    assert np.linalg.norm(error, 2) == pytest.approx(radius)
    assert np.linalg.norm(error) > 1.5 * radius
    ball = ColumnBall().bind(_context(world))
    assert not ball.contains(error[None], np.array([radius]))[0]
    width = np.sqrt(algorithm.model.design.width_sq[0])
    moved = rows @ np.linalg.solve(root, error)  # φᵀ(M − M_n)
    assert (np.abs(moved).sum(axis=1) <= math.sqrt(d_psi) * radius * width + ALGEBRA).all()
    assert (np.linalg.norm(moved, axis=1) <= radius * width + ALGEBRA).all()
    for _ in range(50):
        v = rng.standard_normal((1, d_psi))
        upper, _ = set_bounds(world, algorithm, v, radius, kind=ColumnBall)
        member = rows @ algorithm.model.core_matrix()[0] @ v[0] + moved @ v[0]
        assert (member <= upper + ALGEBRA).all()


def test_the_root_of_d_psi_is_attained(rng):
    """A smaller factor than √d' would be false: φᵀ(M − M_n) may have d' entries of the same size."""
    world, algorithm, rows, root, _, radius = setting("low rank", rng)
    d_psi = world.core.shape[1]
    pair = 0
    direction = np.linalg.solve(root, rows[pair])
    error = radius * np.outer(direction / np.linalg.norm(direction), np.ones(d_psi) / math.sqrt(d_psi))
    v = np.ones((1, d_psi))
    upper, _ = set_bounds(world, algorithm, v, radius, kind=ColumnBall)
    member = rows[pair] @ (algorithm.model.core_matrix()[0] + np.linalg.solve(root, error)) @ v[0]
    assert member == pytest.approx(upper[pair], rel=1e-9)


def test_cauchy_schwarz_needs_d_psi(rng):
    """Σ column norms <= √d' ‖·‖_F, attained; with √d it would be false for d < d'."""
    error = np.ones((2, 7))
    assert np.linalg.norm(error, axis=0).sum() == pytest.approx(math.sqrt(7) * np.linalg.norm(error))
    assert np.linalg.norm(error, axis=0).sum() > math.sqrt(2) * np.linalg.norm(error)


@pytest.mark.parametrize("name", WORLDS)
def test_the_centre_is_the_minimiser(name, rng):
    world = WORLDS[name](0)
    u = world.features.psi.total
    v = rng.standard_normal((20, len(u))) * 3
    centres = chebyshev_centre(v, u)
    for row, ours in zip(v, centres, strict=True):
        c = cp.Variable()
        problem = cp.Problem(cp.Minimize(cp.norm(row - c * u, "inf")))
        problem.solve(solver=cp.CLARABEL)
        assert np.abs(row - ours * u).max() == pytest.approx(problem.value, abs=SOLVER)


@pytest.mark.parametrize("name", ["tabular", "low rank"])
def test_the_normalised_column_bound_covers_every_normalised_member(name, rng):
    """It is at least the exact maximum over the cut set (a linear program), and at most the uncut bound's."""
    world, algorithm, rows, root, v, _ = setting(name, rng)
    radius, u = 1.6, world.features.psi.total
    ours, _ = set_bounds(world, algorithm, v, radius, kind=NormalisedColumnBall)
    size = radius * math.sqrt(world.core.shape[1])
    for pair in (0, len(rows) - 1):
        m = cp.Variable(world.core.shape)
        cut = [column_sum(root @ (m - algorithm.model.core_matrix()[0])) <= size, rows[pair] @ m @ u == 1]
        problem = cp.Problem(cp.Maximize(rows[pair] @ m @ v[0]), cut)
        problem.solve(solver=cp.CLARABEL)
        assert ours[pair] >= problem.value - SOLVER
