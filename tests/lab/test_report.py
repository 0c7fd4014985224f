"""Tests of the report in a real browser: it shows the numbers of the store and makes no network requests."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from jinja2 import UndefinedError

from browser import Watched, chromium
from matrixrl.errors import MissingExtra
from matrixrl.pages import PageFolder
from matrixrl_lab.analysis import aggregate, summarise
from matrixrl_lab.analysis.number_text import interval_text, rounded
from matrixrl_lab.execution import Campaign, make_executor
from matrixrl_lab.pages import PAGES
from matrixrl_lab.report import write_report
from matrixrl_lab.spec import read_spec, work_out
from matrixrl_lab.store import Store

_AGENTS = """
[[agent]]
name = "matrix-rl"
sweep = { preset = ["optimistic", "tuned"] }
[[agent]]
name = "psrl"
[[agent]]
name = "random"
"""
_WHOLE = f"""
name = "whole"
title = "Two rivers"
episodes = 60
seeds = 3
block = 20
certify = true
[[env]]
name = "river-swim"
settings = {{ n_states = 4 }}
[[env]]
name = "river-swim"
id = "longer"
{_AGENTS}
"""
_HOSTILE = """
name = "hostile"
title = "<script>window.pwned = 1</script> & <b>bold</b>"
episodes = 12
seeds = 2
[[env]]
name = "river-swim"
id = "<img src='http://127.0.0.1:9/x.png' onerror='window.pwned = 2'>"
[[agent]]
name = "matrix-rl"
id = "</script><script>window.pwned = 3</script>"
[[agent]]
name = "psrl"
id = "%{y} $x <a href='javascript:window.pwned = 4'>link</a> &lt;"
[[agent]]
name = "random"
id = "' onmouseover='window.pwned = 5' \\" onclick=\\"window.pwned = 6"
"""
_CHARTS = ("regret", "loglog", "certificates")


def make_store(folder: Path, text: str) -> Store:
    spec = folder.with_suffix(".toml")
    spec.write_text(text, encoding="utf-8")
    return Store.create(folder, work_out(read_spec(spec)), text)


def played_store(folder: Path, text: str) -> Store:
    store = make_store(folder, text)
    Campaign(store, make_executor("serial")).run()
    return store


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    with played_store(folder / "whole", _WHOLE) as store:
        yield summarise(store), write_report(store, folder / "out" / "report.html")


def until(page, function, arg=None):
    """Wait until a function of the page is true; the waiting of Playwright needs eval, which the page forbids."""
    end = time.monotonic() + 10.0
    while not page.evaluate(function, arg):
        assert time.monotonic() < end, f"never true: {function}"
        page.wait_for_timeout(20)


def opened(browser, path, **options):
    watched = Watched(browser, **options)
    watched.page.goto(path.as_uri())
    until(watched.page, "() => [...document.querySelectorAll('.chart')].every((box) => box._fullData)")
    return watched


@pytest.fixture(scope="module")
def shown(browser, whole):
    """The page of the finished store, for tests that do not change it."""
    watched = opened(browser, whole[1])
    yield watched
    watched.page.close()


def quiet(watched, path):
    assert watched.errors == []
    assert watched.requests == [path.as_uri()]


def traces(page, chart):
    """Return agent, part, visibility, style and data of every trace from Plotly."""
    return page.evaluate(
        "(id) => document.getElementById(id)._fullData.map((t) => "
        "({agent: t.meta.agent, part: t.meta.part, kind: t.meta.kind, visible: t.visible, name: t.name,"
        " colour: t.line.color, dash: t.line.dash, x: Array.from(t.x || []), y: Array.from(t.y || [])}))",
        chart,
    )


def of(found, agent, part):
    (one,) = [t for t in found if t["agent"] == agent and t["part"] == part]
    return one


def click_legend(page, chart, name):
    toggles = page.locator(f"#{chart} .legend .traces").filter(has_text=name).locator(".legendtoggle")
    toggles.first.click(force=True)


def visible_is(page, chart, agent, wanted):
    until(
        page,
        "([id, agent, wanted]) => document.getElementById(id)._fullData"
        ".filter((t) => t.meta.agent === agent).every((t) => t.visible === wanted)",
        [chart, agent, wanted],
    )


def y_range(page, chart):
    return page.evaluate("(id) => document.getElementById(id)._fullLayout.yaxis.range", chart)


def test_every_agent_has_its_curves_in_every_chart_and_they_are_the_store_s(shown, whole):
    environments, path = whole
    for i, env in enumerate(environments):
        linear, log = (traces(shown.page, f"env-{i + 1}-{kind}") for kind in ("regret", "loglog"))
        assert [t["agent"] for t in linear if t["part"] == "line"] == [a.id for a in env.agents]
        assert [t["agent"] for t in log if t["part"] == "line"] == [a.id for a in env.agents]
        for agent in env.agents:
            line, band = of(linear, agent.id, "line"), of(linear, agent.id, "band")
            np.testing.assert_allclose(line["x"], agent.curve.episode)
            np.testing.assert_allclose(line["y"], agent.curve.mean)
            np.testing.assert_allclose(band["y"], [*agent.curve.high, *agent.curve.low[::-1]])
            positive = [None if y <= 0.0 else pytest.approx(y) for y in agent.curve.mean]
            assert of(log, agent.id, "line")["y"] == positive
        certified = traces(shown.page, f"env-{i + 1}-certificates")
        for agent in env.agents[:2]:
            np.testing.assert_allclose(of(certified, agent.id, "lower")["y"], agent.certified[0].mean)
            np.testing.assert_allclose(of(certified, agent.id, "upper")["y"], agent.certified[1].mean)
        (optimum,) = [t for t in certified if t["part"] == "optimum"]
        assert optimum["y"] == pytest.approx([env.facts["optimal_value"]] * 2)
    quiet(shown, path)


def test_an_agent_looks_the_same_everywhere_and_like_no_other(shown, whole):
    environments, _ = whole
    looks: dict[str, set] = {}
    for i in range(len(environments)):
        for kind in _CHARTS:
            for t in traces(shown.page, f"env-{i + 1}-{kind}"):
                if t["part"] in ("line", "lower", "upper"):
                    looks.setdefault(t["agent"], set()).add((t["colour"], t["dash"]))
    assert all(len(found) == 1 for found in looks.values())
    assert len(set.union(*looks.values())) == len(looks) == 4


def test_bounds_stand_where_they_are_proven_and_never_squash_the_curves(browser, whole):
    environments, path = whole
    watched = opened(browser, path)
    proven = environments[0].agents[0]
    linear, log = (traces(watched.page, f"env-1-{kind}") for kind in ("regret", "loglog"))
    (explicit,) = [t for t in linear if t["part"] == "bound"]
    assert explicit["visible"] == "legendonly"
    np.testing.assert_allclose(explicit["y"], proven.bounds.explicit)
    assert proven.bounds.is_trivial
    until_when = f"trivial until N = {rounded(proven.bounds.informative_from)}"
    assert explicit["name"].replace("<br>", "\n").startswith(f"explicit bound\n{until_when}\n")
    assert [t["kind"] for t in log if t["part"] == "bound"] == ["explicit", "theorem_2"]
    before = y_range(watched.page, "env-1-regret")
    top = max(a.curve.high.max() for a in environments[0].agents)
    assert top <= before[1] <= 1.1 * top < max(proven.bounds.explicit)
    click_legend(watched.page, "env-1-regret", "explicit bound")
    until(
        watched.page,
        "() => document.getElementById('env-1-regret')._fullData.find((t) => t.meta.part === 'bound').visible === true",
    )
    assert y_range(watched.page, "env-1-regret") == pytest.approx(before)
    watched.page.close()


def test_a_click_in_the_legend_hides_the_curve_with_its_band_and_another_brings_both_back(browser, whole):
    environments, path = whole
    watched = opened(browser, path)
    page, before = watched.page, y_range(watched.page, "env-1-regret")
    click_legend(page, "env-1-regret", "random")
    visible_is(page, "env-1-regret", "random", "legendonly")
    assert {t["part"] for t in traces(page, "env-1-regret") if t["visible"] == "legendonly"} == {
        "line",
        "band",
        "bound",
    }
    others = max(a.curve.high.max() for a in environments[0].agents if a.id != "random")
    until(page, "(top) => document.getElementById('env-1-regret')._fullLayout.yaxis.range[1] < top", 1.1 * others)
    click_legend(page, "env-1-regret", "random")
    visible_is(page, "env-1-regret", "random", True)
    until(page, "(top) => document.getElementById('env-1-regret')._fullLayout.yaxis.range[1] === top", before[1])
    quiet(watched, path)
    page.close()


@pytest.mark.parametrize("measure", ["median", "iqm"])
def test_another_measure_replaces_the_mean_and_comes_without_its_band(browser, whole, measure):
    environments, path = whole
    watched = opened(browser, path)
    watched.page.locator(f"[data-measure={measure}]").click()
    for agent in environments[0].agents:
        found = traces(watched.page, "env-1-regret")
        np.testing.assert_allclose(of(found, agent.id, "line")["y"], getattr(agent.curve, measure))
        assert set(of(found, agent.id, "band")["y"]) == {None}
    click_legend(watched.page, "env-1-regret", "psrl")  # an agent that is hidden now stays hidden with its band
    visible_is(watched.page, "env-1-regret", "psrl", "legendonly")
    watched.page.locator("[data-measure=mean]").click()
    again = of(traces(watched.page, "env-1-regret"), "random", "line")["y"]
    np.testing.assert_allclose(again, environments[0].agents[-1].curve.mean)
    visible_is(watched.page, "env-1-regret", "psrl", "legendonly")
    quiet(watched, path)
    watched.page.close()


def test_profiles_are_those_of_the_scores_whatever_the_curves_show(browser, whole):
    environments, path = whole
    wanted, watched = aggregate(environments), opened(browser, path)
    watched.page.locator("[data-measure=median]").click()
    found = traces(watched.page, "all-profile")
    for agent in wanted.agents:
        line, band = of(found, agent.id, "line"), of(found, agent.id, "band")
        np.testing.assert_allclose(line["x"], agent.profile.threshold)
        np.testing.assert_allclose(line["y"], agent.profile.share)
        np.testing.assert_allclose(band["y"], [*agent.profile.high, *agent.profile.low[::-1]])
    rows = watched.page.locator("#all tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == [agent.id for agent in wanted.agents]
    assert [row.split("\t")[2] for row in rows] == [f"{interval_text(agent.iqm, 3)}†" for agent in wanted.agents], (
        "three seeds"
    )
    quiet(watched, path)
    watched.page.close()


def test_no_button_offers_to_send_a_chart_away(shown, whole):
    titles = shown.page.locator("#env-1-regret .modebar-btn").evaluate_all("(all) => all.map((b) => b.dataset.title)")
    assert len(titles) == 6
    assert not [title for title in titles if re.search("share|cloud|edit|studio", title, re.IGNORECASE)]
    assert shown.page.locator(".chart a[href^=http]").count() == 0


def test_slopes_are_said_in_the_legend(shown, whole):
    environments, _ = whole
    legend = shown.page.locator("#env-1-loglog .legend").text_content()
    for agent in environments[0].agents:
        assert f"slope {agent.exponent.value:z.2f}" in legend
    assert "guide of slope ½" in legend


def column(page, number):
    return page.locator("#env-1 table.sortable tbody tr").evaluate_all(
        "(rows, i) => rows.map((row) => row.cells[i].dataset.value)", number
    )


def test_a_click_on_a_heading_sorts(browser, whole):
    environments, path = whole
    watched = opened(browser, path)
    page, totals = watched.page, [a.final.value for a in environments[0].agents]
    heading = page.locator("#env-1 thead").get_by_role("button", name="mean regret")
    heading.click()
    assert [float(v) for v in column(page, 2)] == sorted(totals)
    heading.click()
    assert [float(v) for v in column(page, 2)] == sorted(totals, reverse=True)
    page.locator("#env-1 thead").get_by_role("button", name="certificate gap").click()
    gaps = column(page, 11)
    assert gaps[2:] == ["", ""]  # agents without certificates stay last
    assert float(gaps[0]) <= float(gaps[1])
    assert column(page, 0)[0] in {environments[0].agents[0].id, environments[0].agents[1].id}
    assert page.locator("#env-1 [aria-sort=ascending]").count() == 1
    page.close()


def test_the_table_names_the_best_and_says_what_is_proven(shown, whole):
    environments, _ = whole
    rows = shown.page.locator("#env-1 tbody tr")
    assert shown.page.locator("#env-1 tr.best th").get_attribute("data-value") == environments[0].best
    assert rows.locator("td:nth-child(2)").all_text_contents() == ["proven", "tuned", "no proof", "no proof"]
    reasons = shown.page.locator("#env-1 .proofs").text_content()
    assert "the radius of the confidence set has no δ (exploration 0.3)" in reasons
    text = shown.page.locator("body").inner_text()
    assert "24 of 24 runs done" in text
    assert "matrixrl compare whole.toml --out whole" in text
    assert 'name = "whole"' in text


def test_dark_and_light_apply_and_the_choice_is_kept(browser, whole):
    _, path = whole
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = opened(browser, path), opened(browser, path, dark=True)
    grounds = light.page.evaluate(ground), dark.page.evaluate(ground)
    assert grounds[0] == "rgb(255, 255, 255)"
    assert grounds[0] != grounds[1]
    ink = "document.getElementById('env-1-regret')._fullLayout.font.color"
    inks = light.page.evaluate(ink), dark.page.evaluate(ink)
    assert inks[0] != inks[1]
    light.page.locator("#theme").click()
    assert (light.page.evaluate(ground), light.page.evaluate(ink)) == (grounds[1], inks[1])
    light.page.reload()
    assert light.page.evaluate(ground) == grounds[1]
    assert light.errors == dark.errors == []
    light.page.close()
    dark.page.close()


def test_a_phone_scrolls_tables_and_not_the_page(browser, whole):
    _, path = whole
    watched = opened(browser, path, width=390, height=844)
    page = watched.page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("(box => box.scrollWidth > box.clientWidth)(document.querySelector('#env-1 .wide'))")
    plot = page.locator("#env-1-regret .nsewdrag").bounding_box()
    legend = page.locator("#env-1-regret .legend").bounding_box()
    assert plot["width"] > 250
    assert legend["y"] > plot["y"] + plot["height"]
    quiet(watched, path)
    page.close()


def test_what_people_wrote_is_shown_and_never_run(browser, tmp_path):
    with played_store(tmp_path / "hostile", _HOSTILE) as store:
        store.fail(2, [1], "</ul><script>window.pwned = 7</script>")
        cells, title = store.experiment.cells, store.experiment.title
        path = write_report(store, tmp_path / "report.html")
    watched = opened(browser, path)
    page = watched.page
    assert page.evaluate("window.pwned") is None
    assert page.locator("script").count() == 4  # theme, data, Plotly, script of the page
    assert page.locator("img, .chart a, h1 *").count() == 0
    assert page.locator("h1").text_content() == page.title() == title
    assert page.locator("#env-1 h2").text_content() == cells[0].env_id
    shown = page.locator("#env-1 tbody tr").evaluate_all("(rows) => rows.map((row) => row.cells[0].dataset.value)")
    assert shown == [cell.agent_id for cell in cells]
    assert "<script>window.pwned = 7</script>" in page.locator(".failures").text_content()
    legend = re.sub(r"\s", "", page.locator("#env-1-regret .legend").text_content())
    for cell in cells:
        assert re.sub(r"\s", "", cell.agent_id) in legend
    quiet(watched, path)
    page.close()


def test_a_store_that_is_half_done_has_a_page_of_what_is_there(browser, tmp_path):
    def stop(campaign):
        if campaign.stored >= 240:
            raise KeyboardInterrupt

    with make_store(tmp_path / "half", _WHOLE) as store:
        with pytest.raises(KeyboardInterrupt):
            Campaign(store, make_executor("serial")).run(stop)
        store.fail(2, [0, 1, 2], "out of memory")
        environments = summarise(store)
        path = write_report(store, tmp_path / "report.html")
    played = [a.id for a in environments[0].agents if a.curve is not None]
    assert 0 < len(played) < 4
    watched = opened(browser, path)
    assert [t["agent"] for t in traces(watched.page, "env-1-regret") if t["part"] == "line"] == played
    assert watched.page.locator("#env-2 .chart").count() == 0
    assert "No episodes have been played here so far" in watched.page.locator("#env-2").inner_text()
    assert "out of memory" in watched.page.locator(".failures").inner_text()
    assert watched.page.locator("tr.best").count() == 0  # totals of unequal lengths cannot be compared
    quiet(watched, path)
    watched.page.close()


def test_one_seed_and_one_episode_have_a_page_without_bands(browser, tmp_path):
    text = _WHOLE.replace("seeds = 3", "seeds = 1").replace("episodes = 60", "episodes = 1")
    with played_store(tmp_path / "one", text) as store:
        path = write_report(store, tmp_path / "report.html")
    watched = opened(browser, path)
    found = traces(watched.page, "env-1-regret")
    assert {t["part"] for t in found} == {"line", "bound"}
    assert "The spread cannot be estimated from one seed" in watched.page.locator("header").inner_text()
    assert "nan" not in watched.page.locator("main").inner_text().lower()
    quiet(watched, path)
    watched.page.close()


def test_a_control_task_shows_returns_and_no_regret(browser, tmp_path):
    text = 'name = "pole"\nepisodes = 12\nseeds = 2\n[[env]]\nname = "cart-pole"\n[[agent]]\nname = "random"\n'
    with played_store(tmp_path / "pole", text) as store:
        (env,) = summarise(store)
        path = write_report(store, tmp_path / "report.html")
    watched = opened(browser, path)
    np.testing.assert_allclose(
        of(traces(watched.page, "env-1-return"), "random", "line")["y"], env.agents[0].curve.mean
    )
    drawn = watched.page.locator(".chart").evaluate_all("(all) => all.map((box) => box.id)")
    assert drawn == ["env-1-return", "all-profile"]
    headings = watched.page.locator("thead th").all_text_contents()
    assert "mean return" in headings
    assert not any("regret" in heading for heading in headings)
    quiet(watched, path)
    watched.page.close()


def test_a_page_replaces_the_earlier_one_and_leaves_nothing_beside_it(tmp_path):
    with make_store(tmp_path / "empty", _WHOLE) as store:
        path = tmp_path / "pages" / "report.html"
        path.parent.mkdir()
        path.write_text("old")
        assert write_report(store, path) == path
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    assert "No episodes have been played here so far" in path.read_text(encoding="utf-8")


def test_without_plotly_the_way_out_is_said(tmp_path, monkeypatch):
    with make_store(tmp_path / "empty", _WHOLE) as store:
        monkeypatch.setitem(sys.modules, "plotly.offline", None)
        with pytest.raises(MissingExtra, match=r"matrixrl\[lab\]"):
            write_report(store, tmp_path / "report.html")


def test_without_jinja2_the_way_out_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtra, match=r"jinja2.*matrixrl\[lab\]"):
        PageFolder("matrixrl_lab.pages", extra="lab").render("report.html.j2")


def test_a_template_escapes_its_values_and_needs_all_of_them():
    values = {"title": "<b>&", "reserved_ids": ['"><i>'], "looks": ["</script>"], "files": "/"}
    page = PAGES.render("live.html.j2", **values)
    assert "<title>&lt;b&gt;&amp;</title>" in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "\\u003c/script" in page
    with pytest.raises(UndefinedError, match="'title' is undefined"):
        PAGES.render("live.html.j2", reserved_ids=[], looks=[], files="/")


def test_certificates_without_a_proof_are_called_estimates(tmp_path):
    text = (
        'name = "printed"\nepisodes = 4\nseeds = 1\ncertify = true\n[[env]]\nname = "river-swim"\n'
        '[[agent]]\nname = "matrix-rl"\n[[agent]]\nname = "matrix-rl"\nsettings = { c_core = 1.0 }\n'
    )
    with played_store(tmp_path / "printed", text) as store:
        page = write_report(store, tmp_path / "report.html").read_text(encoding="utf-8")
    (said,) = re.findall(r"Only estimated, not proven:</p><ul class=\"proofs\">(.*?)</ul>", page)
    assert said.count("<li>") == 1
    assert said.startswith("<li>matrix-rl c_core=1.0: proven only if")


def test_the_command_repeats_the_options_that_were_given(tmp_path):
    file = read_spec("quick", {"episodes": 3, "seeds": 1})
    with Store.create(tmp_path / "s", work_out(file), file.text, file.command) as store:
        page = write_report(store, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "matrixrl compare quick.toml --episodes 3 --seeds 1 --out quick" in page
