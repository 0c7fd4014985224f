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
    assert found.guarantee is True
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
        assert (words is True) == lucky  # a terminated step needs no next state, so nothing is missing
        assert lucky or "rows of the last stage were left out" in words


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
