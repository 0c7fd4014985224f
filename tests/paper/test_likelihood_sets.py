"""docs/proofs.md, section 9: likelihood sets for indicator features.

The two processes behind the radii are summed over all sequences of outcomes; the largest mean is compared with a convex
solver and with the compiled loop; coverage is measured on laws that are hard for such sets.
"""

from __future__ import annotations

import itertools
import math

import cvxpy
import numba
import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy.special import betaln, gammaln, xlogy

from matrixrl.core.compiled import kl_ball, likelihood
from matrixrl.core.likelihood.kl_ball import KLBall, extreme_means
from matrixrl.core.likelihood.radii import (
    NO_BET_SHARE,
    TOP_SHARE,
    dirichlet_excess,
    log_bet_gain,
    log_marginal,
    log_mixture_gain,
    targeted_beta,
    top_beta,
)
from matrixrl.linalg import OutcomeCounts, SeenRows


def from_python(loop):
    """Return a function of Python that calls a loop which compiled functions alone call."""
    return numba.njit(lambda *arguments: loop(*arguments))


compiled_excess = from_python(likelihood.dirichlet_excess)
fill_table, gather, largest_mean = map(from_python, (kl_ball.fill_table, kl_ball.gather, kl_ball.largest_mean))

LAWS = {
    "two points": ([0.3, 0.7], [0.0, 1.0]),
    "near-deterministic": ([0.01, 0.04, 0.95], [5.0, 1.0, 2.0]),
    "three": ([0.2, 0.5, 0.3], [1.0, 0.2, 0.7]),
}


def rows_of(counts: np.ndarray) -> SeenRows:
    """One row for each vector of counts (R, S)."""
    n_outcomes = counts.shape[1]
    codes = np.flatnonzero(counts)
    return SeenRows(codes, counts.ravel()[codes].astype(float), n_outcomes)


def all_counts(n: int, k: int) -> np.ndarray:
    """Every vector of k counts that add up to n."""
    cuts = itertools.combinations(range(n + k - 1), k - 1)
    return np.array([np.diff([-1, *c, n + k - 1]) - 1 for c in cuts])


def n_sequences(counts: np.ndarray) -> np.ndarray:
    """Number of sequences with these counts."""
    return np.array([math.factorial(c.sum()) / math.prod(math.factorial(i) for i in c) for c in counts])


