"""docs/proofs.md, 11.5: bounds from the returns of policies that were fixed before their episodes."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

from matrixrl import FiniteMDP, MatrixRL, compare_returns, evaluate
from matrixrl.core.returns import N_LEVELS, Returns, difference_bounds, statement_share
from matrixrl.play.given_policies import GivenPolicy, GivenReturns, stage_ranges, value_range
from matrixrl.problems import tabular
from matrixrl.records import Steps

BETS = [*(0.7**i for i in range(16)), 0.0]
WEIGHTS = [*(1.0 / ((i + 1) * (i + 2)) for i in range(16)), 1.0 / 17.0]


def returns(shares, least=0.0, most=1.0):
    own = least + (most - least) * np.asarray(shares, dtype=float)
    return Returns.of(own, own, least, most)


def wealth(shares, value):
    """Return Σ w Π(1 − b + b x/v), one factor after the other."""
    return sum(
        weight * math.prod(1.0 - bet + bet * x / value for x in shares)
        for bet, weight in zip(BETS, WEIGHTS, strict=True)
    )


class TestOnePolicy:
    def test_the_weights_are_a_distribution(self):
        assert sum(WEIGHTS) == pytest.approx(1.0, abs=1e-15)

    def test_the_bounds_are_where_the_wealth_is_the_price(self):
        """The upper one is that of 1 − x; both are in the unit of the returns."""
        shares, delta, (least, most) = [0.25, 0.5, 1.0, 0.75, 0.5, 0.5, 0.25, 0.75] * 5, 0.1, (-3.0, 5.0)
        low, high = returns(shares, least, most).interval(delta)
        assert wealth(shares, (low - least) / 8.0) == pytest.approx(2.0 / delta, rel=1e-8)
        assert wealth([1.0 - x for x in shares], (most - high) / 8.0) == pytest.approx(2.0 / delta, rel=1e-8)
        assert least < low < np.mean(shares) * 8.0 - 3.0 < high < most

    def test_the_wealth_is_a_martingale_at_the_mean_and_falls_with_the_value(self):
        """All sequences of 6 returns whose law depends on the past; a smaller mean makes it a supermartingale."""
        mu = 0.4
        for smaller in (1.0, 0.7):
            total = 0.0
            for draws in itertools.product((0, 1), repeat=6):
                chance, shares = 1.0, []
                for t, up in enumerate(draws):
                    high = 0.5 + 0.5 * (sum(draws[:t]) % 2)
                    p = smaller * mu / high
                    chance *= p if up else 1.0 - p
                    shares.append(high * up)
                found = returns(shares).log_wealth(np.array([mu, 0.5, 0.9]))
                assert (np.diff(found) < 1e-12).all()
                assert math.exp(found[0]) == pytest.approx(wealth(shares, mu))
                total += chance * math.exp(found[0])
            assert total <= 1.0 + 1e-9
            assert (total == pytest.approx(1.0)) == (smaller == 1.0)

    @pytest.mark.parametrize("mean", [0.05, 0.3, 0.8])
    def test_the_truth_is_outside_with_probability_at_most_delta(self, mean):
        """All sequences of 14 episodes that earn 0 or 1, looked at after each; the probability is exact."""
        delta, n = 0.5, 14
        found = intervals_of_ones(n, delta)
        missed, narrow = (chance_of_ever(found, mean, n, shrink) for shrink in (1.0, 0.5))
        assert missed <= delta
        assert narrow > missed

    def test_levels_are_rounded_outwards(self):
        found = Returns.of(np.array([0.3, 0.0]), np.array([0.3, 1.0]), 0.0, 1.0)
        assert (found.low <= np.array([0.3, 0.0]) * N_LEVELS).all()
        assert (found.high >= np.array([0.3, 1.0]) * N_LEVELS).all()
        assert found.high[0] - found.low[0] == 1
        assert (found.flipped.flipped.low == found.low).all()
        assert found.mean == pytest.approx(0.4, abs=1e-4)

    def test_without_episodes_everything_is_possible(self):
        assert returns([], -1.0, 3.0).interval(0.1) == (-1.0, 3.0)
        assert difference_bounds(returns([], -1.0, 3.0), returns([0.5]), 0.1) == (-2.0, 3.0)

    def test_the_width_follows_the_standard_deviation(self):
        """1,200 returns with mean 6,702 and standard deviation 540, of a range of 19,688."""
        own = np.random.default_rng(0).normal(6702.0, 540.0, 1200)
        low, high = Returns.of(own, own, -1087.0, 18601.0).interval(0.025 * statement_share(1))
        assert 100.0 < high - low < 140.0


def intervals_of_ones(n, delta):
    """Return the interval after k <= n episodes of which so many earned 1, and the others 0."""
    counts = [(k, ones) for k in range(1, n + 1) for ones in range(k + 1)]
    return {(k, ones): returns([1] * ones + [0] * (k - ones)).interval(delta) for k, ones in counts}


def chance_of_ever(intervals, mean, n, shrink=1.0):
    """Return the exact probability that one of the intervals of k episodes with so many ones misses the mean."""
    alive, missed = {0: 1.0}, 0.0
    for k in range(1, n + 1):
        following = {}
        for ones, chance in alive.items():
            for up, p in ((0, 1.0 - mean), (1, mean)):
                following[ones + up] = following.get(ones + up, 0.0) + chance * p
        alive = {}
        for ones, chance in following.items():
            low, high = (ones / k + shrink * (side - ones / k) for side in intervals[k, ones])
            if low - 1e-12 <= mean <= high + 1e-12:
                alive[ones] = chance
            else:
                missed += chance
    return missed


@cache
def differences_of_ones(n, delta):
    """Return the interval after k and j episodes by turns, of which a and b earned 1, and the others 0."""
    found = {}
    for k, j in [(m, m - late) for m in range(1, n + 1) for late in (1, 0) if m > late]:
        for a, b in itertools.product(range(k + 1), range(j + 1)):
            found[k, j, a, b] = difference_bounds(
                returns([1] * a + [0] * (k - a)), returns([1] * b + [0] * (j - b)), delta
            )
    return found


class TestTwoPolicies:
    def test_no_refuted_pair_of_values_is_left_out_and_the_bound_is_tight(self):
        """The bound is at most the least a − b with W(a)·W(b) below the price, on a fine grid, and hardly less."""
        rng = np.random.default_rng(1)
        first, second, delta = rng.beta(4, 3, 60), rng.beta(2, 5, 45), 0.2
        grid = np.arange(1, 1000) / 1000.0
        log_first = np.array([math.log(wealth(first, v)) for v in grid])
        log_second = np.array([math.log(wealth(1.0 - second, 1.0 - v)) for v in grid])
        possible = log_first[:, None] + log_second[None, :] < math.log(2.0 / delta)
        least = (grid[:, None] - grid[None, :])[possible].min()
        low, high = difference_bounds(returns(first), returns(second), delta)
        assert least - 0.02 <= low <= least + 1e-3
        swapped = difference_bounds(returns(second), returns(first), delta)
        assert (-swapped[1], -swapped[0]) == pytest.approx((low, high))

    def test_few_cells_only_loosen_it(self, monkeypatch):
        rng = np.random.default_rng(1)
        first, second = (returns(rng.beta(4, 3, n)) for n in (60, 45))
        fine = difference_bounds(first, second, 0.2)
        for cells in (3, 8, 32):
            monkeypatch.setattr("matrixrl.core.returns._CELLS", cells)
            coarse = difference_bounds(first, second, 0.2)
            assert coarse[0] < fine[0] - 1e-4
            assert coarse[1] > fine[1] + 1e-4

    def test_a_cell_counts_with_its_other_end(self, monkeypatch):
        """The first value is known, so that cells of the second one alone could make the bound too tight."""
        first, second = returns([0.5] * 20_000), returns(np.random.default_rng(1).beta(4, 3, 200))
        monkeypatch.setattr("matrixrl.core.returns._CELLS", 3000)
        fine = difference_bounds(first, second, 0.2)
        monkeypatch.setattr("matrixrl.core.returns._CELLS", 4)
        coarse = difference_bounds(first, second, 0.2)
        assert coarse[0] <= fine[0]
        assert coarse[1] >= fine[1]

    def test_units_may_differ(self):
        rng = np.random.default_rng(2)
        first, second = rng.beta(4, 3, 60), rng.beta(2, 5, 45)
        own = difference_bounds(returns(first), returns(second), 0.2)
        moved = difference_bounds(returns(first, 10.0, 12.0), returns(second, 10.0, 12.0), 0.2)
        assert moved == pytest.approx((2.0 * own[0], 2.0 * own[1]), abs=1e-3)

    @pytest.mark.parametrize(("first", "second"), [(0.5, 0.5), (0.1, 0.6), (0.9, 0.9)])
    def test_the_difference_is_outside_with_probability_at_most_delta(self, first, second):
        """Two policies by turns, 7 episodes of each that earn 0 or 1, looked at after each: the exact probability."""
        delta, n, truth = 0.5, 7, first - second
        found = differences_of_ones(n, delta)

        def ever(shrink):
            alive, missed = {(0, 0): 1.0}, 0.0
            for t in range(2 * n):
                k, j = (t + 2) // 2, (t + 1) // 2
                p, following = (first, second)[t % 2], {}
                for (a, b), chance in alive.items():
                    for up, q in ((0, 1.0 - p), (1, p)):
                        key = (a + up, b) if t % 2 == 0 else (a, b + up)
                        following[key] = following.get(key, 0.0) + chance * q
                alive = {}
                for (a, b), chance in following.items():
                    if j:
                        low, high = (a / k - b / j + shrink * (side - a / k + b / j) for side in found[k, j, a, b])
                        if not low - 1e-12 <= truth <= high + 1e-12:
                            missed += chance
                            continue
                    alive[a, b] = chance
            return missed

        assert ever(1.0) <= delta
        assert ever(0.4) > ever(1.0)

    def test_it_is_narrower_than_the_difference_of_two_intervals(self):
        rng = np.random.default_rng(3)
        ours, theirs = (returns(rng.beta(30, 40, n)) for n in (900, 700))
        low, high = difference_bounds(ours, theirs, 0.05)
        first, second = (one.interval(0.025) for one in (ours, theirs))
        assert first[0] - second[1] < low < high < first[1] - second[0]

    def test_parts_of_delta_add_up_to_one_and_none_is_used_twice(self):
        shares = [statement_share(k) for k in range(1, 60)]
        shares += [statement_share(k, j) for k in range(1, 60) for j in range(1, k)]
        assert len(set(shares)) == len(shares)
        assert sum(shares) < 1.0
        assert sum(shares) == pytest.approx(1.0 - 1.0 / (len(shares) + 1.0))
        assert statement_share(2, 5) == statement_share(5, 2)


class TestPairedDays:
    @pytest.mark.parametrize("paired", [True, False])
    def test_half_of_delta_is_for_the_difference_and_a_quarter_for_each_value(self, paired):
        rng = np.random.default_rng(4)
        ours, theirs = rng.beta(4, 3, (2, 80))
        found = compare_returns(ours, theirs, return_range=(0.0, 1.0), delta=0.4, paired=paired)
        assert found.policy == returns(ours).interval(0.1)
        assert found.incumbent == returns(theirs).interval(0.1)
        apart = difference_bounds(returns(ours), returns(theirs), 0.2)
        if paired:
            apart = Returns.of(ours - theirs, ours - theirs, -1.0, 1.0).interval(0.2)
        assert (found.lower, found.upper) == apart
        assert found.delta == 0.4

    def test_what_days_share_cancels(self):
        rng = np.random.default_rng(4)
        day = rng.normal(0.5, 0.12, 300).clip(0.05, 0.9)
        ours, theirs = day + rng.uniform(0.0, 0.06, 300), day
        paired = compare_returns(ours, theirs, return_range=(0.0, 1.0), paired=True)
        apart = compare_returns(ours, theirs, return_range=(0.0, 1.0))
        assert paired.probably_better
        assert not apart.probably_better
        assert paired.estimate == apart.estimate == pytest.approx((ours - theirs).mean())

    @pytest.mark.parametrize("paired", [True, False])
    def test_the_difference_of_days_is_covered(self, paired):
        """50 tests of 40 days at δ = 0.5, looked at every five days; half of them may miss (few do)."""
        rng, missed = np.random.default_rng(5), 0
        for _ in range(50):
            shared = rng.random(40) < 0.5
            ours = (shared & (rng.random(40) < 0.8)).astype(float)
            theirs = (shared if paired else rng.random(40) < 0.5).astype(float)
            looks = (
                compare_returns(ours[:n], theirs[:n], return_range=(0.0, 1.0), delta=0.5, paired=paired)
                for n in range(5, 41, 5)
            )
            missed += any(not found.lower <= -0.1 <= found.upper for found in looks)
        assert missed <= 0.5 * 50


def world(seed=0, low=0.0):
    """Return a small MDP with an end state, and two policies (H, S)."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.ones(3), size=(3, 2))
    law[2] = [0.0, 0.0, 1.0]
    reward = rng.uniform(low, 1.0, size=(3, 2))
    reward[2] = 0.0
    mdp = FiniteMDP(law, reward, 3, end_state=2, reward_range=(low, 1.0))
    return mdp, *rng.integers(0, 2, size=(2, 3, 3))


