"""Logs as people have them: names, dates as steps, decimal commas, empty cells, rows in no order."""

from __future__ import annotations

import inspect
import runpy
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from logs.worlds_with_logs import (
    HORIZON,
    assert_same_steps,
    flat,
    problem,
    random_log,
    vector_problem,
    write_csv,
)
from matrixrl import InvalidInput, MatrixRL, Task, evaluate, solve
from matrixrl.logs import read_log

EXAMPLE = Path(__file__).parents[2] / "examples" / "messy_log.py"


def refusal(log, **options):
    with pytest.raises(InvalidInput) as caught:
        read_log(log, problem(), **options)
    return str(caught.value)


def rows(**columns):
    """Return a log of two episodes of three rows with next states; columns are replaced, or left out if None."""
    log = {
        "episode": [0, 0, 0, 1, 1, 1],
        "step": [0, 1, 2, 0, 1, 2],
        "state": [0, 1, 2, 3, 0, 1],
        "action": [0, 1, 2, 0, 1, 2],
        "reward": [0.5, 1.25, -0.5, 0.0, 2.0, 1.0],
        "next_state": [1, 2, 3, 0, 1, 2],
        **columns,
    }
    return {name: column for name, column in log.items() if column is not None}


WANTED = read_log(rows(), problem()).steps


def text_file(path, log, separator=",", decimal="."):
    lines = [separator.join(log)]
    for row in zip(*log.values(), strict=True):
        cells = (str(cell).replace(".", decimal) if isinstance(cell, float) else str(cell) for cell in row)
        lines.append(separator.join(f'"{cell}"' if separator in cell else cell for cell in cells))
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


# The dialect


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_the_dialect_is_found_and_said(separator, decimal, tmp_path):
    path = text_file(tmp_path / "log.csv", rows(), separator, decimal)
    for given in ({}, {"separator": separator, "decimal": decimal}):
        found = read_log(path, problem(), **given)
        assert_same_steps(found.steps, WANTED)
        assert f"note        cells separated by {separator!r}, decimals after {decimal!r}" in str(found.plan)


def test_a_header_with_commas_inside_of_quotes(tmp_path):
    log = {'"a, b, c, d, e, f, g"': [1] * 6, **rows()}
    assert_same_steps(read_log(text_file(tmp_path / "log.csv", log, ";", ","), problem()).steps, WANTED)


def test_decimal_commas_in_memory_and_in_vectors(tmp_path):
    texts = [str(cell).replace(".", ",") for cell in rows()["reward"]]
    for form in (rows(reward=texts), pd.DataFrame(rows(reward=texts)), pa.table(rows(reward=texts))):
        found = read_log(form, problem())
        assert_same_steps(found.steps, WANTED)
        assert "decimals after ','" in found.plan.notes[-1]
    log = flat(random_log(vectors=True))
    path = write_csv(
        tmp_path / "log.csv",
        {name: np.array([str(c).replace(".", ",") for c in column]) for name, column in log.items()},
        ";",
    )
    assert_same_steps(read_log(path, vector_problem()).steps, read_log(log, vector_problem()).steps)


def test_names_with_decimal_commas():
    task = Task(states=[0.5, 2.25], actions=["a"], horizon=2)
    log = {
        "episode": [0, 0],
        "state": ["0,5", "2,25"],
        "action": ["a", "a"],
        "reward": [0, 1],
        "next_state": ["2,25", 0.5],
    }
    agent = MatrixRL(task, seed=0)
    agent.learn_from(log, verbose=False)
    assert agent.visits.tolist() == [[1], [1]]


def test_commas_that_may_separate_thousands_are_not_guessed():
    log = rows(reward=["1,000", "0", "0", "0", "0", "0"])
    words = refusal(log)
    assert words.startswith("log, row 0 (counted from 0), column 'reward' must say whether a comma is a decimal comma")
    assert read_log(log, problem(), decimal=",").steps.rewards[0] == 1.0
    assert "column 'reward' must be a number; got '1,000'" in refusal(log, decimal=".")
    sure = rows(reward=["1,000", "0,125", "0", "0", "0", "0"])  # no thousand begins with 0
    assert read_log(sure, problem()).steps.rewards[:2].tolist() == [1.0, 0.125]


