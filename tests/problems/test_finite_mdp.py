from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from matrixrl import FiniteMDP, InvalidInput, Task, evaluate, solve
from matrixrl.features import FunctionPhi
from matrixrl.problems import FactoredTransitions, SparseTransitions, low_rank, optimal_q, tabular
from tolerances import EXACT


def brute_force_value(mdp, policy, state, stage):
    """V^π by enumerating futures: no matrix, no backward induction."""
    if stage == mdp.horizon:
        return 0.0
    a = policy[stage][state]
    row = mdp.transitions.rows(np.array([state]), np.array([a]))[0]
    future = sum(p * brute_force_value(mdp, policy, s, stage + 1) for s, p in enumerate(row) if p > 0)
    return mdp.task.reward[state, a] + future


@given(st.integers(0, 1000))
def test_evaluation_equals_enumeration_and_the_optimum_is_the_best_policy(seed):
    mdp = tabular(n_states=2, n_actions=2, horizon=3, seed=seed).mdp
    best = -np.inf
    for flat in itertools.product(range(2), repeat=6):
        policy = np.array(flat).reshape(3, 2)
        value = evaluate(mdp, policy)[0, 0]
        assert value == pytest.approx(brute_force_value(mdp, policy, 0, 0), abs=EXACT)
        best = max(best, value)
    assert solve(mdp).start_value == pytest.approx(best, abs=EXACT)


def test_q_star_is_consistent_with_v_star():
    mdp = tabular(n_states=6, n_actions=3, horizon=5, seed=1).mdp
    solution, q = solve(mdp), optimal_q(mdp)
    np.testing.assert_allclose(q.max(axis=2), solution.values[:-1], atol=EXACT)
    np.testing.assert_allclose(evaluate(mdp, solution.policy), solution.values, atol=EXACT)


def three_forms(seed):
    world = low_rank(n_states=9, n_actions=2, d=3, horizon=4, seed=seed)
    factored = world.mdp.transitions
    states, actions = np.divmod(np.arange(18), 2)
    rows = factored.rows(states, actions)
    dense = FiniteMDP(rows.reshape(9, 2, 9), world.mdp.task.reward, 4).transitions
    return factored, dense, SparseTransitions(sparse.csr_array(rows), 2)


@given(st.integers(0, 1000))
def test_dense_sparse_and_factored_agree(seed):
    factored, dense, thin = three_forms(seed)
    rng = np.random.default_rng(seed)
    values = rng.random((3, 9))
    np.testing.assert_allclose(dense.expect(values), factored.expect(values), atol=EXACT)
    np.testing.assert_allclose(thin.expect(values), factored.expect(values), atol=EXACT)
    states, actions, u = rng.integers(0, 9, 50), rng.integers(0, 2, 50), rng.random(50)
    np.testing.assert_array_equal(dense.sample(states, actions, u), thin.sample(states, actions, u))


@pytest.mark.parametrize("form", [0, 1, 2])
def test_sampling_follows_the_distribution(form):
    """A perfect grid of 200,000 uniforms: the error is the discretisation alone."""
    transitions = three_forms(3)[form]
    n = 200_000
    for s, a in ((0, 0), (4, 1)):
        u = (np.arange(n) + 0.5) / n
        drawn = transitions.sample(np.full(n, s), np.full(n, a), u)
        share = np.bincount(drawn, minlength=9) / n
        np.testing.assert_allclose(share, transitions.rows(np.array([s]), np.array([a]))[0], atol=1e-4)


def factored_forms(phi, factors):
    """The same law with φ as a table and as a function, and with dense and sparse factors."""
    maps = (phi, FunctionPhi(lambda states: phi[states], *phi.shape[:2]))
    return [FactoredTransitions(m, f) for m in maps for f in (factors, sparse.coo_array(factors))]


