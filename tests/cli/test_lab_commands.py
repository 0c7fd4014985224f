"""The commands of the lab as a user types them: real processes, their streams and their exit codes."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from importlib.metadata import version

import pytest

from commands import forked
from matrixrl_lab.store import Store
from matrixrl_lab.store.database import sealed

BASE = [sys.executable, "-m", "matrixrl"]
SPEC = """\
name = "tiny"
episodes = 30
seeds = 2
block = 10
[[env]]
name = "river-swim"
settings = { n_states = 4 }
[[agent]]
name = "matrix-rl"
settings = { preset = "tuned" }
[[agent]]
name = "random"
"""


def run(*args, cwd=None):
    return subprocess.run([*BASE, *args], capture_output=True, text=True, timeout=120, check=False, cwd=cwd)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    (home / "tiny.toml").write_text(SPEC)
    done = run("compare", "tiny.toml", "--on", "serial", "--tensorboard", "events", cwd=home)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "matrix-rl" in done.stdout
    assert "120 episodes in" in done.stdout
    assert list((home / "events").rglob("events.out.*"))
    return home / "out" / "tiny"


def test_a_comparison_ends_in_a_table_a_report_and_a_figure(folder):
    assert {"results.sqlite", "report.html", "figure.png"} <= {path.name for path in folder.iterdir()}


@pytest.mark.slow
def test_a_finished_experiment_is_shown(folder):
    held = json.loads(forked("show", str(folder), "--json").stdout)
    assert held["name"] == "tiny"
    assert [cell["seeds"] for cell in held["cells"]] == [{"done": 2}, {"done": 2}]
    assert held["cells"][0]["regret"]["value"] < held["cells"][1]["regret"]["value"]
    words = forked("show", str(folder)).stdout
    assert "2 done" in words
    assert held["rows"] in words


@pytest.mark.slow
def test_a_finished_experiment_is_not_run_twice_but_shown_again(folder, tmp_path):
    """The table is that of ``show``, the files are written again, and not a byte of the store changes."""
    copied = tmp_path / "finished"
    shutil.copytree(folder, copied)
    stored = (copied / "results.sqlite").read_bytes()
    report, figure = copied / "report.html", copied / "figure.png"
    drawn = figure.read_bytes()
    report.unlink()
    figure.unlink()
    spec = str(folder.parents[1] / "tiny.toml")
    again = forked("compare", spec, "--out", str(copied), "--tensorboard", str(tmp_path / "events"))
    assert again.returncode == 0
    assert again.stderr == "note: nothing was played, so no event files were written\n"
    assert not (tmp_path / "events").exists()
    table = again.stdout.partition("nothing was played")[0]
    assert table in forked("show", str(copied)).stdout
    assert "matrix-rl" in table
    said = " ".join(again.stdout.removeprefix(table).split())
    rows = json.loads(forked("show", str(copied), "--json").stdout)["rows"]
    assert said.startswith(f"nothing was played: {copied} holds all episodes; spec ")
    assert f"rows {rows} wrote {report} wrote {figure}" in said
    assert report.read_text(encoding="utf-8").count("<h2>") > 3
    assert figure.read_bytes() == drawn
    assert (copied / "results.sqlite").read_bytes() == stored


@pytest.mark.slow
@pytest.mark.parametrize("change", [["--seeds", "3"], ["--episodes", "31"]])
def test_a_changed_experiment_is_refused_in_the_same_directory(folder, change):
    other = forked("compare", str(folder.parents[1] / "tiny.toml"), "--out", str(folder), *change)
    assert other.returncode == 2
    assert other.stdout == ""
    assert other.stderr.startswith(f"error: {folder} holds another experiment (tiny, ")
    assert "results are never mixed; choose another directory with --out" in other.stderr


@pytest.mark.slow
def test_an_unfinished_experiment_is_continued_by_resume_only(folder, tmp_path):
    copied = tmp_path / "unfinished"
    shutil.copytree(folder, copied)
    with Store.open_to_write(copied) as store:
        store.restart(1, [0])
    again = forked("compare", str(folder.parents[1] / "tiny.toml"), "--out", str(copied))
    assert again.returncode == 2
    assert again.stderr == f"error: {copied} already holds this experiment; continue with matrixrl resume {copied}\n"


@pytest.mark.slow
def test_resuming_a_finished_experiment_changes_nothing(folder):
    before = json.loads(forked("show", str(folder), "--json").stdout)["rows"]
    assert forked("resume", str(folder), "--on", "serial").returncode == 0
    assert json.loads(forked("show", str(folder), "--json").stdout)["rows"] == before


@pytest.mark.slow
def test_resuming_with_other_versions_is_said(folder, tmp_path):
    copied = tmp_path / "s"
    shutil.copytree(folder, copied)
    with contextlib.closing(sqlite3.connect(copied / "results.sqlite")) as database, database:
        [then] = database.execute("SELECT value FROM meta WHERE key = 'versions'").fetchone()
        other = json.dumps({**json.loads(then), "numba": "absent"})
        _, value, checksum = sealed("meta", ("versions", other))
        database.execute("UPDATE meta SET value = ?, checksum = ? WHERE key = 'versions'", [value, checksum])
    done = forked("resume", str(copied), "--on", "serial")
    assert done.returncode == 0
    assert done.stderr == f"note: started with numba absent, now {version('numba')}: last digits may differ\n"


@pytest.mark.slow
def test_exports_and_reports_go_where_they_are_told(folder, tmp_path):
    done = forked("export", str(folder), "--out", str(tmp_path / "all.csv"))
    assert done.stdout == f"wrote 120 episodes to {tmp_path / 'all.csv'}\n"
    with (tmp_path / "all.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 120
    done = forked("report", str(folder), "--out", str(tmp_path / "r.html"), "--figure", str(tmp_path / "f.pdf"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "f.pdf").read_bytes().startswith(b"%PDF")
    assert "<html" in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "riverswin"], "spec must be one of quick, riverswim, linear, control, large; got 'riverswin'"),
        (["compare", "missing.toml"], "cannot read missing.toml: No such file or directory"),
        (["compare", "quick", "--episodes", "-3"], "episodes: must be greater than or equal to 1; got -3"),
        (["compare", "quick", "--on", "cloud"], "--on must be one of serial, processes, ray; got 'cloud'"),
        (["resume", "nowhere"], "nowhere holds no results"),
        (["show", "nowhere"], "nowhere holds no results"),
        (["export", "nowhere", "--out", "x.csv"], "nowhere holds no results"),
        (["report", "nowhere"], "nowhere holds no results"),
        (["watch", "nowhere", "--port", "99999999"], "port"),
    ],
)
def test_mistakes_end_in_one_line(words, message, tmp_path):
    done = forked(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.stderr


def test_an_executor_that_does_not_exist_leaves_no_store(tmp_path):
    forked("compare", "quick", "--on", "cloud", "--out", "s", cwd=tmp_path)
    forked("compare", "quick", "--workers", "0", "--out", "s", cwd=tmp_path)
    assert not (tmp_path / "s").exists()


@pytest.mark.slow
def test_the_spec_chooses_the_executor_and_the_option_wins(tmp_path):
    """A spec for Ray with an address where no cluster listens is refused, unless --on says otherwise."""
    (tmp_path / "ray.toml").write_text('executor = "ray"\n' + SPEC.replace("episodes = 30", "episodes = 3"))
    (tmp_path / "serial.toml").write_text('executor = "serial"\n' + SPEC.replace("episodes = 30", "episodes = 3"))
    unreachable = forked("compare", "ray.toml", "--address", "127.0.0.1:9", "--out", "r", cwd=tmp_path)
    assert "no Ray cluster answers at 127.0.0.1:9" in unreachable.stderr
    misplaced = forked("compare", "serial.toml", "--address", "127.0.0.1:9", "--out", "r", cwd=tmp_path)
    assert "--address must be left out for serial" in misplaced.stderr
    assert not (tmp_path / "r").exists()
    done = forked("compare", "ray.toml", "--on", "serial", "--out", "r", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "(serial)" in done.stdout
    resumed = forked("resume", "r", "--address", "127.0.0.1:9", cwd=tmp_path)
    assert "no Ray cluster answers at 127.0.0.1:9" in resumed.stderr, "the store keeps what its spec says"
    plain = forked("compare", "serial.toml", "--out", "s", cwd=tmp_path)
    assert "(serial)" in plain.stdout


def test_where_everything_fails_the_reason_is_shown(tmp_path):
    code = """
