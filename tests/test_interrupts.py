"""Ctrl-C while imports run, while processes start, and in the middle of a change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import matrixrl
from matrixrl_lab.execution.executors import starting_processes

SOURCE = str(Path(matrixrl.__file__).parents[1])
INTERRUPTING = """
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
time.sleep(20)
"""


def test_ctrl_c_waits_until_processes_have_started():
    """The system may deliver the signal to another thread, which does not block it."""
    seen, finished = [], threading.Event()
    other = threading.Thread(target=finished.wait)
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt), starting_processes():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
            seen.append("the rest of the block")
    finally:
        finished.set()
        other.join()
    assert seen
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_processes_that_are_started_never_receive_ctrl_c():
    code = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('still here')"
    with starting_processes():
        shielded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert shielded.stdout == "still here\n"
    exposed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert exposed.stdout == ""


def run(command, path, *, ignore=False):
    """Run a command with modules of a directory first on the import path."""
    env = {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{SOURCE}"}
    how = signal.SIG_IGN if ignore else signal.SIG_DFL
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        env=env,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, how),
    )


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("typer", ["--version"]),
        ("gymnasium", ["run", "river-swim"]),
        ("gymnasium", ["list", "envs"]),
        ("gymnasium", ["show", "out"]),
    ],
)
def test_ctrl_c_during_the_imports_of_a_command_ends_in_one_line(tmp_path, module, command):
    """The module of that name sends the signal while it is imported."""
    (tmp_path / f"{module}.py").write_text(INTERRUPTING)
    ended = run(["-m", "matrixrl", *command], tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "stopped\n")


def test_ctrl_c_during_the_import_of_the_library_is_an_ordinary_interrupt(tmp_path):
    (tmp_path / "gymnasium.py").write_text(INTERRUPTING)
    ended = run(["-c", "import matrixrl"], tmp_path)
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr.endswith("KeyboardInterrupt\n")


@pytest.mark.parametrize("command", [["--help"], ["--version"], ["run", "--help"], ["compare", "--help"]])
def test_help_is_printed_without_loading_the_library(tmp_path, command):
    """Modules of these names would end the command."""
    for module in ("numpy", "scipy", "gymnasium"):
        (tmp_path / f"{module}.py").write_text(INTERRUPTING)
    ended = run(["-m", "matrixrl", *command], tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "matrixrl" in ended.stdout


def test_an_ignored_ctrl_c_stays_ignored(tmp_path):
    """As for a background job of a shell."""
    (tmp_path / "tomllib.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    ended = run(["-c", "import matrixrl; print(matrixrl.__version__); import tomllib"], tmp_path, ignore=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"{matrixrl.__version__}\n"
