"""Constants of the regret bound of likelihood sets, by enumeration of visits and by evaluation of each step (9.5)."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

from matrixrl import FiniteMDP, MatrixRL, Task, run_seeds
from matrixrl.core.likelihood.bounds import reward_bounds


def one_pair(horizon):
    """One state and one action: one group, which all steps visit."""
    return FiniteMDP(np.ones((1, 1, 1)), [[0.5]], horizon)


def surplus_part(agent, n, delta=0.05):
    """Return R(N) less what chance along the path may add."""
    horizon = agent.problem.task.horizon
    return agent.algorithm.claims.bound(n) - horizon * math.sqrt(0.5 * n * horizon * math.log(1.0 / delta))


def radius(n_states=1, n_groups=1, delta=0.05, visits=1):
    """β_D of a group that always led to one of its next states, from the mixture of 9.3 summed over supports."""
    part = 0.95 if n_states else 1.0
    total = 0.0
    for k in range(1, n_states + 1):
        weight = (1.0 + 1.0 / n_states) / (k * (k + 1)) * math.comb(n_states - 1, k - 1) / math.comb(n_states, k)
        # The product of (i + 1/2)/(i + k/2) over i < n: the chance of n times the same state under Dirichlet(1/2).
        total += weight * math.prod((i + 0.5) / (i + 0.5 * k) for i in range(visits))
    return math.log(n_groups / (part * delta)) - math.log(total)


def worst_surplus(horizon, beta, growth, exploration, n_episodes):
    """Return the largest sum of the surplus of one group over all patterns of visits, plans kept by visits included.

    A plan that knows of n visits has the surplus min(H, H/2·(1 + x)√(2β/n)) a visit: Pinsker's inequality for the law
    that attains the bound, at distance x√(β/n), and for the true one, at √(β/n).
    """

    @functools.cache
    def most(left, visits, planned):
        if left == 0:
            return 0.0
        due = visits > planned and visits >= (1.0 + growth) * planned
        planned = visits if due else planned
        each = (
            horizon if planned == 0 else min(horizon, 0.5 * horizon * (1 + exploration) * math.sqrt(2 * beta / planned))
        )
        return max(k * each + most(left - 1, visits + k, planned) for k in range(horizon + 1))

    return most(n_episodes, 0, 0)


@pytest.mark.parametrize(("horizon", "n"), [(1, 150), (2, 60), (3, 30), (6, 12)])
@pytest.mark.parametrize("growth", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("exploration", [1.0, 3.0])
def test_no_pattern_of_visits_has_more_surplus(horizon, n, growth, exploration):
    options = {"seed": 0, "set": "likelihood", "switch_growth": growth, "exploration": exploration}
    agent = MatrixRL(one_pair(horizon), **options)
    beta = radius(visits=n * horizon)
    assert worst_surplus(horizon, beta, growth, exploration, n) <= surplus_part(agent, n)


@pytest.mark.parametrize(("growth", "exploration"), [(0.0, 1.0), (0.0, 4.0), (8.0, 1.0), (8.0, 4.0)])
def test_over_many_episodes_the_bound_is_not_far_above_the_worst_pattern(growth, exploration):
    """So a factor of either that is left out makes it too small: with one step the pattern is one visit an episode."""
    n, beta = 40_000, radius(visits=40_000)
    agent = MatrixRL(one_pair(1), seed=0, set="likelihood", switch_growth=growth, exploration=exploration)
    total, planned = 1.0, 0
    for visits in range(1, n):
        planned = visits if visits >= (1.0 + growth) * planned else planned
        total += min(1.0, 0.5 * (1.0 + exploration) * math.sqrt(2.0 * beta / planned))
    bound = surplus_part(agent, n)
    assert total <= bound
    if growth or exploration > 1.0:
        assert bound / (math.sqrt(1.0 + growth) * exploration) < total


@pytest.mark.parametrize("delay", [1, 2])
def test_no_pattern_of_visits_has_more_surplus_if_episodes_overlap(delay):
    """A plan does not know of the last D episodes before its own."""
    horizon, n, beta = 2, 14, radius(visits=28)
    agent = MatrixRL(one_pair(horizon), seed=0, set="likelihood")

    @functools.cache
    def most(left, visits, unknown):
        if left == 0:
            return 0.0
        known = visits - sum(unknown)
        each = horizon if known == 0 else min(horizon, horizon * math.sqrt(2 * beta / known))
        return max(k * each + most(left - 1, visits + k, (*unknown, k)[-delay:]) for k in range(3))

    chance = horizon * math.sqrt(0.5 * n * horizon * math.log(20.0))
    assert most(n, 0, (0,) * delay) <= agent.algorithm.claims.bound(n, delay=delay) - chance


def test_exploration_above_one_costs_what_the_bound_says():
    """Two levers, rewards 1 and 0: with 300 times the radius both are played for 6,000 episodes."""
    world = FiniteMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], 1)
    settings = {"preset": "optimistic", "exploration": 300.0, "known_reward": False, "compiled": False}
    found = run_seeds(world, n_episodes=6_000, seeds=[0], **settings)
    regret = float(found.cumulative_regret[0, -1])
    wide, narrow = (
        MatrixRL(world, seed=0, preset="optimistic", known_reward=False, exploration=x).algorithm.claims.regret_bound(
            6_000
        )
        for x in (300.0, 1.0)
    )
    assert found.guarantee
    assert narrow < regret <= wide


def kl(p, q):
    return sum(a * math.log(a / b) for a, b in ((p, q), (1.0 - p, 1.0 - q)) if a > 0.0)


@pytest.mark.parametrize("n", [10, 10_000])
def test_the_bound_has_the_radius_that_learned_rewards_have(n):
    """The radius is read off the bounds on rewards themselves: n times the divergence of the mean from its bound."""
    horizon, delta = 2, 0.05
    agent = MatrixRL(one_pair(horizon), seed=0, set="likelihood", known_reward=False, switch_growth=0.0)
    steps = n * horizon
    of_reward = 0.0
    for visits in np.unique(np.geomspace(1, steps, 60).astype(int)).tolist():
        for share in (0.02, 0.3, 0.5, 0.9):
            events = math.log(1 / (0.125 * delta))
            upper, _ = reward_bounds(np.array([float(visits)]), np.array([share * visits]), events)
            if upper[0] < 1.0:
                of_reward = max(of_reward, visits * kl(share, float(upper[0])))
    beta = radius(visits=steps) + math.log(0.95 / 0.7)  # β_D has 0.7 of δ beside rewards
    root = horizon * math.sqrt(beta) + math.sqrt(of_reward)
    first = 2 * horizon * (horizon + 1)
    expected = first + 4.0 * root * math.sqrt(steps) + 2e-9 * horizon * steps
    assert surplus_part(agent, n) == pytest.approx(expected, rel=1e-4)
    assert surplus_part(agent, n) >= expected * (1.0 - 1e-9)


@pytest.mark.parametrize("known", [True, False])
def test_the_bound_has_a_term_for_ties(known):
    """An action within 2·10⁻⁹ H of the best one may be played at every step, of 10¹⁶ steps here."""
    horizon, n = 4, 10**16
    agent = MatrixRL(one_pair(horizon), seed=0, known_reward=known)
    steps = n * horizon
    roots = [surplus_part(agent, k) - 2e-9 * horizon * k * horizon for k in (n, 4 * n)]
    assert roots[1] / roots[0] == pytest.approx(2.0, rel=0.05)  # what is left grows like √T
    assert surplus_part(agent, n) > 2e-9 * horizon * steps


def grouped(known_reward, delta=0.2):
    """Two states that are said to share their law and their rewards; a third one has its own."""
    phi = np.zeros((3, 1, 2))
    phi[:2, :, 0] = phi[2, :, 1] = 1.0
    task = {"n_states": 3, "n_actions": 1, "horizon": 1, "start": [0.5, 0.5, 0.0]}
    reward = np.full((3, 1), 0.5) if known_reward else None
    return MatrixRL(Task(**task, reward=reward), phi=phi, known_reward=known_reward, delta=delta, seed=0)


def log_mixture(counts):
    """ln m(c) of 9.3 for three next states, as products over the sequence, averaged over all supports."""
    total, s = 0.0, 3
    for k in range(1, s + 1):
        for support in itertools.combinations(range(s), k):
            if any(c and i not in support for i, c in enumerate(counts)):
                continue
            weight = (1.0 + 1.0 / s) / (k * (k + 1)) / math.comb(s, k)
            n, chance = 0, 1.0
            for c in counts:
                for j in range(c):
                    chance *= (j + 0.5) / (n + 0.5 * k)
                    n += 1
            total += weight * chance
    return math.log(total)


@pytest.mark.parametrize(("known_reward", "part"), [(True, 1.0), (False, 0.5)])
def test_the_alarm_on_laws_has_its_part_of_delta(known_reward, part):
    """State 0 leads to 0 and state 1 to 1; K = 2 groups. The alarm comes at the first plan above ln(K/(part·δ))."""
    agent, visits = grouped(known_reward), [0, 0]
    for k in range(40):
        n = sum(visits)
        together = sum(c * math.log(c / n) for c in visits if c)
        ratio = sum(log_mixture([c if i == j else 0 for j in range(3)]) for i, c in enumerate(visits)) - together
        ahead = agent.plan_ahead()
        assert bool(ahead.plan.empty[0]) == (n > 0 and ratio > math.log(2 / (part * 0.2)))
        episode = agent.begin_episode(ahead)
        episode.observe(k % 2, 0, 0.5, k % 2)
        episode.end()
        visits[k % 2] += 1
    assert any(agent.history.alarms)


def test_the_alarm_on_rewards_of_groups_has_the_other_half():
    """State 0 pays 1 and state 1 pays 0; the test of section 5 at δ/2, after 1, 2, 3, 4, 6, 8, 12, … episodes.

    With all of δ = 0.25 the alarm would come at an earlier one of them.
    """
    agent, looks, alarmed = grouped(False, 0.25), {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48}, False
    for k in range(48):
        state = k % 2
        episode = agent.begin_episode()
        episode.observe(state, 0, 1.0 - state, 2)  # the same law
        episode.end()
        n = np.array([k // 2 + 1, (k + 1) // 2], dtype=float)
        means = np.array([1.0, 0.0])
        weights = n**2 / (1 + n)
        fit = (weights * means).sum() / weights.sum()
        misfit = (weights * (means - fit) ** 2).sum()
        if k + 1 in looks:
            alarmed |= bool(misfit > 0.25 * (2 * math.log(2 / 0.25) + np.log1p(n).sum()))
        assert agent.algorithm._rewards.refuted.tolist() == [alarmed]
    assert alarmed


def test_the_assumptions_say_what_actions_may_depend_on():
    assert "depends on what was observed in episodes begun later" in MatrixRL("river-swim", seed=0).assumptions
