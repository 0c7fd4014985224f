"""YW19 (6): the exact maximum over the Frobenius ball, and the operator-norm ball of the same radius."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from matrixrl.core.sets import FrobeniusBall
from tolerances import ALGEBRA, SOLVER
from worlds import WORLDS, set_bounds
from worlds import ball_setting as setting


def our_bounds(world, algorithm, v, radius, sign=1.0):
    return set_bounds(world, algorithm, v, radius, kind=FrobeniusBall, sign=sign)[0]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("name", ["tabular", "low rank", "low rank, orthonormal psi"])
@pytest.mark.parametrize("norm", ["fro", 2])
def test_maximum_equals_a_generic_convex_solver(name, norm, sign, rng):
    world, algorithm, rows, root, v, radius = setting(name, rng)
    ours = our_bounds(world, algorithm, v, radius, sign)
    for pair in (0, len(rows) // 2, len(rows) - 1):
        m = cp.Variable(world.core.shape)
        inside = cp.norm(root @ (m - algorithm.model.core_matrix()[0]), norm) <= radius
        problem = cp.Problem(cp.Maximize(sign * (rows[pair] @ m @ v[0])), [inside])
        problem.solve(solver=cp.CLARABEL)
        assert problem.status == "optimal"
        assert sign * ours[pair] == pytest.approx(problem.value, abs=SOLVER * max(1.0, abs(problem.value)))


@pytest.mark.parametrize("name", WORLDS)
def test_maximum_is_attained_by_a_member_and_never_exceeded(name, rng):
    world, algorithm, rows, root, v, radius = setting(name, rng)
    ours = our_bounds(world, algorithm, v, radius)
    inverse_root = np.linalg.inv(root)
    for pair, phi in enumerate(rows):
        direction = inverse_root @ phi
        step = radius * np.outer(direction / np.linalg.norm(direction), v[0] / np.linalg.norm(v[0]))
        best = algorithm.model.core_matrix()[0] + inverse_root @ step
        assert np.linalg.norm(root @ (best - algorithm.model.core_matrix()[0])) == pytest.approx(radius, rel=ALGEBRA)
        assert phi @ best @ v[0] == pytest.approx(ours[pair], rel=ALGEBRA)
    for _ in range(300):
        noise = rng.standard_normal(world.core.shape)
        member = algorithm.model.core_matrix()[0] + inverse_root @ noise * (radius / np.linalg.norm(noise))
        assert (rows @ member @ v[0] <= ours + ALGEBRA).all()


def test_operator_norm_members_never_exceed_it_either(rng):
    world, algorithm, rows, root, v, radius = setting("low rank", rng)
    ours = our_bounds(world, algorithm, v, radius)
    inverse_root = np.linalg.inv(root)
    for _ in range(300):
        left, _, right = np.linalg.svd(rng.standard_normal(world.core.shape), full_matrices=False)
        member = (
            algorithm.model.core_matrix()[0] + inverse_root @ (left @ right) * radius
        )  # all singular values at the radius
        assert (rows @ member @ v[0] <= ours + ALGEBRA).all()
