"""The built documentation: every formula is mathematics that the browser draws, and pages load only own files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from browser import Watched, chromium

ROOT = Path(__file__).parents[1]
FENCED = re.compile(r"^```.*?^```$", flags=re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r"\$\$.+?\$\$|(?<![\\$])\$[^$\n]+(?:\n[^$\n]+)*\$", flags=re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site as ``make docs`` does, with warnings as errors."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(folder / "trees")]
    command += [str(ROOT / "docs"), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "html"


def article(page):
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").find("article")


def prose(page):
    """Return the text of a page without formulas, code, and names of the interface."""
    shown = article(page)
    for part in shown.find_all(["math", "code", "pre", "script", "style", "svg", "dt"]):
        part.replace_with(" ")
    return shown.get_text()


def pages(site):
    return [p for p in sorted(site.rglob("*.html")) if article(p) is not None]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_was_executed(site, notebook):
    """A notebook is kept without outputs; an error in a cell fails the build."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    codes = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in codes)
    page = article(site / "notebooks" / f"{notebook.stem}.html")
    assert len(page.select(".cell_input")) == len(codes)
    assert len(page.select(".cell_output")) >= len(codes) // 2
    assert page.select(".cell_output img")


def test_no_page_shows_the_source_of_a_formula(site):
    raw = re.compile(r"[\^_]\{|\\\*|\\\(|\\\[|\\[a-z]{2,}|\$[^$]*\$")
    found = {p.name: raw.findall(prose(p)) for p in pages(site)}
    assert len(found) > 20
    assert {name: hits for name, hits in found.items() if hits} == {}


def test_no_page_lost_its_asterisks_to_emphasis(site):
    """An asterisk that starts or ends emphasis vanishes; what is emphasised then contains signs of a formula."""
    signs = re.compile(r"[≤≥√‖φψΨβδεᵀ∈]")
    shown = [(p.name, e) for p in pages(site) for e in article(p).find_all(["em", "i"])]
    emphasised = [(name, e.get_text()) for name, e in shown if e.find_parent("dt") is None]  # not in signatures
    assert emphasised
    assert [pair for pair in emphasised if signs.search(pair[1])] == []


@pytest.mark.parametrize("name", ["proofs", "paper-map"])
def test_every_formula_of_the_theory_is_an_element_of_mathematics(site, name):
    source = CODE.sub("", FENCED.sub("", (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")))
    shown = article(site / f"{name}.html").find_all("math")
    assert len(shown) == len(FORMULA.findall(source)) > 0
    assert not [m for m in shown if not m.get_text(strip=True) or m.find("merror")]
    starred = [m for m in shown if re.search(r"Mk?\*", "".join(m.get_text().split()))]
    assert len(starred) == sum("M^*" in f or "M^{*" in f for f in FORMULA.findall(source)) > 0


def test_the_proofs_have_no_formula_outside_mathematics(site):
    left = re.findall(r"\S*[\^_ᵀ≤≥√‖Σ∈∑]\S*", prose(site / "proofs.html"))
    assert left == []


def test_the_browser_draws_the_proofs_from_files_alone(site):
    with chromium() as browser:
        watched = Watched(browser, width=1100)
        watched.page.goto((site / "proofs.html").as_uri())
        boxes = watched.page.evaluate(
            "[...document.querySelectorAll('article math')].map((m) => m.getBoundingClientRect())"
            ".map((box) => [box.width, box.height])"
        )
        assert all(width > 3 and height > 5 for width, height in boxes)
        assert len(boxes) > 200
        assert watched.errors == []
        assert [url for url in watched.requests if not url.startswith(site.as_uri())] == []
