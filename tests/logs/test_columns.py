"""Columns are named by the caller or guessed from usual names, and the plan says which was taken for what."""

from __future__ import annotations

import numpy as np
import pytest

from logs.worlds_with_logs import assert_same_steps, problem, random_log, vector_problem, write_csv
from matrixrl import InvalidInput
from matrixrl.errors import UnknownName
from matrixrl.logs import ROLES, read_log

USUAL = [
    ("episode_id", "t", "obs", "action", "reward", "next_obs", "terminated", "truncated"),
    ("Trajectory", "Time step", "Observation", "A", "R", "Next-State", "Terminal", "Timeout"),
    ("ep", "stage", "s", "act", "rew", "s'", "is_terminal", "truncation"),
]


def renamed(names):
    return dict(zip(names, random_log().values(), strict=True))


@pytest.mark.parametrize("names", USUAL)
def test_usual_names_are_guessed(names):
    found = read_log(renamed(names), problem())
    assert found.plan.columns == {role: (name,) for role, name in zip(ROLES, names, strict=True)}
    assert_same_steps(found.steps, read_log(random_log(), problem()).steps)


def test_names_that_are_given_come_first():
    names = ("a", "b", "c", "d", "e", "f", "g", "h")
    found = read_log(renamed(names), problem(), columns=dict(zip(ROLES, names, strict=True)))
    assert_same_steps(found.steps, read_log(random_log(), problem()).steps)
    log = random_log()
    log["state_of_the_day"] = log["state"]
    log["state"] = np.full(len(log["reward"]), 77)
    mixed = read_log(log, problem(), columns={"state": "state_of_the_day"})  # the others are guessed
    assert_same_steps(mixed.steps, found.steps)
    assert mixed.plan.ignored == ("state",)


def test_a_role_can_be_left_out():
    log = random_log()
    log["step"] = np.arange(len(log["reward"])) * 1000  # a clock, no stage
    with pytest.raises(InvalidInput, match="column 'step' must be 1, as no step"):
        read_log(log, problem())
    found = read_log(log, problem(), columns={"step": None}, first_step=0)
    assert "step" not in found.plan.columns
    assert_same_steps(found.steps, read_log(random_log(), problem()).steps)


@pytest.mark.parametrize("role", ["state", "action", "reward"])
def test_a_needed_column_that_is_missing(role):
    log = random_log()
    del log[role]
    with pytest.raises(
        InvalidInput, match=rf"log must have a column for the {role}; got the columns .* Name it: columns="
    ):
        read_log(log, problem())
    with pytest.raises(InvalidInput, match=rf"columns must name a column for the {role}; got None"):
        read_log(random_log(), problem(), columns={role: None})


def test_two_columns_with_a_usual_name():
    log = random_log()
    log["obs"] = log["state"]
    with pytest.raises(InvalidInput, match=r"log must have one column for the state; got the columns 'state', 'obs'"):
        read_log(log, problem())


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"stat": "state"}, "a role in columns must be one of .* Did you mean 'state'"),
        ({"state": "nothing"}, "columns must name one of the columns 'episode', .* for the state; got 'nothing'"),
        ({"state": 3}, "columns must name one of the columns"),
        ({"state": []}, "columns must name at least one column for the state"),
        ({"reward": ["reward"]}, "columns must name one of the columns"),
        ({"state": "reward"}, "columns must name a column once; got 'reward' for two roles"),
        (["state"], "columns must be a dictionary of roles and names"),
        ("state", "columns must be a dictionary of roles and names"),
        ({"next_state": "state", "state": "state"}, "must name a column once"),
    ],
)
def test_names_that_are_wrong(columns, words):
    log = random_log()
    if columns == {"state": "reward"}:
        columns = {"state": "reward", "reward": "reward"}
    with pytest.raises((InvalidInput, UnknownName), match=words):
        read_log(log, problem(), columns=columns)