def paths(mdp, table):
    """Yield each path of an episode under a policy, its probability and its steps."""
    law, reward = mdp.transitions.law(), mdp.task.reward
    for path in itertools.product(range(3), repeat=3):
        state, chance, rows = 0, 1.0, []
        for h, following in enumerate(path):
            action = table[h, state]
            chance *= law[state, action, following]
            rows.append((state, action, reward[state, action], following))
            state = following
            if following == 2:
                chance *= all(s == 2 for s in path[h:])
                break
        if chance:
            columns = (np.array(column)[None] for column in zip(*rows, strict=True))
            states, actions, rewards, nexts = columns
            yield chance, Steps.of(states, actions, rewards, nexts, nexts == 2)


class TestEpisodes:
    @pytest.mark.parametrize("knows", [True, False])
    @pytest.mark.parametrize("low", [0.0, -1.0])
    def test_the_mean_of_an_episode_of_another_policy_is_on_both_sides_of_the_value(self, low, knows):
        """Every path of a small MDP: Σ chance × low <= V^π <= Σ chance × high, with equality if π was played."""
        mdp, given, _ = world(3, low)
        value = evaluate(mdp, given)[0, 0]
        counted = GivenPolicy(mdp.task, given, knows_reward=knows)
        for table in (given, 1 - given):
            both = sum(chance * np.array(counted.played(steps)) for chance, steps in paths(mdp, table))
            if table is given:
                assert both == pytest.approx([value, value])
            else:
                assert both[0] < value < both[1]

    def test_an_episode_that_was_ended_early_may_have_earned_anything_possible(self):
        mdp, given, _ = world(3)
        ranges = stage_ranges(mdp.task, given, knows_reward=True)
        counted = GivenPolicy(mdp.task, given, knows_reward=True)
        for _, steps in paths(mdp, given):
            whole = counted.played(steps)
            part = counted.played(steps.cut(1))
            assert whole[0] == whole[1]
            assert part[0] - 1e-12 <= whole[0] <= part[1] + 1e-12
            if not steps.ended[0, 0]:
                assert part[1] - part[0] == pytest.approx((ranges[1:, 1] - ranges[1:, 0]).sum())

    def test_steps_that_do_not_follow_each_other_end_what_is_known(self):
        mdp, given, _ = world(3)
        counted = GivenPolicy(mdp.task, given, knows_reward=True)
        states = np.array([[0, 1, 0]])
        actions = given[np.arange(3), states[0]][None]
        steps = Steps.of(states, actions, np.zeros((1, 3)), np.array([[0, 0, 1]]))
        low, high = counted.played(steps)
        assert high - low == pytest.approx(np.ptp(stage_ranges(mdp.task, given, knows_reward=True)[1:], axis=1).sum())

    def test_an_endless_episode_may_earn_anything_after_its_last_step(self):
        law = np.full((2, 1, 2), 0.5)
        mdp = FiniteMDP(law, [[-1.0], [1.0]], discount=0.8, accuracy=0.1, reward_range=(-1.0, 1.0))
        given, table = GivenReturns(mdp.task, knows_reward=True), np.zeros((mdp.horizon, 2), dtype=int)
        states = np.zeros((1, mdp.horizon), dtype=int)
        steps = Steps.of(states, states, np.full(states.shape, -1.0), states)
        given.add(table, [given.policy(table).played(steps)])
        found = given.of(table)[1]
        earned = -(1.0 - 0.8**mdp.horizon) / 0.2
        tail = 0.8**mdp.horizon / 0.2
        levels = np.array([found.low[0], found.high[0]]) / N_LEVELS
        assert found.least + found.range * levels == pytest.approx([earned - tail, earned + tail], abs=1e-3)

    def test_the_range_of_values_needs_no_data(self):
        mdp, given, other = world(1, -1.0)
        for table in (given, other):
            low, high = value_range(mdp.task, table, knows_reward=True)
            reward = np.array([[mdp.task.reward[s, table[h, s]] for s in range(3)] for h in range(3)])
            assert (low, high) == pytest.approx((reward.min(axis=1).sum(), reward.max(axis=1).sum()))
            assert value_range(mdp.task, table, knows_reward=False) == (-3.0, 3.0)
            chances = np.swapaxes(np.eye(2)[table], 1, 2)
            assert value_range(mdp.task, chances, knows_reward=True) == pytest.approx((low, high))

    def test_returns_are_those_of_the_policy_that_was_given(self):
        mdp, one, other = world(2)
        given = GivenReturns(mdp.task, knows_reward=True)
        for table in (one, other):
            given.add(table, [given.policy(table).played(steps) for _, steps in paths(mdp, table)])
        first, second = given.of(one), given.of(other)
        assert (first[0], second[0]) == (1, 2)
        assert given.interval(one, 0.3) == first[1].interval(0.3 / 2.0)
        assert given.interval(other, 0.3) == second[1].interval(0.3 / 6.0)
        assert given.difference(one, other, 0.3) == difference_bounds(first[1], second[1], 0.3 / 12.0)
        assert given.interval(1 - one, 0.3) is None
        same = one.copy()
        same[:, 2] = 1 - same[:, 2]  # in the end state nothing is done
        assert given.of(same)[0] == 1
        assert given.of(np.swapaxes(np.eye(2)[one], 1, 2))[0] == 1


