"""Changes of the problem: evidence with a proven rate of false alarms, words about them, restarts (proofs, 20)."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import poisson

from agents.helpers import assert_same_agent, assert_same_arrays
from matrixrl import InvalidInput, KernelMatrixRL, KnownDynamics, MatrixRL, Task, evaluate, run_seeds, solve
from matrixrl.core.drift import ChangeEvidence, Stretches, log_marginals
from matrixrl.core.likelihood.radii import log_marginal
from matrixrl.linalg import SeenRows
from named_agents import AGENTS
from small_worlds import calendar
from tolerances import ALGEBRA, EXACT

ONE = np.array([1.0])


def weight(split):
    """Return w_j = 2^−l/((l + 1)(l + 2)) of a split in [2^l, 2^(l+1))."""
    level = split.bit_length() - 1
    return Fraction(1, 2**level * (level + 1) * (level + 2))


def is_kept(split, n):
    """Say whether a split is among the last four odd multiples of its power of two before batch n."""
    return split < n and n - 1 - split < 8 * (split & -split)


def log_m(outcomes, n_outcomes):
    """Return ln m of a sequence of outcomes, by the mixture of the likelihood sets."""
    seen, times = np.unique(np.asarray(outcomes), return_counts=True)
    return float(log_marginal(SeenRows(seen, times.astype(float), n_outcomes), n_outcomes)[0])


def evidence_of(batches, n_outcomes):
    """Return the log evidence after the last of some batches of outcomes, from the sequence itself."""
    n, every = len(batches), np.concatenate(batches)
    splits = [j for j in range(1, n) if all(is_kept(j, m) for m in range(j + 1, n + 1))]
    terms = [
        math.log(weight(j))
        + log_m(np.concatenate(batches[:j]), n_outcomes)
        + log_m(np.concatenate(batches[j:]), n_outcomes)
        for j in splits
    ]
    times = np.unique(every, return_counts=True)[1]
    return np.logaddexp.reduce([-np.inf, *terms]) - float((times * np.log(times / len(every))).sum())


def added(batches, n_outcomes):
    """Return the log evidence after each batch, and the counts."""
    row, found = Stretches.empty(), []
    for t, batch in enumerate(batches):
        seen, times = np.unique(batch, return_counts=True)
        found.append(row.add(seen, times.astype(float), t + 1, n_outcomes)[0])
    return found, row


@pytest.mark.parametrize(("size", "n_outcomes", "n_batches"), [(1, 2, 10), (1, 3, 7), (2, 2, 5)])
def test_the_numerator_is_a_probability_of_sequences(size, n_outcomes, n_batches):
    """Σ over all sequences of Σ_j w_j m(before) m(after) is Σ_j w_j of the splits that are kept: at most 1."""
    total = 0.0
    for sequence in itertools.product(range(n_outcomes), repeat=size * n_batches):
        evidence, row = added(np.reshape(sequence, (n_batches, size)), n_outcomes)
        shares = row.total / row.total.sum()
        total += math.exp(evidence[-1] + float((row.total * np.log(shares)).sum()))
    wanted = float(sum(weight(j) for j in range(1, n_batches) if is_kept(j, n_batches)))
    assert total == pytest.approx(wanted, rel=ALGEBRA)
    assert 0.1 < wanted < 1.0


def test_the_evidence_is_that_of_the_whole_sequence():
    """What is computed from counts up to a few splits is what the sequence of all outcomes gives."""
    rng, n_outcomes = np.random.default_rng(3), 5
    law = [rng.dirichlet(np.ones(n_outcomes)) for _ in range(2)]
    batches = [rng.choice(n_outcomes, size=1 + t % 3, p=law[t > 30]) for t in range(75)]
    found, _ = added(batches, n_outcomes)
    for n in (2, 9, 10, 31, 40, 74, 75):
        assert found[n - 1] == pytest.approx(evidence_of(batches[:n], n_outcomes), rel=ALGEBRA)
    assert found[-1] > found[30]


def test_few_supports_make_the_mixture_smaller():
    counts = np.array([[3.0, 1.0, 0.0], [1.0, 0.0, 0.0], [50.0, 2.0, 9.0]])
    for n_outcomes in (3, 8, 40, 1000):
        exact = [log_m(np.repeat(np.arange(3), row.astype(int)), n_outcomes) for row in counts]
        ours = log_marginals(counts, n_outcomes)
        assert (ours <= np.array(exact) + ALGEBRA).all()
        if n_outcomes <= 8:
            assert ours == pytest.approx(exact, rel=ALGEBRA)


def test_thresholds_add_up_to_delta():
    """exp(−threshold), summed over the rows and over the runs of each, is δ."""
    evidence, total = ChangeEvidence(7, 3, 0.2), 0.0
    for times in range(2000):
        evidence.times_found = dict.fromkeys(range(7), times)
        total += sum(math.exp(-evidence.threshold(row)) for row in range(7))
    assert total == pytest.approx(0.2 * (1 - 1 / 2001), rel=ALGEBRA)
    both = ChangeEvidence(7, 3, 0.2)
    both.forget()
    assert both.threshold(0) == pytest.approx(math.log(7 * 2 * 3 / 0.2), rel=EXACT)


def test_a_row_is_returned_once_its_evidence_passes_the_threshold():
    """The first alarm comes at the first batch at which the evidence of the sequence is at least ln(2K/δ)."""
    rng, delta = np.random.default_rng(5), 0.1
    batches = [rng.choice(3, size=2, p=[0.6, 0.3, 0.1] if t < 25 else [0.1, 0.2, 0.7]) for t in range(70)]
    watch, row = ChangeEvidence(4, 3, delta), np.full(2, 2)
    alarms = [n for n, one in enumerate(batches, 1) if watch.add(n, row, one, np.ones(2))]
    wanted = next(n for n in range(2, 71) if evidence_of(batches[:n], 3) >= math.log(4 * 2 / delta))
    assert alarms[0] == wanted
    assert 25 < wanted < 60


def test_false_alarms_are_rarer_than_delta():
    """100 fair coins, looked at after each of 80 tosses, at δ = 0.5: by chance more than 62 in 1 % of cases."""
    watch, rng = ChangeEvidence(1, 2, 0.5), np.random.default_rng(1)
    alarms = 0
    for tosses in rng.integers(2, size=(100, 80)):
        watch.rows, watch.times_found = {}, {}
        alarms += any(watch.add(n, np.array([0]), tosses[n : n + 1], ONE) for n in range(80))
    assert alarms <= 62


@pytest.mark.parametrize("n", range(6, 40))
def test_the_split_that_is_named_is_the_likeliest_one(n):
    """Every split is compared with the sequence itself, also one that is kept no longer after this batch."""
    batches = [np.zeros(5, dtype=np.int64)] * n + [np.ones(200, dtype=np.int64)]
    watch = ChangeEvidence(1, 2, 0.05)
    found = [watch.add(t, np.zeros(len(one), dtype=np.int64), one, np.ones(len(one))) for t, one in enumerate(batches)]
    kept = [j for j in range(1, n + 1) if all(is_kept(j, m) for m in range(j + 1, n + 1))]
    terms = [
        math.log(weight(j)) + log_m(np.concatenate(batches[:j]), 2) + log_m(np.concatenate(batches[j:]), 2)
        for j in kept
    ]
    [(row, data, since, before)] = found[-1]
    split = kept[int(np.argmax(terms))]
    assert (row, since, before.tolist()) == (0, split - 1, [5.0 * split, 0.0])
    assert (data.total - before).sum() == 5.0 * (n - split) + 200.0


# Agents


def task(**options):
    """States 0 and 1, two actions, three steps: action 1 leads to state 1 with an unknown probability."""
    reward = np.array([[0.0, 0.1], [1.0, 0.8]])
    return Task(**{"reward": reward, "horizon": 3, "start": [1.0, 0.0], **options})


def told(agent, n, chance, seed, *, paid=None):
    """Report n episodes; action 1 leads to state 1 with some chance, action 0 with ½."""
    rng, table = np.random.default_rng(seed), np.array([[0.0, 0.1], [1.0, 0.8]])
    for _ in range(n):
        episode, state = agent.begin_episode(), 0
        while not episode.is_finished:
            action = int(rng.integers(2))
            following = int(rng.random() < (chance if action else 0.5))
            reward = table[state, action] if paid is None else float(rng.random() < paid)
            episode.observe(state, action, reward, following)
            state = following
        episode.end()


def test_a_watching_agent_names_what_changed_and_withdraws_its_proofs():
    agent = MatrixRL(task(), drift="watch", seed=0)
    told(agent, 200, 0.9, 1)
    assert agent.guarantee
    assert agent.changes == ()
    assert agent.alarm is None
    assert "no change seen" in agent.certificate().about
    told(agent, 60, 0.2, 2)
    change = agent.changes[0]
    assert change.what == "transition probabilities"
    assert {pair[1] for one in agent.changes for pair in one.pairs} == {1}
    assert 190 <= change.since <= 210 < change.noticed < 250
    assert change.before[1] == pytest.approx(0.9, abs=0.1)
    assert change.after[1] == pytest.approx(0.2, abs=0.2)
    for words in (agent.alarm, agent.guarantee.reason, agent.certificate().guarantee.reason):
        assert f"state {change.pairs[0][0]}, action 1" in words
    assert not agent.certificate().guarantee
    assert not agent.compare([0, 0], [1, 1]).guarantee
    assert agent.bound().total is None


def test_a_learned_reward_that_changes_is_noticed():
    agent = MatrixRL(task(reward=None, n_states=2, n_actions=2, reward_range=(-1.0, 3.0)), drift="watch", seed=0)
    told(agent, 150, 0.5, 1, paid=0.9)
    assert agent.changes == ()
    told(agent, 80, 0.5, 2, paid=0.3)
    change = agent.changes[0]
    assert change.what == "mean reward"
    assert (change.before, change.after) == (pytest.approx(0.9, abs=0.1), pytest.approx(0.3, abs=0.25))


@pytest.mark.parametrize("grouped", [False, True])
def test_rewards_with_a_range_for_each_pair_are_named_in_the_unit_of_the_user(grouped):
    low = np.array([[0.0, 0.5], [0.2, 0.7]])
    watched = Task(n_states=2, n_actions=2, horizon=3, start=0, reward_range=(low, low + 0.2))
    phi = {"phi": np.full((2, 2, 1), 1.0)} if grouped else {}
    agent, rng = MatrixRL(watched, drift="watch", seed=0, **phi), np.random.default_rng(1)
    for n in range(240):
        episode, state = agent.begin_episode(), 0
        while not episode.is_finished:
            action, following = rng.integers(2, size=2).tolist()
            paid = low[state, action] + 0.2 * (rng.random() < (0.1 if n < 120 else 0.9))
            episode.observe(state, action, float(paid), following)
            state = following
        episode.end()
    change = agent.changes[0]
    state, action = change.pairs[0]
    least = 0.0 if grouped else low[state, action]
    assert change.what == ("mean reward above the least one" if grouped else "mean reward")
    assert change.before == pytest.approx(least + 0.02, abs=0.02)
    assert change.after == pytest.approx(least + 0.18, abs=0.04)


@pytest.mark.parametrize("learned", [False, True])
def test_after_a_restart_the_agent_is_one_with_a_smaller_part_of_delta(learned):
    """Bounds of the second run are those of an agent with δ/6 that saw the later episodes only."""
    given = {"reward": None, "n_states": 2, "n_actions": 2} if learned else {}
    restarted = MatrixRL(task(**given), drift="restart", delta=0.12, seed=0)
    told(restarted, 150, 0.1, 1)
    restarted.certificate()  # whose upper bound is below the value of the problem to come
    while not restarted.changes:
        told(restarted, 1, 0.9, restarted.n_episodes)
    fresh = MatrixRL(task(**given), delta=0.02, seed=0)
    for agent in (restarted, fresh):
        told(agent, 40, 0.9, 7)
    one, other = restarted.certificate(), fresh.certificate()
    assert (one.lower, one.upper) == (other.lower, other.upper)
    assert one.delta == 0.12
    assert one.guarantee
    assert restarted.regret_certificate().upper == fresh.regret_certificate().upper
    assert restarted.bound().a_priori == fresh.bound().a_priori
    assert restarted.bound().n_episodes == 40
    assert f"since episode {restarted.changes[-1].noticed + 1}" in one.about
    assert "are dropped" in restarted.assumptions
    assert restarted.guarantee
    assert restarted.alarm is None
    assert len(restarted.history.returns) == restarted.n_episodes


def test_the_first_run_has_half_of_delta():
    restarting, fresh = MatrixRL(task(), drift="restart", delta=0.1, seed=0), MatrixRL(task(), delta=0.05, seed=0)
    for agent in (restarting, fresh):
        told(agent, 50, 0.5, 3)
    assert restarting.certificate().lower == fresh.certificate().lower
    assert restarting.bound().a_priori == fresh.bound().a_priori


def test_episodes_planned_before_a_restart_are_recorded_and_not_learned_from(tmp_path):
    agent = MatrixRL(task(), drift="restart", seed=0)
    told(agent, 150, 0.9, 1)
    ahead = agent.plan_ahead()
    while not agent.changes:
        trigger, late = agent.begin_episode(), agent.begin_episode()
        for _ in range(3):
            trigger.observe(0, 1, 0.1, 0)
        trigger.end()
        if not agent.changes:
            late.abandon()
    at = agent.n_episodes
    for episode in (late, agent.begin_episode(ahead)):
        for _ in range(3):
            episode.observe(0, 0, 0.0, 0)
        episode.end()
    assert agent.n_episodes == len(agent.history.returns) == at + 2
    assert agent.algorithm.model.counts.totals().sum() == 0.0
    assert agent.bound().n_episodes == 0
    told(agent, 5, 0.1, 2)
    assert agent.algorithm.model.counts.totals().sum() == 15.0
    agent.save(tmp_path / "agent")
    assert MatrixRL.load(tmp_path / "agent").bound().n_episodes == agent.bound().n_episodes == 5
    assert agent.regret_certificate().n_episodes == 5


def test_an_episode_planned_before_a_restart_raises_no_alarm_and_delays_nothing_after_it(tmp_path):
    """Its plan knew of a group whose pairs differed; both are forgotten with the data."""
    agent = MatrixRL(task(), drift="restart", seed=0, phi=np.eye(2)[[[0, 0], [1, 1]]])
    told(agent, 150, 0.9, 1)
    ahead = agent.plan_ahead()
    assert "group" in agent.alarm or "features" in agent.alarm
    while not agent.changes:
        told(agent, 1, 0.0, 2 + agent.n_episodes)
    assert agent.alarm is None
    fresh = MatrixRL(task(), drift="restart", seed=0, phi=np.eye(2)[[[0, 0], [1, 1]]])
    episode = agent.begin_episode(ahead)
    for _ in range(3):
        episode.observe(0, 0, 0.0, 0)
    episode.end()
    agent.save(tmp_path / "agent")
    for one in (agent, MatrixRL.load(tmp_path / "agent")):
        assert one.alarm is None
        assert one.guarantee
        assert one._queue.delay == fresh._queue.delay


@pytest.mark.parametrize("drift", ["watch", "restart"])
def test_a_saved_agent_goes_on_bit_for_bit(tmp_path, drift):
    """It is saved before the change, after it, and with an open episode that was begun before it."""
    agent = MatrixRL(task(reward=None, n_states=2, n_actions=2), drift=drift, seed=0)
    told(agent, 100, 0.9, 1)
    opened = agent.begin_episode()
    agent.save(tmp_path / "before")
    opened.abandon()
    again = MatrixRL.load(tmp_path / "before")
    again.open_episodes[0].abandon()
    for one in (agent, again):
        told(one, 60, 0.1, 2)
    assert agent.changes
    assert_same_agent(agent, again)
    opened = agent.begin_episode()
    agent.save(tmp_path / "after")
    again = MatrixRL.load(tmp_path / "after")
    for one in (agent, again):
        one.open_episodes[0].abandon()
        told(one, 30, 0.9, 3)
    assert_same_agent(agent, again)
    assert str(agent.changes) == str(again.changes)
    assert agent.certificate() == again.certificate()
    assert agent.assumptions == again.assumptions


def test_earnings_over_a_change_prove_nothing():
    """Earlier episodes are compared with what policies earn now; since the restart the claim is whole again."""
    agent = MatrixRL(task(), drift="restart", seed=0)
    told(agent, 150, 0.9, 1)
    assert agent.earnings([0, 0]).incumbent.guarantee
    told(agent, 100, 0.1, 2)
    assert agent.changes
    since = agent.n_episodes - agent.bound().n_episodes
    every, later = agent.earnings([0, 0]), agent.earnings([0, 0], since=since)
    assert not every.best.guarantee
    assert f"since={since}" in every.incumbent.guarantee.reason
    assert later.best.guarantee
    assert later.incumbent.guarantee
    assert f"expected loss of the last {agent.bound().n_episodes} episodes" in str(every)


def test_arrays_of_evidence_that_do_not_fit_are_refused():
    watch = ChangeEvidence(3, 4, 0.1)
    for n in range(20):
        watch.add(n, np.array([0, 2, 2]), np.array([n % 4, 1, 0]), np.ones(3))
    good = watch.arrays()
    again = ChangeEvidence(3, 4, 0.1)
    again.restore(good)
    assert_same_arrays(again.arrays(), good)
    for name, wrong in (("rows", good["rows"] + 3), ("outcomes", good["outcomes"][1:]), ("splits", -good["splits"])):
        with pytest.raises(InvalidInput, match="drift"):
            ChangeEvidence(3, 4, 0.1).restore({**good, name: wrong})


def test_a_change_within_a_log_is_found(tmp_path):
    other = MatrixRL(task(), seed=0)
    told(other, 150, 0.9, 1)
    told(other, 60, 0.1, 2)
    other.export(tmp_path / "log.csv")
    for drift in ("watch", "restart"):
        agent = MatrixRL(task(), drift=drift, seed=0)
        agent.learn_from(tmp_path / "log.csv", verbose=False)
        assert "in the logs" in str(agent.changes[0])
        assert bool(agent.guarantee) == (drift == "restart")
    assert agent.algorithm.model.counts.totals().sum() == 0.0


def test_a_log_after_a_restart_is_kept_as_long_as_nothing_changes(tmp_path):
    """The alarm came at an episode of the same number: none was played in between."""
    for name, parts in (("first", ((150, 0.9, 1), (60, 0.1, 2))), ("second", ((20, 0.1, 3),))):
        other = MatrixRL(task(), seed=0)
        for part in parts:
            told(other, *part)
        other.export(tmp_path / f"{name}.csv")
    agent = MatrixRL(task(), drift="restart", seed=0)
    agent.learn_from(tmp_path / "first.csv", verbose=False)
    n, run = len(agent.changes), agent.algorithm.drift.run
    agent.learn_from(tmp_path / "second.csv", verbose=False)
    assert (len(agent.changes), agent.algorithm.drift.run) == (n, run)
    assert agent.algorithm.model.counts.totals().sum() == 60.0


def test_pairs_are_named_with_their_stage():
    agent = MatrixRL(calendar(), drift="watch", seed=0)
    agent.learn(30)
    agent.algorithm.drift.found = []
    row = int(np.argmax(agent.algorithm.model.size()))
    [(pair), words] = agent.algorithm.drift._pairs(row)
    assert len(pair) == 1
    assert "at stage" in words


POISSON = {mean: poisson.pmf(np.arange(16), mean) / poisson.pmf(np.arange(16), mean).sum() for mean in (8, 2)}


def shop(law=None):
    """Return a shop that orders up to 12 pieces for seven days; the demand of a day has one law."""

    def step(stock, order, demand):
        left = max(stock + order - demand, 0)
        return left, 4.0 * min(demand, stock + order) - 2.0 * order - 0.5 * left

    return KnownDynamics(
        step,
        outcomes=16,
        n_states=13,
        n_actions=9,
        horizon=7,
        start=0,
        allowed=lambda s: range(min(9, 13 - s)),
        law=law,
    )


def sold(agent, n, mean, seed):
    rng, dynamics = np.random.default_rng(seed), agent.problem.finite_task.dynamics
    for _ in range(n):
        episode, stock = agent.begin_episode(), 0
        while not episode.is_finished:
            order, demand = episode.act(stock), int(rng.choice(16, p=POISSON[mean]))
            left = int(dynamics.next_states[order, stock, demand])
            episode.observe(stock, order, float(dynamics.rewards[order, stock, demand]), left, outcome=demand)
            stock = left
        episode.end()


def test_a_demand_that_falls_is_noticed_and_the_proof_holds_again():
    """After the restart the certificate is true of the new demand; without one it is not."""
    agents = {drift: MatrixRL(shop(), drift=drift, seed=0) for drift in ("off", "restart")}
    for agent in agents.values():
        sold(agent, 100, 8, 1)
    before = agents["off"].certificate()
    for agent in agents.values():
        sold(agent, 60, 2, 2)
    now = shop(POISSON[2]).mdp
    best = solve(now).start_value
    [change] = agents["restart"].changes
    assert change.noticed < 110
    assert "mean outcome" in change.words
    assert change.what == "probabilities of outcomes"
    assert len(change.pairs) == int(shop().allowed.sum())
    found = agents["restart"].certificate()
    assert found.guarantee
    assert found.lower <= evaluate(now, agents["restart"].policy.table)[0, 0] <= best <= found.upper
    assert before.lower > best
    earned = [float(np.mean(agents[drift].history.returns[-20:])) for drift in ("off", "restart")]
    assert earned[1] > 0.5 * best > earned[0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MatrixRL(task(), drift="alarm"), "drift"),
        (lambda: MatrixRL(task(), drift="watch", set="normalised"), "drift must be 'off'"),
        (lambda: MatrixRL(task(), drift="watch", columns=50), "drift must be 'off'"),
        (lambda: MatrixRL(task(), drift="watch", planner="path"), "drift='watch'"),
        (lambda: KernelMatrixRL("river-swim", drift="restart"), "drift must be 'off'"),
        (lambda: AGENTS["doubling-matrix-rl"]("river-swim", drift="restart"), "drift must be 'off' with doubling"),
        (lambda: run_seeds("river-swim", drift="watch", n_episodes=5, seeds=1), "drift must be 'off'"),
        (lambda: run_seeds("river-swim", drift="watch", n_episodes=5, seeds=2), "drift must be 'off'"),
        (lambda: MatrixRL(task()).changes, "drift must be watched"),
    ],
)
def test_what_cannot_be_watched_is_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()