class TestTheBetOnAFixedFunction:
    """For fixed f with maximum M and mean μ, W_n(b) = Π(1 − b + b(M − f)/(M − μ)), mixed over b ~ Beta(½, ½)."""

    @staticmethod
    def wealth(counts: np.ndarray, law: np.ndarray, f: np.ndarray, b: np.ndarray) -> np.ndarray:
        mean, top = law @ f, f.max()
        factors = 1.0 - b[:, None] + b[:, None] * (top - f) / (top - mean)
        return np.exp(counts @ np.log(np.maximum(factors, 1e-300)).T)  # (sequences, bets)

    @pytest.mark.parametrize("law", LAWS)
    @pytest.mark.parametrize("n", [1, 2, 5, 8])
    def test_its_mean_is_one(self, law, n):
        p, f = (np.array(x) for x in LAWS[law])
        counts = all_counts(n, len(p))
        chance = n_sequences(counts) * np.exp(counts @ np.log(p))
        angle = (np.arange(40) + 0.5) * np.pi / 40  # b = sin²(θ/2) is Beta(½, ½) for uniform θ; exact for degree < 40
        mixture = self.wealth(counts, p, f, np.sin(angle / 2.0) ** 2).mean(axis=1)
        assert chance @ mixture == pytest.approx(1.0, abs=1e-12)

    @pytest.mark.parametrize("law", LAWS)
    @pytest.mark.parametrize("n", [1, 3, 8])
    def test_the_best_bet_gains_at_most_the_factor_of_the_radius(self, law, n):
        """Over Beta(½, ½), and over the mixture with the bets 0 and 1, whose price is that of the top at b = 1."""
        p, f = (np.array(x) for x in LAWS[law])
        counts = all_counts(n, len(p))
        angle = (np.arange(400) + 0.5) * np.pi / 400
        wealth = self.wealth(counts, p, f, np.sin(angle / 2.0) ** 2)
        gain = np.log(wealth.max(axis=1)) - np.log(wealth.mean(axis=1))
        assert gain.max() <= log_mixture_gain(np.array([float(n)]))[0] + 1e-12
        all_in = self.wealth(counts, p, f, np.ones(1))[:, 0]
        mixture = TOP_SHARE * all_in + NO_BET_SHARE + (1.0 - TOP_SHARE - NO_BET_SHARE) * wealth.mean(axis=1)
        chance = n_sequences(counts) * np.exp(counts @ np.log(p))
        assert chance @ mixture == pytest.approx(1.0, abs=1e-12)
        assert (np.log(wealth.max(axis=1)) - np.log(mixture)).max() <= log_bet_gain(float(n)) + 1e-12
        assert (np.log(np.maximum(all_in, 1e-300)) - np.log(mixture)).max() <= top_beta(0.0) + 1e-12

    @pytest.mark.parametrize("n", [1, 2, 3, 7, 40, 300])
    def test_the_factor_of_the_mixture_is_its_largest_ratio(self, n):
        """max over k of max_b b^k(1−b)^(n−k) over its mean, by a sum over all k; one k attains it."""
        k = np.arange(n + 1.0)
        most = xlogy(k, k / n) + xlogy(n - k, (n - k) / n)
        mean = (1.0 - TOP_SHARE - NO_BET_SHARE) * np.exp(betaln(k + 0.5, n - k + 0.5) - betaln(0.5, 0.5))
        mean[0] += NO_BET_SHARE
        mean[-1] += TOP_SHARE
        assert log_bet_gain(float(n)) == pytest.approx((most - np.log(mean)).max(), rel=1e-9)

    @pytest.mark.parametrize("n", [1, 4, 30])
    def test_the_bound_at_the_top_holds_for_every_function_below(self, rng, n):
        """μ <= U wherever all bets on f failed, if U is computed from larger values with a larger maximum."""
        for _ in range(300):
            p, f = rng.dirichlet(np.ones(4)), 3.0 * rng.random(4)
            seen = SeenRows(*np.unique(rng.choice(4, size=n, p=p), return_counts=True), 4)
            all_in = (seen.times * np.log(np.maximum((f.max() - f[seen.outcomes]) / (f.max() - p @ f), 1e-300))).sum()
            top = np.array([max(all_in, 1e-9) / n])  # the smallest radius at which the bet b = 1 has not failed
            above = f + rng.random(4) * rng.choice([0.0, 0.1, 3.0])
            wide = np.full(1, 50.0)  # so that the other ν say nothing
            upper = extreme_means(seen, above[seen.outcomes], np.full(1, above.max()), wide, 1.0, top)[0]
            assert upper >= p @ f - 1e-9

    def test_the_bound_at_the_top_is_no_smaller_than_the_best_value_seen(self):
        """Means 0.9 of values 0 and 1, seen once each; an upper bound of 1.2 on a third value that never occurs."""
        seen, wide, none = SeenRows(np.arange(2), np.ones(2), 3), np.full(1, 50.0), np.full(1, 1e-9)
        ball = KLBall(seen, np.array([0.0, 1.0]), np.full(1, 1.2), wide)
        assert ball.bound(np.zeros(1), none)[0] < 0.9
        assert extreme_means(seen, np.array([0.0, 1.0]), np.full(1, 1.2), wide, 1.0, none)[0] == 1.0

    def test_the_factor_is_attained_by_a_coin_that_never_pays(self):
        # W(b) = (1 − b)^n: its mixture is Γ(n+½)/(√π Γ(n+1)), so no smaller factor would do.
        for n in (1, 4, 9, 200):
            nodes, weights = leggauss(400)
            theta = 0.5 * np.pi * (nodes + 1.0)
            mixture = 0.5 * weights @ np.cos(theta / 2.0) ** (2 * n)
            assert math.log(1.0 / mixture) == pytest.approx(log_mixture_gain(np.array([float(n)]))[0], rel=1e-12)

    @pytest.mark.parametrize("law", LAWS)
    @pytest.mark.parametrize("n", [2, 6])
    def test_the_wealth_is_the_price_of_a_wrong_bound(self, law, n):
        """If U < μ at ε then some bet has wealth above e^{nε}: the bound can only fail where the mixture is large."""
        p, f = (np.array(x) for x in LAWS[law])
        counts = all_counts(n, len(p))
        seen = rows_of(counts)
        wealth = self.wealth(counts, p, f, np.linspace(0.0, 1.0, 4001)).max(axis=1)
        for epsilon in (0.01, 0.1, 0.5, 1.0, 2.0):
            radius = np.full(len(counts), epsilon)
            upper = extreme_means(seen, f[seen.outcomes], np.full(len(counts), f.max()), radius, 1.0)
            fails = upper < p @ f - 1e-9
            assert (np.log(wealth[fails]) >= n * epsilon - 1e-6).all()
            holds = upper > p @ f + 1e-9
            assert (np.log(wealth[holds]) <= n * epsilon + 1e-9).all()

    def test_shares_of_delta(self):
        n = np.array([7.0])
        assert targeted_beta(n, math.log(100.0)) - targeted_beta(n, 0.0) == pytest.approx(math.log(100.0))