@pytest.mark.parametrize("cell", ["1.5", "1.234,5", "1,2,3", "0,5 €"])
def test_other_numbers_beside_decimal_commas_are_refused(cell):
    words = refusal(rows(reward=["0,5", cell, "0", "0", "0", "0"]))
    assert "row 1 " in words
    assert f"column 'reward' must be a number with a decimal comma; got {cell!r}" in words


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"separator": ";;"}, "separator must be one of"),
        ({"separator": ";"}, "separator must be left out for a log that is no CSV file"),
        ({"decimal": "'"}, "decimal must be one of"),
        ({"missing": "drop"}, "missing must be one of error, drop_episode, cut_episode"),
    ],
)
def test_wrong_options(options, words):
    with pytest.raises(ValueError, match=words):
        read_log(rows(), problem(), **options)


def test_a_separator_that_the_file_does_not_have(tmp_path):
    path = text_file(tmp_path / "log.csv", rows(), ";")
    assert "must have a column for the state; got the columns 'episode;step;" in refusal(path, separator=",")


# Dates as steps

DAYS = [date(2026, 1, 30) + timedelta(days=i) for i in range(3)] + [
    date(2026, 3, 1),
    date(2026, 3, 2),
    date(2026, 3, 4),
]
FORMS = {
    "days": DAYS,
    "iso": [str(day) for day in DAYS],
    "German": [f"{day:%d.%m.%Y}" for day in DAYS],
    "short": [f"{day.day}.{day.month}.{day.year} 09:05" for day in DAYS],
    "American": [f"{day:%m/%d/%Y}" for day in DAYS],
    "British": [f"{day:%d/%m/%Y}" for day in DAYS],
    "times": [datetime(2026, 1, 1, 8) + timedelta(hours=i) for i in range(6)],
    "zones": [f"2026-10-25T0{t}:00" for t in ("1:30+02", "2:30+02", "2:00+01", "2:30+01", "3:30+01", "4:30+01")],
    "numpy": np.array(DAYS, dtype="datetime64[D]"),
    "nanoseconds": np.datetime64("2026-01-01T00:00:00", "ns") + np.arange(6),
    "pandas": pd.to_datetime(pd.Series(DAYS)),
    "pandas with zones": pd.to_datetime(pd.Series(DAYS)).dt.tz_localize("Europe/Berlin"),
    "arrow": pa.array(DAYS),
    "arrow times": pa.array([datetime(2026, 1, 1 + i, tzinfo=UTC) for i in range(6)], pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["step", "Date"])
def test_dates_are_the_order_of_an_episode(form, name):
    backwards = [FORMS[form][i] for i in (5, 0, 3, 2, 4, 1)] if isinstance(FORMS[form], list) else FORMS[form]
    order = [5, 0, 3, 2, 4, 1] if isinstance(FORMS[form], list) else range(6)
    log = {key: [column[i] for i in order] for key, column in rows(step=None, episode=list("bbbaaa")).items()}
    found = read_log(log | {name: backwards}, problem(), first_step=0)
    parts = list(WANTED.parts(1))
    wanted = [parts[1], parts[0]] if isinstance(FORMS[form], list) else parts
    assert [one.rewards.tolist() for one in found.steps.parts(1)] == [one.rewards.tolist() for one in wanted]
    assert found.plan.first_step is None
    assert f"step        from {name!r}, in the order of dates" in str(found.plan)


def test_the_plan_says_how_far_dates_are_apart(tmp_path):
    path = text_file(tmp_path / "log.csv", rows(step=FORMS["German"]))
    notes = read_log(path, problem(), first_step=0).plan.notes
    assert "dates are 1 day to 2 days apart in an episode, and no row may be missing between them" in notes
    hours = read_log(rows(step=FORMS["times"]), problem(), first_step=0).plan.notes
    assert "dates are 1:00:00 apart in an episode, and no row may be missing between them" in hours


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (["01/02/2026", "02/02/2026", "03/02/2026"], "must say whether the day or the month comes first; got '01/02/"),
        (["2026-01-01", "2026-02-30", "2026-03-01"], r"row 1 .*must be a date, such as .*; got '2026-02-30'"),
        (["2026-01-01", "2026-01-02", "soon"], r"row 2 .*must be a date, such as .*; got 'soon'"),
        (["2026-01-01", 2, 3], "row 1 .*must be a date"),
        ([1, 2, "2026-01-01"], "row 2 .*must be a number; got '2026-01-01'"),
        (["2026-01-01T10:00Z", "2026-01-01T11:00", "2026-01-01T12:00Z"], "row 1 .*with a time zone in all or none"),
        (["2026-01-01", "2026-01-02", "2026-01-02"], "row 2 .*must not contradict another row; got .* as row 1"),
        (["2026-01-01", "2026-01-02", ""], "row 2 .*must be a whole number or a date; got an empty cell"),
        (["31.01.26", "01.02.26", "02.02.26"], "row 0 .*must be a date"),
    ],
)
def test_dates_that_are_none(steps, words):
    log = {name: column[:3] for name, column in rows().items()} | {"step": steps}
    with pytest.raises(InvalidInput, match=words):
        read_log(log, problem(), first_step=0)


