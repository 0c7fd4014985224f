"""Actions that are not allowed (docs/proofs.md, section 13): a mask is as good as not having those pairs at all."""

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
from matrixrl.core.embedding import embedding, refuted_assumption
from matrixrl.features import Features, OneHotPsi, TablePhi, allowed_part, one_hot
from matrixrl.features.phi import design_eigenvalue
from matrixrl.play import Simulation
from matrixrl.problems import Problem, RegretEvaluator, low_rank, optimal_q
from matrixrl.records import Steps
from small_worlds import masked_mdp, random_mask

EXACT = {"rtol": 1e-12, "atol": 1e-12}


def table_of(mdp):
    """Return P as an array (S, A, S)."""
    states, actions = np.divmod(np.arange(mdp.n_states * mdp.n_actions), mdp.n_actions)
    return mdp.transitions.rows(states, actions).reshape(mdp.n_states, mdp.n_actions, mdp.n_states)


def copied(array, allowed):
    """Return an array (S, A, …) in which an action that is not allowed is its state's first allowed one."""
    array = np.array(array)
    for s, row in enumerate(allowed):
        array[s, ~row] = array[s, np.flatnonzero(row)[0]]
    return array


def without_mask(mdp, features=None):
    """Return the MDP in which an action that is not allowed is a copy of the first allowed one of its state."""
    task = mdp.task
    return FiniteMDP(
        copied(table_of(mdp), mdp.allowed),
        copied(task.reward, mdp.allowed),
        mdp.horizon,
        reward_range=task.reward_range,
        start=task.start,
        end_state=task.end_state,
        features=features,
        noisy_rewards=mdp.noisy_rewards,
    )


@given(st.integers(0, 10_000), st.booleans())
def test_the_optimum_is_the_best_of_all_policies_that_are_allowed(seed, end):
    mdp = masked_mdp(n_states=3, n_actions=3, horizon=2, seed=seed, end=end)
    allowed, reward = mdp.allowed, mdp.task.reward
    table, best = table_of(mdp), -np.inf
    choices = [np.flatnonzero(row) for row in allowed] * mdp.horizon
    for policy in itertools.product(*choices):
        values = np.zeros(3)
        for h in reversed(range(mdp.horizon)):
            chosen = np.array(policy[3 * h : 3 * h + 3])
            values = reward[np.arange(3), chosen] + table[np.arange(3), chosen] @ values
        best = max(best, values[0])
    assert solve(mdp).start_value == pytest.approx(best, abs=1e-12)


@given(st.integers(0, 10_000), st.booleans())
def test_a_mask_is_as_good_as_copies_of_allowed_actions(seed, end):
    mdp = masked_mdp(n_states=6, n_actions=3, horizon=5, seed=seed, end=end)
    other, rng = without_mask(mdp), np.random.default_rng(seed)
    found, wanted = solve(mdp), solve(other)
    np.testing.assert_allclose(found.values, wanted.values, **EXACT)
    assert mdp.allowed[np.arange(6), found.policy].all()
    q = optimal_q(mdp)
    np.testing.assert_array_equal(np.isneginf(q), np.broadcast_to(~mdp.allowed, q.shape))
    policy = np.array([[rng.choice(np.flatnonzero(row)) for row in mdp.allowed] for _ in range(5)])
    np.testing.assert_allclose(evaluate(mdp, policy), evaluate(other, policy), **EXACT)
    regret = RegretEvaluator(mdp).regret(policy[None])
    np.testing.assert_allclose(regret, RegretEvaluator(other).regret(policy[None]), **EXACT)


@pytest.mark.parametrize("fill", [np.nan, 0.0, 7.0])
def test_rows_of_actions_that_are_not_allowed_do_not_matter(fill):
    one, other = masked_mdp(seed=3), masked_mdp(seed=3, fill=fill)
    np.testing.assert_array_equal(table_of(one), table_of(other))
    np.testing.assert_array_equal(one.task.reward, other.task.reward)
    matrix = table_of(one)
    matrix[~one.allowed] = fill
    thin = sparse.csr_array(matrix.reshape(-1, one.n_states))
    same = FiniteMDP(thin, one.task.reward, 4, reward_range=(-1.0, 1.0), allowed=one.allowed)
    np.testing.assert_array_equal(table_of(same), table_of(one))


