"""Returns of frozen policies, counted together, against a count of each episode by hand."""

from __future__ import annotations

import numpy as np
import pytest

from agents.helpers import assert_same_arrays
from matrixrl import MatrixRL, Task
from matrixrl.core.returns import N_LEVELS
from matrixrl.play import ledger
from matrixrl.play.ledger import FrozenReturns
from matrixrl.problems import Problem
from matrixrl.records import Steps

HORIZON, N_STATES, END, LOW, HIGH = 12, 4, 3, -1.0, 2.0


def problem(discount=1.0):
    task = Task(np.zeros((N_STATES, 3)), HORIZON, reward_range=(LOW, HIGH), end_state=END, discount=discount)
    return Problem.of(task)


def episodes(count, seed=0):
    """Yield a policy and the steps of an episode that follows it for some steps, and where it starts."""
    rng = np.random.default_rng(seed)
    policy = rng.integers(3, size=(HORIZON, N_STATES))
    for _ in range(count):
        if rng.random() < 0.3:
            policy = np.where(rng.random(policy.shape) < 0.1, rng.integers(3, size=policy.shape), policy)
        length, ended = int(rng.integers(1, HORIZON + 1)), bool(rng.random() < 0.5)
        states = rng.integers(END, size=length + 1)
        actions = policy[np.arange(length), states[:-1]]
        actions = np.where(rng.random(length) < 0.05, rng.integers(3, size=length), actions)
        following = np.append(states[1:-1], END if ended else states[-1])
        flags = np.append(np.zeros(length - 1, dtype=bool), ended)
        parts = (states[:-1], actions, rng.uniform(LOW, HIGH, length), following, flags)
        yield policy, Steps.of(*(part[None] for part in parts)), int(rng.integers(2)), bool(rng.random() < 0.9)


def counted_by_hand(seen, discount=1.0):
    """Return {frozen policy: {level: number of episodes}} for the last three policies, step by step."""
    frozen, counts, weights = {}, {}, discount ** np.arange(HORIZON)
    for number, (policy, steps, start, chain) in enumerate(seen, start=1):
        if number & (number - 1) == 0:
            frozen[number.bit_length() - 1] = policy
            frozen = dict(sorted(frozen.items())[-3:])
        if start != seen[0][2] or not chain:
            continue
        for j, table in frozen.items():
            total, length = [], 0
            for h, (state, action, reward) in enumerate(
                zip(steps.states[0], steps.actions[0], steps.rewards[0], strict=True)
            ):
                if table[h, state] != action:
                    break
                total.append((reward - LOW) / (HIGH - LOW))
                length += 1
            earned = np.array(total) @ weights[:length] if discount < 1.0 else np.array(total).sum()
            if length == steps.actions.shape[1] and steps.ended[0, -1]:
                earned += weights[length:].sum() * (0.0 - LOW) / (HIGH - LOW)
            level = int(earned / weights.sum() * N_LEVELS)
            row = counts.setdefault(j, {})
            row[level] = row.get(level, 0) + 1
    return counts


@pytest.mark.parametrize("discount", [1.0, 0.7])
@pytest.mark.parametrize("most", [0, 7, 4096])
def test_returns_are_those_of_each_episode(most, discount, monkeypatch):
    """However many are collected before they are counted, and whenever the counts are looked at."""
    monkeypatch.setattr(ledger, "_MOST_UNCOUNTED", most)
    seen, returns = list(episodes(300)), FrozenReturns(problem(discount), 0.05)
    for number, (policy, steps, start, chain) in enumerate(seen, start=1):
        returns.observe(number, lambda policy=policy: policy, steps, counts=chain and start == seen[0][2])
        if number % 50 == 0:
            returns.best()
    arrays, found = returns.arrays(), {}
    for code, times in zip(arrays["codes"].tolist(), arrays["times"].tolist(), strict=True):
        found.setdefault(code // (N_LEVELS + 1), {})[code % (N_LEVELS + 1)] = int(times)
    assert found == counted_by_hand(seen, discount)
    assert set(found) == set(range(9))


def test_returns_that_were_not_counted_yet_are_saved(tmp_path):
    one = MatrixRL("river-swim", env_settings={"n_states": 3, "horizon": 4}, seed=0)
    one.learn(37)
    one.save(tmp_path / "a")
    other = MatrixRL.load(tmp_path / "a", one.problem.env)
    assert other.recommend().certificate == one.recommend().certificate
    assert_same_arrays(other._ledger.arrays(), one._ledger.arrays())
