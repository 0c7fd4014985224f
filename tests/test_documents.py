"""What the documents show runs, and what they link to exists."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def python_blocks(document):
    return re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_python_blocks_run(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in python_blocks(document):
        exec(compile(block, document.name, "exec"), {})


def test_the_readme_has_python_blocks():
    assert len(python_blocks(ROOT / "README.md")) >= 2


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda e: e.name)
def test_examples_run(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def test_the_paper_map_names_tests_and_code_that_exist():
    text = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
    for name in re.findall(r"`(?:tests/paper/)?(test_\w+\.py)`", text):
        assert list((ROOT / "tests").rglob(name)), name
    for name in re.findall(r"`((?:core|mdp|agents|linalg|run|features)/[\w/]+\.py)`", text):
        assert (ROOT / "src" / "matrixrl" / name).exists(), name


def test_the_makefile_has_what_the_readme_shows():
    makefile, readme = (ROOT / "Makefile").read_text(), (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"make (\w+)", readme):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
