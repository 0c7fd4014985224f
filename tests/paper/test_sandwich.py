"""docs/proofs.md, section 10: bounds on V* from both sides, for any φ with one-hot ψ."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

from matrixrl import FiniteMDP, evaluate, solve
from matrixrl.algorithms import DoublingMatrixRL, UCMatrixRL
from matrixrl.certificates import Certificate
from matrixrl.core import matrix_bounds, optimal_plan
from matrixrl.core.greedy import lowest_first
from matrixrl.core.radius import BlockRadius, PairwiseRadius
from matrixrl.features import Features, OneHotPsi, TablePhi
from matrixrl.problems import Problem
from matrixrl.records import Plan, Steps
from tolerances import ALGEBRA, SOLVER

KINDS = ["sandwich", "sandwich-or-ball"]


def linear_mdp(seed, *, n_states=12, n_actions=3, d=3, horizon=5, sharp=0.3):
    """Return a linear MDP whose next-state measures are unknown: random φ in the simplex, rewards linear in φ."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(d, 0.5), size=(n_states, n_actions))
    core = rng.dirichlet(np.full(n_states, sharp), size=d)
    features = Features(TablePhi(phi), OneHotPsi(n_states))
    return FiniteMDP(phi @ core, phi @ rng.random(d), horizon, features=features, noisy_rewards=True)


def start(mdp, n_replicas=1, **settings):
    kind = DoublingMatrixRL if "keep_data" in settings else UCMatrixRL
    return kind(**settings).start(Problem.of(mdp), range(n_replicas))


def play(algorithm, mdp, rng, policy=None):
    """Play one episode in every replica, by the plan or by a function of the states, and learn from it."""
    n, plan = algorithm.n_replicas, algorithm.plan()
    states = rng.choice(mdp.n_states, size=n, p=mdp.task.start)
    rows = []
    for h in range(mdp.horizon):
        actions = algorithm.act(plan, h, states) if policy is None else policy(states)
        following = mdp.transitions.sample(states, actions, rng.random(n))
        rewards = (rng.random(n) < mdp.task.reward[states, actions]).astype(float)
        rows.append((states, actions, rewards, following))
        states = following
    algorithm.update(Steps.of(*(np.stack(column, axis=1) for column in zip(*rows, strict=True))))
    return plan


def visit_all(algorithm, mdp, rng, n_steps):
    """Learn from transitions of random pairs, as one long episode."""
    shape = (algorithm.n_replicas, n_steps)
    states, actions = rng.integers(0, mdp.n_states, shape), rng.integers(0, mdp.n_actions, shape)
    following = mdp.transitions.sample(states.ravel(), actions.ravel(), rng.random(states.size)).reshape(shape)
    algorithm.update(Steps.of(states, actions, mdp.task.reward[states, actions], following))


def both_sides(algorithm, level="agent"):
    """Return lower and upper bounds on V* of all stages and states: (B, H+1, S) each."""
    belief = algorithm.model.bounds(algorithm.clock, level)[0]
    plan, low = optimal_plan(belief, algorithm.frame, lowest_first(algorithm.task.n_actions, algorithm.n_replicas))
    return low, plan.values


def data_of(algorithm):
    """Return A_n and C = Σ φψᵀ of the first replica, and the features of all pairs."""
    return algorithm.model.design.matrix[0], algorithm.model.cross_moment[0], algorithm.problem.features.phi.flat


def value_radius(rows, matrix, ridge, log_events):
    """Return the half-width of every pair in units of half the range: the bias of the ridge plus the noise."""
    inverse = np.linalg.inv(matrix)
    width = np.sqrt(np.einsum("pd,de,pe->p", rows, inverse, rows))
    eigenvalue = TablePhi(rows[:, None]).smallest_design_eigenvalue()  # λ_min(D), docs/proofs.md, section 4
    bias = ridge * np.linalg.norm(rows @ inverse, axis=1) / math.sqrt(eigenvalue)
    logdet = np.linalg.slogdet(matrix / ridge)[1]
    return bias + width * math.sqrt(2 * log_events + logdet)


