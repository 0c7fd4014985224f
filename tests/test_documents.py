"""Code blocks of the documents run and print what is shown, commands parse, and links, pages and files exist."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import runpy
import shlex
import subprocess
from pathlib import Path
from pkgutil import resolve_name

import pytest
from typer.main import get_command

import matrixrl
from matrixrl.algorithms import make_algorithm
from matrixrl.cli.main import app
from matrixrl.cli.options import parse_settings
from matrixrl.cli.play import TOPICS
from matrixrl.envs import open_problem
from matrixrl.references import is_reference
from matrixrl_lab.spec import read_spec

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *PAGES]
CONTINUED = {"tutorial", "guides"}  # folders of pages whose blocks are run in order, as each page says
FENCES = re.compile(r"^```([^\n`]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
COMMANDS = get_command(app)


def changed_documents():
    """Return the documents that the last commit changed or that differ from it; none where git does not know."""
    command = ["git", "diff", "--name-only", "HEAD~1", "--", "*.md"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return {ROOT / name for name in said.splitlines()}


def runnable():
    """Return documents with Python blocks; `make test` runs the README, the tutorial and what was changed."""
    always = {ROOT / "README.md", *(DOCS / "tutorial").glob("*.md"), *changed_documents()}
    for document in DOCUMENTS:
        if python_blocks(document):
            yield pytest.param(document, marks=[] if document in always else pytest.mark.full)


def name_of(document):
    return str(document.relative_to(ROOT))


def fences(document):
    return FENCES.findall(document.read_text(encoding="utf-8"))


def python_blocks(document):
    """Return each Python block with its expected output: the next block, if that is text, else None."""
    found = fences(document)
    following = [*found, ("", "")][1:]
    return [
        (body, after[1] if after[0] == "text" else None)
        for (language, body), after in zip(found, following, strict=True)
        if language == "python"
    ]


def commands(document):
    """Return the words of every ``$ matrixrl …`` line of console blocks."""
    shown = [body.replace("\\\n", "") for language, body in fences(document) if language == "console"]
    lines = [line for body in shown for line in body.splitlines()]
    words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if line.startswith("$ ")]
    return [w[1:] for w in words if w and w[0] == "matrixrl"]


@pytest.mark.parametrize("document", [*runnable()], ids=name_of)
def test_python_blocks_run_and_print_what_is_shown(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    together = document.parent.name in CONTINUED
    names: dict[str, object] = {}
    for block, shown in python_blocks(document):
        names = names if together else {}
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(block, name_of(document), "exec"), names)
        if shown is not None:
            assert said.getvalue() == shown, block


def test_the_pages_that_teach_have_something_to_run():
    teaching = [DOCS / "index.md", ROOT / "README.md", *(p for p in PAGES if p.parent.name in CONTINUED)]
    assert [name_of(d) for d in teaching if not python_blocks(d) and not commands(d)] == []


def test_every_page_whose_blocks_are_run_in_order_says_so():
    for page in PAGES:
        if page.parent.name in CONTINUED and len(python_blocks(page)) > 1:
            assert "Run the code blocks in order" in page.read_text(encoding="utf-8"), page


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if commands(d)], ids=name_of)
def test_commands_parse(document):
    for words in commands(document):
        name, *arguments = words
        assert name in COMMANDS.commands, words
        parameters = COMMANDS.commands[name].make_context(name, arguments).params
        if name in ("run", "inspect"):
            check_run(parameters)
        elif name == "list":
            assert parameters["topic"] in (None, *TOPICS), words
        elif name == "compare" and "." not in parameters["spec"]:
            assert read_spec(parameters["spec"]).text, words


def check_run(parameters):
    """Make the environment and resolve the agent's settings, without playing."""
    settings = parse_settings("--agent-set", parameters["agent_set"] or [])
    env_settings = parse_settings("--set", parameters["set_"] or [])
    trust = parameters["trust_code"]
    if "side" in env_settings:  # a million states take seconds
        return
    problem = open_problem(parameters["env"], env_settings, trust_code=trust, known_reward=False)
    if is_reference(parameters["agent"]):  # a module that the page asks the reader to write
        assert trust
        return
    make_algorithm(parameters["agent"], settings, trust_code=trust).form_for(problem)


def test_a_misspelled_option_would_be_found():
    with pytest.raises(Exception, match="--episode"):
        COMMANDS.commands["run"].make_context("run", ["river-swim", "--episodess", "3"])


def slug(heading):
    """Return the anchor of a heading, as GitHub and MyST make it."""
    words = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return words.replace(" ", "-")