@pytest.mark.parametrize("settings", [{}, {"set": "normalised"}, {"known_reward": False}], ids=str)
def test_certify_is_the_tighter_of_the_model_at_half_of_delta_and_of_returns_at_the_other_half(settings):
    mdp = tabular(n_states=4, n_actions=2, horizon=4, seed=3).mdp
    policy = np.random.default_rng(0).integers(0, 2, (4, 4))
    agent, halved = (MatrixRL(mdp, seed=0, delta=delta, **settings) for delta in (0.1, 0.05))
    for one in (agent, halved):
        one.learn(60, policy=policy)
    bound = halved.algorithm.certifier.bound_policies(policy[None], policy[None])
    counted = GivenReturns(mdp.task, knows_reward=settings.get("known_reward", True))
    log, _ = agent._seen.all()
    counted.add(policy, [counted.policy(policy).played(one.steps()) for one in log.parts(1)])
    low, high = counted.of(policy)[1].interval(0.05 / 2.0)
    found = agent.certify(policy)
    frozen = halved._ledger.returns.lower(policy, halved.algorithm.claims.returns_delta)
    of_model = bound.lower[0, 0] if frozen is None else max(bound.lower[0, 0], frozen)
    assert found.lower == pytest.approx(max(low, of_model))
    assert found.upper == pytest.approx(min(high, bound.upper[0, 0]))
    assert found.guarantee
    assert (found.delta, found.n_episodes) == (0.1, 60)