class TestFormula:
    @pytest.mark.parametrize("ridge", [1.0, 4.0])
    def test_the_bounds_are_the_extremes_over_all_values_between_the_bounds_plus_the_radius(self, ridge):
        """The largest and smallest p̂V over V in the box by linear programming; the radius from the raw data."""
        mdp, rng = linear_mdp(3), np.random.default_rng(0)
        algorithm = start(mdp, set="sandwich", ridge=ridge, delta=0.1)
        for _ in range(4):
            play(algorithm, mdp, rng)
        matrix, cross, rows = data_of(algorithm)
        signed = rows @ np.linalg.inv(matrix) @ cross
        assert (signed < -1e-3).any()
        low = rng.random(12) * 2
        high = low + rng.random(12)
        least, most = low.min(), high.max()
        centre = (least + most) / 2
        found = algorithm.model.bounds(algorithm.clock, "agent")[0].optimal_q(low[None], high[None])
        half = (most - least) / 2 * value_radius(rows, matrix, ridge, math.log(2 * 4 / 0.1))
        reward = algorithm.unit_reward.ravel()
        for p in range(len(rows)):
            box = list(zip(low - centre, high - centre, strict=True))
            smallest, largest = linprog(signed[p], bounds=box).fun, -linprog(-signed[p], bounds=box).fun
            lower = np.clip(centre + smallest - half[p], least, most) + reward[p]
            upper = np.clip(centre + largest + half[p], least, most) + reward[p]
            assert found.lower.ravel()[p] == pytest.approx(lower, abs=SOLVER)
            assert found.upper.ravel()[p] == pytest.approx(upper, abs=SOLVER)

    @pytest.mark.parametrize(
        ("settings", "log_events"),
        [
            ({}, math.log(2 * 4 / 0.1)),  # half of δ, and V*_2 … V*_5
            ({"known_reward": False}, math.log(4 * 4 / 0.1)),  # rewards have a part of their own
            ({"keep_data": True}, math.log(2 * 4 / 0.1)),
            ({"keep_data": False}, math.log(2 * 4 * 6 / 0.1)),  # the second run has δ/(2·3)
        ],
        ids=str,
    )
    def test_the_parts_of_delta(self, settings, log_events):
        mdp, rng = linear_mdp(4), np.random.default_rng(0)
        algorithm = start(mdp, set="sandwich", delta=0.1, **settings)
        for _ in range(4):
            play(algorithm, mdp, rng)
        matrix, _, rows = data_of(algorithm)
        width = np.sqrt(algorithm.model.design.width_sq[0])
        for level in ("agent", "proven"):
            own, alarm = algorithm.model.confidence.value_radii(algorithm.model.design, algorithm.clock, level=level)
            np.testing.assert_allclose(own[0] * width, value_radius(rows, matrix, 1.0, log_events), rtol=ALGEBRA)
            np.testing.assert_array_equal(own, alarm)

    def test_exploration_and_ties_shrink_the_radius_and_not_the_alarm(self):
        algorithm = start(linear_mdp(4), set="sandwich", exploration=0.5)
        proven = algorithm.model.confidence.value_radii(algorithm.model.design, algorithm.clock, level="proven")[0]
        for level, factor in (("agent", 0.5), ("ties", 0.025)):
            own, alarm = algorithm.model.confidence.value_radii(algorithm.model.design, algorithm.clock, level=level)
            np.testing.assert_allclose(own, factor * proven)
            np.testing.assert_allclose(alarm, proven)

    def test_large_problems_are_computed_in_pieces_with_the_same_result(self, monkeypatch):
        mdp, rng = linear_mdp(5), np.random.default_rng(0)
        algorithm = start(mdp, 2, set="sandwich")
        for _ in range(5):
            play(algorithm, mdp, rng)
        whole = both_sides(algorithm)
        monkeypatch.setattr(matrix_bounds, "_LARGEST_KEPT", 0)
        monkeypatch.setattr(matrix_bounds, "_CHUNK", 100)
        for one, two in zip(whole, both_sides(algorithm), strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)

    def test_both_is_the_tighter_one_at_the_same_parts_of_delta(self):
        mdp, rng = linear_mdp(6), np.random.default_rng(1)
        algorithm, half = start(mdp, set="sandwich-or-ball", delta=0.1), start(mdp, set="normalised", delta=0.05)
        for learner in (algorithm, half):
            visit_all(learner, mdp, np.random.default_rng(0), 400)
        belief = algorithm.model.bounds(algorithm.clock, "agent")[0]
        alone = matrix_bounds.SandwichBounds(belief.ball, False, belief.half_width, belief.alarm_half_width)
        low, wins = rng.random((1, 12)), set()
        for high in (low + 1e-3, 1.0 + 0.01 * low):
            found, one, ball = (
                b.optimal_q(low, high) for b in (belief, alone, half.model.bounds(half.clock, "agent")[0])
            )
            np.testing.assert_allclose(found.upper, np.minimum(one.upper, ball.upper), rtol=1e-12)
            np.testing.assert_allclose(found.lower, np.maximum(one.lower, ball.lower), rtol=1e-12)
            wins |= set(np.sign(np.round(one.upper - ball.upper, 3)).ravel())
        assert wins >= {-1.0, 1.0}  # each of the two is the tighter one somewhere

    def test_bounds_that_cross_are_replaced_by_the_wider_ones(self):
        one, two = (np.array([0.0, 3.0]), np.array([1.0, 4.0])), (np.array([0.5, 1.0]), np.array([2.0, 2.0]))
        low, high = matrix_bounds._tightest(one, two)
        np.testing.assert_array_equal(low, [0.5, 1.0])
        np.testing.assert_array_equal(high, [1.0, 4.0])


