"""Logs without next states: which rows are learned from must not depend on their outcomes (docs/proofs.md, 14)."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import InvalidInput, MatrixRL, Task

TRUE_VALUE = 0.5


def coin_task(horizon=2, **options):
    """State 0 leads to state 1, which pays 1 and ends the episode, or pays 0 and goes on, with probability 1/2 each."""
    options = {"may_terminate": True, "start": 0, **options}
    return Task(np.zeros((2, 1)), horizon, reward_range=(0.0, 1.0), **options)


def one_episode(lucky, number, *, next_states=False):
    log = {
        "episode": [number, number],
        "state": [0, 1],
        "action": [0, 0],
        "reward": [0.0, float(lucky)],
        "terminated": [False, lucky],
    }
    return log | ({"next_state": [1, np.nan if lucky else 0]} if next_states else {})


def learned(logs, **settings):
    agent = MatrixRL(coin_task(), known_reward=False, seed=0, delta=0.05, **settings)
    for log in logs:
        agent.learn_from(log, verbose=False)
    return agent


@pytest.mark.parametrize("next_states", [False, True])
@pytest.mark.parametrize("settings", [{}, {"set": "normalised"}], ids=str)
def test_logs_of_one_episode_each_bound_the_true_value(settings, next_states):
    """Keeping the terminated steps alone gave [0.95, 1.02] after 2,000 logs."""
    rng = np.random.default_rng(0)
    agent = learned((one_episode(bool(rng.random() < 0.5), n, next_states=next_states) for n in range(600)), **settings)
    found = agent.certificate()
    assert found.guarantee
    assert found.lower <= TRUE_VALUE <= found.upper
    if next_states:  # nothing is left out, so the interval is narrow
        assert found.upper - found.lower < 0.5


def test_rows_of_the_last_stage_are_left_out_whatever_their_outcome():
    plans = [MatrixRL(coin_task(), known_reward=False, seed=0).plan_log(one_episode(lucky, 0)) for lucky in (0, 1)]
    assert [(plan.n_steps, plan.n_left_out, plan.selection) for plan in plans] == [(1, 1, None)] * 2


def test_an_empty_cell_of_the_last_stage_withdraws_the_proof():
    for lucky in (False, True):
        log = one_episode(lucky, 0) | {"next_state": [1.0, np.nan]}
        words = learned([log]).certificate().guarantee
        assert words.holds == lucky  # a terminated step needs no next state, so nothing is missing
        assert lucky or "rows of the last stage were left out" in words.reason


def test_the_number_of_the_first_step_is_not_guessed_if_laws_differ_between_stages():
    log = one_episode(False, 0, next_states=True) | {"step": [1, 2]}
    for stages in (True, [0, 0, 1]):
        agent = MatrixRL(coin_task(3, stage_dependent=stages), known_reward=False, seed=0)
        with pytest.raises(InvalidInput, match="first_step"):
            agent.learn_from(log, verbose=False)
        assert agent.n_logged_steps == 0
        for first in (0, 1):
            assert agent.plan_log(log, first_step=first).n_late == 1 - first
        assert agent.plan_log(log | {"step": [0, 1]}).n_late == 0
    assert MatrixRL(coin_task(3), known_reward=False, seed=0).plan_log(log).n_steps == 2


@pytest.mark.parametrize(("first_step", "lowest"), [(0, 0.4), (1, 3.0)])
def test_the_number_of_the_first_step_is_not_guessed_if_first_states_are_estimated(first_step, lowest):
    """Steps 1 to 3 of four: whether episodes began in state 1 depends on what 1 counts from."""
    rows = [(episode, step, 1, 0, 1.0, 1) for episode in range(60) for step in (1, 2, 3)]
    names = ("episode", "step", "state", "action", "reward", "next_state")
    log = dict(zip(names, (list(column) for column in zip(*rows, strict=True)), strict=True))
    task = Task([[0.0, 0.1], [1.0, 0.9]], horizon=4)
    agent = MatrixRL(task, seed=0, compiled=False)
    with pytest.raises(InvalidInput, match="first_step"):
        agent.learn_from(log, verbose=False)
    assert agent.certificate().lower <= 0.4  # nothing was learned
    agent.learn_from(log, first_step=first_step, verbose=False)
    # The best policy earns 0.1 a step in state 0, which episodes may begin in if no first state was logged.
    assert (agent.certificate().lower > lowest) == (first_step == 1)


def late_rows(n):
    """Return rows of state 1, all of which are the second step of their episodes."""
    ones = np.ones(n, dtype=int)
    return {"episode": np.arange(n), "state": ones, "action": 0 * ones, "reward": 1.0 * ones, "next_state": ones}


def test_rows_without_steps_are_not_taken_for_first_steps_if_first_states_are_estimated():
    """Episodes begin in state 0, which pays nothing, and V* = 1; the log lacks these rows, and says so nowhere."""
    agent, log = MatrixRL(Task([[0.0], [1.0]], 2), seed=0, delta=0.05), late_rows(500)
    with pytest.raises(InvalidInput, match="first_step=0"):
        agent.learn_from(log, verbose=False)
    assert agent.n_logged_steps == 0
    agent.learn_from(log | {"step": np.ones(500, dtype=int)}, first_step=0, verbose=False)
    assert agent.certificate().lower <= 1.0
    with pytest.raises(InvalidInput, match="first_step must be 0"):
        agent.plan_log(log, first_step=1)
    assert agent.plan_log(log, first_step=0).n_late == 0
    whole = late_rows(500) | {"episode": np.arange(500) // 2}  # H rows each, so the first ones cannot be missing
    assert agent.plan_log(whole).n_late == 0
    assert MatrixRL(Task([[0.0], [1.0]], 2, start=0), seed=0).plan_log(log).n_steps == 500


def test_rows_without_steps_are_not_taken_for_first_steps_if_laws_differ_between_stages():
    """The stages pay 0, 1, 1, so V* = 2; one log has the last rows alone, without their numbers."""
    task = Task(None, 3, n_states=1, n_actions=1, start=0, stage_dependent=True)
    agent, n = MatrixRL(task, seed=0, delta=0.05), 500
    last = late_rows(n) | {"state": np.zeros(n, dtype=int), "next_state": np.zeros(n, dtype=int)}
    with pytest.raises(InvalidInput, match="first_step=0"):
        agent.learn_from(last, verbose=False)
    agent.learn_from(last | {"step": np.full(n, 1)}, first_step=0, verbose=False)
    agent.learn_from(last | {"step": np.full(n, 2), "episode": n + np.arange(n)}, first_step=0, verbose=False)
    found = agent.certificate()
    assert found.guarantee
    assert 1.5 < found.lower <= 2.0
    assert agent.plan_log(last, first_step=0).n_late == 0


def test_an_alarm_names_the_selection_that_may_have_caused_it():
    """Episodes stopped after a bad reward lose their last row: the given rewards are right, the log is not."""
    rewards = np.array([[0.0], [0.5]])
    task = Task(rewards, 3, reward_range=(0.0, 1.0), may_terminate=True, start=0)
    agent = MatrixRL(task, known_reward=True, seed=0, delta=1e-4)
    rng, columns = np.random.default_rng(0), ("episode", "step", "state", "action", "reward", "terminated")
    rows = []
    for number in range(80):
        paid = float(rng.random() < 0.5)
        rows += [(number, 0, 0, 0, 0.0, False), (number, 1, 1, 0, paid, False)]
        rows += [(number, 2, 1, 0, 0.0, False)] * int(paid)  # a bad reward ends the recording
    agent.learn_from({name: [row[k] for row in rows] for k, name in enumerate(columns)}, first_step=0, verbose=False)
    assert not agent.certificate().guarantee
    episode = agent.begin_episode()
    episode.observe(0, 0, 0.0, 1, True)
    episode.end()
    assert "the given rewards are refuted" in agent.alarm
    assert "or the selection: " in agent.alarm
