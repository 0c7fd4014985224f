"""Names, paths and messages of users are printed as text: no markup, no cursor movements, no marks of direction."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from typer.testing import CliRunner

from matrixrl.cli import main, tables
from matrixrl.display import literal, printable
from matrixrl.play import run_seeds
from matrixrl.progress import EpisodeProgress
from matrixrl_lab import Store, run_experiment, summarise
from matrixrl_lab import tables as lab_tables
from matrixrl_lab.analysis.summary import contents

EVIL = "[red]a[/red]\x1b[2J\x07\u202eb\u200f:dog:"
SHOWN = r"[red]a[/red]\x1b[2J\x07\u202eb\u200f:dog:"
SPEC = {
    "name": "evil",
    "title": EVIL,
    "episodes": 3,
    "seeds": 2,
    "env": [{"name": "river-swim", "id": EVIL}],
    "agent": [{"name": "random", "id": f"{EVIL} agent"}, {"name": "psrl"}],
}


def terminal():
    return Console(file=io.StringIO(), width=400, emoji=False, force_terminal=False)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", r"\x1b[31m"),
        ("\x9b2J", r"\x9b2J"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("\u202e\u2066\u200f\u061c", r"\u202e\u2066\u200f\u061c"),
        ("\ud800", r"\ud800"),
        ("φ(s, a) × 10⁻³ 状態 – …", "φ(s, a) × 10⁻³ 状態 – …"),
    ],
    ids=["escape", "C1 control", "line ends", "direction", "lone surrogate", "other scripts"],
)
def test_what_cannot_be_seen_is_shown(text, shown):
    assert printable(text) == shown


@pytest.mark.parametrize("text", [EVIL, "[/]", "[bold", "\\[x]", "a\\", "[link=http://x]y[/link]"])
def test_markup_is_text(text):
    console = terminal()
    console.print(f"[bold]{literal(text)}[/]", highlight=False)
    assert console.file.getvalue() == f"{printable(text)}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("evil") / "s"
    run_experiment(SPEC, where, on="serial")
    return where


def test_tables_of_the_lab(folder):
    console = terminal()
    with Store.open_to_read(folder) as store:
        lab_tables.print_show(console, contents(store))
        lab_tables.print_summary(console, summarise(store))
        lab_tables.print_failures(console, store.experiment, [(0, (0,), f"ValueError: {EVIL}")])
    words = console.file.getvalue()
    assert words.count(SHOWN) == 3 + 2 + 2 + 2 + 2, words
    assert "\x1b" not in words


def test_codes_of_emoji_are_text(folder):
    done = CliRunner(env={"COLUMNS": "400"}).invoke(main.app, ["show", str(folder)])
    assert done.output.count(":dog:") == 8
    assert "\N{DOG FACE}" not in done.output


def test_tables_of_a_run():
    result = run_seeds("river-swim", n_episodes=3, seeds=2, agent="random")
    console = terminal()
    tables.print_results(console, {EVIL: result})
    assert SHOWN in console.file.getvalue()
    assert "\x1b" not in console.file.getvalue()


def test_labels_of_progress_bars():
    console = Console(file=io.StringIO(), width=300, force_terminal=True, color_system=None)
    with EpisodeProgress(EVIL, 3, console=console):
        pass
    words = console.file.getvalue()
    assert r"[red]a[/red]\x1b[2J\x07\u202eb\u200f" in words
    assert "\x07" not in words


@pytest.mark.parametrize("command", ["export", "report"])
def test_paths_that_were_written(folder, tmp_path, command):
    path = tmp_path / "[red]x\x1b[2J"
    done = CliRunner().invoke(main.app, [command, str(folder), "--out", str(path)])
    assert done.exit_code == 0, done.output
    assert "[red]x\\x1b[2J" in done.output
    assert "\x1b" not in done.output


def test_errors_are_one_line_of_text(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["matrixrl", "show", "\x1b[2J\nerror: fake [red]"])
    with pytest.raises(SystemExit):
        main.main()
    words = capsys.readouterr().err
    assert words.count("\n") == 1
    assert "\\x1b[2J\\nerror: fake [red]" in words
    assert "\x1b" not in words


def test_the_next_command_is_printed_as_it_must_be_typed(folder):
    console = Console(file=io.StringIO(), width=20)
    tables.print_line(console, "continue with: matrixrl resume '[red] :dog:'")
    assert console.file.getvalue() == "continue with: matrixrl resume '[red] :dog:'\n"
