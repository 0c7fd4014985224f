"""Laws that depend on the stage (docs/proofs.md, section 15): inner actions of classes of stages are enough."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from matrixrl import FiniteMDP, MatrixRL, evaluate, run_seeds, solve
from matrixrl.algorithms import UCMatrixRL
from matrixrl.core import SANDWICH_SETS, SETS
from matrixrl.problems import Problem, optimal_q

EXACT = {"rtol": 1e-12, "atol": 1e-12}
WEEK = [0, 0, 1, 0, 1]


def laws(n_laws, n_states=3, n_actions=2, seed=0):
    """Return random P (n, S, A, S) and R (n, S, A)."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(n_states, 0.7), size=(n_laws, n_states, n_actions)), rng.random(
        (n_laws, n_states, n_actions)
    )


def by_hand(table, reward, allowed=None):
    """Return V* (H+1, S) by the textbook recursion with a law for each stage."""
    horizon, n_states = reward.shape[:2]
    values = np.zeros((horizon + 1, n_states))
    for h in reversed(range(horizon)):
        q = reward[h] + table[h] @ values[h + 1]
        values[h] = (q if allowed is None else np.where(allowed[h], q, -np.inf)).max(axis=1)
    return values


def time_expanded(table, reward):
    """Return the stationary MDP of states (h, s), number h·S + s, with an absorbing last layer."""
    horizon, n_states, n_actions, _ = table.shape
    size = (horizon + 1) * n_states
    wide, pays = np.zeros((size, n_actions, size)), np.zeros((size, n_actions))
    for h in range(horizon):
        here, after = slice(h * n_states, (h + 1) * n_states), slice((h + 1) * n_states, (h + 2) * n_states)
        wide[here, :, after], pays[here] = table[h], reward[h]
    last = np.arange(horizon * n_states, size)
    wide[last, :, last] = 1.0
    return FiniteMDP(wide, pays, horizon)


@given(st.integers(0, 10_000))
def test_the_optimum_is_that_of_the_textbook_recursion_and_of_the_time_expanded_mdp(seed):
    table, reward = laws(4, seed=seed)
    found = solve(FiniteMDP(table, reward, 4))
    np.testing.assert_allclose(found.values, by_hand(table, reward), **EXACT)
    assert solve(time_expanded(table, reward)).start_value == pytest.approx(found.start_value, abs=1e-12)
    assert found.policy.max() < 2


@given(st.integers(0, 10_000))
def test_the_value_of_a_policy_is_that_of_the_time_expanded_mdp(seed):
    table, reward = laws(4, seed=seed)
    policy = np.random.default_rng(seed).integers(2, size=(4, 3))
    wide = np.zeros((4, 15), dtype=int)
    for h in range(4):
        wide[h, 3 * h : 3 * h + 3] = policy[h]
    own, other = (evaluate(FiniteMDP(table, reward, 4), policy), evaluate(time_expanded(table, reward), wide))
    np.testing.assert_allclose(own[0], other[0, :3], **EXACT)


@pytest.mark.parametrize("compiled", [True, False])
def test_sparse_tables_and_tables_of_classes_are_the_same_problem(compiled):
    table, reward = laws(2)
    by_stage = table[WEEK], reward[WEEK]
    matrices = [sparse.csr_array(one.reshape(6, 3)) for one in table]
    forms = [
        FiniteMDP(list(table), reward, 5, stage_dependent=WEEK),
        FiniteMDP(*by_stage, 5, stage_dependent=WEEK),
        FiniteMDP(*by_stage, 5),
        FiniteMDP(matrices, reward, 5, stage_dependent=WEEK),
        FiniteMDP([matrices[c] for c in WEEK], reward[WEEK], 5),
    ]
    for mdp in forms:
        wanted = compiled if "Sparse" in type(mdp.transitions).__name__ else None
        np.testing.assert_allclose(solve(mdp, compiled=wanted).values, by_hand(*by_stage), **EXACT)
    assert [mdp.stages.n_classes for mdp in forms] == [2, 2, 5, 2, 5]


def test_masks_may_depend_on_the_stage():
    table, reward = laws(3, n_actions=3)
    allowed = np.random.default_rng(1).random((3, 3, 3)) < 0.6
    allowed[..., 0] |= ~allowed.any(axis=2)
    mdp = FiniteMDP(table, reward, 3, allowed=allowed)
    np.testing.assert_allclose(solve(mdp).values, by_hand(table, reward, allowed), **EXACT)
    stages, states = np.meshgrid(np.arange(3), np.arange(3), indexing="ij")
    assert allowed[stages, states, solve(mdp).policy].all()
    result = run_seeds(mdp, n_episodes=300, seeds=2, compiled=False, preset="tuned")
    again = run_seeds(mdp, n_episodes=300, seeds=2, compiled=True, preset="tuned")
    np.testing.assert_allclose(result.regret, again.regret, **EXACT)
    assert result.regret[:, -30:].mean() < 0.05 * result.optimal_value


