"""The self-normalised radius: its lemma, its coverage at all n at once, and what it is made of."""

from __future__ import annotations

import math

import cvxpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from matrixrl.core import regularity, reward_regularity
from matrixrl.features import Features, OneHotPhi, OneHotPsi
from matrixrl.problems import low_rank, tabular
from small_worlds import phi_rows
from tolerances import ALGEBRA, SOLVER
from worlds import WORLDS, algorithm_with_data, learn, model_radii, random_batch

_RIDGE = 1e-3


@given(st.integers(0, 100_000), st.integers(1, 5), st.integers(2, 6), st.floats(0.05, 3.0), st.floats(0.0, 4.0))
def test_hoeffding_lemma_in_hilbert_space(seed, dimension, atoms, size, start):
    """E cosh‖f + X − EX‖ <= exp(C²/2) cosh‖f‖ for ‖X‖ <= C: the step of the supermartingale (docs/proofs.md)."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((atoms, dimension))
    points *= size * rng.random((atoms, 1)) ** 0.25 / np.linalg.norm(points, axis=1, keepdims=True)
    weights = rng.dirichlet(np.full(atoms, 0.5))
    f = rng.standard_normal(dimension)
    f *= start / np.linalg.norm(f)
    moved = np.linalg.norm(f + points - weights @ points, axis=1)
    assert weights @ np.cosh(moved) <= math.exp(size**2 / 2) * math.cosh(start) * (1 + 1e-12)


def test_hoeffding_lemma_is_tight_for_two_opposite_points():
    """The constant cannot be better than C: two points ±C, far from the start of the walk, small C."""
    size = 1e-2
    left = (math.cosh(5 + size) + math.cosh(5 - size)) / 2
    assert left / math.cosh(5) == pytest.approx(math.exp(size**2 / 2), rel=1e-8)


@pytest.mark.parametrize("make", [tabular, low_rank])
def test_the_core_is_inside_at_all_n_as_often_as_promised(make):
    """Coverage over 400 runs of 60 episodes, δ = 0.3, against 1 − δ, with so small a ridge that noise is all there is.

    The test fails by chance with probability below 1e-6 (binomial), if the claim were exactly tight.
    """
    world = make(n_states=6, n_actions=2, horizon=5, seed=2, **({"d": 3} if make is low_rank else {}))
    runs, delta = 400, 0.3
    rng = np.random.default_rng(0)
    settings = {"delta": delta, "radius": "self-normalised", "ridge": _RIDGE}
    algorithm, _ = algorithm_with_data(world, rng, episodes=0, n_replicas=runs, **settings)
    inside = np.ones(runs, dtype=bool)
    for _ in range(60):
        batch = random_batch(world, rng, runs, 5)
        learn(algorithm, world, batch)
        arrays = algorithm.model.design.arrays()
        eye = np.eye(algorithm.problem.features.phi.d)
        matrix = arrays["design"] if "design" in arrays else (_RIDGE + arrays["counts"])[:, :, None] * eye
        error = np.linalg.cholesky(matrix).transpose(0, 2, 1) @ (world.core - algorithm.model.core_matrix())
        inside &= np.linalg.norm(error, 2, axis=(1, 2)) <= model_radii(algorithm)[:, 0]
    misses = int((~inside).sum())
    assert binom.sf(misses - 1, runs, delta) > 1e-6


@pytest.mark.parametrize("name", WORLDS)
def test_the_constants_are_valid_without_looking_at_p(name):
    for seed in range(20):
        world = WORLDS[name](seed)
        constants = regularity(world.features)
        targets = world.features.psi.table @ np.linalg.inv(world.features.psi.table.T @ world.features.psi.table)
        assert np.linalg.norm(world.core) <= constants.core_norm * (1 + 1e-9)
        assert np.linalg.norm(targets, axis=1).max() <= constants.c_psi_inv * (1 + 1e-9)
        norms = (world.features.phi.table**2).sum(axis=-1)
        assert norms.max() <= constants.c_phi * constants.d * (1 + 1e-9)


@pytest.mark.parametrize("name", WORLDS)
def test_all_targets_lie_in_a_ball_of_the_noise_scale(name):
    """The smallest ball around all K_ψ⁻¹ψ(s), by a convex solver, is within L, the better of two known balls."""
    for seed in range(5):
        psi = WORLDS[name](seed).features.psi
        targets = psi.table @ np.linalg.inv(psi.table.T @ psi.table)
        centre, radius = cvxpy.Variable(targets.shape[1]), cvxpy.Variable()
        inside = [cvxpy.norm(target - centre) <= radius for target in targets]
        cvxpy.Problem(cvxpy.Minimize(radius), inside).solve(solver="CLARABEL")
        assert radius.value <= psi.constants.noise_scale + SOLVER
        around = [np.linalg.norm(targets - c, axis=1).max() for c in (0.0, targets.mean(axis=0))]
        assert psi.constants.noise_scale == pytest.approx(min(around), rel=ALGEBRA)


@pytest.mark.parametrize("ridge", [1.0, 25.0])
@pytest.mark.parametrize("radius", ["self-normalised", "block"])
@pytest.mark.parametrize("name", WORLDS)
def test_before_any_data_every_law_and_every_reward_is_inside(name, radius, ridge):
    """With A = λI the error is √λM* itself: nothing but the bound on ‖M*‖ (and ‖θ*‖) can cover it."""
    for seed in range(5):
        world = WORLDS[name](seed)
        settings = {"radius": radius, "ridge": ridge, "delta": 0.999, "known_reward": False}
        algorithm, _ = algorithm_with_data(world, np.random.default_rng(0), episodes=0, **settings)
        radii = algorithm.model.confidence.radii(algorithm.model.design, algorithm.clock)
        width = np.sqrt(algorithm.model.design.width_sq)
        moved = np.linalg.norm(phi_rows(world) @ world.core, axis=1)
        assert (moved <= radii.models * width * (1 + ALGEBRA)).all()
        assert (radii.rewards * width >= 1.0 - ALGEBRA).all()  # rewards may be anything in [0, 1]
        assert (algorithm.model.bounds(algorithm.clock, "agent")[0].most >= 1.0 - ALGEBRA).all()


def test_the_bounds_on_both_norms_are_attained():
    """One-hot pairs that all lead to one state and all pay 1: ‖M*‖ and ‖θ*‖ are √d, as large as their bounds."""
    phi = OneHotPhi(4, 3)
    core, theta = np.zeros((12, 4)), np.ones(12)
    core[:, 0] = 1.0
    assert regularity(Features(phi, OneHotPsi(4))).core_norm == pytest.approx(np.linalg.norm(core))
    assert reward_regularity(phi, 1.0).core_norm == pytest.approx(np.linalg.norm(theta))
    assert reward_regularity(phi, 9.0).core_norm == pytest.approx(3.0 * np.linalg.norm(theta))


@pytest.mark.parametrize("name", WORLDS)
def test_e6_the_noise_is_bounded_by_twice_the_constant_and_its_variance_by_its_square(name):
    """E6: ‖η‖₂ <= 2C_ψ' and E‖η‖² <= C_ψ'²; printed as ‖η‖² <= 2C_ψ'."""
    world = WORLDS[name](4)
    psi = world.features.psi.table
    targets = psi @ np.linalg.inv(psi.T @ psi)
    constant = regularity(world.features).c_psi_inv
    for s in range(world.mdp.n_states):
        for a in range(world.mdp.n_actions):
            row = world.mdp.transitions.rows(np.array([s]), np.array([a]))[0]
            noise = np.linalg.norm(targets - world.features.phi.table[s, a] @ world.core, axis=1)
            assert noise[row > 1e-12].max() <= 2 * constant * (1 + 1e-9)
            assert row @ noise**2 <= constant**2 * (1 + 1e-9)