import sys
from matrixrl_lab.execution import blocks, executors
def broken(order):
    raise ZeroDivisionError("division by zero")
executors.SerialExecutor.__init__.__defaults__ = (broken,)
from matrixrl.cli.main import main
main()
"""
    command = [sys.executable, "-c", code, "compare", "quick", "--on", "serial", "--out", "s"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1, done.stderr
    assert "ZeroDivisionError: division by zero" in done.stdout
    assert "try them again with: matrixrl resume s" in done.stdout


def test_tables_fit_eighty_columns(folder):
    wide = {**os.environ, "COLUMNS": "80"}
    words = subprocess.run([*BASE, "show", str(folder)], capture_output=True, text=True, env=wide, check=True).stdout
    assert max(len(line) for line in words.splitlines()) <= 80
    assert "s/1k" in words


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_stored_and_says_how_to_go_on(tmp_path):
    (tmp_path / "long.toml").write_text(SPEC.replace("episodes = 30", "episodes = 1000000").replace('"tiny"', '"long"'))
    process = subprocess.Popen(
        [*BASE, "compare", "long.toml", "--out", "s"],
        cwd=tmp_path,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            time.sleep(0.5)
            if (tmp_path / "s" / "results.sqlite").exists():
                held = json.loads(forked("show", "s", "--json", cwd=tmp_path).stdout)
                if any(cell["episodes"] for cell in held["cells"]):
                    break
        os.killpg(process.pid, signal.SIGINT)
        said, errors = process.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a test that failed leaves nothing running
    assert process.returncode == 130
    assert said == "stopped; continue with: matrixrl resume s\n"
    assert errors == ""
    held = json.loads(forked("show", "s", "--json", cwd=tmp_path).stdout)
    assert any(cell["episodes"] for cell in held["cells"])