def test_one_class_is_an_ordinary_problem_bit_for_bit():
    table, reward = laws(1)
    plain = run_seeds(FiniteMDP(table[0], reward[0], 5), n_episodes=40, seeds=2)
    same = run_seeds(FiniteMDP(table[0], reward[0], 5), n_episodes=40, seeds=2, stage_dependent=[3] * 5)
    np.testing.assert_array_equal(plain.regret, same.regret)


@pytest.mark.parametrize("classes", [True, WEEK])
def test_data_are_shared_inside_a_class_and_nowhere_else(classes):
    """Counts of the learner against a count of the steps by hand."""
    table, reward = laws(1)
    agent = MatrixRL(FiniteMDP(table[0], reward[0], 5), stage_dependent=classes, seed=0)
    agent.learn(30)
    number = np.arange(5) if classes is True else np.array(WEEK)
    wanted = np.zeros((number.max() + 1, 2, 3, 3))
    steps = agent._seen.all()[0]
    assert steps.actions.max() < 2
    np.add.at(wanted, (number[steps.stages], steps.actions, steps.states, steps.next_states), 1.0)
    counts, found = agent.algorithm.model.counts.seen, np.zeros((wanted.shape[0] * 6, 3))
    found[counts.ids[counts.places], counts.outcomes] = counts.times
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
    assert wanted.sum() == 150


@pytest.mark.parametrize("classes", [True, WEEK, False])
def test_the_union_bound_is_over_the_pairs_of_one_optimal_policy(classes):
    """Laws and functions V*_2 … V*_H: 3 states at each of 4 stages, whatever classes there are; 6 for every action."""
    table, reward = laws(1)
    mdp = FiniteMDP(table[0], reward[0], 5)
    learner = UCMatrixRL(delta=0.1).start(Problem.of(mdp if classes is False else mdp.staged(classes)), [0])
    confidence = learner.model.confidence
    n_classes = 1 if classes is False else mdp.staged(classes).stages.n_classes
    assert confidence.n_groups == 6 * n_classes
    assert confidence.log_targets() == pytest.approx(np.log(4 * 3 / (0.25 * 0.1)))
    assert confidence.log_targets(every_action=True) == pytest.approx(np.log(4 * 6 / (0.25 * 0.1)))
    assert sum(confidence.parts) == pytest.approx(1.0)


def test_groups_that_all_stages_share_count_all_functions():
    """Rewards differ, the law is one: K is that of one stage, and β₁ holds for every V*_h."""
    table, reward = laws(4)
    mdp = FiniteMDP([table[0]] * 4, reward, 4)
    shared = np.tile(np.eye(6).reshape(3, 2, 6), (1, 4, 1))  # φ(s, (c, a)) = e_(s, a)
    learner = MatrixRL(mdp, phi=shared, seed=0).algorithm
    assert (learner.model.confidence.n_groups, learner.model.confidence.n_targets) == (6, (9, 18))
    assert learner.guarantee
    apart = MatrixRL(mdp, phi=shared, known_reward=False, seed=0)
    assert "rewards" in apart.guarantee.reason, "shared groups with different rewards must be refused"
    other = FiniteMDP(table, reward, 4)
    assert not MatrixRL(other, phi=shared, seed=0).guarantee, "one law for different ones must be refused"


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", [*SETS, *SANDWICH_SETS, "likelihood", "value-targeted"])
def test_every_set_bounds_the_optimum_and_the_policy(name, known):
    """On every episode of fixed seeds; each run may fail with probability at most δ."""
    for seed, classes in ((0, None), (2, [0, 1, 1, 2])):
        table, reward = (part[classes or slice(None)] for part in laws(4, seed=seed))
        mdp = FiniteMDP(table, reward, 4, stage_dependent=classes)
        settings = {"set": name, "known_reward": known, "delta": 0.1}
        result = run_seeds(mdp, n_episodes=30, seeds=[7], certify=True, compiled=False, **settings)
        best = solve(mdp).start_value
        lower, upper = result.certified[0].T
        assert (upper >= best - 1e-9).all()
        assert (lower <= best - result.regret[0] + 1e-9).all()


@pytest.mark.parametrize("settings", [{}, {"known_reward": False}, {"set": "normalised"}, {"preset": "tuned"}])
def test_compiled_episodes_are_those_of_numpy(settings):
    table, reward = laws(5)
    mdp = FiniteMDP(table, reward, 5, noisy_rewards=True)
    one, other = (
        run_seeds(mdp, n_episodes=80, seeds=2, certify=True, compiled=compiled, **settings)
        for compiled in (True, False)
    )
    np.testing.assert_array_equal(one.returns, other.returns)
    np.testing.assert_allclose(one.regret, other.regret, atol=1e-10)
    np.testing.assert_allclose(one.certified, other.certified, atol=1e-6)


