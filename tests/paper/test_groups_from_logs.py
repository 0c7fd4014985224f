"""Section 14.1: groups of pairs that are found in the first half of a log, and proofs from the second half."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from matrixrl import FiniteMDP, InvalidInput, KnownDynamics, MatrixRL, Task
from matrixrl.logs import groups_from_log, read_log
from matrixrl.logs.groups import _evidence
from matrixrl.problems import Problem, evaluate, solve
from tolerances import ALGEBRA


def grouped_mdp(
    seed: int = 11, n_states: int = 12, n_actions: int = 6, n_laws: int = 3
) -> tuple[FiniteMDP, np.ndarray]:
    """Return an MDP whose pairs share few laws, and the law of each pair."""
    rng = np.random.default_rng(seed)
    laws = np.zeros((n_laws, n_states))
    for law in laws:
        law[rng.choice(n_states, 4, replace=False)] = rng.dirichlet(np.ones(4))
    of_pairs = rng.integers(0, n_laws, (n_states, n_actions))
    reward = np.repeat(rng.random((n_states, 1)), n_actions, axis=1)
    return FiniteMDP(laws[of_pairs], reward, 6, start=0), of_pairs


def log_of(mdp: FiniteMDP, n: int, seed: int, adaptive: bool = False) -> dict[str, list]:
    """Return a log of uniform actions, or of those that earned most so far in half of the steps."""
    rng, sums = np.random.default_rng(seed), mdp.transitions.law().cumsum(axis=2)
    names = ("episode", "step", "state", "action", "reward", "next_state")
    rows, worth = [], np.zeros((mdp.n_states, mdp.n_actions))
    for episode in range(n):
        state = 0
        for step in range(mdp.horizon):
            action = int(rng.integers(mdp.n_actions))
            if adaptive and rng.random() < 0.5:
                action = int(worth[state].argmax())
            following = int(np.searchsorted(sums[state, action], rng.random() * sums[state, action, -1], side="right"))
            worth[state, action] += mdp.task.reward[following, 0] - 0.5
            rows.append((episode, step, state, action, mdp.task.reward[state, action], following))
            state = following
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def task_of(mdp: FiniteMDP, **options: object) -> Task:
    return Task(mdp.task.reward, mdp.horizon, start=0, **options)


def test_evidence_is_a_bayes_factor():
    """The second route predicts one observation after the other, each with c + 1/2 over n + k/2."""
    rng = np.random.default_rng(0)
    group, row = rng.poisson(3.0, 5), rng.poisson(1.0, 5)
    k = np.count_nonzero(group + row) + 1

    def log_chance(counts: np.ndarray, before: np.ndarray) -> float:
        total, seen = 0.0, before.astype(float)
        for outcome in np.repeat(np.arange(5), counts):
            total += np.log((seen[outcome] + 0.5) / (seen.sum() + 0.5 * k))
            seen[outcome] += 1.0
        return total

    expected = log_chance(row, group) - log_chance(row, np.zeros(5))
    np.testing.assert_allclose(_evidence(group[None].astype(float), row.astype(float)), [expected], atol=ALGEBRA)


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_true_groups_are_found_and_prove_more_than_all_data_without_them(seed):
    mdp, of_pairs = grouped_mdp(seed)
    log = log_of(mdp, 1200, seed)
    found = groups_from_log(log, task_of(mdp))
    assert all(len(np.unique(of_pairs[found.table == group])) == 1 for group in range(found.n_groups))
    plain, grouped = MatrixRL(task_of(mdp)), MatrixRL(task_of(mdp), phi=found.phi)
    plain.learn_from(log, verbose=False)
    learned = grouped.learn_from(found.rest, verbose=False)
    assert grouped.n_logged_steps == plain.n_logged_steps // 2
    certificate = grouped.certificate()
    assert certificate.guarantee
    assert certificate.gap < plain.certificate().gap
    assert certificate.lower <= solve(mdp).start_value <= certificate.upper
    for words in (grouped.assumptions, learned.assumptions):
        assert "the pairs of a group, those with one feature φ, share their transition probabilities" in words
    assert "share their transition" not in plain.assumptions


def test_pairs_of_which_little_was_seen_stay_alone():
    log = {"episode": range(8), "state": [0] * 8, "action": [0, 1] * 4, "reward": [0.0] * 8, "next_state": [1] * 8}
    found = groups_from_log(log, Task(np.zeros((2, 2)), 1, start=0))
    assert found.table.tolist() == [[0, 1], [2, 3]]


def test_the_rest_are_the_episodes_that_were_not_looked_at():
    mdp, _ = grouped_mdp()
    log = log_of(mdp, 21, 0)
    found = groups_from_log(log, task_of(mdp))
    assert (found.n_episodes, found.n_rest) == (10, 11)
    problem = Problem.of(task_of(mdp))
    whole, rest = (read_log(rows, problem).steps for rows in (log, found.rest))
    for name in ("states", "actions", "rewards", "next_states", "ended"):
        np.testing.assert_array_equal(getattr(rest, name), getattr(whole, name)[10 * mdp.horizon :])
    later = {name: np.array(column) for name, column in log.items()}
    later["next_state"][10 * mdp.horizon :] = 0  # groups do not depend on the second half
    later["state"][10 * mdp.horizon :] = 0
    np.testing.assert_array_equal(groups_from_log(later, task_of(mdp)).table, found.table)


def test_the_alarm_watches_the_groups():
    """Pairs that are alike in the first half of the log, and not in the second one."""
    mdp, of_pairs = grouped_mdp()
    law = mdp.transitions.law().copy()
    pairs = np.argwhere(of_pairs == of_pairs[0, 0])
    for s, a in pairs[: len(pairs) // 2]:
        law[s, a] = law[tuple(np.argwhere(of_pairs != of_pairs[0, 0])[0])]
    changed = FiniteMDP(law, mdp.task.reward, mdp.horizon, start=0)
    first, second = log_of(mdp, 600, 1), log_of(changed, 600, 2)
    second["episode"] = [number + 600 for number in second["episode"]]
    found = groups_from_log({name: first[name] + second[name] for name in first}, task_of(mdp))
    agent = MatrixRL(task_of(mdp), phi=found.phi)
    agent.learn_from(found.rest, verbose=False)
    certificate = agent.certificate()
    assert not certificate.guarantee
    assert "alarm" in certificate.guarantee.reason


def test_certificates_fail_no_more_often_than_promised():
    """100 logs of an adaptive policy, δ = 0.5, split anew in each: V* above, or the policy below, its bound."""
    mdp, of_pairs = grouped_mdp(3, n_states=5, n_actions=3, n_laws=2)
    best, runs, failed, together = solve(mdp).start_value, 100, 0, 0
    for seed in range(runs):
        found = groups_from_log(log_of(mdp, 240, seed, adaptive=True), task_of(mdp))
        agent = MatrixRL(task_of(mdp), phi=found.phi, delta=0.5)
        agent.learn_from(found.rest, verbose=False)
        certificate, policy = agent.certificate(), agent.recommend()
        value = evaluate(mdp, policy.table)[0, 0]
        failed += not (policy.certificate.lower <= value + 1e-9 and best <= certificate.upper + 1e-9)
        together += found.n_groups < of_pairs.size
    assert together > 0.9 * runs
    assert binom.sf(failed - 1, runs, 0.5) > 1e-6


def test_learned_rewards_tell_pairs_apart():
    rng, n = np.random.default_rng(0), 1200
    log = {"episode": np.arange(n), "state": np.zeros(n, dtype=int), "action": np.arange(n) % 3}
    log |= {"next_state": rng.integers(0, 6, n)}
    log |= {"reward": np.where(log["action"] == 2, 1.0, 0.0)}
    learned = groups_from_log(log, Task(n_states=6, n_actions=3, horizon=1, start=0))
    assert learned.table[0].tolist() == [0, 0, 1]
    reward = np.zeros((6, 3))
    reward[0, 2] = 1.0
    known = groups_from_log(log, Task(reward, 1, start=0))
    assert known.table[0].tolist() == [0, 0, 0]


def test_stages_names_and_ends(tmp_path):
    rng, n = np.random.default_rng(0), 800
    log = {"episode": np.repeat(np.arange(n), 2), "step": np.tile([0, 1], n), "reward": np.zeros(2 * n)}
    ends = np.tile([False, True], n)
    second = rng.choice(list("bcdef"), n)
    states = np.stack([np.full(n, "a"), second], axis=1).ravel()
    log |= {"state": states, "action": rng.choice(["x", "y"], 2 * n), "terminated": ends}
    log["next_state"] = np.where(ends, None, np.repeat(second, 2))
    names = {"states": list("abcdef"), "actions": ["x", "y"], "may_terminate": True, "start": "a"}
    for stages in (None, True):
        task = Task(horizon=3, stage_dependent=stages, **names)
        found = groups_from_log(log, task)
        assert found.table.shape == (7, 2 if stages is None else 6)
        assert found.table[0, 0] == found.table[0, 1] != found.table[1, 0 if stages is None else 2]
        agent = MatrixRL(task, phi=found.phi)
        agent.learn_from(found.rest, verbose=False)
        agent.save(tmp_path / "agent.npz")
        again = MatrixRL.load(tmp_path / "agent.npz")
        assert str(again.certificate()) == str(agent.certificate())
    assert "groups of 42 pairs" in str(found)


def test_pairs_of_stages_are_told_apart():
    """Everything is uniform: all pairs of both stages that were seen share a law, those of other stages stay alone."""
    rng, n = np.random.default_rng(0), 2400
    following = rng.integers(0, 6, (n, 2))
    states = np.stack([np.zeros(n, dtype=int), following[:, 0]], axis=1)
    log = {"episode": np.repeat(np.arange(n), 2), "step": np.tile([0, 1], n), "state": states.ravel()}
    log |= {"action": rng.integers(0, 2, 2 * n), "reward": np.zeros(2 * n), "next_state": following.ravel()}
    table = groups_from_log(log, Task(np.zeros((6, 2)), 2, start=0, stage_dependent=True)).table
    together = np.zeros((6, 4), dtype=bool)
    together[0], together[:, 2:] = True, True
    assert len(np.unique(table[together])) == 1
    assert len(np.unique(table[~together])) == 10


def test_logs_that_prove_nothing_are_refused():
    mdp, _ = grouped_mdp()
    log = log_of(mdp, 4, 0)
    with pytest.raises(InvalidInput, match="must have an episode to find groups in"):
        groups_from_log({name: column[: mdp.horizon] for name, column in log.items()}, task_of(mdp))
    holes = log | {"reward": [None, *log["reward"][1:]]}
    with pytest.raises(InvalidInput, match="must be complete"):
        groups_from_log(holes, task_of(mdp), missing="drop_episode")
    shop = KnownDynamics(lambda _s, _a, w: (w, 0.0), outcomes=12, n_states=12, n_actions=6, horizon=6)
    with pytest.raises(InvalidInput, match="unknown dynamics"):
        groups_from_log(log, shop)


def test_groups_share_the_learned_part_of_rewards_and_its_width():
    """States 0 and 1 differ by a known reward, state 2 by the width of its range: an agent takes all groups."""
    rng, n = np.random.default_rng(0), 3000
    low, width = np.array([[0.0], [0.5], [0.0]]), np.array([[0.2], [0.2], [0.1]])
    task = Task(n_states=3, n_actions=1, horizon=1, start=[0.4, 0.3, 0.3], reward_range=(low, low + width))
    state = rng.integers(3, size=n)
    part = np.where(state == 2, 0.0, rng.random(n) < 0.5)
    log = {"episode": range(n), "state": state, "action": [0] * n, "next_state": rng.integers(3, size=n)}
    log["reward"] = low[state, 0] + width[state, 0] * part
    found = groups_from_log(log, task)
    assert found.table.ravel().tolist() == [0, 0, 1]
    log["reward"] = low[state, 0]  # nothing but the width tells state 2 from others
    found = groups_from_log(log, task)
    assert found.table.ravel().tolist() == [0, 0, 1]
    assert MatrixRL(task, phi=found.phi).learn_from(found.rest, verbose=False).certificates