def test_the_same_name_twice_in_a_header(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("episode,state,state,action,reward\n0,0,0,0,0\n")
    with pytest.raises(InvalidInput, match="must have one column for the state; got the columns 'state', 'state'"):
        read_log(path, problem())
    with pytest.raises(InvalidInput, match="for the state; got 'state', which is there twice"):
        read_log(path, problem(), columns={"state": "state"})


def test_done_is_not_guessed():
    log = random_log()
    log["done"] = log["terminated"] | log["truncated"]
    found = read_log(log, problem())
    assert found.plan.ignored == ("done",)  # terminated says it all
    del log["terminated"], log["truncated"]
    with pytest.raises(
        InvalidInput, match=r"columns must say whether 'done' means .* Pass columns=\{'terminated': 'done'"
    ):
        read_log(log, problem())
    assert read_log(log, problem(), columns={"terminated": "done"}).steps.ended.sum() == 20
    assert not read_log(log, problem(), columns={"truncated": "done", "terminated": None}).steps.ended.any()


@pytest.mark.parametrize("form", ["obs_{}", "state[{}]", "s{}", "Observation {}", "state.{}"])
def test_numbered_columns_are_a_vector(form):
    log = random_log(vectors=True)
    split = {n: c for n, c in log.items() if n not in ("state", "next_state")}
    split |= {form.format(i): log["state"][:, i] for i in (1, 0)}  # in any order
    split |= {f"next_obs_{i}": log["next_state"][:, i] for i in (0, 1)}
    assert_same_steps(read_log(split, vector_problem()).steps, read_log(log, vector_problem()).steps)


def test_a_log_without_episodes_needs_flags():
    log = random_log()
    for name in ("episode", "step", "terminated", "truncated"):
        del log[name]
    with pytest.raises(InvalidInput, match="log must have a column for the episode, or flags where an episode"):
        read_log(log, problem())


def test_the_plan_in_words(tmp_path):
    log = random_log()
    keep = (log["step"] > 0) | (log["episode"] > 3)
    log = {name: column[keep] for name, column in log.items()}
    log["note"] = np.full(len(log["reward"]), "x")
    found = read_log(write_csv(tmp_path / "yesterday.csv", log), problem(), first_step=0)
    late = len(np.unique(log["episode"][(log["episode"] <= 3) & (log["step"] == 1)]))
    assert str(found.plan) == (
        f"yesterday.csv: {len(log['reward'])} steps of {len(np.unique(log['episode']))} episodes\n"
        "  episode     from 'episode'\n"
        "  step        from 'step', counted from 0\n"
        "  state       from 'state'\n"
        "  action      from 'action'\n"
        "  reward      from 'reward'\n"
        "  next state  from 'next_state'\n"
        "  terminated  from 'terminated'\n"
        "  truncated   from 'truncated'\n"
        "  ignored     'note'\n"
        f"  begin       {late} episodes after the first stage\n"
        "  stop        all episodes at the last stage, or terminated\n"
        "  note        episodes in the order of their numbers\n"
        "  note        cells separated by ',', decimals after '.'"
    )


@pytest.mark.parametrize("form", [str, int, np.int64])
def test_episodes_above_the_whole_numbers_of_float64_stay_apart(form):
    first = 2**53
    log = {
        "episode": [form(first), form(first + 1)],
        "state": [0, 0],
        "action": [0, 0],
        "reward": [0.0, 0.0],
        "next_state": [1, 2],
    }
    log["episode"] = np.array(log["episode"]) if form is np.int64 else log["episode"]
    assert read_log(log, problem(), first_step=0).plan.n_episodes == 2


def test_episodes_that_were_rounded_are_refused():
    log = {"episode": np.array([2.0**53, 2.0**53 + 1]), "state": [0, 0], "action": [0, 0], "reward": [0.0, 0.0]}
    with pytest.raises(InvalidInput, match="column 'episode' must be below"):
        read_log(log | {"next_state": [1, 2]}, problem())


@pytest.mark.parametrize("source", ["numpy", "pyarrow", "parquet"])
def test_an_episode_without_a_date_is_refused(source, tmp_path):
    pa = pytest.importorskip("pyarrow")
    days = np.array(["2020-01-01", "2020-01-01", "NaT", "NaT"], dtype="datetime64[D]")
    log = {"episode": days, "state": [0] * 4, "action": [0] * 4, "reward": [0.0] * 4, "next_state": [0] * 4}
    if source != "numpy":
        log["episode"] = pa.array(days.tolist())
        log = pa.table(log)
    if source == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(log, tmp_path / "log.parquet")
        log = tmp_path / "log.parquet"
    with pytest.raises(InvalidInput, match=r"row 2.*column 'episode' must not be empty"):
        read_log(log, problem())