class TestTheMixtureOfDirichletLaws:
    """m(c)/Π p^c is a supermartingale that starts at 1, because m is a probability of sequences."""

    @pytest.mark.parametrize(("n", "k"), [(1, 2), (4, 3), (6, 4), (3, 7), (8, 2)])
    def test_it_is_a_probability_of_sequences(self, n, k):
        counts = all_counts(n, k)
        total = n_sequences(counts) @ np.exp(log_marginal(rows_of(counts), k))
        assert total == pytest.approx(1.0, abs=1e-12)

    def test_a_longer_sequence_divides_the_probability_of_a_shorter_one(self):
        counts = all_counts(4, 3)
        longer = [np.exp(log_marginal(rows_of(counts + np.eye(3, dtype=int)[i]), 3)) for i in range(3)]
        np.testing.assert_allclose(sum(longer), np.exp(log_marginal(rows_of(counts), 3)), rtol=1e-12)

    def test_the_excess_is_the_ratio_to_the_likeliest_law(self):
        counts = np.array([[3, 0, 2], [1, 1, 1], [0, 7, 0]])
        p = counts / counts.sum(axis=1, keepdims=True)
        likelihood = np.prod(np.where(counts > 0, p, 1.0) ** counts, axis=1)
        seen = rows_of(counts)
        expected = np.log(likelihood) - log_marginal(seen, 3)
        np.testing.assert_allclose(dirichlet_excess(seen, 3), expected, rtol=1e-12)

    def test_it_adapts_to_the_support(self):
        """One successor of a thousand: the excess stays below ln(2S) forever."""
        counts = np.zeros((3, 1000), dtype=int)
        counts[:, 17] = [1, 100, 1_000_000]
        assert (dirichlet_excess(rows_of(counts), 1000) <= math.log(2000.0) + 1e-6).all()

    def test_compiled_is_the_same_number(self, rng):
        for n_outcomes in (1, 2, 9, 300):
            counts = rng.integers(0, 6, size=(20, n_outcomes)) * (rng.random((20, n_outcomes)) < 0.4)
            counts[:, 0] += 1
            seen = rows_of(counts)
            ends = np.append(seen.firsts, len(seen.times))
            kept = np.zeros((40, 8, 4))  # parts that are computed once, for up to 39 visits and 7 outcomes
            gammas, none = gammaln(0.5 * np.arange(1000)), np.zeros(0)
            once, again, anew, untabled = (
                [compiled_excess(i, j, seen.times, n_outcomes, priors, table) for i, j in itertools.pairwise(ends)]
                for priors, table in (
                    (kept, gammas),
                    (kept, gammas),
                    (np.zeros((0, 0, 4)), gammas),
                    (np.zeros((0, 0, 4)), none),
                )
            )
            np.testing.assert_allclose(once, untabled, rtol=1e-12, atol=1e-10)
            np.testing.assert_allclose(once, dirichlet_excess(seen, n_outcomes), rtol=1e-9, atol=1e-9)
            assert once == again == anew


