"""One contract for every set and every radius: membership, bounds, coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.stats import binom

from matrixrl.core import RADII, SETS
from matrixrl.problems import low_rank, tabular
from printed_ball import root_max_norms
from tolerances import ALGEBRA
from worlds import WORLDS, algorithm_with_data, ball_setting, learn, model_radii, random_batch, set_bounds, set_context


@pytest.mark.parametrize("kind", SETS)
@given(name=st.sampled_from(sorted(WORLDS)), seed=st.integers(0, 1000))
def test_if_the_set_holds_the_core_its_bounds_hold(kind, name, seed):
    """The smallest radius that contains M* gives bounds around the truth for every pair and any V."""
    rng = np.random.default_rng(seed)
    world, algorithm, rows, root, v, _ = ball_setting(name, rng)
    error = (root @ (world.core - algorithm.model.core_matrix()[0]))[None]
    made = SETS[kind]().bind(set_context(world))
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if made.contains(error, np.array([middle]))[0] else (middle, high)
    truth = rows @ world.core @ v[0]
    radius = high * (1 + ALGEBRA)
    upper, _ = set_bounds(world, algorithm, v, radius, kind=SETS[kind])
    lower, _ = set_bounds(world, algorithm, v, radius, kind=SETS[kind], sign=-1.0)
    assert (truth <= upper + ALGEBRA).all()
    assert (truth >= lower - ALGEBRA).all()


@pytest.mark.parametrize("kind", SETS)
def test_a_set_holds_its_centre_and_not_what_is_far(kind, rng):
    world, _algorithm, *_ = ball_setting("low rank", rng)
    made = SETS[kind]().bind(set_context(world))
    radius = np.array([0.5])
    assert made.contains(np.zeros((1, *world.core.shape)), radius)[0]
    assert not made.contains(np.full((1, *world.core.shape), 50.0), radius)[0]


@pytest.mark.parametrize("make", [tabular, low_rank])
@pytest.mark.parametrize("radius", [r for r in RADII if r != "constant"])
def test_the_core_is_inside_at_all_n_as_often_as_promised(radius, make):
    """Coverage over 200 runs of 40 episodes, δ = 0.2; by chance below 1e-6 if the claim were exactly tight.

    Per pair where the radius is per pair: ‖φᵀ(M* − M_n)‖ <= √β w is what every bound rests on.
    """
    extra = {"d": 3} if make is low_rank else {}
    world = make(n_states=5, n_actions=2, horizon=4, seed=3, **extra)
    runs, delta = 200, 0.2
    rng = np.random.default_rng(1)
    settings = {"delta": delta, "radius": radius, "ridge": 1e-3}  # noise, not the bias of the ridge, must be covered
    algorithm, _ = algorithm_with_data(world, rng, episodes=0, n_replicas=runs, **settings)
    table = world.features.phi.table
    rows = table.transpose(1, 0, 2).reshape(-1, table.shape[-1])
    inside = np.ones(runs, dtype=bool)
    for _ in range(40):
        learn(algorithm, world, random_batch(world, rng, runs, 4))
        moved = np.linalg.norm(np.einsum("pd,bde->bpe", rows, world.core - algorithm.model.core_matrix()), axis=2)
        reach = model_radii(algorithm) * np.sqrt(algorithm.model.design.width_sq)
        inside &= (moved <= reach + ALGEBRA).all(axis=1)
    assert binom.sf(int((~inside).sum()) - 1, runs, delta) > 1e-6


def test_a_radius_that_is_too_small_fails_the_coverage_test():
    """The test above can fail: a tenth of the block radius does not cover."""
    world = tabular(n_states=5, n_actions=2, horizon=4, seed=3)
    rng = np.random.default_rng(1)
    algorithm, _ = algorithm_with_data(world, rng, episodes=0, n_replicas=200, delta=0.2, exploration=0.1)
    table = world.features.phi.table
    rows = table.transpose(1, 0, 2).reshape(-1, table.shape[-1])
    inside = np.ones(200, dtype=bool)
    for _ in range(40):
        learn(algorithm, world, random_batch(world, rng, 200, 4))
        moved = np.linalg.norm(np.einsum("pd,bde->bpe", rows, world.core - algorithm.model.core_matrix()), axis=2)
        reach = model_radii(algorithm) * np.sqrt(algorithm.model.design.width_sq)
        inside &= (moved <= reach).all(axis=1)
    assert binom.sf(int((~inside).sum()) - 1, 200, 0.2) < 1e-6


def test_the_symmetric_root_is_used_by_the_printed_ball(rng):
    """‖A^{-1/2}φ‖_∞ depends on the root; ours is the symmetric one."""
    _world, algorithm, rows, root, _, _ = ball_setting("low rank", rng)
    by_hand = np.abs(rows @ np.real(sqrtm(np.linalg.inv(root @ root)))).max(axis=1)
    np.testing.assert_allclose(root_max_norms(algorithm.model.design)[0], by_hand, rtol=1e-9)


def test_intersection_is_the_smaller_of_its_members(rng):
    world, algorithm, _, _, v, _ = ball_setting("tabular", rng)
    both, _ = set_bounds(world, algorithm, v, 1.5, kind=SETS["intersection"])
    one, _ = set_bounds(world, algorithm, v, 1.5, kind=SETS["normalised"])
    two, _ = set_bounds(world, algorithm, v, 1.5, kind=SETS["normalised-column"])
    np.testing.assert_array_equal(both, np.minimum(one, two))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@given(name=st.sampled_from(sorted(WORLDS)), seed=st.integers(0, 1000), radius=st.floats(0.8, 30.0))
def test_the_normalised_column_bound_is_never_tighter_than_the_normalised_one(name, seed, radius, sign):
    """docs/proofs.md, 5: at one radius an intersection of the two is the normalised ball, wherever it is not empty."""
    world, algorithm, _, _, v, _ = ball_setting(name, np.random.default_rng(seed))
    ball, belief = set_bounds(world, algorithm, v, radius, kind=SETS["normalised"], sign=sign)
    column, _ = set_bounds(world, algorithm, v, radius, kind=SETS["normalised-column"], sign=sign)
    both, _ = set_bounds(world, algorithm, v, radius, kind=SETS["intersection"], sign=sign)
    empty = belief.reaches[0].empty
    held = np.ones(len(ball), dtype=bool) if empty is None else ~empty[0]
    assert (sign * (column - ball)[held] >= -ALGEBRA).all()
    np.testing.assert_allclose(both[held], ball[held], atol=ALGEBRA)


def test_the_intersection_has_the_bounds_of_the_normalised_ball_and_its_delta(rng):
    world = WORLDS["tabular"](11)
    plans = [
        algorithm_with_data(world, np.random.default_rng(0), episodes=4, set=kind, known_reward=False)[0].plan()
        for kind in ("intersection", "normalised")
    ]
    np.testing.assert_allclose(plans[0].values, plans[1].values, atol=ALGEBRA)