class TestRadius:
    @pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
    def test_the_process_behind_the_radius_by_summing_over_all_outcomes(self, p):
        """E exp(‖S‖²_{A⁻¹}/2σ²)/√det(A/λ) ≤ 1 for σ half the range of the values; not for half of that."""
        phi = np.array([[1.0, 0.2], [0.1, 1.0], [0.7, 0.7], [1.0, 0.2], [0.1, 1.0], [0.7, 0.7]])
        values, ridge = np.array([0.4, 1.7]), 0.5
        matrix = ridge * np.eye(2) + phi.T @ phi
        mean = (1 - p) * values[0] + p * values[1]

        def expected(scale):
            total = 0.0
            for outcome in itertools.product([0, 1], repeat=len(phi)):
                chance = np.prod([p if o else 1 - p for o in outcome])
                moved = phi.T @ (values[list(outcome)] - mean)
                size = moved @ np.linalg.solve(matrix, moved)
                total += chance * math.exp(size / (2 * scale**2)) / math.sqrt(np.linalg.det(matrix / ridge))
            return total

        sigma = np.ptp(values) / 2
        assert expected(sigma) <= 1.0
        if p == 0.5:
            assert expected(sigma / 2) > 1.0

    def test_the_bias_of_a_pair_is_attained_and_at_most_that_of_the_block_radius(self):
        """Without noise p̂(V − c) − P(V − c) is −λφᵀA⁻¹θ, and θ may point along A⁻¹φ."""
        mdp, rng = linear_mdp(7), np.random.default_rng(0)
        algorithm = start(mdp, set="sandwich", ridge=3.0)
        for _ in range(6):
            play(algorithm, mdp, rng)
        inputs = algorithm.model.confidence.inputs(algorithm.model.design, algorithm.clock)
        tight, whole = PairwiseRadius()(inputs), BlockRadius()(inputs)
        assert (tight <= whole).all()
        assert (tight < 0.9 * whole).any()
        matrix, _, rows = data_of(algorithm)
        inverse, norm = np.linalg.inv(matrix), algorithm.model.confidence.regularity.core_norm / math.sqrt(3.0)
        width = np.sqrt(algorithm.model.design.width_sq[0])
        for p, row in enumerate(rows):
            worst = norm * (inverse @ row) / np.linalg.norm(inverse @ row)
            bias = (whole[0, 0] - algorithm.model.confidence.regularity.core_norm) * width[
                p
            ] + 3.0 * row @ inverse @ worst
            assert tight[0, p] * width[p] == pytest.approx(bias, rel=ALGEBRA)

    @pytest.mark.parametrize("ridge", [0.01, 30.0])
    def test_the_pairwise_radius_covers_the_measures_of_all_pairs(self, ridge):
        """‖φᵀ(M* − M_n)‖ ≤ √β w for 100 runs of 25 episodes, δ = 0.5: noise counts at one ridge, bias at the other."""
        mdp, rng = linear_mdp(8), np.random.default_rng(1)
        algorithm = start(mdp, 100, radius=PairwiseRadius(), ridge=ridge, delta=0.5)
        rows, inside = algorithm.problem.features.phi.flat, np.ones(100, dtype=bool)
        law = mdp.transitions.expect(np.eye(12)).reshape(12, -1).T
        for _ in range(25):
            play(algorithm, mdp, rng, policy=lambda states: rng.integers(0, 3, len(states)))
            error = np.linalg.norm(rows @ algorithm.model.core_matrix() - law, axis=2)
            radius = algorithm.model.confidence.radii(algorithm.model.design, algorithm.clock).models
            inside &= (error <= radius * np.sqrt(algorithm.model.design.width_sq) + ALGEBRA).all(axis=1)
        assert binom.sf(int((~inside).sum()) - 1, 100, 0.5) > 1e-6


