"""docs/proofs.md, 5: learned rewards that are not linear in φ are found, where R is known and where it is not."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from matrixrl import FiniteMDP, MatrixRL, MDPEnv, Task, run_seeds
from matrixrl.core.embedding import reward_residual
from matrixrl.core.rewards import rewards_misfit
from matrixrl.features import OneHotPhi, TablePhi, one_hot
from matrixrl.problems import low_rank
from matrixrl.tolerances import PROBABILITY
from worlds import algorithm_with_data


def stock(capacity: int = 4, horizon: int = 6) -> FiniteMDP:
    """Order a units on top of s, sell min(demand, stock): the law depends on s + a, the profit does not."""
    n, demand = capacity + 1, np.array([0.2, 0.5, 0.3])
    transitions, reward = np.zeros((n, n, n)), np.zeros((n, n))
    for s, a in itertools.product(range(n), range(n)):
        full = min(s + a, capacity)
        for units, chance in enumerate(demand):
            transitions[s, a, max(full - units, 0)] += chance
            reward[s, a] += chance * 4.0 * min(units, full)
        reward[s, a] -= 1.5 * (full - s)
    start = np.eye(n)[0]
    return FiniteMDP(transitions, reward, horizon, reward_range=(-6.0, 8.0), start=start, noisy_rewards=True)


def post_decision(capacity: int = 4) -> TablePhi:
    """φ(s, a) = one-hot of the stock after the order: exact for P, wrong for rewards that pay for the order."""
    n = capacity + 1
    return TablePhi(np.array([[np.eye(n)[min(s + a, capacity)] for a in range(n)] for s in range(n)]))


def test_where_rewards_are_known_they_are_checked():
    agent = MatrixRL(stock(), phi=post_decision(), known_reward=False, seed=0)
    assert "learned rewards must be linear in phi" in agent.guarantee.reason
    assert agent.certificate().guarantee == agent.guarantee
    miss = reward_residual(stock().task.unit_reward, post_decision())
    assert miss > 0.1
    assert f"misses R by {miss:.2g} of its range" in agent.guarantee.reason
    assert MatrixRL(stock(), phi=post_decision(), seed=0).guarantee  # rewards that are given need not be linear
    assert MatrixRL(stock(), known_reward=False, seed=0).guarantee  # one-hot features have every reward


def test_a_feature_that_holds_the_rewards_repairs_it():
    mdp = stock()
    table = np.concatenate([post_decision().table, mdp.task.unit_reward[:, :, None]], axis=2)
    assert reward_residual(mdp.task.unit_reward, TablePhi(table)) <= PROBABILITY
    assert MatrixRL(mdp, phi=table, known_reward=False, seed=0).guarantee


def play(agent, mdp, n_episodes):
    env = MDPEnv(mdp)
    env.reset(seed=0)
    for _ in range(n_episodes):
        obs, _ = env.reset()
        episode = agent.begin_episode()
        while not episode.is_finished:
            action = episode.act(obs)
            following, paid, *_ = env.step(action)
            episode.observe(obs, action, paid, following)
            obs = following
        if episode.end().alarm:
            return


@pytest.mark.parametrize("kind", ["normalised", "tightest"])
def test_where_they_are_not_known_the_alarm_finds_them_and_nothing_is_proven_any_more(kind, tmp_path):
    mdp = stock()
    task = Task(np.zeros((5, 5)), mdp.horizon, reward_range=(-6.0, 8.0), start=np.eye(5)[0])
    agent = MatrixRL(task, phi=post_decision(), known_reward=False, set=kind, seed=0)
    assert agent.guarantee  # nothing is known yet
    play(agent, mdp, 2000)
    assert agent.history.alarms[-1]
    words = f"alarm in episode {agent.n_episodes}: the features cannot represent P or the rewards"
    assert words in agent.guarantee.reason
    assert "P or the rewards" in agent.certificate().guarantee.reason
    agent.save(tmp_path / "agent")
    later = MatrixRL.load(tmp_path / "agent")
    assert later.guarantee == agent.guarantee
    assert later.algorithm._rewards.refuted.tolist() == [True]
    assert later.begin_episode().data.plan.empty[0] > 0  # it is never taken back


@pytest.mark.parametrize(
    "settings", [{}, {"switch_growth": 0.5}, {"agent": "doubling-matrix-rl", "keep_data": True}], ids=str
)
def test_a_simulation_raises_it_too(settings):
    """Rewards are drawn from {low, high}; the alarm comes in episode 385, 513 or 769 of 8 seeds."""
    ball = {"phi": post_decision(), "preset": "optimistic", "set": "normalised"}
    found = run_seeds(stock(), n_episodes=1100, seeds=3, **ball, known_reward=False, **settings)
    assert found.alarms.any(axis=1).all()
    assert "alarm" in found.guarantee.reason
    assert all("alarm" in shown.guarantee.reason for shown in found.certificate)
    known = run_seeds(stock(), n_episodes=64, seeds=3, **ball)
    assert not known.alarms.any()
    assert known.guarantee


def supermartingale_mean(phi, theta, order, weight=1.0):
    """Return E exp(½ Q/L² − ½ ln det) with Q at θ*, over all 0/1 rewards of a fixed order of visits."""
    means = phi.flat @ theta
    total = 0.0
    for paid in itertools.product((0.0, 1.0), repeat=len(order)):
        chance = math.prod(means[p] if r else 1.0 - means[p] for p, r in zip(order, paid, strict=True))
        exponent = 0.0
        for pair in set(order):
            n = order.count(pair)
            off = sum(r for p, r in zip(order, paid, strict=True) if p == pair) - n * means[pair]
            exponent += weight * 0.5 * off * off / (1.0 + n) / 0.25 - 0.5 * math.log1p(n)
        total += chance * math.exp(exponent)
    return total


@pytest.mark.parametrize("order", [(0, 0, 0, 0, 0, 0), (0, 1, 2, 3, 0, 1), (2, 2, 2, 1, 1, 0, 0, 0)], ids=str)
def test_the_statistic_is_below_a_supermartingale(order):
    """By enumeration of all outcomes; and with a tenth less noise it would not be (the test can fail)."""
    phi = TablePhi(np.array([[[1.0, 0.2], [1.0, 0.9]], [[0.4, 0.0], [0.5, 0.5]]]))
    theta = np.array([0.5, 0.0])
    assert supermartingale_mean(phi, theta, order) <= 1.0 + 1e-12
    assert supermartingale_mean(phi, np.array([0.5, 0.5]), order) <= 1.0 + 1e-12
    assert supermartingale_mean(phi, theta, (0,) * 12, weight=1.25) > 1.0


def test_linear_rewards_raise_it_no_more_often_than_promised():
    """300 runs of 64 episodes with 0/1 rewards at δ = 0.4, so 0.2 for this alarm; and never if means are used."""
    world = low_rank(n_states=5, n_actions=2, horizon=4, seed=3, d=3)
    rng = np.random.default_rng(0)
    phi, runs = world.features.phi, 300
    weights = rng.dirichlet(np.ones(phi.d))
    means = np.clip(phi.table @ weights, 0.0, 1.0)
    assert reward_residual(means, phi) <= PROBABILITY
    counts, sums = np.zeros((runs, 10)), np.zeros((runs, 10))
    raised = np.zeros(runs, dtype=bool)
    for _ in range(64):
        states, actions = rng.integers(0, 5, (runs, 4)), rng.integers(0, 2, (runs, 4))
        pairs = phi.pairs(states, actions)
        np.add.at(counts, (np.arange(runs)[:, None], pairs), 1.0)
        np.add.at(sums, (np.arange(runs)[:, None], pairs), rng.random((runs, 4)) < means[states, actions])
        raised |= rewards_misfit(phi, counts, sums, delta=0.2)
    assert binom.sf(int(raised.sum()) - 1, runs, 0.2) > 1e-6
    exact = means.T.ravel() * counts
    assert not rewards_misfit(phi, counts, exact, delta=0.2).any()


def test_the_threshold_is_the_one_of_the_proof():
    """Two pairs that share a feature, n visits each, means ½ ± x: 2n²x²/(1 + n) against ¼(2 ln(1/δ) + 2 ln(1 + n))."""
    phi, n, delta = TablePhi(np.ones((2, 1, 1))), 50.0, 0.1
    edge = math.sqrt(0.25 * (math.log(1 / delta) + math.log1p(n)) * (1 + n)) / n
    counts = np.full((1, 2), n)
    for factor, alarm in ((0.999, False), (1.001, True)):
        sums = n * np.array([[0.5 + factor * edge, 0.5 - factor * edge]])
        assert rewards_misfit(phi, counts, sums, delta=delta).tolist() == [alarm]
    assert not rewards_misfit(phi, np.zeros((1, 2)), np.zeros((1, 2)), delta=delta).any()


def test_each_alarm_has_half_of_delta_and_each_run_its_part(rng):
    world = low_rank(n_states=5, n_actions=2, horizon=4, seed=3, d=3)
    algorithm, _ = algorithm_with_data(world, rng, episodes=3, known_reward=False, delta=0.1)
    clock, asked = algorithm.clock, []
    import matrixrl.algorithms.matrix_rl.rewards as module

    original = module.rewards_misfit
    module.rewards_misfit = lambda *_, delta: asked.append(delta) or np.zeros(1, dtype=bool)
    try:
        algorithm._rewards.contradictions(clock)
        algorithm._rewards.contradictions(clock._replace(run=3))
    finally:
        module.rewards_misfit = original
    assert asked == pytest.approx([0.05, 0.05 / 12])


def test_a_certificate_looks_at_all_data_also_between_two_checks(rng):
    """Rewards are compared with φ after 1, 2, 3, 4, 6, 8, … episodes, and whenever a certificate is asked for."""
    world = low_rank(n_states=5, n_actions=2, horizon=4, seed=3, d=3)
    algorithm, _ = algorithm_with_data(world, rng, episodes=5, known_reward=False)
    plan = algorithm.plan()
    assert algorithm.certifier.certify(plan).empty.tolist() == [0]
    algorithm._rewards.visits[:] = 1000.0
    algorithm._rewards.sums[:] = 1000.0 * (np.arange(10) % 2)  # no three features fit these
    assert not algorithm._rewards.refuted.any()
    assert algorithm.plan().empty.tolist() == [0]
    assert algorithm.certifier.certify(plan).empty.tolist() == [1]
    algorithm._rewards.refuted[:] = True
    algorithm.model.forget()
    algorithm._rewards.forget()
    assert algorithm.certifier.certify(plan).empty.tolist() == [1]  # and what was found is never forgotten


def test_what_is_watched_is_the_data(rng):
    world = low_rank(n_states=5, n_actions=2, horizon=4, seed=3, d=3)
    algorithm, seen = algorithm_with_data(world, rng, episodes=5, n_replicas=2, known_reward=False)
    pairs = np.concatenate([world.features.phi.pairs(b.states, b.actions) for b in seen], axis=1)
    rewards = world.mdp.task.unit_reward.T.ravel()
    for b in range(2):
        np.testing.assert_array_equal(algorithm._rewards.visits[b], np.bincount(pairs[b], minlength=10))
        np.testing.assert_allclose(algorithm._rewards.sums[b], algorithm._rewards.visits[b] * rewards)
    known, _ = algorithm_with_data(world, rng, episodes=1)
    assert known._rewards.visits.size == 0
    tabular = MatrixRL(stock(), phi=OneHotPhi(5, 5), psi=one_hot(5, 5).psi, known_reward=False, seed=0)
    assert tabular.algorithm._rewards.visits.size == 0
