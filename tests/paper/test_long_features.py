"""docs/proofs.md, 18: rounding errors of A_n never make a bound false, however long φ is; oracle: exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from matrixrl import Agent, FiniteMDP, MatrixRL, Task, evaluate, solve
from matrixrl.algorithms import UCMatrixRL
from matrixrl.features import Features, OneHotPsi, TablePhi, TablePsi
from matrixrl.problems import Problem
from matrixrl.records import Steps

HORIZON = 10
LENGTHS = [1.0, 100.0, 9_000.0, 100_000.0]
ANGLES = [1e-1, 1e-3, 1e-5, 1e-6, 1e-7, 1e-8]


def switch(*, by_action=False):
    """Two states: action a leads to state a. Every step in state 1 pays 1, V*(0) = 9, or with action 1, V*(0) = 10."""
    transitions = np.zeros((2, 2, 2))
    transitions[:, 0, 0] = transitions[:, 1, 1] = 1.0
    reward = np.array([[0.0, 0.0], [1.0, 1.0]])
    return FiniteMDP(transitions, reward.T if by_action else reward, HORIZON, start=[1.0, 0.0])


def fan(length, angle):
    """φ of the two actions, of one length, with an angle between them; neither is along an axis."""
    table = np.empty((2, 2, 2))
    for action, turned in enumerate([0.7, 0.7 + angle]):
        table[:, action] = length * math.cos(turned), length * math.sin(turned)
    return table


def ridge_for(length):
    return max(1.0, length**2 / 1e8)  # longer features are refused


def learned(table, n_steps, per_update, **settings):
    """Return a learner that has seen both actions in turn, so many steps in each update."""
    settings.setdefault("ridge", ridge_for(float(np.linalg.norm(table[0, 0]))))
    by_action = not settings.get("known_reward", True)  # learned rewards must be linear in φ
    problem = Problem.of(switch(by_action=by_action), Features(TablePhi(table), OneHotPsi(2)))
    algorithm = UCMatrixRL(**settings).start(problem, [0])
    actions = np.arange(per_update)[None] % 2
    states = np.concatenate([[[0]], actions[:, :-1]], axis=1)
    steps = Steps.of(states, actions, (actions if by_action else states).astype(float), actions)
    for _ in range(n_steps // per_update):
        algorithm.update(steps, n_episodes=max(1, per_update // HORIZON))
    return algorithm


def solved(matrix, rhs):
    """Return matrix⁻¹ rhs and det(matrix) in exact fractions, by Gauss elimination."""
    rows, n, det = [[*row, *right] for row, right in zip(matrix, rhs, strict=True)], len(matrix), Fraction(1)
    for i in range(n):
        det *= rows[i][i]  # positive definite: no pivoting
        rows[i] = [entry / rows[i][i] for entry in rows[i]]
        for j in range(n):
            if j != i:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[n:] for row in rows], det


def oracle(rows, visits, ridge, targets):
    """Return w² of each row, ln det(A/λ) and φᵀM of each row, exactly, for targets (P, m) that each visit has."""
    exact = [[Fraction(float(x)) for x in row] for row in rows]
    d = len(exact[0])
    matrix = [
        [
            Fraction(ridge) * (i == j) + sum(n * row[i] * row[j] for row, n in zip(exact, visits, strict=True))
            for j in range(d)
        ]
        for i in range(d)
    ]
    moment = [
        [
            sum(n * row[i] * y[k] for row, n, y in zip(exact, visits, targets, strict=True))
            for k in range(len(targets[0]))
        ]
        for i in range(d)
    ]
    found, det = solved(matrix, [[exact[p][i] for p in range(len(exact))] + moment[i] for i in range(d)])
    width_sq = [float(sum(exact[p][i] * found[i][p] for i in range(d))) for p in range(len(exact))]
    means = [
        [float(sum(exact[p][i] * found[i][len(exact) + k] for i in range(d))) for k in range(len(targets[0]))]
        for p in range(len(exact))
    ]
    scaled = det / Fraction(ridge) ** d
    logdet = math.log(scaled.numerator) - math.log(scaled.denominator)
    return np.array(width_sq), logdet, np.array(means)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("angle", ANGLES)
def test_widths_and_estimates_are_those_of_exact_arithmetic(length, angle):
    """After 10⁶ steps; they are never too small. Before, λ_min(A) could be 67 times too large, or negative."""
    table, n = fan(length, angle), 10**6
    algorithm = learned(table, n, per_update=1000)
    wanted, logdet, means = oracle(table[0], [n // 2] * 2, ridge_for(length), [[1, 0], [0, 1]])
    width_sq = algorithm.model.widths()[0, :, 0] ** 2
    np.testing.assert_allclose(width_sq, wanted, rtol=1e-5)
    assert algorithm.model.logdets()[0] == pytest.approx(logdet, rel=1e-6)
    if length >= 100.0:  # the bound on rounding errors is in the width
        assert (width_sq >= wanted * (1.0 - 1e-12)).all()
    found = table[0] @ algorithm.model.core_matrix()[0]
    assert (np.abs(found - means) <= 0.02 * np.sqrt(wanted)[:, None]).all()  # radii are above 2


@pytest.mark.parametrize(
    ("kind", "angle", "known_reward"),
    [
        ("normalised", 1e-6, True),
        ("normalised", 1e-7, False),
        ("sandwich", 2e-6, True),
        ("sandwich", 1e-7, True),
        ("sandwich", 1e-5, False),
        ("frobenius", 1e-8, True),
        ("column", 1e-6, False),
    ],
)
def test_certificates_of_long_features_hold_the_truth(kind, angle, known_reward):
    """Ten steps at a time; P is deterministic, so a bound that misses V* is wrong with certainty."""
    n_steps = 100_000 if kind == "sandwich" and known_reward else 20_000  # as many as were needed for false bounds
    algorithm = learned(fan(9_000.0, angle), n_steps, per_update=HORIZON, set=kind, known_reward=known_reward)
    plan = algorithm.plan()
    found = algorithm.certifier.certify(plan)
    mdp = switch(by_action=not known_reward)
    assert found.lower[0] <= evaluate(mdp, plan.policy[0])[0, 0] + 1e-9
    assert found.upper[0] >= solve(mdp).start_value - 1e-9
    assert found.empty[0] == 0
    if kind in ("normalised", "sandwich", "frobenius"):
        assert algorithm.claims.certificate(False)


def test_three_features_of_which_two_are_one_block(rng):
    """Blocks, a learned reward and features of very different lengths, against fractions."""
    table = np.zeros((2, 2, 3))
    table[:, :, :2] = fan(5_000.0, 1e-6)
    table[1, :, :2], table[1, :, 2] = 0.0, [3.0, 7_000.0]
    algorithm = learned(table, 200_000, per_update=1000, known_reward=False)
    visits = np.zeros((2, 2))
    actions = np.arange(1000) % 2
    states = np.concatenate([[0], actions[:-1]])
    np.add.at(visits, (states, actions), 200)
    rows = table.reshape(4, 3)
    wanted, logdet, _ = oracle(rows, [int(n) for n in visits.ravel()], 1.0, [[0]] * 4)
    np.testing.assert_allclose(algorithm.model.widths()[0].T.ravel() ** 2, wanted, rtol=1e-5)
    assert algorithm.model.logdets()[0] == pytest.approx(logdet, rel=1e-6)
    first, second = (
        oracle(rows[:, block], [int(n) for n in visits.ravel()], 1.0, [[0]] * 4)[1] for block in ([0, 1], [2])
    )
    found = algorithm.model.design.block_logdet([np.array([0, 1]), np.array([2])])[0]
    np.testing.assert_allclose(found, [first, second], rtol=1e-6)


def test_radii_grow_by_what_rounding_may_have_added_to_the_moments():
    """Half-widths of models, rewards and V* are those of exact moments plus e·w, with e as in section 18."""
    table, n = fan(9_000.0, 1e-3), 10**5
    error = 2.0**-53 * (n + 2) * n * 9_000.0
    for kind in ("frobenius", "sandwich"):
        algorithm = learned(table, n, per_update=1000, set=kind, known_reward=False)
        confidence, design, clock = algorithm.model.confidence, algorithm.model.design, algorithm.clock
        width = np.sqrt(design.width_sq)
        bounds = algorithm.model.bounds(algorithm.clock, "proven")[0]
        ball = bounds if kind == "frobenius" else bounds.ball
        radii = confidence.radii(design, clock, level="proven")
        if kind == "frobenius":
            more = ball.reaches[0].half_width / width - radii.models
        else:
            values, _ = confidence.value_radii(design, clock, level="proven")
            more = bounds.half_width / width - values
        np.testing.assert_allclose(more, error, rtol=1e-3)
        phi = algorithm.problem.features.phi
        mean = phi.dot(design.solve(algorithm.model.reward_moment[:, :, None])[:, :, 0]).reshape(1, -1)
        half = np.minimum(mean + (radii.rewards + error) * width, 1.0)
        np.testing.assert_allclose(ball.most.reshape(1, -1), half, rtol=1e-6)


def test_the_regret_bound_is_withdrawn_where_radii_allow_for_rounding():
    algorithm = learned(fan(9_000.0, 1e-3), 100_000, per_update=1000)
    assert "phi is so long compared with the ridge" in algorithm.guarantee.reason
    assert algorithm.claims.regret_bound(10) is None
    assert algorithm.claims.certificate(False)
    assert learned(fan(1.0, 1e-3), 100_000, per_update=1000).guarantee


def test_nothing_is_proven_where_even_visits_do_not_help():
    """‖φ‖²T/λ = 1e28: no factorisation in float64 has the small eigenvalues."""
    problem = Problem.of(switch(), Features(TablePhi(fan(1e4, 1e-3)), OneHotPsi(2)))
    algorithm = UCMatrixRL().start(problem, [0])
    actions = np.array([[0, 1]])
    algorithm.update(Steps.of(actions, actions, np.zeros((1, 2)), actions))
    assert algorithm.claims.certificate(False)
    algorithm.model.design.update(np.array([[0]]), np.array([[1e10]]))  # as many visits as 10²⁰ steps
    assert "rounding errors of A_n may matter" in algorithm.claims.certificate(False).reason
    assert "rounding errors of A_n may matter" in algorithm.guarantee.reason


@pytest.mark.parametrize("angle", [1e-3, 1e-8])
def test_plans_on_columns_withdraw_their_claim_and_do_not_fail(angle):
    """States are not numbered there, so there are no visits to go back to."""
    problem = Problem.of(switch(), Features(TablePhi(fan(9_000.0, angle)), OneHotPsi(2)))
    algorithm = UCMatrixRL(columns=2, set="normalised").start(problem, [0])
    actions = np.arange(HORIZON)[None] % 2
    states = np.concatenate([[[0]], actions[:, :-1]], axis=1)
    steps = Steps.of(states, actions, states.astype(float), actions)
    algorithm.update(steps)
    assert algorithm.claims.certificate(False)
    for _ in range(5_000):
        algorithm.update(steps)
    algorithm.certifier.certify(algorithm.plan())
    assert "rounding errors of A_n may matter" in algorithm.claims.certificate(False).reason
    assert "rounding errors of A_n may matter" in algorithm.guarantee.reason


def test_an_agent_with_long_features_is_saved_and_goes_on(tmp_path):
    agent = MatrixRL(switch(), phi=fan(9_000.0, 1e-6), set="normalised", seed=0)
    agent.learn(150)
    agent.save(tmp_path / "agent")
    again = MatrixRL.load(tmp_path / "agent", switch())
    assert again.certificate() == agent.certificate()
    for one in (agent, again):
        one.learn(20)
    assert again.certificate() == agent.certificate()
    assert agent.certificate().lower <= 9.0 <= agent.certificate().upper


@pytest.mark.parametrize("name", ["lsvi-ucb", "rlsvi"])
def test_baselines_with_long_features_do_not_fail(name):
    agent = Agent(switch(), name, phi=fan(1e7, 1e-8), seed=0)
    agent.learn(100)
    assert np.isfinite(agent.history.returns).all()


class TestSmallDirections:
    """Directions of φ below the rounding level are left out of the bound on M*, which must be said."""

    @staticmethod
    def agent(table):
        return MatrixRL(Task([[0.0, 0.0], [1.0, 1.0]], HORIZON, start=[1.0, 0.0]), phi=table, set="normalised", seed=0)

    @pytest.mark.parametrize("size", [1e-16, 1e-20, 1e-90])
    def test_a_direction_that_is_not_zero_withdraws_the_claim(self, size):
        table = np.zeros((2, 2, 2))
        table[:, :, 0], table[:, 1, 1] = 1.0, size  # represents every P in which only the action matters
        agent = self.agent(table)
        assert "1 of its 2 directions" in agent.guarantee.reason
        assert "1 of its 2 directions" in agent.certificate().guarantee.reason

    def test_also_if_it_is_along_no_axis(self):
        table = np.ones((2, 2, 2))
        table[:, 1, 1] = 1.0 + np.finfo(float).eps
        assert "1 of its 2 directions" in self.agent(table).guarantee.reason

    @pytest.mark.parametrize("size", [1e-13, 1.0])
    def test_larger_directions_count(self, size):
        table = np.zeros((2, 2, 2))
        table[:, :, 0], table[:, 1, 1] = 1.0, size
        assert self.agent(table).guarantee

    def test_features_that_are_combinations_of_others_leave_nothing_out(self, rng):
        base = np.eye(2)[:, None, :] * rng.integers(1, 9, (2, 2, 1)) / 8.0
        table = np.concatenate([base, base @ np.array([[3.0], [-0.5]]), np.zeros((2, 2, 1))], axis=2)
        assert self.agent(table).guarantee


@pytest.mark.parametrize(("spread", "is_proven"), [(0.5, True), (1e-4, False)])
def test_rounding_of_moments_counts_in_the_units_of_psi(spread, is_proven):
    """K_ψ⁻¹ψ of a nearly dependent ψ multiplies errors by up to 1/spread; widths alone would not show it."""
    psi = TablePsi(np.array([[1.0, 0.0], [1.0, spread], [1.0, -spread]]))
    task = Task(
        np.zeros((3, 1)), 1, reward_range=(0.0, 1.0), start=0, features=Features(TablePhi(np.ones((3, 1, 1))), psi)
    )
    algorithm = MatrixRL(task, set="normalised", seed=0).algorithm
    algorithm.model.design.update(np.zeros((1, 300_000), dtype=np.int64), np.ones((1, 300_000)))
    assert 0.0 < algorithm.model.design.rounding < 1e-4
    assert algorithm.claims.certificate(False).holds is is_proven
    if not is_proven:
        assert "rounding errors of A_n may matter" in algorithm.claims.certificate(False).reason
