"""docs/proofs.md, section 11: bounds from returns, the safest policy, and the least upper bound."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from matrixrl import FiniteMDP, MatrixRL, evaluate, run_seeds, solve
from matrixrl.core.backup import greedy_plan, pessimistic_values
from matrixrl.core.greedy import lowest_first
from matrixrl.core.returns import N_LEVELS, frozen_policy_bounds, log_mean_wealth, path_deviation, return_level
from matrixrl.linalg import OutcomeCounts
from matrixrl.play.ledger import FrozenReturns
from matrixrl.problems import tabular
from matrixrl.records import Steps


def bound_of(levels, number=0, delta=0.5):
    counts = OutcomeCounts(1, 63, N_LEVELS + 1)
    counts.add(np.full((1, len(levels)), number), np.array([levels]))
    return float(frozen_policy_bounds(counts.seen, delta)[0])


class TestFrozenPolicies:
    def test_the_bound_is_where_the_mean_wealth_of_the_bets_is_the_price(self):
        """Σ_b Π(1 − b + b x/μ)/16 is 63/δ at the bound μ, with b = 1, 0.7, 0.7², …; δ is divided by 63 policies."""
        levels = [1, N_LEVELS // 4, N_LEVELS // 4, N_LEVELS, N_LEVELS // 2, N_LEVELS, N_LEVELS]
        delta = 0.4
        mu = bound_of(levels, delta=delta)
        wealth = sum(math.prod(1.0 - b + b * x / N_LEVELS / mu for x in levels) for b in 0.7 ** np.arange(16)) / 16
        assert wealth == pytest.approx(63 / delta, rel=1e-9)
        assert bound_of(levels, 7, delta) == mu  # every policy has the same part of δ
        assert bound_of([0, 0, 0]) == 0.0

    @pytest.mark.parametrize("mean", [0.05, 0.3, 0.8])
    def test_the_truth_is_below_with_probability_at_most_delta(self, mean):
        """All sequences of 12 episodes that earn 0 or 1, summed; the part of one policy, so δ is 63 times as large."""
        delta, n = 0.5, 12
        bounds = {
            (ones, k): bound_of([N_LEVELS] * ones + [0] * (k - ones), delta=63 * delta)
            for k in range(1, n + 1)
            for ones in range(k + 1)
        }
        missed, narrow = 0.0, 0.0
        for earned in itertools.product((0, 1), repeat=n):
            chance = mean ** sum(earned) * (1.0 - mean) ** (n - sum(earned))
            found = [bounds[sum(earned[:k]), k] for k in range(1, n + 1)]
            missed += chance * any(bound > mean + 1e-12 for bound in found)
            narrow += chance * any(0.5 * (bound + sum(earned[:k]) / k) > mean for k, bound in enumerate(found, 1))
        assert missed <= delta
        assert narrow > missed

    def test_the_mean_wealth_of_the_bets_is_a_supermartingale(self):
        """E Σ_b Π(1 − b + b X/μ)/16 is 1 if E X = μ, and less if it is smaller; X depends on the past."""
        mu, n = 0.4, 6
        for smaller in (1.0, 0.7):
            total = 0.0
            for draws in itertools.product((0, 1), repeat=n):
                chance, levels = 1.0, []
                for t, up in enumerate(draws):
                    high = 0.5 + 0.5 * (sum(draws[:t]) % 2)  # the larger outcome depends on the past
                    p = smaller * mu / high
                    chance *= p if up else 1.0 - p
                    levels.append(int(high * up * N_LEVELS))
                counts = OutcomeCounts(1, 1, N_LEVELS + 1)
                counts.add(np.zeros((1, n), dtype=int), np.array([levels]))
                total += chance * math.exp(log_mean_wealth(counts.seen, np.array([mu]))[0])
            assert total <= 1.0 + 1e-9
            assert (total == pytest.approx(1.0)) == (smaller == 1.0)

    @pytest.mark.parametrize("low", [0.0, -1.0])
    def test_the_reward_before_the_first_other_action_has_at_most_the_mean_of_the_policy(self, low):
        """Every path of a small MDP with an end state, under another policy: Σ chance × share against V."""
        rng = np.random.default_rng(3)
        law = rng.dirichlet(np.ones(3), size=(3, 2))
        law[2] = [0.0, 0.0, 1.0]
        reward = rng.uniform(low, 1.0, size=(3, 2))
        reward[2] = 0.0
        mdp = FiniteMDP(law, reward, 3, end_state=2, reward_range=(low, 1.0))
        frozen, played = rng.integers(0, 2, size=(2, 3, 3))
        returns = FrozenReturns(MatrixRL(mdp, seed=0).problem, 0.1)
        mean = whole = 0.0
        for path in itertools.product(range(3), repeat=3):
            for table in (played, frozen):
                states, chance, steps = 0, 1.0, []
                for h, following in enumerate(path):
                    action = table[h, states]
                    chance *= law[states, action, following]
                    steps.append((states, action, reward[states, action], following))
                    states = following
                    if following == 2:
                        chance *= all(s == 2 for s in path[h:])  # one path for each way to the end
                        break
                share = returns._followed(frozen[None], _steps(steps))[0] if chance else 0.0
                if table is played:
                    mean += chance * share
                else:
                    whole += chance * share
        value = (evaluate(mdp, frozen)[0, 0] - 3 * low) / (3 * (1.0 - low))
        assert whole == pytest.approx(value)
        assert mean <= value + 1e-12

    def test_levels_round_down(self):
        assert return_level(1.0) == N_LEVELS
        assert return_level(0.5 + 0.9 / N_LEVELS) == N_LEVELS // 2
        assert return_level(-0.1) == 0


class TestPathDeviation:
    @pytest.mark.parametrize("slope", [0.5, 0.25, 2.0**-6])
    def test_it_is_a_supermartingale(self, slope):
        """All sequences of 7 returns with means that depend on the past; half of ψ makes the mean exceed 1."""

        def mean_of(factor):
            psi, total = factor * (-math.log1p(-slope) - slope), 0.0
            for draws in itertools.product((0.0, 1.0), repeat=7):
                chance, exponent = 1.0, 0.0
                for t, x in enumerate(draws):
                    mu = 0.1 + 0.8 * (sum(draws[:t]) % 2)
                    chance *= mu if x else 1.0 - mu
                    predicted = (0.5 + sum(draws[:t])) / (t + 1)
                    exponent += slope * (x - mu) - psi * (x - predicted) ** 2
                total += chance * math.exp(exponent)
            return total

        assert mean_of(1.0) <= 1.0
        assert mean_of(0.2) > 1.0

    def test_it_is_the_smallest_of_twenty_bounds(self):
        shares, delta = np.random.default_rng(0).random(50), 0.1
        variation, before = 0.0, 0.0
        for t, x in enumerate(shares):
            variation += (x - (0.5 + before) / (t + 1)) ** 2
            before += x
        bounds = [
            (math.log(20 / delta) + (-math.log(1 - 2.0**-k) - 2.0**-k) * variation) / 2.0**-k for k in range(1, 21)
        ]
        assert path_deviation(shares, delta) == pytest.approx(min(bounds))
        assert path_deviation(np.ones(1), delta) == 1.0  # no more than was earned
        assert path_deviation(np.zeros(0), delta) == 0.0

    def test_regret_is_below_its_certificate(self):
        """20 runs at δ = 0.2 (the bound fails with probability 0.4 in each at most; it never did)."""
        for seed in range(20):
            agent = MatrixRL(tabular(n_states=3, n_actions=2, horizon=4, seed=seed).mdp, seed=seed, delta=0.2)
            history = agent.learn(60)
            shown = agent.regret_certificate()
            assert shown.guarantee
            assert shown.delta == 0.4
            assert history.cumulative_regret[-1] <= shown.upper <= 60 * 4
            assert shown.per_episode == shown.upper / 60
            least = agent.certificate().upper
            assert shown.upper == pytest.approx(
                min(60 * least - history.returns.sum() + 4 * path_deviation(history.returns / 4, 0.2), 240)
            )


class TestSafestPolicy:
    @pytest.mark.parametrize("settings", [{}, {"set": "normalised"}, {"known_reward": False}], ids=str)
    def test_no_policy_has_a_larger_lower_bound(self, settings):
        """All 16 policies of two states, two actions and two stages."""
        mdp = tabular(n_states=2, n_actions=2, horizon=2, seed=1).mdp
        agent = MatrixRL(mdp, seed=0, **settings)
        agent.learn(300)
        algorithm = agent.algorithm
        belief = algorithm.model.bounds(algorithm.clock, "proven")[0]
        plan = algorithm.certifier.safest_plan()
        bounds = [
            pessimistic_values(belief, np.array(table).reshape(1, 2, 2), algorithm.frame)[0, 0]
            for table in itertools.product(range(2), repeat=4)
        ]
        np.testing.assert_allclose(plan.values[0, 0], np.max(bounds, axis=0), atol=1e-9)
        own = pessimistic_values(belief, plan.policy, algorithm.frame)
        np.testing.assert_allclose(own, plan.values, atol=1e-9)

    @pytest.mark.parametrize("settings", [{}, {"known_reward": False}], ids=str)
    def test_compiled_is_numpy(self, settings):
        agent = MatrixRL("river-swim", env_settings={"n_states": 4}, seed=0, **settings)
        agent.learn(150)
        algorithm = agent.algorithm
        belief, ranks = algorithm.model.bounds(algorithm.clock, "proven")[0], lowest_first(2, 1)
        q = np.zeros((2, 1, algorithm.frame.horizon, 2, 4))
        loops = greedy_plan(belief, algorithm.frame, ranks, sign=-1.0, compiled=True, q_out=q[0])
        numpy = greedy_plan(belief, algorithm.frame, ranks, sign=-1.0, q_out=q[1])
        np.testing.assert_array_equal(loops.policy, numpy.policy)
        np.testing.assert_allclose(loops.values, numpy.values, atol=1e-9)
        np.testing.assert_allclose(q[0], q[1], atol=1e-9)
        np.testing.assert_allclose(
            pessimistic_values(belief, loops.policy, algorithm.frame, compiled=True), loops.values, atol=1e-9
        )

    def test_the_policy_is_as_good_as_its_certificate_says(self):
        """12 worlds; δ = 0.05 each."""
        for seed in range(12):
            mdp = tabular(n_states=4, n_actions=2, horizon=5, seed=seed).mdp
            agent = MatrixRL(mdp, seed=seed)
            agent.learn(100)
            chosen = agent.recommend()
            truth = evaluate(mdp, chosen.table.astype(int))[0] @ mdp.task.start
            assert chosen.certificate.lower <= truth + 1e-9
            assert solve(mdp).start_value <= chosen.certificate.upper + 1e-9
            assert chosen.certificate.lower >= agent.certificate().lower


@pytest.mark.slow
def test_the_least_upper_bound_holds_as_often_as_promised():
    """100 runs at δ = 0.5; at most half may miss V* or V of the policy in any of 150 episodes (they hardly do)."""
    result = run_seeds(
        "river-swim",
        n_episodes=150,
        seeds=100,
        env_settings={"n_states": 3, "horizon": 6},
        delta=0.5,
        certify=True,
    )
    upper = result.certified[:, :, 1]
    assert (np.diff(upper, axis=1) <= 0.0).all()
    missed = (upper < result.optimal_value) | (result.certified[:, :, 0] > result.optimal_value - result.regret + 1e-9)
    assert missed.any(axis=1).mean() <= 0.5
    for b, certificate in enumerate(result.certificate):
        assert certificate.upper <= upper[b, -1]


def _steps(rows):
    states, actions, rewards, following = (np.array(column)[None] for column in zip(*rows, strict=True))
    return Steps.of(states, actions, rewards, following, following == 2)