def grouped(allowed):
    """Return one indicator for each allowed pair, (S, A, K), and zeros for the others."""
    table = np.zeros((*allowed.shape, int(allowed.sum())))
    table[allowed] = np.eye(int(allowed.sum()))
    return table


def twins(phi, allowed, mdp, rng, *, psi=None):
    """Return the masked problem, with any features where nothing is allowed, and the one with copies.

    The masked one has one feature more, which no allowed pair has.
    """
    more = np.concatenate([phi, np.zeros((*allowed.shape, 1))], axis=2)
    other = 40.0 * rng.standard_normal(more.shape) * (rng.random((*allowed.shape, 1)) < 0.5)  # or none at all
    wild = np.where(allowed[:, :, None], more, other)
    psi = OneHotPsi(mdp.n_states) if psi is None else psi
    task = mdp.task
    masked = FiniteMDP(
        table_of(mdp),
        task.reward,
        mdp.horizon,
        reward_range=task.reward_range,
        features=Features(TablePhi(wild), psi),
        allowed=allowed,
    )
    return masked, without_mask(masked, Features(TablePhi(copied(phi, allowed)), psi))


def with_data(mdp, steps, **settings):
    algorithm = UCMatrixRL(**settings).start(Problem.of(mdp), [0])
    for one in steps:
        algorithm.update(one)
    return algorithm


def allowed_steps(mdp, rng, n_episodes):
    """Return episodes of random states and allowed actions."""
    episodes = []
    for _ in range(n_episodes):
        states = rng.integers(mdp.n_states, size=(1, mdp.horizon))
        actions = np.array([[rng.choice(np.flatnonzero(mdp.allowed[s])) for s in states[0]]])
        following = mdp.transitions.sample(states[0], actions[0], rng.random(mdp.horizon))[None]
        episodes.append(Steps.of(states, actions, mdp.task.reward[states, actions], following))
    return episodes


BALLS = [*SETS, *SANDWICH_SETS]
RADII = ["block", "self-normalised", "theorem", "log-det", "constant"]


COUNTING = [{"set": "value-targeted"}, {"set": "likelihood"}, {"preset": "tuned"}]
OTHERS = [
    *({"set": name} for name in BALLS),
    *({"set": "normalised", "radius": name} for name in RADII),
    {"set": "normalised", "ties": "estimate"},
]


# Copies change the weights with which λ_min of Σ wφφᵀ is computed, so a bound on ‖M*‖ is given where φ is not one-hot.
GIVEN = [{**one, "c_core": 0.01, "known_reward": True} for one in OTHERS if "sandwich" not in one["set"]]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *(("groups", {**one, "known_reward": known}) for one in [*COUNTING, *OTHERS] for known in (True, False)),
        *(("low rank", one) for one in GIVEN),
    ],
    ids=str,
)
def test_plans_and_certificates_are_those_of_copies_that_share_data(kind, settings, rng):
    """Features where nothing is allowed may be anything: constants, unions, alarms and maxima leave them out."""
    if kind == "groups":
        mdp = masked_mdp(n_states=6, n_actions=3, horizon=5, seed=9)
        masked, other = twins(grouped(mdp.allowed), mdp.allowed, mdp, rng)
    else:
        made = low_rank(n_states=8, n_actions=3, d=3, horizon=5, seed=1)
        masked, other = twins(made.features.phi.table, random_mask(rng, 8, 3), made.mdp, rng, psi=made.features.psi)
    chosen = {"n_episodes": 50, **settings}
    steps = allowed_steps(masked, rng, 6)
    ours, theirs = with_data(masked, steps, **chosen), with_data(other, steps, **chosen)
    assert ours.settings.set == theirs.settings.set
    found, wanted = ours.advice(), theirs.advice()
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-9, atol=1e-9)
    assert masked.allowed[np.arange(masked.n_states), found.policy].all()
    bounds, others = ours.certifier.certify(found), theirs.certifier.certify(found)
    assert (bounds.optimal_lower is None) == (others.optimal_lower is None)
    known = [name for name in bounds._fields if getattr(bounds, name) is not None]
    for name in known:
        np.testing.assert_allclose(getattr(bounds, name), getattr(others, name), rtol=1e-9, atol=1e-9, err_msg=name)
    safe, safest = ours.certifier.safest_plan(), theirs.certifier.safest_plan()
    np.testing.assert_allclose(safe.values, safest.values, rtol=1e-9, atol=1e-9)
    assert masked.allowed[np.arange(masked.n_states), safe.policy].all()
    assert ours.claims.regret_bound(100) == pytest.approx(theirs.claims.regret_bound(100))
    assert ours.guarantee == theirs.guarantee


