"""Tests of progress where there is no terminal, with real processes whose standard error is a pipe."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import matrixrl
from matrixrl.errors import InvalidInput
from matrixrl.progress import EpisodeProgress, ProgressLines

SOURCE = Path(matrixrl.__file__).parents[1]
_COUNTS = r"(.+): ([\d,]+) of ([\d,]+) episodes \((\d+) %\)"
_LINE = re.compile(_COUNTS + r", (?:([\d.,e+-]+)/s, ((?:\d+:)?\d+:\d\d) left|time left unknown)")
_SPEC = """
name = "many"
episodes = 40
seeds = 2
block = 1
batch = 1
[[env]]
name = "river-swim"
[[agent]]
name = "psrl"
"""


def run(*words, cwd, seconds="0.001", **more):
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "MATRIXRL_PROGRESS_SECONDS": seconds, **more}
    command = [sys.executable, "-m", "matrixrl", *words]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=120)


def lines_of(done):
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stderr, "a log has no bars"
    return [_LINE.match(line).groups() for line in done.stderr.splitlines()]


def test_compare_and_resume_print_lines_with_done_total_rate_and_time_left(tmp_path):
    (tmp_path / "many.toml").write_text(_SPEC)
    found = lines_of(run("compare", "many.toml", "--out", "s", "--on", "serial", cwd=tmp_path, FORCE_COLOR="1"))
    done = [int(line[1]) for line in found]
    assert {line[0] for line in found} == {"many"}
    assert {line[2] for line in found} == {"80"}
    assert done == sorted(done)
    assert (done[0], done[-1]) == (1, 80)
    assert [int(line[3]) for line in found] == [100 * n // 80 for n in done]
    assert [line[5] is None for line in found] == [True] + [False] * (len(found) - 1)
    assert found[-1][5] == "0:00:00"
    again = run("resume", "s", "--on", "serial", cwd=tmp_path)
    assert lines_of(again) == [], "nothing was left to do"


def test_run_prints_lines_on_standard_error_and_results_on_standard_output(tmp_path):
    shown = run("run", "river-swim", "--agent", "psrl", "-n", "20", "-k", "1", cwd=tmp_path)
    assert lines_of(shown)
    assert "episodes (" not in shown.stdout
    silent = run("run", "river-swim", "--agent", "psrl", "-n", "20", "-k", "1", "--json", cwd=tmp_path)
    assert lines_of(silent) == []


def test_a_short_run_prints_no_lines_and_0_seconds_prints_none(tmp_path):
    for seconds in ("", "0", "1000"):
        assert lines_of(run("run", "river-swim", "-n", "5", "-k", "1", cwd=tmp_path, seconds=seconds)) == []
    wrong = run("run", "river-swim", "-n", "5", "-k", "1", cwd=tmp_path, seconds="often")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("error: environment variable MATRIXRL_PROGRESS_SECONDS must be a number of seconds")


def test_lines_keep_their_distance(monkeypatch):
    """A clock of our own: 100 episodes of one second each, a line at most every 10 seconds."""
    clock = iter(range(1000))
    monkeypatch.setattr("matrixrl.progress.time.monotonic", lambda: float(next(clock)))
    console = Console(file=io.StringIO(), width=20)
    lines = ProgressLines("slow", console=console, seconds=10.0)
    for done in range(101):
        lines.show(done, 100)
    printed = console.file.getvalue().splitlines()
    assert len(printed) == 10
    assert printed[0] == "slow: 9 of 100 episodes (9 %), 1/s, 0:01:31 left"


def test_episodes_of_an_earlier_run_do_not_count_for_the_rate(monkeypatch):
    """Nor do the first ones of this run, which wait for the compiler: 10 episodes in 100 seconds."""
    clock = iter((0.0, 0.0, 50.0, 100.0, 108.0))
    monkeypatch.setattr("matrixrl.progress.time.monotonic", lambda: next(clock))
    console = Console(file=io.StringIO())
    lines = ProgressLines("resumed", console=console, seconds=1.0)
    lines.show(900, 1000)
    lines.show(900, 1000)  # still compiling
    lines.show(910, 1000)
    lines.show(950, 1000, "1/2 tasks\x1b[2J")
    assert console.file.getvalue().splitlines() == [
        "resumed: 900 of 1,000 episodes (90 %), time left unknown",
        "resumed: 910 of 1,000 episodes (91 %), time left unknown",
        "resumed: 950 of 1,000 episodes (95 %), 5/s, 0:00:10 left, 1/2 tasks\\x1b[2J",
    ]


def test_a_terminal_has_a_bar_and_no_lines():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with EpisodeProgress("bar", 3, console=console) as bar:
        bar.advance("note", 2)
    assert "2/3" in console.file.getvalue()
    assert " episodes (" not in console.file.getvalue()


@pytest.mark.parametrize("given", ["-1", "nan", "inf", "x"])
def test_the_variable_is_checked(monkeypatch, given):
    monkeypatch.setenv("MATRIXRL_PROGRESS_SECONDS", given)
    with pytest.raises(InvalidInput, match="MATRIXRL_PROGRESS_SECONDS must be a number of seconds"):
        ProgressLines("a")


_COMPILING = """
import numba, sys
from matrixrl.compilation import _announce_first_compilation
_announce_first_compilation()
def add(a, b):
    return a + b
add.__module__ = sys.argv[1]
compiled = numba.njit(add)
compiled(1, 2); compiled(1.0, 2.0)
"""


@pytest.mark.parametrize(
    ("module", "seconds", "said"),
    [("matrixrl.core.loops", "30", 1), ("matrixrl.core.loops", "0", 0), ("users.own", "30", 0)],
)
def test_the_first_compilation_is_announced_once(tmp_path, module, seconds, said):
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "MATRIXRL_PROGRESS_SECONDS": seconds}
    command = [sys.executable, "-c", _COMPILING, module]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr.count("compiling loops with numba") == said
    assert len(done.stderr.splitlines()) == said
    assert done.stdout == ""