def anchors(document):
    text = FENCES.sub("", document.read_text(encoding="utf-8"))
    return {slug(heading) for heading in re.findall(r"^#{1,3} (.+)$", text, flags=re.MULTILINE)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document):
    text = FENCES.sub("", document.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        file = document.parent / path if path else document
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def test_every_table_of_results_is_linked_from_a_page():
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    linked = {name for text in texts for name in re.findall(r"results/([\w-]+\.csv)\)", text)}
    assert linked == {file.name for file in (DOCS / "results").iterdir()}


def section(target):
    """Return the text below the heading that a link such as docs/page.md#heading leads to."""
    path, _, anchor = target.partition("#")
    parts = re.split(r"^#{1,3} (.+)$", (ROOT / path).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return next(body for heading, body in zip(parts[1::2], parts[2::2], strict=True) if slug(heading) == anchor)


def test_the_results_of_the_readme_stand_in_the_section_that_they_cite():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    results = readme.partition("\n## Results\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| \[[^]]+\]\(([^)]+)\) \|$", results, flags=re.MULTILINE)
    assert len(rows) > 4
    for question, result, source in rows:
        for number in re.findall(r"\d[\d,.]*\d", result):
            assert re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d]|[.,]\d)", section(source)), (question, number)


def test_the_readme_stays_short_and_has_one_picture():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 125
    assert readme.count("![") == 1


def test_the_citation_has_the_version_of_the_package():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, flags=re.MULTILINE) == [matrixrl.__version__]


def test_generated_pages_are_not_stored():
    assert list(DOCS.rglob("*.html")) == []


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for page in PAGES:
        for language, body in fences(page):
            if language == "{toctree}":
                entries = [line.strip() for line in body.splitlines() if line.strip() and not line.startswith(":")]
                listed |= {(page.parent / entry).resolve() for entry in entries}
    written = [page for page in PAGES if page != DOCS / "index.md"] + sorted((DOCS / "notebooks").glob("*.ipynb"))
    assert listed == {page.with_suffix("") for page in written}


def test_included_files_exist():
    included = [(page, kind) for page in PAGES for kind, _ in fences(page) if kind.startswith("{literalinclude}")]
    assert included
    for page, kind in included:
        assert (page.parent / kind.split()[1]).exists(), kind


EXAMPLES = sorted(
    path
    for path in (ROOT / "examples").glob("*.py")
    if path.name not in ("case_study.py", "small_problems.py", "usual_policies.py")
)
CASES = [path for path in EXAMPLES if "from case_study import" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e not in CASES], ids=lambda e: e.name)
def test_examples_run(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    "case", [CASES[0], *(pytest.param(case, marks=pytest.mark.full) for case in CASES[1:])], ids=lambda e: e.name
)
def test_cases_run_in_small_and_have_a_page(case, capsys, monkeypatch, tmp_path):
    """Three episodes of two seeds: the tables have every policy and the verdict, and the picture is drawn."""
    monkeypatch.syspath_prepend(str(case.parent))
    monkeypatch.setattr("sys.argv", [str(case), "--episodes", "3", "--seeds", "2", "--out", str(tmp_path)])
    names = runpy.run_path(str(case), run_name="__main__")
    said = capsys.readouterr().out
    given, name = names["CASE"], case.stem.replace("_", "-")
    assert given.env == name
    usual = given.usual(matrixrl.make(given.env))
    rows = ["best possible, V*", *(f"usual: {label}" for label in usual), *given.learners, "recommended", "greedy"]
    assert [row for row in rows if f"| {row} " not in said] == []
    assert "more data are needed" in said
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert case.name in (DOCS / "cases" / f"{name}.md").read_text(encoding="utf-8")


def test_every_case_is_tested():
    assert {path.stem for path in CASES} == {page.stem.replace("-", "_") for page in (DOCS / "cases").glob("*-*.md")}


@pytest.mark.parametrize("page", ["paper-map.md", "proofs.md"])
def test_files_named_by_the_theory_pages_exist(page):
    """Tests without a folder are in tests/paper; code is below src/matrixrl, except for the examples."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for name in re.findall(r"`([\w/]+\.py)`", text):
        folder = "tests/paper" if name.startswith("test_") else "src/matrixrl"
        folder = "" if name.startswith(("tests/", "examples/")) else folder
        assert (ROOT / folder / name).exists(), name


def test_names_of_the_glossary_exist_and_fit_a_screen():
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    for name in re.findall(r"`(matrixrl\.[\w.]+)`", text):
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name
    assert {f"matrixrl list {topic}" for topic in ("sets", "radii")} <= set(re.findall(r"`(matrixrl list \w+)`", text))
    assert len(text.splitlines()) <= 40


def test_the_reference_lists_every_public_name():
    (listed,) = (body for language, body in fences(DOCS / "api" / "index.md") if language == "{eval-rst}")
    names = re.findall(r"^   (\w+)$", listed, flags=re.MULTILINE)
    assert sorted(names) == sorted(matrixrl.__all__)


def test_new_names_of_the_changelog_exist():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `[^|]+\|([^|]+)\|$", text, flags=re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(matrixrl\.[\w.]+)`", row)]
    assert len(names) > 20
    for name in names:
        assert resolve_name(name) is not None, name


def test_the_makefile_has_what_the_readme_shows():
    makefile, readme = (ROOT / "Makefile").read_text(), (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"make ([\w-]+)", readme):
        assert re.search(rf"^([\w-]+ )*{target}[ :]", makefile, flags=re.MULTILINE), target
