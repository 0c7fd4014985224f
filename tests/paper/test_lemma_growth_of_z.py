"""Appendix A: Z = tr (M_n − M*)ᵀA_n(M_n − M*) grows step by step as its lemma says, and its noise is a martingale."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl.problems import low_rank, tabular
from tolerances import ALGEBRA

WORLDS = [
    low_rank(n_states=15, n_actions=3, d=4, d_psi=3, horizon=5, seed=3),
    low_rank(n_states=15, n_actions=3, d=3, d_psi=4, horizon=5, orthonormal=True, seed=4),
    tabular(n_states=5, n_actions=2, horizon=4, seed=1),
]


def one_step_after_another(world, rng, steps):
    """Yield φ, the noise η, A, M and the true row P of each step, all by direct solves."""
    phi, psi = world.features.phi, world.features.psi
    dual = psi.solve_gram(psi.table)  # rows K⁻¹ψ(s)
    matrix, moment = np.eye(phi.d), np.zeros((phi.d, psi.d_psi))
    for _ in range(steps):
        s, a = int(rng.integers(phi.n_states)), int(rng.integers(phi.n_actions))
        row = world.mdp.transitions.rows(np.array([s]), np.array([a]))[0]
        following = int(rng.choice(len(row), p=row / row.sum()))
        x = phi.table[s, a]
        estimate = psi.solve_gram(np.linalg.solve(matrix, moment))
        yield x, dual[following] - world.core.T @ x, matrix.copy(), estimate, row, dual
        matrix += np.outer(x, x)
        moment += np.outer(x, psi.table[following])


@pytest.mark.parametrize("world", WORLDS, ids=["low rank", "orthonormal psi", "tabular"])
def test_z_grows_by_the_displayed_terms(world):
    """Exactly: Z₊ = Z + 2φᵀ(M−M*)η/(1+w²) + ‖η‖²w²/(1+w²) − ‖φᵀ(M−M*)‖²/(1+w²); the lemma drops the last term."""
    rng = np.random.default_rng(0)
    bound = expected = None
    for x, noise, matrix, estimate, _, _ in one_step_after_another(world, rng, 60):
        error = estimate - world.core
        z = np.trace(error.T @ matrix @ error)
        if expected is None:
            assert z == pytest.approx(np.sum(world.core**2), abs=ALGEBRA)  # Z_{1,1} = ‖M*‖_F²
            bound = z
        else:
            assert z == pytest.approx(expected, abs=1e-8)
            assert z <= bound + 1e-8
        w_sq = x @ np.linalg.solve(matrix, x)
        gain = 2.0 * (x @ error @ noise) / (1.0 + w_sq) + (noise @ noise) * w_sq / (1.0 + w_sq)
        expected = z + gain - np.sum((x @ error) ** 2) / (1.0 + w_sq)
        bound += gain
    assert bound > expected  # the dropped terms are not zero


@pytest.mark.parametrize("world", WORLDS, ids=["low rank", "orthonormal psi", "tabular"])
def test_the_noise_terms_are_martingale_differences(world):
    """Given the past, E η = 0 over the next state, so E G = 0; and ‖η‖ <= 2C_ψ', E‖η‖² <= C_ψ'² (E6)."""
    rng = np.random.default_rng(1)
    c = world.features.psi.constants.dual_norm
    for x, _, matrix, estimate, row, dual in one_step_after_another(world, rng, 20):
        noises = dual - world.core.T @ x  # one row for each next state
        w_sq = x @ np.linalg.solve(matrix, x)
        g = 2.0 * noises @ (x @ (estimate - world.core)) / (1.0 + w_sq)
        assert row @ g == pytest.approx(0.0, abs=ALGEBRA)
        assert np.linalg.norm(noises, axis=1).max() <= 2.0 * c + ALGEBRA
        assert row @ np.sum(noises**2, axis=1) <= c**2 + ALGEBRA