def violations(mdp, rng, n_replicas, episodes, policy=None, **settings):
    """Return which replicas ever had V* outside its bounds, at any stage and state: (B,)."""
    algorithm = start(mdp, n_replicas, **settings)
    truth, outside = solve(mdp).values, np.zeros(n_replicas, dtype=bool)
    for _ in range(episodes):
        play(algorithm, mdp, rng, policy)
        low, high = both_sides(algorithm)
        outside |= ((low > truth + ALGEBRA) | (high < truth - ALGEBRA)).any(axis=(1, 2))
        assert (low <= high + ALGEBRA).all()
    return outside


class TestCoverage:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("known", [True, False], ids=["known rewards", "learned rewards"])
    def test_v_star_is_inside_in_every_episode_of_random_linear_mdps(self, kind, known):
        for seed in range(3):
            rng = np.random.default_rng(seed)
            found = violations(linear_mdp(seed), rng, 8, 20, set=kind, known_reward=known)
            assert not found.any()  # δ = 0.05, and the bound is far from attained

    @pytest.mark.parametrize("known", [True, False], ids=["known rewards", "learned rewards"])
    def test_as_often_as_promised(self, known):
        """150 runs of 25 episodes, δ = 0.5, hardly any ridge; failing by chance has probability below 1e-6."""
        mdp, rng = linear_mdp(1, n_states=6, d=2, horizon=3, sharp=0.1), np.random.default_rng(0)
        found = violations(mdp, rng, 150, 25, set="sandwich", delta=0.5, ridge=1e-3, known_reward=known)
        assert binom.sf(int(found.sum()) - 1, 150, 0.5) > 1e-6

    def test_a_tenth_of_the_radius_does_not_cover(self):
        mdp, rng = linear_mdp(1, n_states=6, d=2, horizon=3, sharp=0.1), np.random.default_rng(0)
        found = violations(mdp, rng, 150, 25, set="sandwich", delta=0.5, ridge=1e-3, exploration=0.1)
        assert binom.sf(int(found.sum()) - 1, 150, 0.5) < 1e-6

    @pytest.mark.parametrize("ridge", [1.0, 100.0])
    def test_rare_directions_and_a_large_ridge(self, ridge):
        """A chain that always plays the action which shows least of φ; the two actions differ by 0.1 in φ only."""
        t, n_states = 0.1, 5
        phi = np.zeros((n_states, 2, 2))
        phi[:, 0], phi[:, 1] = [1.0, 0.0], [1.0, t]
        good, bad = np.eye(n_states)[n_states - 1], np.eye(n_states)[0]
        law = np.where(np.arange(2)[None, :, None] == 1, good, bad) * np.ones((n_states, 1, 1))
        reward = np.zeros((n_states, 2))
        reward[-1] = 1.0
        mdp = FiniteMDP(law, reward, 4, features=Features(TablePhi(phi), OneHotPsi(n_states)))

        def seldom(states):
            return (np.arange(len(states)) % 7 == 0).astype(int)

        assert not violations(mdp, np.random.default_rng(0), 14, 40, seldom, set="sandwich", ridge=ridge).any()

    def test_without_the_bias_of_the_ridge_the_bounds_fail(self, monkeypatch):
        """A deterministic P has no noise, so only the bias can be wrong: the test above is about it."""

        def without(self, inputs):
            return np.full((inputs.n_replicas, 1), 1e-6)

        monkeypatch.setattr(PairwiseRadius, "__call__", without)
        with pytest.raises(AssertionError):
            self.test_rare_directions_and_a_large_ridge(100.0)


