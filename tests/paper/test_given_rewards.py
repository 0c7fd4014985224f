"""docs/proofs.md, 5: given rewards that are the expected ones are refuted with probability at most δ, at any time."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import betaln
from scipy.stats import binom

from matrixrl import Task
from matrixrl.algorithms.matrix_rl.rewards import GivenRewards
from matrixrl.core.rewards import N_BETS, log_bets, log_evidence
from matrixrl.problems import Problem
from matrixrl.records import Steps
from matrixrl.tolerances import GIVEN_REWARD
from tolerances import EXACT

FRACTIONS = (0.95, 0.3)  # written down again, as the proof has them
LAWS = {  # values and their probabilities
    "two-point": ([0.0, 1.0], [0.7, 0.3]),
    "rare": ([0.0, 1.0], [0.98, 0.02]),
    "three values": ([0.0, 0.4, 1.0], [0.3, 0.5, 0.2]),
    "little noise": ([0.45, 0.55], [0.5, 0.5]),
    "nothing": ([0.0], [1.0]),
    "all": ([1.0], [1.0]),
}


def evidence(rewards, given):
    """Return ln of the evidence of a sequence, as the watch adds it up."""
    x, n = np.asarray(rewards), len(rewards)
    gains = log_bets(x, np.full(n, given)).sum(axis=0)
    return float(log_evidence(np.array(float(n)), x.sum(), gains, np.array(given)))


def capital(rewards, mean):
    """Return the capital of the mixture of bets against a mean: products and an integral over Beta(½, ½)."""
    polynomial = np.ones(1)  # in q, lowest power first: a fraction q is bet on 1, the rest on 0
    bets = np.ones(N_BETS)
    for x in rewards:
        up = x / mean if mean > 0.0 else 1.0
        down = (1.0 - x) / (1.0 - mean) if mean < 1.0 else 1.0
        polynomial = np.convolve(polynomial, [down, up - down])
        bets *= [1.0 - f + f * side for side in (up, down) for f in FRACTIONS]
    powers = np.arange(len(polynomial))
    mixed = polynomial @ np.exp(betaln(powers + 0.5, 0.5) - betaln(0.5, 0.5))
    return 0.5 * mixed + 0.5 * bets.mean()


def sequences(values, chances, n):
    """Return all sequences of n rewards with their probabilities."""
    for picks in itertools.product(range(len(values)), repeat=n):
        yield [values[i] for i in picks], math.prod(chances[i] for i in picks)


@pytest.mark.parametrize("law", LAWS)
def test_the_capital_is_a_martingale(law):
    values, chances = LAWS[law]
    mean = float(np.dot(values, chances))
    for n in range(4):
        for past, _ in sequences(values, chances, n):
            after = sum(p * capital([*past, x], mean) for x, p in zip(values, chances, strict=True))
            assert after == pytest.approx(capital(past, mean), rel=EXACT)


@pytest.mark.parametrize("off", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("law", LAWS)
def test_the_evidence_is_never_more_than_the_capital(law, off):
    """The given reward may be a rounding error away from the mean on either side."""
    values, chances = LAWS[law]
    mean = float(np.dot(values, chances))
    given = min(max(mean + off * GIVEN_REWARD, 0.0), 1.0)
    n = 9 if len(values) < 3 else 7
    total = 0.0
    for rewards, chance in sequences(values, chances, n):
        found = math.exp(evidence(rewards, given))
        assert found <= capital(rewards, mean) * (1.0 + 1e-9)
        total += chance * found
    assert total <= 1.0 + 1e-9


def test_one_reward_uses_all_of_the_capital():
    """So no constant of the test can be made smaller: half of it is in the mean, an eighth in each bet."""
    total = sum(chance * math.exp(evidence(rewards, 0.3)) for rewards, chance in sequences([0.0, 1.0], [0.7, 0.3], 1))
    assert total == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("delta", [0.5, 0.1])
def test_by_enumeration_it_is_ever_beyond_the_threshold_with_probability_at_most_delta(law, delta):
    values, chances = LAWS[law]
    given, n = float(np.dot(values, chances)), 9 if len(values) < 3 else 7
    raised = 0.0
    for rewards, chance in sequences(values, chances, n):
        if any(evidence(rewards[:k], given) > math.log(1.0 / delta) for k in range(1, n + 1)):
            raised += chance
    assert raised <= delta


def watch(reward, *, runs, delta):
    task = Task(np.asarray(reward, dtype=float)[:, None], 1)
    return GivenRewards(Problem.of(task), runs, delta=delta, known_reward=True)


def visits(states, rewards):
    return Steps.of(states, np.zeros_like(states), rewards, states)


def test_right_rewards_are_refuted_no_more_often_than_promised():
    """400 runs of 300 episodes with 0/1 rewards at δ = 0.5; more than 260 by chance: probability below 1e-9."""
    rng, runs, means = np.random.default_rng(0), 400, np.array([0.0, 0.1, 0.5, 0.97])
    one = watch(means, runs=runs, delta=0.5)
    for _ in range(300):
        states = rng.integers(0, 4, (runs, 3))
        one.add(visits(states, (rng.random((runs, 3)) < means[states]).astype(float)))
    assert binom.sf(int(one.alarm.sum()) - 1, runs, 0.5) > 1e-9
    assert (one.refuted[one.alarm] > 0).all()  # a reward of 0 is never anything else here
    exact = watch(means, runs=1, delta=0.5)
    for _ in range(3000):
        states = rng.integers(0, 4, (1, 3))
        exact.add(visits(states, means[states] + rng.uniform(-1e-7, 1e-7, (1, 3))))
    assert not exact.alarm.any()  # rewards that are given, up to rounding


@pytest.mark.parametrize(("given", "paid"), [(0.5, 0.6), (0.1, 0.15), (0.9, 0.6), (1.0, 0.95), (0.0, 0.3), (0.3, 0.0)])
def test_equal_rewards_are_refuted_when_no_test_could_do_it_much_sooner(given, paid):
    """A law with mean r has n rewards of at least x in a row with probability up to (r/x)^n: no test can be surer."""
    delta, n_pairs = 0.05, 6
    one = watch([given] * n_pairs, runs=1, delta=delta)
    seen = 0
    while not one.alarm.any() and seen < 1000:
        one.add(visits(np.array([[4]]), np.array([[paid]])))
        seen += 1
    ratio = max(paid / max(given, GIVEN_REWARD), (1.0 - paid) / max(1.0 - given, GIVEN_REWARD))
    assert seen <= 1 + math.ceil(math.log(8 * n_pairs / delta) / math.log(1.0 + 0.95 * (ratio - 1.0)))
    assert seen <= 1 + 1.9 * math.log(n_pairs / delta) / math.log(ratio)
    assert one.refuted.tolist() == [4]
    assert "state 4, action 0" in one.words()
    assert f"was given {given:g} and earned {paid:g} on average in {seen} visit" in one.words()


def test_each_pair_has_its_part_of_delta():
    """The evidence of n rewards 1 against ½ is beyond P/δ: the threshold follows from the number of pairs."""
    for n_pairs, delta in ((1, 0.5), (2, 0.05), (1000, 0.001)):
        one = watch([0.5] * n_pairs, runs=1, delta=delta)
        n = 0
        while not one.alarm.any():
            one.add(visits(np.array([[0]]), np.array([[1.0]])))
            n += 1
        assert evidence([1.0] * n, 0.5) > math.log(n_pairs / delta) >= evidence([1.0] * (n - 1), 0.5)


def test_the_order_of_pairs_and_steps_that_were_not_taken_do_not_matter():
    one, other = watch([0.5, 0.2], runs=2, delta=0.05), watch([0.5, 0.2], runs=2, delta=0.05)
    states, rewards = np.array([[0, 1, 1], [1, 0, 1]]), np.array([[0.4, 0.1, 0.3], [0.9, 0.8, 0.0]])
    one.add(visits(states, rewards))
    for k in range(3):
        other.add(visits(states[:, k : k + 1], rewards[:, k : k + 1]).padded(5))
    for name, array in one.state_dict().items():
        np.testing.assert_allclose(other.state_dict()[name], array, rtol=EXACT)
