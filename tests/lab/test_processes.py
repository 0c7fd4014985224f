"""Worker processes of an experiment: none survives its parent, and Ctrl-C ends all of them at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from experiments import SMALL
from typer.testing import CliRunner

from matrixrl.cli.main import app
from matrixrl.errors import MatrixRLError, StoreError
from matrixrl_lab import run_experiment
from matrixrl_lab.execution import executors
from matrixrl_lab.execution.executors import ProcessExecutor
from matrixrl_lab.store import Store

LONG = """\
name = "long"
episodes = 10000000
seeds = 2
block = 5000000
batch = 1
[[env]]
name = "river-swim"
[[agent]]
name = "psrl"
"""
PATIENCE = 60.0  # seconds


def workers_of(group):
    """Return the processes of a process group that play blocks."""
    command = ["pgrep", "-g", str(group), "-f", "LokyProcess"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in found.split()]


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
    return condition()


@pytest.fixture
def campaign(tmp_path):
    """Start a long campaign with two workers; it and its workers are killed after the test."""
    (tmp_path / "long.toml").write_text(LONG)
    words = ["compare", "long.toml", "--out", "s", "--on", "processes", "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "matrixrl", *words],
        cwd=tmp_path,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    for pid in [process.pid, *workers_of(process.pid)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(
    "later", [pytest.param(0.0, marks=pytest.mark.full), 4.0], ids=["while they start", "while they play"]
)
def test_a_parent_that_is_killed_leaves_no_workers(campaign, later):
    assert wait_for(lambda: len(workers_of(campaign.pid)) == 2)
    time.sleep(later)
    os.kill(campaign.pid, signal.SIGKILL)
    assert wait_for(lambda: not workers_of(campaign.pid))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "later"), [(0, 0.0), (1, 0.0), (2, 4.0)], ids=["before workers", "while they start", "while they play"]
)
def test_ctrl_c_ends_a_campaign_in_one_line(campaign, tmp_path, wanted, later):
    """As a terminal does it: all processes of the command receive the signal."""
    if wanted:
        assert wait_for(lambda: len(workers_of(campaign.pid)) >= wanted)
    else:
        assert wait_for(lambda: (tmp_path / "s").exists())
    time.sleep(later)
    os.killpg(campaign.pid, signal.SIGINT)
    said, errors = campaign.communicate(timeout=PATIENCE)
    assert campaign.returncode == 130
    assert (said, errors) in (("stopped; continue with: matrixrl resume s\n", ""), ("", "stopped\n"))
    assert workers_of(campaign.pid) == []


def test_an_executor_that_started_nothing_starts_nothing_to_close():
    executor = ProcessExecutor(2)
    executor._make = lambda: pytest.fail("a pool was made")
    executor.close()


def unreachable(*_args, **_kwargs):
    raise MatrixRLError("cannot reach Ray at auto")


def test_a_cluster_that_cannot_be_reached_leaves_no_store(tmp_path, monkeypatch):
    (tmp_path / "small.toml").write_text(SMALL)
    folder = tmp_path / "s"
    monkeypatch.setattr(executors, "RayExecutor", unreachable)
    with pytest.raises(MatrixRLError, match="cannot reach Ray"):
        run_experiment(tmp_path / "small.toml", folder, on="ray")
    words = ["compare", str(tmp_path / "small.toml"), "--out", str(folder), "--on", "ray", "--address", "auto"]
    assert "cannot reach Ray" in str(CliRunner().invoke(app, words).exception)
    assert not folder.exists()


def test_a_directory_in_use_is_refused_before_a_cluster_is_started(tmp_path, monkeypatch):
    (tmp_path / "small.toml").write_text(SMALL)
    folder = tmp_path / "s"
    run_experiment(tmp_path / "small.toml", folder, on="serial")
    monkeypatch.setattr(executors, "RayExecutor", unreachable)
    (tmp_path / "other.toml").write_text(SMALL.replace("episodes = 60", "episodes = 61"))
    with pytest.raises(StoreError, match="holds another experiment"):
        run_experiment(tmp_path / "other.toml", folder, on="ray")
    with Store.open_to_read(folder) as store:
        assert store.experiment.episodes == 60
