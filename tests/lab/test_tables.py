"""Tables as files: the form follows the name of the file, and nothing is left out without its name."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from lab.experiments import SMALL, finished
from matrixrl import InvalidInput
from matrixrl.cli.main import app
from matrixrl_lab import write_report, write_table
from matrixrl_lab.analysis import aggregate, summarise
from matrixrl_lab.report.markdown import latex_text
from matrixrl_lab.store import Store
from matrixrl_lab.tables import print_summary

COSTS = """
[[env]]
name = "gym:CliffWalking-v1"
id = "cliff_100%"
settings = { horizon = 4 }

[[agent]]"""
SPEC = SMALL.replace("\n[[agent]]", COSTS, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("tables")
    finished(home, SPEC, episodes=20, seeds=2)
    return home


def test_every_form_names_an_environment_that_the_overall_table_leaves_out(folder, tmp_path):
    console = Console(width=200, record=True, file=io.StringIO())
    with Store.open_to_read(folder) as store:
        print_summary(console, summarise(store))
        texts = [
            write(store, tmp_path / name).read_text(encoding="utf-8")
            for write, name in ((write_table, "t.md"), (write_table, "t.tex"), (write_report, "r.html"))
        ]
    for text in (console.export_text(), *texts):
        assert re.search(r"Without cliff\\?_100\\?%: scores there have another scale", text)


def test_agents_that_are_left_out_are_named(folder):
    with Store.open_to_read(folder) as store:
        env = summarise(store)[0]
    fewer = replace(env, id="again", agents=env.agents[:-1])
    assert "Without random, not played in all" in " ".join(aggregate([env, fewer]).left_out_words())
    assert aggregate([env]).left_out_words() == []


def test_a_table_for_latex_is_latex(folder, tmp_path):
    with Store.open_to_read(folder) as store:
        text = write_table(store, tmp_path / "tables.tex").read_text(encoding="utf-8")
        markdown = write_table(store, tmp_path / "tables.md").read_text(encoding="utf-8")
    tables = re.findall(r"\\begin\{tabular\}\{(l+r+)\}(.*?)\\end\{tabular\}", text, re.DOTALL)
    assert len(tables) == 3
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 3
    for columns, body in tables:
        assert [body.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert len(lines) == 4  # the head and three agents
        assert {len(re.split(r"(?<!\\)&", line)) for line in lines} == {len(columns)}
    assert "| --- |" not in text
    assert markdown.startswith("# Small\n\n## river-swim")
    numbers = re.findall(r"\d+\.\d+", markdown)
    assert numbers
    assert sorted(numbers) == sorted(re.findall(r"\d+\.\d+", text))  # the same tables
    assert latex_text(r"a_b & 5 % \ {x} #1 $ ~ ^") == (
        r"a\_b \& 5 \% \textbackslash{} \{x\} \#1 \$ \textasciitilde{} \textasciicircum{}"
    )


@pytest.mark.parametrize("name", ["tables.txt", "tables.html", "tables", "tables.pdf"])
def test_another_form_is_refused_before_anything_is_written(folder, tmp_path, name):
    with Store.open_to_read(folder) as store, pytest.raises(InvalidInput, match=r"table must end in \.md .* or \.tex"):
        write_table(store, tmp_path / name)
    out = tmp_path / "report.html"
    result = CliRunner().invoke(app, ["report", str(folder), "--out", str(out), "--table", str(tmp_path / name)])
    assert result.exit_code != 0
    assert list(tmp_path.iterdir()) == []