def test_the_same_row_twice_with_a_date():
    log = {name: [*column[:3], column[2]] for name, column in rows(step=FORMS["iso"]).items()}
    assert "must be another step than those before it; got the same step of the same episode as row 2" in refusal(
        log, first_step=0
    )


def test_dates_do_not_say_whether_first_rows_are_missing():
    with pytest.raises(InvalidInput, match="must come with first_step=0"):
        read_log(rows(step=FORMS["iso"]), problem())
    with pytest.raises(InvalidInput, match="first_step must be 0 for a log without numbers of steps"):
        read_log(rows(step=FORMS["iso"]), problem(), first_step=1)


def test_a_clock_is_not_taken_for_steps():
    log = rows(step=None, timestamp=[1_700_000_000 + 60 * row for row in range(6)], date=["?"] * 6)
    found = read_log(log, problem(), first_step=0)
    assert_same_steps(found.steps, WANTED)
    assert found.plan.ignored == ("timestamp", "date")


def test_dates_are_no_rewards():
    assert "column 'reward' must be a number" in refusal(rows(reward=FORMS["numpy"]))
    assert "column 'reward' must be a number; got '2026-01-30'" in refusal(rows(reward=FORMS["iso"]))


# Order and episodes


@pytest.mark.parametrize("form", ["numbers", "dates"])
def test_unsorted_rows_are_sorted_and_the_plan_says_so(form):
    log = random_log()
    log["episode"] = log["episode"] * 3 + 5
    if form == "dates":
        log["step"] = np.datetime64("2026-01-01") + 2 * log["step"] + log["episode"]
    order = np.random.default_rng(0).permutation(len(log["reward"]))
    shuffled = {name: column[order] for name, column in log.items()}
    found, wanted = (read_log(one, problem(), first_step=0) for one in (shuffled, log))
    assert_same_steps(found.steps, wanted.steps)
    assert found.digest == wanted.digest
    assert "rows sorted by episode and step" in found.plan.notes
    assert "rows sorted" not in str(wanted.plan)


@pytest.mark.parametrize(
    "labels",
    [
        ["p-1", "p-2"],
        ["=1+1", "@cmd|' /C calc'!A0"],
        [7, 3.5],
        ["7", 8],
        [date(2026, 1, 1), datetime(2026, 1, 2)],
        [Decimal("1.5"), Decimal("2.5")],
        [2**70, 2**70 + 1],
        [True, False],
        ["é" * 1000, "x"],
    ],
    ids=repr,
)
def test_episodes_may_be_anything(labels):
    found = read_log(rows(episode=[labels[i] for i in (0, 0, 0, 1, 1, 1)]), problem())
    assert found.plan.n_episodes == 2


def test_spaces_around_names_of_episodes_do_not_count():
    assert read_log(rows(episode=["p1", " p1", "p1 ", "p2", "p2", "p2"]), problem()).plan.n_episodes == 2


@pytest.mark.parametrize("empty", ["", "NA", "nan", None, np.nan, pd.NaT])
@pytest.mark.parametrize("missing", ["error", "cut_episode", "drop_episode"])
def test_a_row_without_an_episode_is_always_refused(empty, missing):
    log = rows(episode=["a", "a", empty, "b", "b", "b"])
    assert "row 2 (counted from 0), column 'episode' must not be empty" in refusal(log, missing=missing)


# Empty cells

EMPTY = ["", " ", "NA", "NaN", "n/a", "null", None, np.nan, pd.NA]