@given(st.integers(0, 1000))
def test_every_form_of_a_factored_law_is_the_same_law(seed):
    """Mixtures with many zeros, or signed factors: the same rows, expectations and next states."""
    rng = np.random.default_rng(seed)
    n_states, n_actions, d = rng.integers(2, 12), rng.integers(1, 4), rng.integers(1, 5)
    phi, factors = rng.dirichlet(np.full(d, 0.3), size=(n_states, n_actions)), rng.dirichlet(np.ones(n_states), size=d)
    factors[factors < 0.1] = 0.0
    factors /= factors.sum(axis=1, keepdims=True)
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0] if seed % 2 else np.eye(d)
    first, *others = factored_forms(phi @ rotation, rotation.T @ factors)
    states, actions, u = rng.integers(0, n_states, 50), rng.integers(0, n_actions, 50), rng.random(50)
    values = rng.standard_normal((3, n_states))
    rows, drawn = first.rows(states, actions), first.sample(states, actions, u)
    np.testing.assert_allclose(rows, np.einsum("kd,ds->ks", phi[states, actions], factors), atol=EXACT)
    assert (rows[np.arange(50), drawn] > 0).all()
    for other in others:
        np.testing.assert_allclose(other.rows(states, actions), rows, atol=EXACT)
        np.testing.assert_allclose(other.expect(values), first.expect(values), atol=EXACT)
        np.testing.assert_array_equal(other.sample(states, actions, u), drawn)
        one_by_one = [other.sample(states[i : i + 1], actions[i : i + 1], u[i : i + 1])[0] for i in range(50)]
        np.testing.assert_array_equal(one_by_one, drawn)


def test_a_function_may_mix_some_pairs_and_not_others():
    """State 0 has a negative weight but a valid row; state 1 is a mixture; state 2 has no valid row."""
    phi = np.array([[[-0.5, 1.5]], [[0.25, 0.75]], [[-2.0, 3.0]]])
    factors = np.array([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25]])
    law = FactoredTransitions(FunctionPhi(lambda states: phi[states], 3, 1), factors)
    u, zero = np.linspace(0, 0.9999, 201), np.zeros(201, dtype=int)
    mixed = law.sample(np.tile([0, 1], 201), np.tile(zero, 2), np.repeat(u, 2))
    np.testing.assert_array_equal(mixed[::2], np.searchsorted(np.cumsum([0.125, 0.5, 0.375]), u, side="right"))
    np.testing.assert_array_equal(mixed[1::2], law.sample(zero + 1, zero, u))
    for ask in (lambda: law.rows(np.array([2]), np.array([0])), lambda: law.sample(np.array([2]), zero[:1], u[:1])):
        with pytest.raises(InvalidInput, match="factors must not be negative"):
            ask()
    with pytest.raises(InvalidInput, match="factors must not be negative"):
        FactoredTransitions(phi, factors)


def test_signed_factors_are_accepted_and_sampled_rightly():
    """A rotation of the features has negative entries, but P is the same."""
    world = low_rank(n_states=8, n_actions=2, d=3, horizon=4, seed=0)
    phi = world.features.phi.table
    factors = world.core @ world.features.psi.table.T
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    u = np.linspace(0, 0.9999, 501)
    states, actions = np.zeros(501, dtype=int), np.ones(501, dtype=int)
    row = world.mdp.transitions.rows(states[:1], actions[:1])[0]
    expected = np.searchsorted(np.cumsum(row), u, side="right")
    for turned in factored_forms(phi @ rotation, rotation.T @ factors):
        np.testing.assert_array_equal(turned.sample(states, actions, u), expected)


