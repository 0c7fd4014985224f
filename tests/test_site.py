"""The built documentation: formulas are mathematics, links lead somewhere, and every page is readable in a browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from bs4 import BeautifulSoup

from browser import Watched, chromium

ROOT = Path(__file__).parents[1]
FENCED = re.compile(r"^```.*?^```$", flags=re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r"\$\$.+?\$\$|(?<![\\$])\$[^$\n]+(?:\n[^$\n]+)*\$", flags=re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")

MODES = ("light", "dark", "phone")
AUDIT = Path(__file__).with_name("site_audit.js").read_text(encoding="utf-8")
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

pytestmark = pytest.mark.full  # sphinx runs all notebooks, and a browser opens every page three times


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
    starred = [m for m in shown if re.search(r"Mk?∗", "".join(m.get_text().split()))]
    assert len(starred) == sum("M^*" in f or "M^{*" in f for f in FORMULA.findall(source)) > 0


def test_the_proofs_have_no_formula_outside_mathematics(site):
    left = re.findall(r"\S*[\^_ᵀ≤≥√‖Σ∈∑]\S*", prose(site / "proofs.html"))
    assert left == []


@dataclass
class Visit:
    """What a browser saw on all pages of the site."""

    wrong: dict[str, list[str]] = field(default_factory=dict)
    links: dict[str, list[str]] = field(default_factory=dict)
    anchors: dict[str, set[str]] = field(default_factory=dict)
    n_formulas: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def look(watched, mode):
    """Return what is wrong on the open page in a mode, in words."""
    width = 390 if mode == "phone" else 1280
    watched.page.set_viewport_size({"width": width, "height": 900})
    watched.page.emulate_media(color_scheme="dark" if mode == "dark" else "light")
    return [f"{mode}: {words}" for words in watched.page.evaluate(AUDIT, mode)]


@pytest.fixture(scope="module")
def visit(site):
    """Open every page in the light and the dark theme, and in the width of a phone."""
    seen = Visit()
    with chromium() as browser:
        watched = Watched(browser, width=1280)
        for file in sorted(set(site.rglob("*.html")) - {site / "search.html"}):
            url = file.as_uri()
            watched.page.goto(url)
            seen.wrong[url] = [words for mode in MODES for words in look(watched, mode)]
            seen.links[url] = watched.page.evaluate("[...document.querySelectorAll('a[href]')].map((a) => a.href)")
            seen.anchors[url] = set(watched.page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)"))
            seen.n_formulas[url] = watched.page.locator("article math").count()
        seen.errors, seen.requests = watched.errors, watched.requests
    return seen


def test_every_page_is_readable_in_the_light_and_dark_theme_and_on_a_phone(visit):
    """Nothing overflows or is pale, pictures and formulas are drawn, and no source of formulas or Markdown shows."""
    assert len(visit.wrong) > 50
    assert {url: words for url, words in visit.wrong.items() if words} == {}
    assert visit.errors == []


def test_pages_are_drawn_from_files_of_the_site_alone(site, visit):
    assert visit.n_formulas[(site / "proofs.html").as_uri()] > 200
    assert [url for url in visit.requests if not url.startswith(site.as_uri())] == []


def test_every_link_of_the_site_leads_to_a_page_and_an_anchor_of_it(site, visit):
    links = [(page, *urldefrag(link)) for page, found in visit.links.items() for link in found]
    own = [(page, url, unquote(anchor)) for page, url, anchor in links if url.startswith(site.as_uri())]
    assert len(own) > 1000
    assert [link for link in own if not Path(unquote(urlsplit(link[1]).path)).is_file()] == []
    assert [link for link in own if link[2] and link[2] not in visit.anchors.get(link[1], {link[2]})] == []
    others = {url for _, url, _ in links if not url.startswith(site.as_uri())}
    assert [url for url in others if not re.fullmatch(r"https://[a-z0-9.-]+\.[a-z]{2,}(/[\w./-]*)?", url)] == []


FAULTS = {
    "<p>a raw $x$ formula</p>": "light: source text",
    "<p>some **bold** words</p>": "light: source text",
    "<p>a value V^pi of a policy</p>": "light: source text",
    "<div style='width: 500px'>wide</div>": "phone: the page is",
    "<div style='width: 500px; height: 9px; float: left'></div>": "phone: beyond the right edge",
    "<p style='color: #999; background: white'>pale</p>": "light: contrast 2.8",
    "<p style='color: #333'>dark on dark</p>": "dark: contrast 1.",
    "<img src='missing.png' alt='missing'>": "light: no picture",
    "<img src='_static/plus.png' alt='_images/1.png'>": "light: a picture without words",
    "<math><merror><mi>x</mi></merror></math>": "light: formula",
    "<math><munderover><mi>p</mi><mi>index</mi><mo>ˆ</mo></munderover></math>": "light: formula",
    "<dl class='field-list'><dt>Type:</dt><dd>Words before a colon</dd></dl>": "light: words taken for a type",
    "<h1>Again</h1>": "light: 2 titles",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_page_would_be_found(site, open_browser, fault):
    watched = Watched(open_browser, width=1280)
    watched.page.goto((site / "glossary.html").as_uri())
    assert [words for mode in MODES for words in look(watched, mode)] == []
    watched.page.evaluate("(html) => document.querySelector('article').insertAdjacentHTML('beforeend', html)", fault)
    watched.page.wait_for_load_state("networkidle")
    words = [words for mode in MODES for words in look(watched, mode)]
    assert any(found.startswith(FAULTS[fault]) for found in words), words
    watched.page.close()


@pytest.fixture(scope="module")
def open_browser():
    with chromium() as browser:
        yield browser


def test_a_reader_finds_pages_by_words(site, open_browser):
    watched = Watched(open_browser)
    watched.page.goto((site / "search.html").as_uri() + "?q=certificate")
    watched.page.wait_for_selector("#search-results li")
    assert watched.page.locator("#search-results a[href*='guides/certificates.html']").count() > 0