@pytest.mark.parametrize("empty", EMPTY, ids=repr)
@pytest.mark.parametrize("role", ["state", "action", "reward", "step", "terminated", "truncated"])
def test_an_empty_cell(role, empty, tmp_path):
    """Refused, or the episode is dropped, or cut before the row; a step without a place has nothing before it."""
    log = rows(terminated=[0] * 6, truncated=[0] * 6)
    log[role] = [empty if row == 1 else cell for row, cell in enumerate(log[role])]
    forms = [log, pd.DataFrame(log), pd.DataFrame(log).astype(object)]
    if empty is not pd.NA:
        forms.append(
            text_file(tmp_path / "log.csv", {n: ["" if c is None else c for c in column] for n, column in log.items()})
        )
    for form in forms:
        words = refusal(form)
        assert f"column {role!r}" in words
        assert "got an empty cell. Fill the cell, or pass missing='drop_episode' or missing='cut_episode'." in words
        dropped = read_log(form, problem(), missing="drop_episode", first_step=0)
        assert dropped.steps.rewards.tolist() == [0.0, 2.0, 1.0]
        assert (dropped.plan.n_incomplete, dropped.plan.n_episodes) == (1, 1)
        assert dropped.plan.selection == "a log without 1 episode that had empty cells"
        cut = read_log(form, problem(), missing="cut_episode", first_step=0)
        assert cut.steps.rewards.tolist() == ([] if role == "step" else [0.5]) + [0.0, 2.0, 1.0]
        assert (cut.plan.selection is None) == (role in ("state", "action"))  # a row after the first one
        place = "line 3" if isinstance(form, Path) else "row 1 (counted from 0)"
        assert f"1 episode cut before a row with an empty cell, such as {place}" in cut.plan.notes


def test_a_log_without_empty_cells_is_the_same_for_all():
    for missing in ("error", "drop_episode", "cut_episode"):
        found = read_log(random_log(), problem(), missing=missing)
        assert_same_steps(found.steps, read_log(random_log(), problem()).steps)
        assert (found.plan.n_incomplete, found.plan.selection) == (0, None)


def test_a_cell_that_is_wrong_is_refused_even_where_its_episode_is_dropped():
    log = rows(reward=[0.5, np.nan, 99.0, 0.0, 2.0, 1.0])
    for missing in ("drop_episode", "cut_episode"):
        assert "row 2 (counted from 0), column 'reward' must lie in" in refusal(log, missing=missing)


def test_the_state_of_a_row_that_is_cut_is_the_next_state_of_the_row_before():
    log = rows(next_state=None, action=[0, 1, None, 0, 1, 2])
    found = read_log(log, problem(), missing="cut_episode")
    assert found.steps.next_states.tolist() == [1, 2, 0, 1]
    assert found.plan.n_left_out == 1  # the end of the second episode
    log = rows(next_state=None, state=[0, 1, None, 3, 0, 1])
    found = read_log(log, problem(), missing="cut_episode")
    assert found.steps.next_states.tolist() == [1, 0, 1]
    assert "2 last rows of episodes that stopped before the last stage" in found.plan.selection


@pytest.mark.parametrize("missing", ["cut_episode", "drop_episode"])
@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"step": [0, 1, 1, 0, 1, 2]}, "row 2 .*must not contradict another row"),
        ({"step": [0, 1, 3, 0, 1, 2]}, "row 2 .*must be 2, as no step of an episode may be missing"),
        ({"truncated": [0, 1, 0, 0, 0, 0]}, "row 2 .*must belong to an episode that goes on"),
        ({"next_state": [1, 4, 3, 0, 1, 2]}, "row 2 .*must be 4, the next state of row 1"),
    ],
)
def test_order_is_checked_before_episodes_are_cut(columns, words, missing):
    """The state of a row that is cut is learned from, so it must be that of the next step."""
    with pytest.raises(InvalidInput, match=words):
        read_log(rows(action=[0, 1, None, 0, 1, 2], **columns), problem(), missing=missing)


def test_next_states_may_be_empty_but_not_in_part():
    log = random_log(vectors=True, n_episodes=3)
    log["next_state"][1, 0] = np.nan
    with pytest.raises(InvalidInput, match=r"row 1 .*'next_state' must be finite; got an empty cell"):
        read_log(log, vector_problem())
    assert read_log(log, vector_problem(), missing="drop_episode").plan.n_episodes == 2


