from __future__ import annotations

import numpy as np
import pytest

from matrixrl import Features, InvalidInput, MatrixRL, Task, make, one_hot, tensor_product
from matrixrl.features import OneHotPhi, OneHotPsi, TablePhi, TablePsi
from tolerances import EXACT


def test_one_hot_maps_equal_their_tables(rng):
    """One-hot maps and dense tables give the same products."""
    lean, dense = OneHotPhi(4, 3), TablePhi(OneHotPhi(4, 3).table)
    thin, thick = OneHotPsi(4), TablePsi(np.eye(4))
    weights, values = rng.standard_normal((2, 12)), rng.standard_normal((2, 4))
    np.testing.assert_array_equal(lean.dot(weights), dense.dot(weights))
    np.testing.assert_array_equal(thin.project(values), thick.project(values))
    pairs, following = rng.integers(0, 12, (2, 9)), rng.integers(0, 4, (2, 9))
    taken = (rng.random((2, 9)) < 0.7).astype(float)
    moments = []
    for phi in (lean, dense):
        for psi in (thin, thick):
            moment = np.zeros((2, 12, 4))
            phi.accumulate(moment, psi, pairs, following, taken)
            moments.append(moment)
    for moment in moments[1:]:
        np.testing.assert_allclose(moment, moments[0], atol=EXACT)
    np.testing.assert_array_equal(lean.rows(pairs), dense.rows(pairs))
    assert thick.constants.dual_norm == pytest.approx(thin.constants.dual_norm)
    assert thick.constants.noise_scale == pytest.approx(thin.constants.noise_scale)


def test_pairs_and_tables_agree_on_which_pair_is_which(rng):
    table = rng.standard_normal((4, 3, 5))
    phi = TablePhi(table)
    np.testing.assert_array_equal(phi.table, table)
    np.testing.assert_array_equal(phi.rows(phi.pairs(np.array([2]), np.array([1])))[0], table[2, 1])
    values = phi.dot(np.eye(5)[:1])
    assert values[0, 1, 2] == table[2, 1, 0]


def test_tensor_product_is_the_kronecker_product(rng):
    f, g = rng.standard_normal((4, 2)), rng.standard_normal((3, 3))
    phi = tensor_product(f, g)
    np.testing.assert_allclose(phi.table[2, 1], np.kron(f[2], g[1]), atol=EXACT)


@pytest.mark.parametrize("kind", ["normalised", "tightest"])
def test_tensor_product_with_one_hot_is_tabular(kind):
    """One-hot features and their tensor product give the same run."""
    env = make("river-swim", n_states=4, horizon=8)
    chosen = {"seed": 3, "preset": "tuned", "set": kind}
    plain = MatrixRL(env, **chosen).learn(30)
    product = MatrixRL(env, phi=tensor_product(np.eye(4), np.eye(2)), **chosen).learn(30)
    np.testing.assert_allclose(plain.regret, product.regret, atol=1e-9)


def test_the_agent_does_not_depend_on_the_basis_of_psi(rng):
    """K_ψ⁻¹ makes the estimate independent of a rotation of ψ, and the constant radius of its scale."""
    env = make("linear-mdp", n_states=20, d=3, horizon=4)
    psi = env.unwrapped.mdp.features.psi.table
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    plain = MatrixRL(env, seed=1, preset="tuned").learn(25)
    turned = MatrixRL(env, psi=7.0 * psi @ rotation, seed=1, preset="tuned").learn(25)
    np.testing.assert_allclose(plain.upper, turned.upper, rtol=1e-8)


def test_singular_psi_names_the_direction_and_the_way_out():
    env = make("river-swim", n_states=4)
    psi = np.column_stack([np.eye(4), np.eye(4)[:, 1]])
    with pytest.raises(InvalidInput) as caught:
        MatrixRL(env, psi=psi)
    message = str(caught.value)
    assert "psi[1]" in message
    assert "psi[4]" in message
    assert "psi_pinv=True" in message


def test_the_pseudo_inverse_gives_the_same_agent_as_dropping_the_column():
    env = make("river-swim", n_states=4, horizon=8)
    doubled = np.column_stack([np.eye(4), np.eye(4)[:, 1]])
    reduced = np.eye(4)
    reduced[1, 1] = np.sqrt(2.0)  # the same kernel ψᵀψ, one column fewer
    one = MatrixRL(env, psi=doubled, psi_pinv=True, seed=0, preset="tuned").learn(20)
    two = MatrixRL(env, psi=reduced, seed=0, preset="tuned").learn(20)
    np.testing.assert_allclose(one.upper, two.upper, rtol=1e-9)


@pytest.mark.parametrize(
    ("phi", "words"),
    [
        (np.ones((3, 2, 2)), ["phi", "4 states", "2 actions"]),
        (np.ones((4, 3, 2)), ["phi", "4 states"]),
        (np.ones((4, 2)), ["phi", "shape"]),
        (np.full((4, 2, 2), np.nan), ["phi", "finite", "nan at [0, 0, 0]"]),
        (np.full((4, 2, 2), np.inf), ["phi", "finite"]),
        (np.ones((4, 2, 0)), ["phi", "shape"]),
    ],
)
def test_bad_phi(phi, words):
    with pytest.raises(InvalidInput) as caught:
        MatrixRL(make("river-swim", n_states=4), phi=phi)
    for word in words:
        assert word in str(caught.value)


def test_bad_psi_is_the_one_that_is_named():
    with pytest.raises(InvalidInput, match="psi must cover 4 states; got 3"):
        MatrixRL(make("river-swim", n_states=4), psi=np.eye(3))


def test_phi_and_psi_must_be_of_the_same_states():
    with pytest.raises(InvalidInput, match="psi must cover 4 states; got 5"):
        Task(n_states=4, n_actions=2, horizon=3, features=Features(OneHotPhi(4, 2), OneHotPsi(5)))
    with pytest.raises(InvalidInput, match="4 states"):
        one_hot(3, 2).cover(4, 2)
