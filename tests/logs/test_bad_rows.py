"""Every wrong row is refused with its line and its column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from logs.worlds_with_logs import (
    HORIZON,
    Plane,
    problem,
    random_log,
    shifted_problem,
    vector_problem,
    write_csv,
    write_minari,
    write_parquet,
)
from matrixrl import InvalidInput
from matrixrl.logs import read_log

ROW = 7  # line 9 of the file: the header is line 1


def plain():
    """Three episodes of five steps: 0 → 1 → 2 → 3 → 0 → 1."""
    n = 15
    return {
        "episode": np.repeat([0, 1, 2], 5),
        "step": np.tile(np.arange(5), 3),
        "state": np.tile([0, 1, 2, 3, 0], 3),
        "action": np.arange(n) % 3,
        "reward": np.linspace(-1.0, 2.0, n),
        "next_state": np.tile([1, 2, 3, 0, 1], 3),
        "terminated": np.zeros(n, dtype=bool),
        "truncated": np.zeros(n, dtype=bool),
    }


def changed(**cells):
    """Return the plain log with other cells in one row; columns become objects if they must."""
    log = plain()
    for name, cell in cells.items():
        column = log[name].astype(object)
        column[ROW] = cell
        log[name] = column
    return log


STATE = r"column 'state' must be a whole number in 0 … 4, a state of Task"
ACTION = r"column 'action' must be a whole number in 0 … 2, an action of Task"
BAD = {
    "state too large": (changed(state=5), rf"{STATE}; got 5\. "),
    "state negative": (changed(state=-1), rf"{STATE}; got -1\. "),
    "state not whole": (changed(state=0.5), rf"{STATE}; got 0.5\. "),
    "state missing": (changed(state=""), rf"{STATE}; got an empty cell\. "),
    "state infinite": (changed(state="inf"), rf"{STATE}; got inf\. "),
    "state text": (changed(state="left"), r"column 'state' must be a number; got 'left'\. "),
    "next state": (changed(next_state=9), r"column 'next_state' must be a whole number in 0 … 4, .*; got 9\. "),
    "action not allowed": (changed(action=3), rf"{ACTION}; got 3\. "),
    "action missing": (changed(action=""), rf"{ACTION}; got an empty cell\. "),
    "action text": (changed(action="buy"), r"column 'action' must be a number; got 'buy'\. "),
    "reward outside": (changed(reward=2.5), r"column 'reward' must lie in \[-1, 2\], the declared .*; got 2.5\. "),
    "reward missing": (changed(reward=""), r"column 'reward' must be finite, .*; got an empty cell\. "),
    "reward not a number": (changed(reward="nan"), r"column 'reward' must be finite, .*; got an empty cell\. "),
    "reward infinite": (changed(reward="-inf"), r"column 'reward' must be finite, .*; got -inf\. "),
    "terminated text": (changed(terminated="maybe"), r"column 'terminated' must be true or false; got 'maybe'\. "),
    "terminated missing": (changed(terminated=""), r"column 'terminated' must be true or false; got an empty cell\. "),
    "truncated number": (changed(truncated=2), r"column 'truncated' must be true or false; got '?2'?\. "),
    "episode missing": (changed(episode=""), r"column 'episode' must not be empty; got an empty cell\. "),
    "step missing": (changed(step=""), r"column 'step' must be a whole number or a date; got an empty cell\. "),
    "step not whole": (changed(step=2.5), r"column 'step' must be a whole number; got 2.5\. "),
    "gap between states": (
        changed(state=3),
        r"column 'state' must be 2, the next state of {before}; got 3\. Correct the rows",
    ),
    "contradictory next state": (
        {**changed(next_state=2)},
        r"column 'state' must be 2, the next state of {here}; got 3\. ",
    ),
    "goes on after termination": (
        changed(terminated=True),
        r"column 'episode' must belong to an episode that goes on; got a row after {here}, where its .* terminated\. ",
    ),
    "goes on after truncation": (
        changed(truncated="yes"),
        r"column 'episode' must belong to an episode that goes on; got a row after {here}, where its .* truncated\. ",
    ),
}
NEXT_ROW = {"contradictory next state", "goes on after termination", "goes on after truncation"}


def refusal(form, **options):
    with pytest.raises(InvalidInput) as caught:
        read_log(form, problem(), **options)
    return str(caught.value)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_of_a_file_is_named_by_its_line(name, tmp_path):
    log, words = BAD[name]
    path = write_csv(tmp_path / "log.csv", log)
    line = ROW + 2 + (name in NEXT_ROW)
    rule = words.replace("{before}", f"line {ROW + 1}").replace("{here}", f"line {ROW + 2}")
    with pytest.raises(InvalidInput, match=rf"^log\.csv, line {line}, {rule}"):
        read_log(path, problem())


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_of_a_table_is_named_by_its_number(name):
    log, words = BAD[name]
    rule = words.replace("{before}", f"row {ROW - 1} \\(counted from 0\\)")
    rule = rule.replace("{here}", f"row {ROW} \\(counted from 0\\)")
    for form in (log, pd.DataFrame(log)):
        with pytest.raises(InvalidInput, match=rf"^log, row {ROW + (name in NEXT_ROW)} \(counted from 0\), {rule}"):
            read_log(form, problem())


def test_the_plain_log_is_fine():
    assert read_log(plain(), problem()).plan.n_steps == 15


def test_a_missing_row_is_a_gap(tmp_path):
    log = {name: np.delete(column, ROW) for name, column in plain().items()}
    path = write_csv(tmp_path / "log.csv", log)
    rule = "column 'step' must be 2, as no step of an episode may be missing between others; got 3"
    assert refusal(path).startswith(f"log.csv, line {ROW + 2}, {rule}. Add the missing rows")
    del log["step"]  # the states still tell
    assert "line 9, column 'state' must be 2, the next state of line 8; got 3" in refusal(
        write_csv(tmp_path / "log.csv", log), first_step=0
    )


def test_a_row_that_is_there_twice(tmp_path):
    log = {name: np.append(column, column[ROW]) for name, column in plain().items()}
    words = refusal(write_parquet(tmp_path / "log.parquet", log))
    rule = "must be another step than those before it; got the same step of the same episode as row 7"
    assert words.startswith(f"log.parquet, row 15 (counted from 0), column 'step' {rule}")


def test_a_row_that_is_there_twice_with_another_outcome():
    log = {name: np.append(column, column[ROW]) for name, column in plain().items()}
    log["next_state"][-1] = 0
    assert "column 'step' must not contradict another row; got another outcome of the same step as row 7" in refusal(
        log
    )


def test_an_episode_that_is_longer_than_the_horizon():
    n = HORIZON + 1
    log = {"episode": np.zeros(n), "state": np.zeros(n), "action": np.zeros(n), "reward": np.zeros(n)}
    log["next_state"] = np.zeros(n)
    words = f"must belong to one of the {HORIZON} steps of an episode of Task; got step {n} of its episode"
    assert f"log, row {HORIZON} (counted from 0) {words}" in refusal(log)
    log["step"] = np.arange(n) + 4
    assert f"row 2 (counted from 0), column 'step' {words}" in refusal(log, first_step=0)
    assert "column 'step' must be at least 5, the number of the first step; got 4" in refusal(log, first_step=5)


def test_a_terminated_step_needs_an_end_state():
    with pytest.raises(InvalidInput, match=r"row 4 .* column 'terminated' must be false for a problem without an end"):
        read_log({**plain(), "terminated": plain()["step"] == 4}, problem(end_state=None))


def test_how_many_other_cells_are_wrong():
    log = plain()
    log["reward"] = log["reward"] * 10.0
    others = int(((log["reward"] < -1.0) | (log["reward"] > 2.0)).sum()) - 1
    assert f"; got -10 and {others} more such cells." in refusal(log)


def test_columns_of_different_lengths():
    log = plain()
    log["reward"] = log["reward"][:-1]
    assert refusal(log).startswith("log, column 'reward' must be as long as the others, 15 rows; got 14 rows")


@pytest.mark.parametrize("role", ["reward", "step", "episode", "terminated"])
def test_a_column_of_vectors_where_one_cell_is_needed(role):
    log = plain()
    log[role] = np.stack([log[role]] * 2, axis=1)
    assert refusal(log).startswith(f"log, column '{role}' must have one cell a row")


def test_a_line_with_too_few_cells(tmp_path):
    path = write_csv(tmp_path / "log.csv", plain())
    lines = path.read_text().splitlines()
    lines[ROW + 1] = "1,2,3"
    path.write_text("\n".join(lines))
    assert refusal(path).startswith("log.csv, line 9 must have 8 cells, as the header has; got 3: ['1', '2', '3']")


def test_the_line_is_right_beyond_the_rows_that_are_read_together(tmp_path):
    n = 70_000
    log = {"episode": np.arange(n), "state": np.zeros(n, int), "action": np.zeros(n, int), "reward": np.zeros(n)}
    log["next_state"] = np.zeros(n, int)
    log["action"][66_000] = 8
    words = refusal(write_csv(tmp_path / "log.csv", log))
    assert words.startswith("log.csv, line 66002, column 'action'")


def test_a_log_of_which_no_step_is_complete():
    log = {"episode": [0, 1], "state": [0, 1], "action": [0, 0], "reward": [0.0, 0.0]}
    assert refusal(log, first_step=0).startswith(
        "log must have a row whose next state is known; got 2 rows without one"
    )


def test_a_vector_with_an_empty_coordinate_or_too_few():
    log = random_log(vectors=True)
    log["state"][3, 1] = np.nan
    with pytest.raises(InvalidInput, match=r"row 3 .*, column 'state' must be finite; got an empty cell"):
        read_log(log, vector_problem())
    split = {"x": log["state"][:, 0], "y": log["state"][:, 1], **{n: c for n, c in log.items() if n != "state"}}
    with pytest.raises(InvalidInput, match=r"row 3 .*, column 'y' must be finite; got an empty cell"):
        read_log(split, vector_problem(), columns={"state": ["x", "y"]})
    with pytest.raises(InvalidInput, match=r"log must have 2 coordinates for a state of Plane; got 1: 'x'"):
        read_log(split, vector_problem(), columns={"state": "x"})
    with pytest.raises(InvalidInput, match=r"log must have one number for a state of Task; got 2: 'x', 'y'"):
        read_log({**plain(), "x": plain()["state"], "y": plain()["state"]}, problem(), columns={"state": ["x", "y"]})


def test_a_bad_step_of_a_minari_data_set(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    log = random_log(vectors=True)
    log["reward"][np.flatnonzero((log["episode"] == 2) & (log["step"] == 1))] = 7.0
    data = write_minari("worlds/bad-v0", log, (Plane.observation_space, Plane.action_space))
    words = r"Minari data set 'worlds/bad-v0', episode 2, step 1 \(counted from 0\), column 'rewards' must lie in"
    with pytest.raises(InvalidInput, match=words):
        read_log(data, vector_problem())
    with pytest.raises(InvalidInput, match="columns must be left out for a Minari data set"):
        read_log(data, vector_problem(), columns={"state": "observations"})


def test_messages_use_the_numbers_of_the_environment():
    log = random_log(first_state=10, first_action=5)
    log["state"][4] = 10 + (log["state"][4] - 9) % 4
    with pytest.raises(InvalidInput, match=rf"column 'state' must be {log['next_state'][3]}, the next state of row 3"):
        read_log(log, shifted_problem())
    log["state"][4] = 9
    with pytest.raises(
        InvalidInput, match="column 'state' must be a whole number in 10 … 13, a state of Shifted; got 9"
    ):
        read_log(log, shifted_problem())


def test_an_action_that_its_state_does_not_allow_is_named_with_its_line():
    allowed = np.ones((5, 3), dtype=bool)
    allowed[3, 0] = False
    log = {"episode": [0, 0], "state": [0, 3], "action": [0, 0], "reward": [0.0, 0.0], "next_state": [3, 1]}
    read_log(log, problem(), first_step=0)
    rule = r"row 1 .*, column 'action' must be one of \[1, 2\], allowed in state 3; got 0\. "
    with pytest.raises(InvalidInput, match=rule):
        read_log(log, problem(allowed=allowed), first_step=0)
    read_log({**log, "action": [0, 2]}, problem(allowed=allowed), first_step=0)


@pytest.mark.parametrize("cell", [np.complex128(0.5 + 9j), 1j, np.timedelta64(1)], ids=["complex", "imaginary", "time"])
def test_cells_that_are_no_real_numbers_are_refused(cell):
    with pytest.raises(InvalidInput, match=rf"row {ROW} .*column 'reward' must be a number"):
        read_log(changed(reward=cell), problem())