def test_nothing_is_left(tmp_path):
    log = rows(state=[None] * 6)
    for missing in ("drop_episode", "cut_episode"):
        assert "must have a row before the first empty cell of its episode" in refusal(log, missing=missing)


def test_flags_that_cut_episodes_may_never_be_empty():
    log = rows(episode=None, step=None, terminated=[0, 0, 1, 0, None, 1])
    for missing in ("error", "drop_episode"):
        assert "row 4 (counted from 0), column 'terminated' must not be empty" in refusal(log, missing=missing)


def test_none_is_an_action_where_it_is_a_name():
    task = Task(states=["NA", "EU"], actions=["none", "ship"], horizon=2)
    log = {
        "episode": [0, 0],
        "state": ["NA", "EU"],
        "action": ["none", "ship"],
        "reward": [0, 1],
        "next_state": ["EU", "NA"],
    }
    assert MatrixRL(task, seed=0).plan_log(log).n_steps == 2
    log["action"] = ["none", "NULL"]
    with pytest.raises(InvalidInput, match=r"row 1 .*must be one of none, ship, .*; got an empty cell"):
        MatrixRL(task, seed=0).plan_log(log)


# What is proven, and what the agent says


def told(missing, **columns):
    agent = MatrixRL(Task(np.zeros((5, 3)), HORIZON, reward_range=(-1.0, 2.0)), known_reward=False, seed=0)
    return agent, agent.learn_from(rows(**columns), missing=missing, verbose=False)


def test_the_proof_after_empty_cells():
    for missing, columns, holds in (
        ("cut_episode", {"action": [0, None, 2, 0, 1, 2]}, True),
        ("cut_episode", {"state": [0, None, 2, 3, 0, 1]}, True),
        ("cut_episode", {"reward": [0.5, None, 1, 0, 1, 1]}, False),
        ("drop_episode", {"action": [0, None, 2, 0, 1, 2]}, False),
    ):
        agent, learned = told(missing, **columns)
        assert bool(agent.guarantee) == bool(learned.certificates) == bool(agent.certificate().guarantee) == holds
        assert ("no proof" in str(agent)) == ("no proof" in str(learned.plan)) == (not holds)


@pytest.mark.parametrize("start", [None, 0])
def test_an_episode_without_its_first_step_may_be_missing_for_its_first_state(start):
    agent = MatrixRL(Task(np.zeros((5, 3)), 3, start=start), known_reward=False, seed=0)
    log = rows(reward=[1] * 6, state=[0, 1, 2, 0, 0, 1], action=[0, 1, 2, None, 1, 2])
    plan = agent.learn_from(log, missing="cut_episode", verbose=False).plan
    assert (plan.selection is None) == bool(agent.certificate().guarantee) == (start is not None)
    assert plan.n_episodes == 1


def test_print_says_what_was_learned(tmp_path):
    agent, _ = told("cut_episode", reward=[0.5, None, 1, 0, 1, 1])
    words = "; 0 episodes, learned from logs: 4 steps of 2 episodes; no proof: a log with 1 episode cut, 1 of them"
    assert words in str(agent)
    agent.save(tmp_path / "agent")
    assert words in str(MatrixRL.load(tmp_path / "agent"))


@pytest.mark.parametrize("missing", ["error", "drop_episode", "cut_episode"])
@pytest.mark.parametrize(
    "cells",
    [
        {"reward": ["0,5", "=1+1", "0", "0", "0", "0"]},
        {"reward": ["0,5", "1.5", "0", "0", "0", "0"]},
        {"action": ["=cmd|' /C calc'!A0", 1, 2, 0, 1, 2]},
        {"state": [0, 1, [2], 3, 0, 1]},
        {"step": ["2026-01-01", 1, 2, 0, 1, 2]},
        {"step": [0, 1, 1, 0, 1, 2]},
        {"step": [0, 2, 3, 0, 1, 2]},
        {"reward": [0.5, np.nan, 1e300, 0.0, 0.0, 0.0]},
        {"reward": [object(), 0, 0, 0, 0, 0]},
    ],
    ids=lambda cells: str(cells).partition(" at 0x")[0],
)
def test_nothing_is_learned_from_a_log_with_a_wrong_row(cells, missing):
    agent = MatrixRL(Task(np.zeros((5, 3)), HORIZON, reward_range=(-1.0, 2.0)), known_reward=False, seed=0)
    before, words = agent.algorithm.state(), str(agent)
    with pytest.raises(InvalidInput, match=rf"log, (row \d .*)?column '{next(iter(cells))}' must"):
        agent.learn_from(rows(**cells), missing=missing, first_step=0, verbose=False)
    assert str(agent) == words
    assert all(np.array_equal(array, before[name]) for name, array in agent.algorithm.state().items())