@pytest.mark.slow
def test_values_are_covered_as_often_as_promised():
    """60 runs at δ = 0.5: values and difference of two given policies by turns, looked at four times.

    Any of the three statements fails in a run with probability 0.5 at most, so more than 42 failures of 60 have
    probability 0.1 %; a fifth of the widths fails more often than all of them.
    """
    mdp = tabular(n_states=3, n_actions=2, horizon=3, seed=5).mdp
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 2, (2, 3, 3))
    values = [evaluate(mdp, table)[0] @ mdp.task.start for table in (one, other)]
    missed = narrow = 0
    for seed in range(60):
        agent, bad, tight = MatrixRL(mdp, seed=seed, delta=0.5, keep_log=False), False, False
        for _ in range(4):
            agent.learn(4, policy=one)
            agent.learn(4, policy=other)
            shown = [(agent.certify(table), value) for table, value in zip((one, other), values, strict=True)]
            shown.append((agent.compare(one, other), values[0] - values[1]))
            for found, truth in shown:
                bad |= not found.lower - 1e-9 <= truth <= found.upper + 1e-9
                nearest = min(found.upper - found.estimate, found.estimate - found.lower)
                tight |= abs(truth - found.estimate) > 0.2 * nearest
        missed, narrow = missed + bad, narrow + tight
    assert missed <= binom.ppf(0.999, 60, 0.5)
    assert narrow > missed