def test_the_radius_number_by_number():
    """‖M*‖ bound + L √(2 ln(1/δ) + ln det A): every part of it moves the result as it should."""
    from matrixrl.core import RADII, RadiusInputs
    from matrixrl.features import one_hot

    features = one_hot(6, 2)
    design = features.phi.design(1)
    design.update(np.array([[0, 0, 1, 5]]), np.ones((1, 4)))
    given = {
        "regularity": regularity(features),
        "horizon": 24,
        "episode": 2,
        "n_episodes": None,
        "design": design,
        "blocks": features.phi.blocks(),
    }
    for delta in (0.05, 0.001):
        noise = math.sqrt(1 - 1 / 6) * math.sqrt(2 * math.log(1 / delta) + math.log(3 * 2 * 2))
        ours = RADII["self-normalised"]()(RadiusInputs(delta=delta, **given))
        assert ours[0, 0] == pytest.approx(math.sqrt(12) + noise)


def test_the_noise_term_is_needed():
    """Where noise dominates (many visits, exact bias), a third of the noise term would not cover.

    Fair coins at one pair: ‖A^{1/2}(p − p̂)‖ is of the order of L, and over 2,000 visits its maximum passes L.
    """
    rng = np.random.default_rng(0)
    flips = rng.integers(0, 2, (300, 2_000))
    n = np.arange(1, 2_001)
    share = flips.cumsum(axis=1) / (1 + n)
    error = np.sqrt(1 + n) * np.sqrt((share - 0.5) ** 2 + ((n - flips.cumsum(axis=1)) / (1 + n) - 0.5) ** 2)
    bias, scale = 1 / np.sqrt(1 + n), math.sqrt(1 / 2)

    def misses(factor):
        radius = bias + factor * scale * np.sqrt(2 * math.log(1 / 0.05) + np.log1p(n))
        return (error > radius).any(axis=1).mean()

    assert misses(1.0) <= 0.05
    assert misses(1 / 3) > 0.3


@pytest.mark.parametrize("stride_breaks_it", [4, 1])
def test_a_direction_that_one_pair_alone_shows_counts(stride_breaks_it):
    """A feature that only one of many pairs has, and only weakly, still enters the bound on ‖M*‖."""
    from matrixrl.features import Features, OneHotPsi, TablePhi

    table = np.zeros((8192, 2, 2))
    table[:, :, 0] = 1.0
    table[stride_breaks_it, 0] = [0.0, 0.01]
    constants = regularity(Features(TablePhi(table), OneHotPsi(8192)))
    assert constants.core_norm >= 1 / 0.01  # its row of M* is as long as a distribution divided by 0.01
