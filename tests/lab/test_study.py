"""Tests of the study in its smallest size: every question is answered, stored and written to the pages."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

from browser import Watched, chromium
from commands import forked
from matrixrl.envs import make
from matrixrl.errors import StoreError, UnknownName
from matrixrl.problems import tabular
from matrixrl.random_streams import generator
from matrixrl_lab.analysis.statistics import expanded_level
from matrixrl_lab.store import Store
from study import Finding, Section, questions, run_study, write_pages
from study.__main__ import print_verdicts
from study.confidence import coverage_of
from study.question import SIZES
from study.slopes import power, ratio, share_interval
from study.specs import LOCK
from worlds import myopic_loss


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    sections = run_study(folder, "tiny", on="serial")
    return folder, sections, write_pages(sections, folder, size="tiny", command="make study")


@pytest.mark.slow
def test_every_question_has_an_answer_with_numbers(study):
    _, sections, _ = study
    assert [s.question.id for s in sections] == [q.id for q in questions()]
    for section in sections:
        assert re.search(r"\d", section.answer.verdict), section.question.id
        assert section.answer.tables
        for table in section.answer.tables:
            assert all(len(row) == len(table.head) for row in table.rows)
            assert "nan" not in json.dumps(table.rows)


@pytest.mark.slow
def test_a_trivial_bound_is_not_borne_out(study):
    """In the tiny study the explicit bound is N·H everywhere, and every page says that nothing was tested."""
    _, sections, (page, text) = study
    (section,) = [s for s in sections if s.question.id == "bound"]
    assert section.answer.holds
    assert section.outcome == "Trivially true at this size"
    n = len(section.answer.tables[0].rows)
    assert section.answer.verdict.startswith(f"{n} of {n} comparisons are trivial")
    assert {row[4] for row in section.answer.tables[0].rows} == {"N·H"}
    held = sum(s.answer.holds for s in sections) - 1
    words = f"{held} of {len(sections)} claims are borne out. 1 more is trivially true at this size."
    for path in (page, text):
        assert words in path.read_text(encoding="utf-8")
    assert "explicit bound: trivial until N =" in page.read_text(encoding="utf-8")  # in the legend of the figure
    assert "| Below the explicit bound | trivially true at this size |" in text.read_text(encoding="utf-8")


@pytest.mark.slow
def test_too_few_episodes_are_no_contradiction(study):
    """At 100 episodes nothing has been learned, which √T regret with its constants allows."""
    _, sections, (page, text) = study
    undecided = [s for s in sections if s.outcome == "Too few episodes to judge"]
    assert {s.question.id for s in undecided} == {"growth", "doubling"}
    for section in undecided:
        assert not section.answer.holds
        assert "larger exponents would not contradict it" in section.answer.verdict
    for path in (page, text):
        assert "2 have too few episodes to judge." in path.read_text(encoding="utf-8")
    section = undecided[0]
    shown = Console(file=io.StringIO(), width=200)
    print_verdicts(shown, [section])
    assert shown.file.getvalue().startswith("– Regret against T: Too few episodes to judge. ")


@pytest.mark.parametrize(
    ("given", "outcome", "mark"),
    [
        ({"holds": True}, "Borne out", "✓"),
        ({"holds": True, "can_fail": False}, "Borne out", "✓"),
        ({"holds": False}, "Not borne out at this size", "✗"),
        ({"holds": False, "can_fail": False}, "Too few episodes to judge", "–"),
        ({"holds": True, "is_tested": False}, "Trivially true at this size", "–"),
    ],
)
def test_a_contradiction_is_reported_as_one(given, outcome, mark):
    section = Section(questions()[0], Finding(verdict="Numbers.", **given))
    assert section.outcome == outcome
    shown = Console(file=io.StringIO(), width=200)
    print_verdicts(shown, [section])
    assert shown.file.getvalue().startswith(mark)


@pytest.mark.slow
def test_the_study_runs_the_dual_form(study):
    """Widths and predictions from kernel values alone are those of the agent that plays with coordinates."""
    folder, sections, _ = study
    kept = json.loads((folder / "numbers" / "kernel.json").read_text())["cases"]
    assert len(kept) == 2
    for case in kept.values():
        assert case["visited"] > 20
        assert max(case["widths"], case["predictions"]) < 1e-9
    (section,) = [s for s in sections if s.question.id == "kernel"]
    assert "the dual form, from kernel values alone" in section.answer.verdict


def test_no_problem_of_the_study_rewards_myopic_play():
    """Else its rows would say nothing about exploring transitions, as those of linear-mdp."""
    specs = [spec for q in questions() for spec in q.specs(SIZES["tiny"]).values()]
    envs = [(e["name"], {**e["settings"], **{k: v[0] for k, v in e["sweep"].items()}}) for s in specs for e in s["env"]]
    for name, settings in [LOCK, *envs]:
        assert myopic_loss(make(name, **settings).unwrapped.mdp) > 0.5, (name, settings)


@pytest.mark.slow
def test_claims_that_hold_at_any_size_hold_here(study):
    _, sections, _ = study
    always = {
        "potential",
        "bound",
        "coverage",
        "optimism",
        "effective-dimension",
        "closed-forms",
        "constants",
        "kernel",
    }
    assert {s.question.id for s in sections if s.answer.holds} >= always


@pytest.mark.slow
def test_what_was_measured_is_not_measured_again(study):
    folder, sections, _ = study
    stores = {path: path.stat().st_mtime_ns for path in folder.rglob("results.sqlite")}
    kept = {path: path.read_bytes() for path in folder.rglob("numbers/*.json")}
    again = run_study(folder, "tiny", on="serial")
    assert [s.answer.verdict for s in again] == [s.answer.verdict for s in sections]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("results.sqlite")} == stores
    assert {path: path.read_bytes() for path in folder.rglob("numbers/*.json")} == kept


def test_a_study_that_was_stopped_goes_on(tmp_path):
    whole = run_study(tmp_path / "whole", "tiny", on="serial", only=["switching"])

    class Stopped(Exception):
        pass

    def stop(_):
        raise Stopped

    with pytest.raises(Stopped):
        run_study(tmp_path / "parts", "tiny", on="serial", only=["switching"], announce=stop)
    parts = run_study(tmp_path / "parts", "tiny", on="serial", only=["switching"])
    assert parts[0].answer.verdict == whole[0].answer.verdict
    digests = []
    for name in ("whole", "parts"):
        with Store.open_to_read(tmp_path / name / "stores" / "switching-runs") as store:
            digests.append(store.digest())
    assert digests[0] == digests[1]


@pytest.mark.slow
def test_sizes_are_not_mixed_and_names_are_checked(study, tmp_path):
    folder, _, _ = study
    with pytest.raises(StoreError, match="holds a tiny study"):
        run_study(folder, "quick", on="serial")
    with pytest.raises(UnknownName, match="size must be one of tiny, quick, full"):
        run_study(tmp_path, "huge")
    with pytest.raises(UnknownName, match="question must be one of growth"):
        run_study(tmp_path, "tiny", only=["nothing"])


@pytest.mark.slow
def test_the_page_shows_every_section_without_a_network(study):
    _, sections, (page, text) = study
    with chromium() as browser:
        watched = Watched(browser, width=390, height=844)
        watched.page.goto(page.as_uri())
        assert watched.errors == []
        assert watched.requests == [page.as_uri()]
        shown = watched.page.locator("section h3").all_inner_texts()
        assert shown == [s.question.title for s in sections]
        drawn = watched.page.locator("section svg").count()
        assert drawn == sum(s.answer.draw is not None for s in sections)
        assert watched.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    words = text.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((figures/[^)]+)\)", words):
        assert (text.parent / target).read_bytes().startswith(b"\x89PNG")
    assert words.count("**Claim.**") == len(sections)


def test_powers_ratios_and_shares(rng):
    x = [1.0, 3.0, 9.0]
    found = power(x, [rng.normal(10.0 * v**1.5, 0.1 * v, 20) for v in x])
    assert found.low < 1.5 < found.high
    assert found.high - found.low < 0.1
    below = rng.uniform(1.0, 2.0, 30)
    doubled = ratio(2.0 * below, below)
    assert doubled.value == pytest.approx(2.0)
    assert doubled.low == pytest.approx(2.0)
    exact = share_interval(0, 20)
    assert exact.high == pytest.approx(1.0 - 0.025 ** (1.0 / 20.0))


@pytest.mark.parametrize("seeds", [2, 4, 16])
def test_intervals_are_quantiles_of_resampled_seeds(rng, seeds):
    """The second route draws the resamples of scipy.stats.bootstrap with numpy."""
    x, totals = [1.0, 2.0, 4.0], [rng.gamma(2.0, 50.0, seeds) for _ in range(3)]
    tail = (1.0 - expanded_level(seeds)) / 2.0
    draws, rows = generator(0, "sampling"), generator(0, "sampling").integers(0, seeds, (1999, seeds))
    means = [total[draws.integers(0, seeds, (1999, seeds))].mean(axis=1) for total in totals]
    slopes = np.polyfit(np.log(x), np.log(means), 1)[0]
    ratios = totals[0][rows].mean(axis=1) / totals[1][rows].mean(axis=1)
    for found, drawn in ((power(x, totals), slopes), (ratio(totals[0], totals[1]), ratios)):
        np.testing.assert_allclose([found.low, found.high], np.quantile(drawn, [tail, 1.0 - tail]), rtol=1e-9)


def test_coverage_counts_what_it_should():
    """A very large radius always contains M*; a very small one does not."""
    world = tabular(n_states=4, n_actions=2, horizon=3, seed=0)
    assert set(coverage_of(world, "proof", runs=3, episodes=5).values()) == {3}
    assert coverage_of(world, "constant", runs=3, episodes=60)["frobenius"] < 3


@pytest.mark.slow
def test_the_command_says_what_it_found(tmp_path):
    done = forked("--only", "columns", "--out", "s", "--on", "serial", of="study", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Sampled columns" in done.stdout
    assert {"report.html", "study.md", "study.json"} <= {path.name for path in (tmp_path / "s").iterdir()}
    np.testing.assert_equal(done.stderr, "")
