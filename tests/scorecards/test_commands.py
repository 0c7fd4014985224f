"""The commands `python -m scorecards …` on small problems: tables, files, and what they refuse."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from commands import forked
from matrixrl import make
from scorecards import __main__ as scorecard
from scorecards.colosseum.rows import Row
from scorecards.results import read_records
from scorecards.sepsis import SepsisRow
from scorecards.tables import write_table


@pytest.fixture
def data(tmp_path):
    mdp = make("river-swim", n_states=3, horizon=6).unwrapped.mdp
    law = np.stack([mdp.transitions.rows(np.arange(3), np.full(3, a)) for a in range(2)], axis=1)
    folder = tmp_path / "data"
    folder.mkdir()
    write_table(folder / "ergodic-SwimEpisodic-prms_0.npz", law, mdp.task.reward, mdp.task.start, 6)
    return folder


def test_colosseum_plays_writes_and_continues(data, tmp_path):
    arguments = ["colosseum", "--data", str(data), "--steps", "1200", "--agent", "tuned"]
    first = forked(*arguments, of="scorecards", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "tuned" in first.stdout
    folder = tmp_path / "out" / "scorecard" / "colosseum"
    [row] = read_records(folder / "scorecard.csv", Row)
    assert row.steps == 1200
    assert row.regret < row.random  # uniform play
    assert (folder / "scorecard.png").exists()
    [run] = (folder / "runs").rglob("tuned.json")
    before = run.stat().st_mtime_ns
    assert forked(*arguments, of="scorecards", cwd=tmp_path).stdout == first.stdout
    assert run.stat().st_mtime_ns == before


def test_a_missing_folder_and_an_unknown_agent_are_refused(data, tmp_path):
    answer = forked("colosseum", "--data", "nowhere", of="scorecards", cwd=tmp_path)
    assert answer.returncode == 2
    assert "--data must be a folder with tables" in answer.stderr
    answer = forked("colosseum", "--data", str(data), "--agent", "psr", of="scorecards", cwd=tmp_path)
    assert answer.returncode == 2
    assert "psrl" in answer.stderr


def test_icu_sepsis_has_the_clinicians_beside_the_learner(tmp_path):
    answer = forked("icu-sepsis", "--episodes", "40", "--seeds", "2", "--agent", "tuned", of="scorecards", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    rows = read_records(tmp_path / "out" / "scorecard" / "icu-sepsis" / "scorecard.csv", SepsisRow)
    assert [row.policy for row in rows] == ["best possible", "clinicians", "any admissible", "tuned"]
    best, clinicians, anything, tuned = rows
    assert best.value > clinicians.value > anything.value
    assert clinicians.regret == pytest.approx(40 * (best.value - clinicians.value), rel=1e-4)
    assert tuned.seeds == 2
    assert tuned.regret > 0.0


def test_bsuite_asks_before_it_creates_an_environment(tmp_path):
    """Standard input is empty, which is no consent."""
    answer = forked("bsuite", "--only", "bandit", of="scorecards", cwd=tmp_path)
    assert answer.returncode != 0
    assert "bsuite" in answer.stdout + answer.stderr
    assert not (tmp_path / "out" / "scorecard" / "venv").exists()


def test_the_bar_of_bsuite_is_drawn_in_a_terminal(monkeypatch):
    terminal = Console(force_terminal=True, file=io.StringIO(), width=100)
    monkeypatch.setattr(scorecard, "Console", lambda **_: terminal)
    with scorecard._progress() as bar:
        task = scorecard._begin(bar, "starting", None)
        bar.refresh()
        bar.update(task, note="episode 3 of 10")
    assert "episode 3 of 10" in terminal.file.getvalue()