@pytest.mark.parametrize("name", ["normalised", "sandwich"])
def test_no_alarm_is_raised_by_a_pair_that_is_not_allowed(name):
    """Its features are forty times those of a pair that is well known, which no model of P can explain."""
    phi = np.zeros((2, 2, 2))
    phi[0, 0, 0], phi[1, :, 1], phi[0, 1, 0] = 1.0, 1.0, 40.0
    allowed = np.array([[True, False], [True, True]])
    table = np.zeros((2, 2, 2))
    table[0, :, 1], table[1, :, 0] = 1.0, 1.0
    settings = {"set": name, "radius": "block"}
    alarms = []
    for mask in (allowed, None):
        features = Features(TablePhi(phi), OneHotPsi(2))
        mdp = FiniteMDP(table, [[0.0, 0.0], [1.0, 0.5]], 3, features=features, allowed=mask)
        algorithm = UCMatrixRL(**settings).start(Problem.of(mdp), [0])
        states, actions = np.tile([0, 1], (1, 500)), np.zeros((1, 1000), dtype=int)
        algorithm.update(Steps.of(states, actions, np.zeros((1, 1000)), 1 - states))
        alarms.append(int(algorithm.advice().empty[0] + algorithm.certifier.certify(algorithm.advice()).empty[0]))
    assert alarms[0] == 0 < alarms[1]


def test_constants_are_those_of_the_rows_of_allowed_pairs(rng):
    """The bound on ‖M*‖ must hold for a P that is no P where nothing is allowed (docs/proofs.md, section 4)."""
    made = low_rank(n_states=8, n_actions=3, d=3, horizon=5, seed=1)
    allowed = random_mask(rng, 8, 3)
    masked, _ = twins(made.features.phi.table, allowed, made.mdp, rng, psi=made.features.psi)
    confidence = UCMatrixRL(set="normalised", known_reward=False).start(Problem.of(masked), [0]).model.confidence
    rows = made.features.phi.table[allowed]
    assert confidence.regularity.d == confidence.reward_regularity.d == 3
    assert confidence.regularity.c_phi == pytest.approx(np.vecdot(rows, rows).max() / 3)
    for constants, largest in (
        (confidence.regularity, masked.features.psi.constants.dual_norm),
        (confidence.reward_regularity, 1),
    ):
        assert constants.core_norm == pytest.approx(largest / np.sqrt(design_eigenvalue(rows)))
    assert confidence.regularity.core_norm >= np.linalg.norm(made.core)
    assert confidence.blocks.eigenvalues == pytest.approx([design_eigenvalue(rows)])


@pytest.mark.parametrize("end", [False, True])
def test_unions_are_over_allowed_pairs(end):
    mdp = masked_mdp(n_states=6, n_actions=4, seed=5, end=end)
    n_allowed, everything = int(mdp.allowed.sum()), 24
    assert mdp.task.n_pairs == n_allowed < everything
    ball = UCMatrixRL(set="normalised").start(Problem.of(mdp), [0]).model.confidence
    assert ball.blocks.count == ball.regularity.d == n_allowed
    assert ball.regularity.core_norm == pytest.approx(np.sqrt(n_allowed))
    counts = UCMatrixRL().start(Problem.of(mdp), [0])
    unknown = n_allowed - 4 * end  # nothing is learned of the end state, where all actions are allowed
    assert counts.model.confidence.n_groups == unknown
    free = FiniteMDP(table_of(mdp), mdp.task.reward, 4, reward_range=(-1, 1), end_state=mdp.task.end_state)
    more = UCMatrixRL().start(Problem.of(free), [0])
    assert more.model.confidence.n_groups == everything - 4 * end
    excess = more.model.confidence.log_events(0.5) - counts.model.confidence.log_events(0.5)
    assert excess == pytest.approx(np.log(more.model.confidence.n_groups / unknown))
    assert counts.claims.regret_bound(1000) < more.claims.regret_bound(1000)