def test_a_file_that_was_cut_off(tmp_path):
    """Wherever the file ends, it is refused or has whole rows only."""
    whole = text_file(tmp_path / "log.csv", rows(step=FORMS["German"]), ";", ",").read_bytes()
    path, header = tmp_path / "cut.csv", whole.index(b"\n") + 1
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        try:
            found = read_log(path, problem(), first_step=0)
        except InvalidInput:
            continue
        lines = whole[header:end].split(b"\n")
        assert found.plan.n_steps == sum(line.count(b";") == 5 and not line.endswith(b";") for line in lines)


def test_a_large_log_of_text(tmp_path):
    """300,000 rows of different texts, in no order, with dates and decimal commas."""
    n = 50_000
    rng, episodes = np.random.default_rng(0), np.repeat(np.arange(n), HORIZON)
    log = {
        "episode": np.char.add("visit ", episodes.astype(str)),
        "date": (np.datetime64("2020-01-01") + np.tile(np.arange(HORIZON), n)).astype(str),
        "state": rng.integers(4, size=n * HORIZON).astype(str),
        "action": rng.integers(3, size=n * HORIZON).astype(str),
        "reward": np.char.replace(rng.uniform(-1.0, 2.0, n * HORIZON).round(6).astype(str), ".", ","),
    }
    order = rng.permutation(n * HORIZON)
    path = write_csv(tmp_path / "log.csv", {name: column[order] for name, column in log.items()}, ";")
    plan = read_log(path, problem()).plan
    assert (plan.n_episodes, plan.n_steps) == (n, n * (HORIZON - 1))


# The example


def test_a_messy_file_to_a_recommendation_in_ten_lines(tmp_path, capsys):
    names = runpy.run_path(str(EXAMPLE))
    names["export_of_the_plant"](tmp_path / "plant.csv")
    assert len((tmp_path / "plant.csv").read_text(encoding="utf-8").splitlines()) == 20_001
    agent = names["main"](tmp_path / "plant.csv")
    assert len(inspect.getsource(names["main"]).splitlines()) <= 10
    said = capsys.readouterr().out
    for words in (
        "in the order of dates",
        "decimals after ','",
        "rows sorted",
        "cut before a row",
        "no proof",
        "repair",
    ):
        assert words in said
    from matrixrl import FiniteMDP

    truth = FiniteMDP(
        names["LAW"].transpose(1, 0, 2), names["PROFIT"].T, names["WEEKS"], start=0, reward_range=(-40, 20)
    )
    value = evaluate(truth, agent.greedy().table.astype(int))[0][0]
    assert value > 0.99 * solve(truth).start_value


def test_a_date_that_no_calendar_holds_in_another_time_zone_is_no_date():
    agent = MatrixRL(Task(np.zeros((5, 3)), HORIZON, reward_range=(-1.0, 2.0)), known_reward=False, seed=0)
    log = {"episode": [0, 0], "date": ["0001-01-01 00:00+14:00", "2026-01-02 00:00+00:00"], "state": [0, 1]}
    log |= {"action": [0, 0], "reward": [0.0, 0.0], "next_state": [1, 2]}
    with pytest.raises(InvalidInput, match="date"):
        agent.learn_from(log, columns={"step": "date"}, verbose=False)


@pytest.mark.parametrize("decimal", [None, ","])
def test_a_number_with_an_underscore_is_refused(decimal):
    """Python reads 1_0 as 10; a log that has it has a damaged cell."""
    log = {"episode": ["0", "0"], "state": ["0", "1"], "action": ["1", "1"], "reward": ["0", "1_0"]}
    with pytest.raises(InvalidInput, match=r"reward.*must be a number"):
        MatrixRL(Task(n_states=2, n_actions=2, horizon=3)).learn_from(log, decimal=decimal, verbose=False)