class TestTheLargestMean:
    """U = max{qV : KL(p̂‖q) <= ε}, solved in its dual."""

    @staticmethod
    def problem(rng: np.random.Generator) -> tuple[SeenRows, np.ndarray, np.ndarray]:
        counts = rng.integers(0, 8, size=(12, 6)) * (rng.random((12, 6)) < 0.5)
        counts[np.arange(12), rng.integers(6, size=12)] += 1
        return rows_of(counts), counts / counts.sum(axis=1, keepdims=True), 10.0 * rng.random(6)

    @pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0])
    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_against_a_convex_solver(self, rng, epsilon, sign):
        seen, laws, values = self.problem(rng)
        end = values.max() if sign > 0 else values.min()
        ours = extreme_means(seen, values[seen.outcomes], np.full(12, end), np.full(12, epsilon), sign)
        for i in (0, 5, 11):
            some = laws[i] > 0
            q = cvxpy.Variable(6, nonneg=True)
            entropy = laws[i][some] @ np.log(laws[i][some])
            ball = entropy - laws[i][some] @ cvxpy.log(q[np.flatnonzero(some)]) <= epsilon
            cvxpy.Problem(cvxpy.Maximize(sign * values @ q), [cvxpy.sum(q) == 1, ball]).solve(solver="CLARABEL")
            assert ours[i] == pytest.approx(values @ q.value, abs=2e-5)

    def test_every_dual_variable_gives_a_bound(self, rng):
        seen, laws, values = self.problem(rng)
        epsilon, top = np.full(12, 0.3), np.full(12, values.max())
        ball = KLBall(seen, values[seen.outcomes], top, epsilon)
        best = extreme_means(seen, values[seen.outcomes], top, epsilon, 1.0)
        for x in 10.0 ** np.linspace(-8, 8, 33):
            assert (ball.bound(np.full(12, x)) >= best - 1e-12).all()
        for _ in range(300):  # no law of the ball has a larger mean
            q = rng.dirichlet(np.ones(6), size=12) * rng.random() + laws * rng.random()
            q /= q.sum(axis=1, keepdims=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                divergence = np.where(laws > 0, laws * np.log(laws / q), 0.0).sum(axis=1)
            assert ((q @ values)[divergence <= 0.3] <= best[divergence <= 0.3] + 1e-12).all()

    @pytest.mark.parametrize("epsilon", [1e-8, 1e-3, 0.5, 30.0])
    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_compiled_is_the_same_number(self, rng, epsilon, sign):
        seen, _, values = self.problem(rng)
        end = values.max() if sign > 0 else values.min()
        ends = np.append(seen.firsts, len(seen.times))
        lists = (seen.shares, seen.outcomes, np.zeros(0), seen.outcomes, values)
        table = np.empty((3, 6))
        fill_table(np.arange(6), np.zeros(6), values, sign, sign * end, table)
        for top, tabulated, guess in itertools.product((np.inf, 0.7 * epsilon), (False, True), (0.0, 1e-9, 3.0, 1e6)):
            radii = sign, sign * end, epsilon, top
            compiled = [
                largest_mean(i, j, *lists, table[:, : 6 * tabulated], *radii, guess, -np.inf, np.empty(6))
                for i, j in itertools.pairwise(ends)
            ]
            ours = extreme_means(
                seen, values[seen.outcomes], np.full(12, end), np.full(12, epsilon), sign, np.full(12, top)
            )
            bounds, without_top, _ = np.transpose(compiled)
            np.testing.assert_allclose(sign * bounds, ours, rtol=1e-12)
            wider = extreme_means(seen, values[seen.outcomes], np.full(12, end), np.full(12, epsilon), sign)
            np.testing.assert_allclose(sign * without_top, wider, rtol=1e-12)

    @pytest.mark.parametrize("epsilon", [1e-3, 0.1])
    @pytest.mark.parametrize("tabulated", [False, True])
    def test_a_search_may_end_at_any_bound_that_is_small_enough(self, rng, epsilon, tabulated):
        """Below `enough` the bound is a valid one that is below it too; otherwise it is the smallest one."""
        seen, _, values = self.problem(rng)
        top, ended, table = values.max() + 0.5, 0, np.empty((3, 6))
        fill_table(np.arange(6), np.zeros(6), values, 1.0, top, table)
        lists = (seen.shares, seen.outcomes, np.zeros(0), seen.outcomes, values, table[:, : 6 * tabulated])
        for i, j in itertools.pairwise(np.append(seen.firsts, len(seen.times))):
            ball = 1.0, top, epsilon, np.inf
            smallest, _, x = largest_mean(i, j, *lists, *ball, 0.0, -np.inf, np.empty(6))
            for enough in smallest + np.array([-0.5, -1e-6, 1e-6, 0.01, 0.5, 3.0]):
                for guess in (0.0, 0.5 * x, 3.0 * x):
                    bound, wider, _ = largest_mean(i, j, *lists, *ball, guess, enough, np.empty(6))
                    assert bound == wider
                    if enough < smallest:
                        assert bound == pytest.approx(smallest, rel=1e-12)
                    else:
                        assert smallest * (1.0 - 1e-12) <= bound < enough
                        ended += bound > smallest * (1.0 + 1e-9)
        assert ended > 0

    def test_gathered_outcomes_are_those_of_the_groups(self, rng):
        seen, _, _ = self.problem(rng)
        firsts = seen.firsts[None, :]
        lasts = firsts + seen.lengths
        radii = rng.random((2, 1, 12))
        law = (firsts, lasts, seen.shares, seen.outcomes, np.zeros(0), *radii, seen.outcomes, np.zeros((1, 1)))
        chosen = np.array([7, 2, 7, 11])
        places, shares, states, extras, numbers, listed, rewards, epsilon, top_epsilon = gather(law, 0, chosen, 6)
        assert not extras.size
        np.testing.assert_array_equal(epsilon, radii[0, 0, chosen])
        np.testing.assert_array_equal(top_epsilon, radii[1, 0, chosen])
        for i, g in enumerate(chosen):
            mine, own = slice(places[i], places[i + 1]), slice(firsts[0, g], lasts[0, g])
            np.testing.assert_array_equal(shares[mine], seen.shares[own])
            np.testing.assert_array_equal(states[mine], seen.outcomes[own])
        if len(listed):  # a state has one number
            np.testing.assert_array_equal(listed[numbers], states)
            assert not rewards.any()
            assert len(set(listed.tolist())) == len(listed)
        everything = gather(law, 0, np.arange(12), 6)
        assert len(everything[5]) == 6  # 12 groups of 6 states are listed

    def test_no_data_and_certain_data(self):
        lists = np.ones(1), np.array([2]), np.zeros(0), np.array([2]), np.array([0.0, 3.0, 2.0]), np.empty((3, 0))
        radii = 1.0, 3.0, 0.1, np.inf, 0.0, -np.inf, np.empty(1)
        assert largest_mean(0, 0, *lists, *radii)[0] == 3.0
        # one state seen: U = M − e^{−ε}(M − V)
        expected = 3.0 - math.exp(-0.1)
        assert largest_mean(0, 1, *lists, *radii)[0] == pytest.approx(expected, rel=1e-14)

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_values_that_differ_by_rounding_are_the_top(self, sign):
        """Their mean counts as the top, so distances to it are divided by 0: no warning, and the top itself."""
        below = np.nextafter(np.nextafter(3.0, 0.0), 0.0)
        seen = SeenRows(np.arange(2), np.ones(2), 2)
        assert extreme_means(seen, sign * np.array([3.0, below]), np.full(1, 3.0 * sign), np.full(1, 0.3), sign) == (
            3.0 * sign
        )

    @pytest.mark.parametrize("p", [1.0 - 1e-9, 1e-9, 0.5])
    @pytest.mark.parametrize("epsilon", [1e-10, 1e-4, 1.0, 100.0])
    def test_extreme_shares_and_radii(self, p, epsilon):
        seen = SeenRows(np.arange(2), np.array([p, 1.0 - p]), 2)
        upper = extreme_means(seen, np.array([1.0, 0.0]), np.ones(1), np.full(1, epsilon), 1.0)[0]
        # the largest q with kl(p, q) <= ε, by bisection
        low, high = p, 1.0
        for _ in range(200):
            q = 0.5 * (low + high)
            inside = q < 1.0 and p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q)) <= epsilon
            low, high = (q, high) if inside else (low, q)
        assert upper == pytest.approx(low, rel=1e-6)
        assert p <= upper <= 1.0


