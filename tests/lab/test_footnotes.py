"""Tables in the terminal, in Markdown and in HTML: one mark for intervals from few seeds, and one set of labels."""

from __future__ import annotations

import html
import io
import re

import numpy as np
import pytest
from experiments import SMALL, finished
from rich.console import Console

from matrixrl_lab import Store
from matrixrl_lab.analysis import summarise
from matrixrl_lab.analysis.number_text import COVERAGE, FEW, MARK, few_seeds_mark, few_seeds_note
from matrixrl_lab.analysis.statistics import curve_of, mean_interval
from matrixrl_lab.report import write_report, write_table
from matrixrl_lab.tables import print_summary

SPEC = SMALL.replace("[[agent]]", '[[agent]]\nname = "matrix-rl"\nid = "proven"\n\n[[agent]]', 1)
LAWS = {0: lambda rng, shape: rng.normal(1.0, 1.0, shape), 1: lambda rng, shape: rng.exponential(1.0, shape)}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The tables of an experiment with some seeds, as text in three forms."""
    home, made = tmp_path_factory.mktemp("tables"), {}

    def of(seeds):
        if seeds not in made:
            folder = home / str(seeds)
            finished(folder, SPEC, seeds=seeds)
            console = Console(width=80, record=True, file=io.StringIO())
            with Store.open_to_read(folder) as store:
                print_summary(console, summarise(store))
                markdown = write_table(store, folder / "tables.md").read_text(encoding="utf-8")
                page = write_report(store, folder / "report.html").read_text(encoding="utf-8")
            made[seeds] = {
                "terminal": console.export_text(),
                "markdown": markdown,
                "html": page[: page.index("BibTeX")],
            }
        return made[seeds]

    return of


@pytest.mark.parametrize("seeds", COVERAGE)
@pytest.mark.parametrize("law", LAWS)
def test_the_coverage_of_the_footnote_is_what_is_measured(seeds, law):
    """2,000 samples that nothing was tuned on; four standard errors and the rounding fail by chance once in 10⁴."""
    samples = LAWS[law](np.random.default_rng([7, seeds, law]), (seeds, 2000))
    band = curve_of(samples, np.arange(1.0, 2001.0))
    held = ((band.low <= 1.0) & (band.high >= 1.0)).mean()
    said = COVERAGE[seeds][law] / 100
    assert abs(held - said) < 4 * np.sqrt(said * (1 - said) / 2000) + 0.005


def test_an_interval_of_a_table_is_the_band_of_a_curve_at_one_episode(rng):
    """So that the coverage of bands is that of intervals."""
    samples = rng.normal(1.0, 1.0, (4, 6))
    band = curve_of(samples, np.arange(1.0, 7.0))
    for k in range(6):
        found = mean_interval(samples[:, k])
        assert (found.low, found.high) == pytest.approx((band.low[k], band.high[k]), rel=1e-12)


def test_every_number_of_seeds_below_the_limit_that_has_an_interval_is_marked(rng):
    for seeds in range(1, 2 * FEW):
        has_interval = not np.isnan(mean_interval(rng.normal(0.0, 1.0, seeds)).low)
        assert bool(few_seeds_mark(seeds)) == (has_interval and seeds < FEW)


def test_the_footnote_names_every_number_of_seeds_once():
    assert few_seeds_note([8, 32, 1]) == ""
    words = few_seeds_note([5, 3, 3, 9])
    assert "with 3 and 5 seeds of one environment" in words
    assert "75 % and 92 % for normal data and 69 % and 86 % for exponential data" in words


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_every_interval_from_few_seeds_is_marked_and_explained(tables, form):
    text = html.unescape(tables(4)[form])
    ends = r"\d[\d.,k]*–[−-]?\d[\d.,k]*(.)" if form == "terminal" else r"\[[−-]?\d[\d.,]*, [−-]?\d[\d.,]*\](.)"
    found = re.findall(ends, text)
    # terminal: one for each of 4 agents, and its IQM; else mean, IQM, median, exponent, difference, and three scores
    assert len(found) == {"terminal": 8, "markdown": 31, "html": 31}[form]
    assert set(found) == {MARK}
    note = few_seeds_note([4])
    assert " ".join(text.split()).count(note) == {"terminal": 1, "markdown": 1, "html": 2}[form]


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_intervals_from_enough_seeds_have_no_mark(tables, form):
    text = html.unescape(tables(FEW)[form])
    assert "95 %" in text
    assert MARK not in text
    assert "fewer than" not in text


def test_no_line_of_the_terminal_is_cut_off(tables):
    for line in tables(4)["terminal"].splitlines():
        if line[:1] in "┏┃┡│└":
            assert line.rstrip()[-1] in "┓┃┩│┘", line


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_the_column_of_proofs_has_the_same_words_in_every_form(tables, form):
    patterns = {
        "terminal": r"^│[^│]+│([a-z ]+?) *│ *[\d.,k]+ │",
        "markdown": r"^\| [^|]+ \| ([a-z ]+) \| \d",
        "html": r'<td data-value="[a-z ]+"><span class="badge [a-z-]+"[^>]*>([a-z ]+)</span></td>',
    }
    assert re.findall(patterns[form], tables(4)[form], re.MULTILINE) == ["proven", "tuned", "no proof", "no proof"]


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_the_certificate_gap_is_explained_where_it_is_shown(tables, form, tmp_path):
    text = html.unescape(tables(4)[form]).replace("\\", "")
    assert "certificate gap, mean" in text
    assert (
        "Certificate gap: the upper bound on V* of the start minus the lower bound on the value of the policy" in text
    )
    assert "also if episodes are not certified" in text
    without = SMALL.replace('name = "matrix-rl"\nsettings = { preset = "tuned" }', 'name = "ucbvi"')
    finished(tmp_path / "s", without)
    write = {"markdown": write_table, "html": write_report}[form]
    with Store.open_to_read(tmp_path / "s") as store:
        assert "ertificate gap" not in write(store, tmp_path / "file.md").read_text(encoding="utf-8")


def test_gaps_that_are_only_estimated_are_named(tmp_path):
    estimated = SPEC.replace('{ preset = "tuned" }', "{ c_core = 1.0 }")
    finished(tmp_path / "s", estimated)
    with Store.open_to_read(tmp_path / "s") as store:
        agents = summarise(store)[0].agents
        text = write_table(store, tmp_path / "tables.md").read_text(encoding="utf-8")
    assert agents[0].gap_guarantee
    assert not agents[1].gap_guarantee.holds
    assert agents[2].gap_guarantee is None
    assert f"they are only estimated for {agents[1].id}." in text.replace("\\", "")
