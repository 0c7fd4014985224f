"""Kernels of many points: the factorisation that forms no Gram matrix, and features that each action has a copy of."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import InvalidInput, KernelMatrixRL, make
from matrixrl.features import Phi, TablePhi, from_kernels, kernel_features
from matrixrl.features.from_kernels import factor_gram, factor_kernel
from matrixrl.features.kernels import as_kernel, rbf_kernel
from matrixrl.features.phi import design_eigenvalue, find_blocks
from tolerances import ALGEBRA, EXACT

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(-1.0, 1.0, (1_300, 2))


def matern(x, y):
    r = np.abs(x[:, None] - y[None]).sum(axis=2)
    return np.exp(-r)


@pytest.mark.parametrize("kernel", [rbf_kernel(0.5), rbf_kernel(0.1), as_kernel(lambda x, y: x @ y.T + 1.0)])
def test_inner_products_are_the_kernel(kernel):
    z, _ = factor_kernel("k", kernel, POINTS)
    gram = kernel(POINTS, POINTS)
    largest = np.linalg.eigvalsh(gram)[-1]
    np.testing.assert_allclose(z @ z.T, gram, atol=1e-10 * largest)  # the eigenvalues that are left out
    inner = z.T @ z
    np.testing.assert_allclose(inner, np.diag(np.diagonal(inner)), atol=ALGEBRA * largest)


def test_the_guarantee_says_so_if_something_above_rounding_is_left_out():
    assert factor_kernel("k", as_kernel(lambda x, y: x @ y.T + 1.0), POINTS)[1] is None  # of rank 3
    assert "P may need them" in factor_kernel("k", rbf_kernel(0.5), POINTS)[1]
    assert factor_kernel("k", rbf_kernel(1e-4), POINTS)[1] is None  # of full rank, and all of it is kept


def test_what_no_pivot_was_chosen_for_counts_as_left_out():
    line, tiny = as_kernel(lambda x, y: x @ y.T + 1.0), rbf_kernel(0.3)
    z, words = factor_kernel("k", as_kernel(lambda x, y: line(x, y) + 1e-12 * tiny(x, y)), POINTS)
    assert z.shape[1] == 3
    assert "P may need them" in words


@pytest.mark.parametrize("kernel", [matern, rbf_kernel(0.7)], ids=["all directions", "some left out"])
def test_with_few_points_both_factorisations_agree(monkeypatch, kernel):
    points, kernel = POINTS[:80], as_kernel(kernel)
    exact, words = factor_gram("k", kernel(points, points))
    monkeypatch.setattr(from_kernels, "_WHOLE_GRAM", 40)
    found, others = factor_kernel("k", kernel, points)
    np.testing.assert_allclose(found @ found.T, exact @ exact.T, atol=1e-8)
    assert (words is None) == (others is None)
    if kernel(points, points)[0, 1] == matern(points, points)[0, 1]:
        assert found.shape == exact.shape == (80, 80)


def test_learning_is_the_same_by_both(monkeypatch):
    env, returns, bounds = make("grid-world", size=6, horizon=10), [], []
    for limit in (1_000, 20):
        monkeypatch.setattr(from_kernels, "_WHOLE_GRAM", limit)
        agent = KernelMatrixRL(env, k_phi=matern, preset="optimistic", seed=0)
        returns.append(agent.learn(15).returns)
        bounds.append(agent.algorithm.plan().values)
    np.testing.assert_array_equal(*returns)
    np.testing.assert_allclose(*bounds, atol=1e-7)


def test_what_is_no_kernel_is_refused():
    for function in (
        lambda x, y: -(x @ y.T),
        lambda x, y: np.cos(8.0 * (x @ y.T)) + (x[:, None] == y[None]).all(axis=2),
        lambda x, y: np.exp(-np.abs(x[:, :1] - y[None, :, 0] + 0.1 * (x[:, :1] > y[None, :, 0]))),
    ):
        with pytest.raises(InvalidInput, match=r"must be.* (symmetric|positive semi-definite)"):
            factor_kernel("k_phi", as_kernel(function, "k_phi"), POINTS)


def test_what_is_a_kernel_on_the_first_points_alone_is_refused():
    points = POINTS[np.argsort(POINTS[:, 0])]

    def late(x, y):
        both = (x[:, :1] > 0.0) & (y[None, :, 0] > 0.0) & (x[:, None] != y[None]).any(axis=2)
        return np.where(both, -0.9, rbf_kernel(0.5)(x, y))

    with pytest.raises(InvalidInput, match="must be symmetric and positive semi-definite"):
        factor_kernel("k_phi", as_kernel(late, "k_phi"), points)


class Plain(Phi):
    """The same features as of another map, and nothing else of it."""

    def __init__(self, other):
        self.n_states, self.n_actions, self.d, self._other = other.n_states, other.n_actions, other.d, other

    def rows(self, pairs):
        return self._other.flat[pairs]


def test_a_copy_of_state_features_for_each_action_is_seen_and_changes_nothing():
    copies = kernel_features(POINTS[:30], 3, k_phi=rbf_kernel(0.8)).phi
    plain, rng = Plain(copies), np.random.default_rng(1)
    assert copies.of_state.shape == (30, copies.d // 3)
    weights = rng.normal(size=(2, copies.d))
    np.testing.assert_allclose(copies.dot(weights), plain.dot(weights), atol=ALGEBRA)
    one, other = copies.blocks(), plain.blocks()
    np.testing.assert_array_equal(one.pair_block, other.pair_block)
    assert [m.tolist() for m in one.members] == [m.tolist() for m in other.members]
    np.testing.assert_allclose(one.eigenvalues, other.eigenvalues, rtol=1e-6)
    assert copies.too_small == plain.too_small
    designs = copies.design(2, 0.1), plain.design(2, 0.1)
    for _ in range(3):
        pairs = rng.integers(0, 90, (2, 5))
        for design in designs:
            design.update(pairs, np.ones((2, 5)))
    np.testing.assert_allclose(*(design.width_sq for design in designs), atol=ALGEBRA)
    for design in designs:
        design.refresh()
    np.testing.assert_allclose(*(design.width_sq for design in designs), atol=ALGEBRA)


def test_features_that_only_look_like_copies_are_not_taken_for_them():
    z = RNG.random((6, 2))
    table = np.einsum("aj,sm->sajm", np.eye(2), z).reshape(6, 2, 4)
    assert TablePhi(table).of_state is not None
    for s, a, j in ((3, 0, 0), (5, 1, 3), (2, 0, 3), (4, 1, 0)):
        other = table.copy()
        other[s, a, j] += 0.5
        assert TablePhi(other).of_state is None
    assert TablePhi(np.ones((4, 1, 3))).of_state is None
    assert TablePhi(np.ones((4, 2, 3))).of_state is None


def test_weights_are_divided_between_blocks_in_the_best_way():
    """One feature of length s_i for each pair: the best weights are proportional to 1/s_i², and give 1/Σ 1/s_i²."""
    sizes = np.array([1.0, 2.0, 0.5, 3.0])
    phi = TablePhi(np.diag(sizes)[:, None])
    assert phi.smallest_design_eigenvalue() == pytest.approx(1.0 / (1.0 / sizes**2).sum(), rel=1e-9)
    unused = TablePhi(np.hstack([np.diag(sizes), np.zeros((4, 2))])[:, None])
    assert unused.smallest_design_eigenvalue() == pytest.approx(phi.smallest_design_eigenvalue(), rel=EXACT)
    rows = np.zeros((40, 5))
    rows[:20, :2], rows[20:, 2:] = RNG.normal(size=(20, 2)), 3.0 * RNG.normal(size=(20, 3))
    together = TablePhi(rows[:, None])
    assert together.blocks().count == 2
    shares = 1.0 / together.blocks().eigenvalues
    shares /= shares.sum()
    assert together.smallest_design_eigenvalue() == pytest.approx((shares * together.blocks().eigenvalues).min())
    assert together.smallest_design_eigenvalue() >= design_eigenvalue(rows) * (1.0 - 1e-9)
    assert find_blocks(rows).count == 2


def test_a_saved_agent_with_a_kernel_goes_on_with_the_same_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(from_kernels, "_WHOLE_GRAM", 20)
    env = make("grid-world", size=6, horizon=10)
    agent = KernelMatrixRL(env, seed=0)
    agent.learn(6)
    agent.save(tmp_path / "agent")
    other = KernelMatrixRL.load(tmp_path / "agent", env)
    assert other.problem.features.phi.of_state is not None
    np.testing.assert_array_equal(agent.learn(6).returns, other.learn(6).returns)
    np.testing.assert_array_equal(*(a.algorithm.plan().values for a in (agent, other)))