def test_the_estimated_policy_is_best_in_the_empirical_model_of_each_stage():
    table, reward = laws(3, seed=5)
    mdp = FiniteMDP(table, reward, 3, start=np.full(3, 1 / 3))
    agent = MatrixRL(mdp, preset="tuned", seed=0)
    counts = np.zeros((3, 3, 2, 3))
    rng = np.random.default_rng(3)
    for _ in range(400):
        episode, state = agent.begin_episode(), int(rng.integers(3))
        for h in range(3):
            action = int(rng.integers(2))
            following = int(rng.choice(3, p=table[h, state, action]))
            episode.observe(state, action, float(reward[h, state, action]), following)
            counts[h, state, action, following] += 1
            state = following
        episode.end()
    estimate = counts / counts.sum(axis=3, keepdims=True)
    found = agent.greedy().table
    best = by_hand(estimate, reward)
    q = np.stack([reward[h] + estimate[h] @ best[h + 1] for h in range(3)])
    np.testing.assert_array_equal(found, q.argmax(axis=2))


def test_all_policies_of_a_small_problem_are_inside_their_bounds():
    """`compare` bounds every pair of deterministic policies of two stages and two states."""
    table, reward = laws(2, n_states=2, seed=3)
    mdp = FiniteMDP(table, reward, 2)
    agent = MatrixRL(mdp, seed=1)
    agent.learn(300)
    policies = [np.array(p).reshape(2, 2) for p in itertools.product(range(2), repeat=4)]
    values = [float(evaluate(mdp, p)[0, 0]) for p in policies]
    for (one, v), (other, w) in itertools.product(zip(policies, values, strict=True), repeat=2):
        found = agent.compare(one, other)
        assert found.lower - 1e-9 <= v - w <= found.upper + 1e-9
    widths = [agent.compare(policies[0], policies[-1])]
    assert widths[0].upper - widths[0].lower < 1.0


def test_q_of_every_stage_has_the_actions_of_the_user():
    table, reward = laws(3)
    mdp = FiniteMDP(table, reward, 3)
    values = by_hand(table, reward)
    for h, q in enumerate(optimal_q(mdp)):
        np.testing.assert_allclose(q, reward[h] + table[h] @ values[h + 1], **EXACT)


def test_features_of_pairs_are_used_once_for_each_class():
    """P_c = φᵀM_c with one φ and a core for each class: exact with e_c ⊗ φ, refuted with φ alone."""
    rng = np.random.default_rng(0)
    phi, cores = rng.dirichlet(np.ones(2), size=(3, 2)), rng.dirichlet(np.ones(3), size=(2, 2))
    table = np.einsum("sad,cdt->csat", phi, cores)
    mdp = FiniteMDP(list(table), laws(2)[1], 4, stage_dependent=[0, 1, 0, 1])
    agent = MatrixRL(mdp, phi=phi, set="normalised", seed=0)
    assert agent.problem.features.phi.d == 4
    rows = agent.problem.features.phi.table
    np.testing.assert_array_equal(rows[:, :2, :2], phi)
    np.testing.assert_array_equal(rows[:, 2:, 2:], phi)
    assert not rows[:, :2, 2:].any()
    assert agent.guarantee
    agent.learn(100)
    certified = agent.certificate()
    assert certified.lower <= solve(mdp).start_value <= certified.upper
    alone = MatrixRL(mdp, phi=np.tile(phi, (1, 2, 1)), set="normalised", seed=0)
    assert not alone.guarantee


def test_states_count_once_in_the_union_if_groups_and_known_rewards_are_alike():
    """Twelve states with the groups of three; a different reward, or a mask, tells two of them apart."""
    groups = np.arange(6).reshape(3, 2)[:, ::-1]
    phi = np.eye(6)[np.repeat(groups, 4, axis=0)]  # (12, 2, 6)
    law = np.full((12, 2, 12), 1.0 / 12.0)

    def targets(reward, allowed=None, **settings):
        mdp = FiniteMDP(law, reward, 5, allowed=allowed)
        return MatrixRL(mdp, phi=phi, seed=0, **settings).algorithm.model.confidence.n_targets

    reward = np.zeros((12, 2))
    assert targets(reward) == (4 * 3, 4 * 6)
    other = reward.copy()
    other[0, 0] = 0.5
    assert targets(other) == (4 * 4, 4 * 6)
    assert targets(reward, known_reward=False) == (5 * 3, 5 * 6)
    allowed = np.ones((12, 2), dtype=bool)
    allowed[0, 1] = False
    assert targets(reward, allowed) == (4 * 4, 4 * 6)
    assert targets(reward, allowed, known_reward=False) == (5 * 4, 5 * 6)
