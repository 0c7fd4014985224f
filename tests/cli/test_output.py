"""Output loses nothing: any encoding, any name, and with or without the packages that draw."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from matrixrl.cli.main import main

BLOCKER = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""


def python(code, *words, blocked=(), **options):
    whole = BLOCKER.format(blocked=tuple(blocked)) + code
    return subprocess.run([sys.executable, "-c", whole, *words], capture_output=True, text=True, check=False, **options)


def matrixrl(*words, blocked=(), **options):
    code = "from matrixrl.cli.main import main\nsys.argv[0] = 'matrixrl'\nmain()"
    return python(code, *words, blocked=blocked, **options)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_characters_that_a_pipe_cannot_encode_are_replaced(tmp_path, encoding):
    out = tmp_path / "o"
    words = ["run", "river-swim", "-n", "3", "-k", "1", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "matrixrl", *words],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert done.returncode == 0, done.stderr
    assert b"regret: total of V*(s0) ? V^?(s0)" in done.stdout
    assert sorted(p.name for p in out.iterdir()) == ["episodes.csv", "regret.png", "result.json"]


def test_results_are_written_before_anything_is_printed(tmp_path):
    """A reader that went away (matrixrl run … | head -0) must not cost the results."""
    out = tmp_path / "o"
    code = (
        "import matrixrl.cli.main as cli, matrixrl.cli.play as play\n"
        "def broken(*_): raise BrokenPipeError(32, 'Broken pipe')\n"
        "play.print_results = broken\n"
        "sys.argv = ['matrixrl', 'run', 'river-swim', '-n', '3', '-k', '1', '--out', sys.argv[1]]\n"
        "cli.main()"
    )
    done = python(code, str(out))
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert (out / "episodes.csv").exists()
    assert json.loads((out / "result.json").read_text())["n_episodes"] == 3


def test_without_matplotlib_the_numbers_are_written_and_the_extra_is_named(tmp_path):
    out = tmp_path / "o"
    done = matrixrl("run", "river-swim", "-n", "3", "-k", "1", "--out", str(out), blocked=["matplotlib"])
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in out.iterdir()) == ["episodes.csv", "result.json"]
    assert "note: no figure was drawn" in done.stderr
    assert "pip install 'matrixrl[viz]'" in done.stderr
    assert "result.json" in done.stdout


def test_modules_of_the_lab_say_which_extra_they_need():
    code = """
from importlib import import_module
from matrixrl.errors import MissingExtra
for name in ("spec", "store", "execution", "analysis", "report", "live", "experiments"):
    try:
        import_module(f"matrixrl_lab.{name}")
    except MissingExtra as error:
        print(error)
"""
    done = python(code, blocked=["pydantic", "yaml"])
    assert done.stdout.splitlines() == ["the lab needs pydantic, yaml; pip install 'matrixrl[lab]'"] * 7, done.stderr


def test_the_executor_of_processes_says_which_extra_it_needs(monkeypatch):
    from matrixrl import extras
    from matrixrl.errors import MissingExtra
    from matrixrl_lab.execution import make_executor

    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"the lab needs loky; pip install 'matrixrl\[lab\]'"):
        make_executor("processes", 2)


def typed(monkeypatch, capsys, *words):
    """Run a command in this process; return its exit code, standard output and standard error."""
    monkeypatch.setattr(sys, "argv", ["matrixrl", *words])
    with pytest.raises(SystemExit) as done:
        main()
    captured = capsys.readouterr()
    return done.value.code, captured.out, captured.err


def test_markup_and_control_characters_in_names_are_shown_as_text(tmp_path, monkeypatch, capsys):
    out = tmp_path / "[red]o"
    code, shown, _ = typed(monkeypatch, capsys, "run", "river-swim", "-n", "2", "-k", "1", "--out", str(out))
    assert code == 0
    assert "[red]o" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "river-swim", "--out", ""], "Invalid value for '--out'"),
        (["run", "river-swim", "--record", " "], "Invalid value for '--record'"),
        (["demo", "--out", ""], "Invalid value for '--out'"),
        (["demo", "pond"], "demo must be one of"),
        (["demo", "-n", "0"], "--episodes must be at least 1"),
        (["demo", "-k", "0"], "--seeds must be at least 1"),
        (["show", ""], "Invalid value for 'FOLDER'"),
        (["compare", "quick", "--out", ""], "Invalid value for '--out'"),
        (["run", "river-swim", "-n", "9" * 20], "--episodes must be at most"),
        (["run", "river-swim", "-n", "0"], "--episodes must be at least 1"),
        (["run", "river-swim", "-n", str(10**12)], "n_episodes must fit in memory"),
        (["run", "river-swim", "-k", str(10**9)], "seeds must fit in memory"),
        (["run", "river-swim", "-k", "9" * 20], "--seeds must be at most"),
        (["run", "river-swim", "--seed", "-1"], "seed must be at least 0"),
        (["run", "river-swim", "--seed", "9" * 20], "seed must be at most"),
        (["run", "river-swim", "--set", "n_states=1000000000"], "n_states and copies must fit in memory"),
        (
            ["run", "river-swim", "--agent-set", "n_states=4"],
            "Pass settings of river-swim as env_settings={'n_states': 4} (--set",
        ),
        (["inspect", "river-swim", "--agent", "psrl"], "agent must be"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_what_is_typed_wrong_is_one_message_and_changes_nothing(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    code, _, err = typed(monkeypatch, capsys, *words)
    assert code == 2
    assert said in err
    assert list(tmp_path.iterdir()) == []