def test_a_function_with_sparse_factors_stores_nothing_of_size_s_times_a():
    """S·A is 10⁷ numbers, 80 MB; the factors have 2·10⁵ entries."""
    import tracemalloc

    n_states, n_actions, d = 200_000, 50, 4
    ones = sparse.csr_array((np.full(n_states, d / n_states), (np.arange(n_states) % d, np.arange(n_states))))
    tracemalloc.start()
    phi = FunctionPhi(lambda states: np.eye(d)[(states[:, None] + np.arange(n_actions)) % d], n_states, n_actions)
    law = FactoredTransitions(phi, ones)
    drawn = law.sample(np.array([7, 199_999]), np.array([0, 49]), np.array([0.3, 0.999]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (drawn % d == np.array([3, 0])).all()
    assert peak < 20e6


def test_a_large_factored_mdp_is_never_expanded():
    """S·A·S would be 8 GB; the factors are a few megabytes."""
    import tracemalloc

    tracemalloc.start()
    mdp = low_rank(n_states=10_000, n_actions=10, d=5, horizon=3, seed=0).mdp
    assert solve(mdp).start_value > 0
    mdp.transitions.sample(np.array([5]), np.array([1]), np.array([0.3]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


def good():
    return {"transitions": np.full((2, 2, 2), 0.5), "reward": np.zeros((2, 2)), "horizon": 3}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"transitions": np.full((2, 2, 2), 0.4)}, ["P", "sum to one", "0.8"]),
        ({"transitions": np.array([[[1.5, -0.5]] * 2] * 2)}, ["P", "negative", "-0.5"]),
        ({"transitions": np.full((2, 2, 2), np.nan)}, ["P", "finite"]),
        ({"transitions": np.full((2, 2, 3), 1 / 3)}, ["P", "(S, A, S)"]),
        ({"transitions": sparse.csr_array(np.full((4, 2), 0.4))}, ["P", "sum to one"]),
        ({"transitions": sparse.csr_array(np.array([[2.0, -1.0]] * 4))}, ["P", "negative"]),
        ({"transitions": sparse.csr_array(np.full((3, 2), 0.5))}, ["P", "(S·A, S)"]),
        ({"transitions": "many"}, ["P", "array of numbers"]),
        ({"reward": np.full((2, 2), 1.5)}, ["reward", "[0, 1]", "1.5", "reward_range"]),
        ({"reward": np.array([[0, np.inf], [0, 0]])}, ["reward", "finite", "inf at [0, 1]"]),
        ({"reward": np.zeros((3, 2))}, ["reward", "(2, 2)"]),
        ({"horizon": 0}, ["horizon", "at least 1", "0"]),
        ({"horizon": 2.5}, ["horizon", "whole number", "2.5"]),
        ({"start": 5}, ["start", "0 … 1", "5"]),
        ({"start": [0.5, 0.6]}, ["start", "sum to one"]),
        ({"reward_range": (1.0, 0.0)}, ["reward_range", "low < high"]),
        ({"reward_range": 3}, ["reward_range", "pair"]),
        ({"end_state": 1}, ["end_state", "absorbing"]),
        ({"end_state": 9}, ["end_state", "0 … 1"]),
    ],
)
def test_bad_problems_get_one_clear_error(change, words):
    with pytest.raises(InvalidInput) as caught:
        FiniteMDP(**{**good(), **change})
    for word in words:
        assert word in str(caught.value)


def test_factored_problems_are_checked_too():
    phi, factors = np.full((2, 2, 2), 0.5), np.array([[0.5, 0.5], [0.9, 0.3]])
    with pytest.raises(InvalidInput, match="sum to one"):
        FactoredTransitions(phi, factors)
    with pytest.raises(InvalidInput, match="sum to one"):
        FactoredTransitions(phi, sparse.csr_array(factors))
    for wrong in (np.ones((3, 2)) / 2, sparse.csr_array(np.ones((3, 2)) / 2)):
        with pytest.raises(InvalidInput, match=r"factors must have shape \(2, 2\)"):
            FactoredTransitions(phi, wrong)
    with pytest.raises(InvalidInput, match="factors must be finite"):
        FactoredTransitions(phi, sparse.csr_array(np.array([[0.5, np.nan], [0.9, 0.3]])))


def test_an_end_state_needs_a_range_with_zero():
    with pytest.raises(InvalidInput, match="must contain 0"):
        Task(np.full((2, 1), 2.0), 3, reward_range=(1.0, 3.0), end_state=1)


def test_evaluate_refuses_policies_that_are_none():
    mdp = FiniteMDP(**good())
    with pytest.raises(InvalidInput, match="policy must"):
        evaluate(mdp, np.zeros((3, 3), dtype=int))
    with pytest.raises(InvalidInput, match="policy must be in"):
        evaluate(mdp, np.full((3, 2), 2))
