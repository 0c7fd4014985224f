"""One log has the same steps in every format and every order of its rows."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

from logs.worlds_with_logs import (
    END,
    HORIZON,
    Plane,
    Shifted,
    arrow,
    assert_same_steps,
    every_format,
    flat,
    problem,
    random_log,
    shifted_problem,
    vector_problem,
    write_csv,
    write_parquet,
)
from matrixrl import InvalidInput
from matrixrl.logs import StepLog, read_log


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path


def by_hand(log, *, first_state=0, first_action=0, end=END):
    """Return the steps of a whole log, one row after the other."""
    following = log["next_state"] - first_state
    if following.ndim == 1:
        following = np.where(log["terminated"], end, following)
    lengths = np.unique(log["episode"], return_counts=True)[1]
    return StepLog(
        log["state"] - first_state,
        log["action"] - first_action,
        log["reward"],
        following,
        log["terminated"],
        np.zeros(len(lengths), dtype=np.int64),
        lengths,
    )


def test_every_format_gives_the_same_steps(folder):
    log, spaces = random_log(), (gym.spaces.Discrete(5), gym.spaces.Discrete(3))
    digests = set()
    for name, form in every_format(log, folder, spaces):
        found = read_log(form, problem(), first_step=0)
        assert_same_steps(found.steps, by_hand(log))
        assert (found.plan.n_episodes, found.plan.n_steps, found.plan.n_partial) == (20, len(log["reward"]), 0), name
        digests.add(found.digest)
    assert len(digests) == 1  # also for the formats: it is one log


def test_states_and_actions_that_do_not_count_from_zero(folder):
    log = random_log(first_state=10, first_action=5)
    spaces = Shifted.observation_space, Shifted.action_space
    for _, form in every_format(log, folder, spaces):
        found = read_log(form, shifted_problem(), first_step=0)
        assert_same_steps(found.steps, by_hand(log, first_state=10, first_action=5))


def test_vectors_have_a_column_for_each_coordinate(folder):
    log = random_log(vectors=True)
    wanted = by_hand(log)
    for _, form in every_format(log, folder, (Plane.observation_space, Plane.action_space)):
        assert_same_steps(read_log(form, vector_problem()).steps, wanted)
    assert_same_steps(read_log(log, vector_problem()).steps, wanted)  # arrays (n, p) as columns
    renamed = {name.replace("state_0", "x").replace("state_1", "y"): column for name, column in flat(log).items()}
    named = {"state": ["x", "y"], "next_state": ["next_x", "next_y"]}
    assert_same_steps(read_log(renamed, vector_problem(), columns=named).steps, wanted)


@pytest.mark.parametrize("seed", range(5))
def test_shuffled_rows_with_step_numbers_are_the_sorted_ones(seed):
    log = random_log(seed)
    order = np.random.default_rng(seed).permutation(len(log["reward"]))
    shuffled = {name: column[order] for name, column in log.items()}
    assert_same_steps(read_log(shuffled, problem()).steps, read_log(log, problem()).steps)


def test_episodes_with_names_are_taken_as_they_first_appear():
    log = random_log()
    names = np.array([f"day {chr(116 - e)}" for e in log["episode"]])  # in falling order of the alphabet
    found = read_log({**log, "episode": names}, problem())
    assert_same_steps(found.steps, by_hand(log))
    assert "as they first appear" in str(found.plan)
    days = np.datetime64("2024-01-01") + log["episode"]
    for form in ({**log, "episode": days}, pd.DataFrame({**log, "episode": days}), arrow({**log, "episode": days})):
        assert_same_steps(read_log(form, problem()).steps, by_hand(log))


def test_numbers_of_episodes_need_not_be_dense_nor_sorted():
    log = random_log()
    numbers = 1000 - 7 * log["episode"]
    backwards = read_log({**log, "episode": numbers}, problem()).steps
    parts = list(by_hand(log).parts(1))[::-1]
    assert_same_steps(backwards, StepLog.joined(parts))


def test_steps_that_count_from_one():
    log = random_log()
    found = read_log({**log, "step": log["step"] + 1}, problem())
    assert_same_steps(found.steps, by_hand(log))
    assert found.plan.first_step == 1


def test_without_step_numbers_rows_are_in_order_also_between_episodes():
    log = random_log()
    del log["step"]
    order = np.argsort(np.random.default_rng(1).permutation(20)[log["episode"]], kind="stable")
    found = read_log({n: c[order] for n, c in log.items()}, problem(), first_step=0)
    assert_same_steps(found.steps, by_hand(log))


def test_without_next_states_they_are_those_of_the_next_row():
    log = random_log()
    wanted = by_hand(log)
    last = np.concatenate([np.diff(log["episode"]) != 0, [True]])
    left_out = last & ~log["terminated"]
    del log["next_state"]
    found = read_log(log, problem())
    assert found.plan.n_left_out == left_out.sum() > 0
    kept = ~left_out
    for name in ("states", "actions", "rewards", "next_states", "ended"):
        np.testing.assert_array_equal(getattr(found.steps, name), getattr(wanted, name)[kept], err_msg=name)
    assert found.plan.selection is None  # every row that is left out has the last stage
    assert f"{left_out.sum()} rows without a next state, also their rewards: row" in str(found.plan)


def test_some_missing_next_states_are_filled_in():
    log = random_log()
    wanted = by_hand(log)
    partly = np.where(np.arange(len(log["reward"])) % 2, np.nan, log["next_state"])
    keep_last = np.concatenate([np.diff(log["episode"]) != 0, [True]])
    partly = np.where(keep_last, log["next_state"], partly)
    assert np.isnan(partly).sum() > 10
    assert_same_steps(read_log({**log, "next_state": partly}, problem()).steps, wanted)


def test_episodes_are_cut_at_flags_where_they_have_no_column(folder):
    log = random_log()
    wanted = by_hand(log)
    del log["episode"], log["step"]
    for form in (log, write_csv(folder / "log.csv", log)):
        assert_same_steps(read_log(form, problem(), first_step=0).steps, wanted)


def test_partial_episodes_keep_their_stages():
    log = random_log(n_episodes=30)
    keep = (log["step"] >= log["episode"] % 3) & (log["step"] < 5)
    part = {name: column[keep] for name, column in log.items()}
    found = read_log(part, problem())
    steps, plan = found.steps, found.plan
    np.testing.assert_array_equal(steps.stages, part["step"])
    late = {int(e) for e in np.unique(part["episode"]) if part["step"][part["episode"] == e].min() > 0}
    assert plan.n_late == len(late) > 0
    ends = [i for i in range(len(part["step"])) if i + 1 == len(keep[keep]) or np.diff(part["episode"])[i]]
    assert plan.n_early == sum(not part["terminated"][i] and part["step"][i] < HORIZON - 1 for i in ends) > 0
    assert plan.n_late < plan.n_partial <= plan.n_late + plan.n_early
    rebuilt = [one.steps() for one in steps.parts(1)]
    assert [int(np.argmax(one.taken)) for one in rebuilt] == steps.firsts.tolist()


def test_a_log_of_late_steps_only_needs_the_number_of_the_first():
    log = random_log(n_episodes=60)
    part = {name: column[log["step"] >= 3] for name, column in log.items()}
    with pytest.raises(InvalidInput, match=r"log must have a step 0 or 1; got steps from 3\. Pass first_step="):
        read_log(part, problem())
    found = read_log(part, problem(), first_step=0)
    assert set(found.steps.firsts.tolist()) == {3}


def test_a_terminated_vector_without_a_next_one_is_kept():
    log = random_log(vectors=True)
    states, ended = log["state"], log["terminated"]
    del log["next_state"]
    found = read_log(log, vector_problem()).steps
    assert found.ended.sum() == ended.sum() > 0
    np.testing.assert_array_equal(found.next_states[found.ended], states[ended])  # any vector: nothing follows


def test_quoted_cells_blank_lines_and_a_byte_order_mark(folder):
    path = folder / "log.csv"
    text = 'note,"episode",state,action,reward,next_state\r\n"two\nlines",7,0,1,0.5,1\r\n\r\n"a, b",7,1,1,0.5,2\r\n'
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    found = read_log(path, problem(), first_step=0)
    assert found.steps.states.tolist() == [0, 1]
    assert found.plan.ignored == ("note",)
    path.write_text(text.replace("7,1,1,0.5,2", "7,1,9,0.5,2"))
    with pytest.raises(InvalidInput, match=r"log.csv, line 5, column 'action' must be a whole number in 0 … 2"):
        read_log(path, problem())


def test_numbers_survive_text_bit_for_bit(folder, rng):
    log = random_log(seed=3)
    log["reward"] = rng.uniform(-1.0, 2.0, len(log["reward"])) ** 3 / 7.0
    for form in (write_csv(folder / "log.csv", log), write_parquet(folder / "log.parquet", log)):
        np.testing.assert_array_equal(read_log(form, problem()).steps.rewards, log["reward"])


def test_the_digest_knows_other_episodes_from_the_same_ones():
    log = random_log()
    other = {**log, "episode": log["episode"] + 100}  # the same steps on other days
    first, second = read_log(log, problem()), read_log(other, problem())
    assert_same_steps(first.steps, second.steps)
    assert first.digest != second.digest