class TestRecords:
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_lower_bound_on_v_star_is_none_on_the_policy(self, kind):
        """A bad policy: its value is above `lower`, below the lower end of the interval of V*."""
        mdp, rng = linear_mdp(2, sharp=0.05), np.random.default_rng(0)
        algorithm = start(mdp, 2, set=kind)
        visit_all(algorithm, mdp, rng, 20_000)
        worst, values = np.zeros((5, 12), dtype=int), np.zeros(12)
        for h in reversed(range(5)):
            q = mdp.task.reward + mdp.transitions.expect(values[None])[0].T
            worst[h], values = q.argmin(axis=1), q.min(axis=1)
        bounds = algorithm.certifier.certify(Plan(np.stack([worst] * 2), np.zeros((2, 6, 12)), np.zeros(2, dtype=int)))
        value, best = float(evaluate(mdp, worst)[0] @ mdp.task.start), solve(mdp).start_value
        assert (bounds.lower <= value).all()
        assert (value < bounds.optimal_lower).all()
        assert (bounds.optimal_lower <= best).all()
        assert (best <= bounds.upper).all()
        shown = Certificate.of(bounds, 1, 0.05, True, "state 0")
        assert shown.optimal_interval == (bounds.optimal_lower[1], bounds.upper[1])
        assert shown.gap == bounds.upper[1] - bounds.lower[1]  # of the policy: not the width of the interval

    def test_the_lower_bound_of_the_policy_is_that_of_the_ball_at_half_of_delta(self):
        mdp, rng = linear_mdp(2), np.random.default_rng(0)
        algorithm = start(mdp, set="sandwich", delta=0.1)
        for _ in range(10):
            plan = play(algorithm, mdp, rng)
        ball = start(mdp, set="normalised", delta=0.05)
        ball.restore(algorithm.state())
        bounds = ball.certifier.certify(plan)
        np.testing.assert_allclose(algorithm.certifier.certify(plan).lower, bounds.lower, rtol=1e-12)
        assert bounds.optimal_lower is None


class TestRegretBound:
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_surplus_over_the_truth_is_at_most_the_factor(self, kind):
        """U − P V_up ≤ (3/2 √S + 1/2) H √β w for bounds in [0, H], whenever both radii hold."""
        mdp, rng = linear_mdp(9), np.random.default_rng(0)
        law = mdp.transitions.expect(np.eye(12)).reshape(12, -1).T
        algorithm = start(mdp, set=kind)
        for _ in range(10):
            play(algorithm, mdp, rng)
            confidence, clock = algorithm.model.confidence, algorithm.clock
            models = confidence.radii(algorithm.model.design, clock).models
            largest = np.maximum(models, confidence.value_radii(algorithm.model.design, clock)[0])[0]
            width, reward = np.sqrt(algorithm.model.design.width_sq[0]), algorithm.unit_reward.ravel()
            for _ in range(5):
                low, high = np.sort(rng.random((2, 12)) * 5, axis=0)
                bound = (
                    algorithm.model.bounds(algorithm.clock, "agent")[0].optimal_q(low[None], high[None]).upper.ravel()
                    - reward
                )
                assert (bound - law @ high <= (1.5 * math.sqrt(12) + 0.5) * 5 * largest * width).all()

    def test_the_number_before_any_data(self):
        algorithm, n = start(linear_mdp(9), preset="optimistic", set="sandwich", delta=0.1), 10**9
        k = algorithm.model.confidence.regularity
        steps = 5 * n
        logdet = 3 * math.log1p(steps * k.c_phi)
        values = k.core_norm + math.sqrt(2 * math.log(2 * 4 / 0.1) + logdet)  # ‖θ*‖ has the bound of ‖M*‖: C_ψ' = 1
        surplus = (1.5 * math.sqrt(12) + 0.5) * 5 * values
        expected = surplus * math.sqrt(2 * 5 * steps * logdet) + 5 * math.sqrt(steps * math.log(10) / 2)
        assert algorithm.claims.regret_bound(n) == pytest.approx(expected + 2e-9 * 5 * steps)