HARD = {
    "near-deterministic": np.array([0.98, 0.02]),
    "two points": np.array([0.5, 0.5]),
    "uniform over 50": np.full(50, 0.02),
}


class TestCoverage:
    """At δ = 0.2 the bounds fail at any time in at most that share of 400 runs, and do fail if halved."""

    delta, n_runs = 0.2, 400

    def misses(self, law: np.ndarray, factor: float, rng: np.random.Generator) -> tuple[float, float]:
        """Return the shares of runs in which β₁ ever failed for a fixed f, and β_D for any function."""
        f = np.linspace(0.0, 1.0, len(law)) if len(law) > 2 else np.array([0.0, 1.0])
        counts = OutcomeCounts(self.n_runs, 1, len(law))
        fixed, any_function = np.zeros(self.n_runs, dtype=bool), np.zeros(self.n_runs, dtype=bool)
        row = np.zeros((self.n_runs, 1), dtype=np.int64)
        log_events = math.log(1.0 / self.delta)
        for n in range(1, 81):
            counts.add(row, rng.choice(len(law), size=(self.n_runs, 1), p=law))
            seen = counts.seen
            target = factor * targeted_beta(seen.totals, log_events) / n
            top = np.full(self.n_runs, factor * top_beta(log_events) / n)
            upper = extreme_means(seen, f[seen.outcomes], np.ones(self.n_runs), target, 1.0, top)
            fixed |= upper < law @ f - 1e-12
            divergence = seen.sums(seen.shares * np.log(seen.shares / law[seen.outcomes]))
            any_function |= divergence > factor * (log_events + dirichlet_excess(seen, len(law))) / n
        return float(fixed.mean()), float(any_function.mean())

    @pytest.mark.parametrize("law", HARD)
    def test_the_radii_hold(self, law, rng):
        fixed, any_function = self.misses(HARD[law], 1.0, rng)
        assert fixed <= self.delta
        assert any_function <= self.delta

    def test_shrunken_radii_do_not(self, rng):
        fixed, any_function = self.misses(HARD["near-deterministic"], 0.25, rng)
        assert fixed > self.delta
        assert any_function > self.delta