def test_pairs_that_share_a_group_count_once_if_one_of_them_is_allowed():
    """Three groups; no allowed pair is in the last one."""
    groups = np.array([[0, 1, 2], [0, 1, 2]])
    allowed = np.array([[True, True, False], [True, False, False]])
    mdp = FiniteMDP(np.full((2, 3, 2), 0.5), np.zeros((2, 3)), 3, features=Features(np.eye(3)[groups], np.eye(2)))
    mdp = FiniteMDP(np.full((2, 3, 2), 0.5), np.zeros((2, 3)), 3, features=mdp.features, allowed=allowed)
    counting = UCMatrixRL(set="likelihood").start(Problem.of(mdp, Features(mdp.features.phi, OneHotPsi(2))), [0])
    assert counting.model.confidence.n_groups == 2
    part = allowed_part(mdp.features.phi, allowed.T)
    assert (part.phi.d, part.blocks().count) == (2, 2)
    assert [members.tolist() for members in part.blocks().members] == [[0], [1]]


def test_features_must_explain_the_allowed_pairs_alone(rng):
    made = low_rank(n_states=8, n_actions=3, d=3, horizon=5, seed=1)
    allowed = random_mask(rng, 8, 3)
    masked, _ = twins(made.features.phi.table, allowed, made.mdp, rng, psi=made.features.psi)
    assert embedding(masked.transitions, masked.features, masked.allowed).is_exact
    assert not embedding(masked.transitions, masked.features).is_exact
    reward = masked.task.unit_reward
    assert refuted_assumption(masked.transitions, reward, masked.features, masked.allowed) is None
    assert refuted_assumption(masked.transitions, reward, masked.features) is not None
    assert MatrixRL(masked, known_reward=False, seed=0).guarantee


@pytest.mark.parametrize("settings", [{"set": "normalised"}, {}, {"set": "sandwich"}], ids=str)
@pytest.mark.parametrize("known_reward", [True, False])
def test_bounds_hold_in_every_episode(settings, known_reward):
    """At δ = 0.05 the chance that any of 3 × 60 certificates fails is below 0.15; these seeds have none."""
    mdp = masked_mdp(n_states=5, n_actions=3, horizon=4, seed=4, noisy=True)
    result = run_seeds(mdp, n_episodes=60, seeds=3, certify=True, known_reward=known_reward, **settings)
    optimum = solve(mdp).start_value
    assert (result.upper >= optimum - 1e-9).all()
    lower, upper = result.certified[..., 0], result.certified[..., 1]
    assert (upper >= optimum - 1e-9).all()
    assert (lower <= optimum - result.regret + 1e-9).all()
    assert result.guarantee
    assert all(certificate.guarantee for certificate in result.certificate)


def test_an_action_that_is_not_allowed_is_worth_nothing_however_good_it_would_be():
    """The forbidden action pays 1 at once; unions, bounds and data of allowed ones say at most 0.2 a step."""
    allowed = np.array([[True, True, False]])
    mdp = FiniteMDP(np.ones((1, 3, 1)), [[0.1, 0.2, 1.0]], 5, allowed=allowed)
    assert solve(mdp).start_value == pytest.approx(1.0)
    for settings in ({}, {"set": "normalised"}, {"set": "frobenius"}, {"set": "sandwich"}):
        simulation = Simulation(mdp, n_episodes=3, seeds=[0], settings=settings)
        result = simulation.run()
        assert result.upper.max() <= 1.0 + 1e-9, settings
        assert result.returns.max() <= 1.0 + 1e-9


def test_a_mask_that_allows_everything_is_no_mask():
    mdp = masked_mdp(seed=1)
    free = FiniteMDP(table_of(mdp), mdp.task.reward, 4, reward_range=(-1.0, 1.0), allowed=np.ones((5, 3), dtype=bool))
    assert free.allowed is None
    same = FiniteMDP(table_of(mdp), mdp.task.reward, 4, reward_range=(-1.0, 1.0))
    for settings in ({}, {"set": "normalised"}):
        one, other = (run_seeds(world, n_episodes=20, seeds=2, **settings) for world in (free, same))
        np.testing.assert_array_equal(one.regret, other.regret)
    assert one_hot(5, 3).phi.d == free.features.phi.d
