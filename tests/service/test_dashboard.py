from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import httpx
import numpy as np
import pytest
from sqlalchemy.dialects import postgresql
from worlds_of_service import Clock, direct, play, shop

from matrixrl.errors import StoreError
from matrixrl.pages.server import Feed, event_stream
from matrixrl_serve.access import create_token
from matrixrl_serve.client import InProcess
from matrixrl_serve.dashboard import SORTS, Dashboard, history
from matrixrl_serve.dashboard.event_text import event_row
from matrixrl_serve.dashboard.history import DecisionCounter
from matrixrl_serve.dashboard.states import ROWS, Query, StateTable
from matrixrl_serve.http import make_app
from matrixrl_serve.log import KINDS, Draft
from matrixrl_serve.service import Service


@pytest.fixture
def service(tmp_path):
    with Service(shop(default_reward=0.0), tmp_path, learning=False) as service:
        yield service


def web_of(service, **options):
    return httpx.Client(transport=InProcess(make_app(service, **options)), base_url="http://127.0.0.1")


def part(dashboard, name):
    return json.loads(dashboard.feed.latest()[name][1])


def eager(service, monkeypatch):
    """Return a dashboard that looks again whenever it is asked."""
    monkeypatch.setattr("matrixrl.pages.server._PAUSE", 0.0)
    monkeypatch.setattr("matrixrl.pages.server._SHARE", 1e9)
    return Dashboard(service)


def test_visits_are_the_outcomes_of_the_log(service, monkeypatch):
    """The database counts what a loop over the log counts, in any number of looks."""
    monkeypatch.setattr(history, "_MOST_EVENTS", 7)
    dashboard = eager(service, monkeypatch)
    for k in range(6):
        play(direct(service), np.random.default_rng(k))
    service.writer.latest.result()
    looks = 0
    while (shown := part(dashboard, "visits"))["seq"] < shown["last"]:
        looks += 1
    assert looks > 3
    counted = Counter((e.body["state"], e.body["action"]) for e in service.log.read() if e.kind == "told")
    assert {pair: n for pair, n in np.ndenumerate(dashboard._visits.table) if n} == counted
    play(direct(service), np.random.default_rng(9))
    service.writer.latest.result()
    for _ in range(3):
        dashboard.feed.latest()
    assert dashboard._visits.table.sum() == sum(counted.values()) + 3


def test_postgresql_counts_the_same_numbers(service, monkeypatch):
    monkeypatch.setattr(service.log.engine.dialect, "name", "postgresql")
    query = history._pairs(service.log, 0, 10)
    text = str(query.compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True}))
    assert "CAST(CAST(events.body AS JSON) ->> 'state' AS INTEGER) AS state" in text
    assert "GROUP BY anon_1.state, anon_1.action" in text


def test_decisions_by_the_minute_add_up(monkeypatch):
    clock, rng, total = Clock(0.0), np.random.default_rng(0), 0
    decisions = DecisionCounter(clock=clock)
    assert decisions.by_minute() == []
    made = []  # time of each decision
    for second in range(5000):
        clock.now = float(second)
        fresh = int(rng.poisson(2.0))
        made += [second] * fresh
        total += fresh
        decisions.sample(total)
    expected = [sum(4999 - 60 * (k + 1) < t <= 4999 - 60 * k for t in made) for k in range(59, -1, -1)]
    assert decisions.by_minute() == expected


def test_curves_are_the_bounds_of_all_plans(service, monkeypatch):
    dashboard = eager(service, monkeypatch)
    for k in range(40):
        play(direct(service), np.random.default_rng(k))
        service.learn_now()
    with web_of(service) as web:
        values = web.get("/v1/values").json()["values"]
    assert len(values) > 10
    curves = part(dashboard, "plan")["curves"]
    for name in ("plan", "episodes", "lower", "upper"):
        assert curves[name] == [value[name] for value in values]
    monkeypatch.setattr(history, "_POINTS", 5)
    few = part(dashboard, "plan")["curves"]
    assert len(few["plan"]) == 5
    assert (few["plan"][0], few["plan"][-1]) == (1.0, values[-1]["plan"])


def test_pages_of_states_hold_every_state_once(tmp_path):
    names = [f"<b>place</b> {k}" for k in range(120)]
    with Service(shop(states=names, start=names[0], time_out=None), tmp_path, learning=False) as service:
        dashboard, newest = Dashboard(service), direct(service).newest
        for sort in SORTS:
            pages = [dashboard.states(Query(stage=1, sort=sort, descending=True, page=k)) for k in range(3)]
            rows = [row for page in pages for row in page["states"]]
            assert sorted(row["state"] for row in rows) == sorted(names)
            assert [len(page["states"]) for page in pages] == [ROWS, ROWS, 20]
            for row in rows:
                s = names.index(row["state"])
                a = int(newest.recommended[1, s])
                assert row["action"] == ["wait", "order"][a]
                assert (row["lower"], row["upper"]) == (newest.lower[1, s, a], newest.upper[1, s, a])
        found = dashboard.states(Query(search="PLACE</b> 11"))
        assert [row["state"] for row in found["states"]] == [n for n in names if "place</b> 11" in n]
        assert found["n_found"] == 11
        far = dashboard.states(Query(stage=99, page=99))
        assert (far["stage"], far["page"], far["n_pages"]) == (2, 2, 3)
        assert dashboard.states(Query(search="nowhere"))["states"] == []


def test_states_are_sorted_by_what_was_seen(service, monkeypatch):
    dashboard = eager(service, monkeypatch)
    for k in range(30):
        play(direct(service), np.random.default_rng(k))
    service.learn_now()
    seen = [row["visits"] for row in dashboard.states(Query(sort="visits", descending=True))["states"]]
    assert seen == sorted(seen, reverse=True)
    assert sum(seen) == 90
    page = dashboard.states(Query(sort="width"))
    widths = [row["upper"] - row["lower"] for row in page["states"]]
    assert widths == sorted(widths)
    for row, pairs, cells in zip(page["states"], page["visits"], page["widths"], strict=True):
        assert sum(pairs) == row["visits"]
        assert cells[row["chosen"]] == row["upper"] - row["lower"]


@pytest.mark.parametrize("descending", [False, True])
def test_every_column_sorts_by_itself(tmp_path, descending):
    """Random tables, in which no two columns have the same order."""
    rng = np.random.default_rng(0)
    with Service(shop(states=40, time_out=None), tmp_path, learning=False) as service:
        newest, lower, seen = direct(service).newest, rng.random((3, 40, 2)), rng.permutation(80).reshape(40, 2)
        plan = replace(newest, lower=lower, upper=lower + rng.random((3, 40, 2)))
        table, orders = StateTable(service.problem), set()
        for sort in SORTS:
            rows = table.page(Query(stage=1, sort=sort, descending=descending), plan, seen)["states"]
            values = [{**row, "state": int(row["state"]), "width": row["upper"] - row["lower"]}[sort] for row in rows]
            assert values == sorted(values, reverse=descending)
            orders.add(tuple(row["state"] for row in rows))
        assert len(orders) == len(SORTS)


def test_many_actions_and_forbidden_ones(tmp_path):
    allowed = [[k for k in range(60) if k % 2 == s] for s in range(2)]
    problem = shop(states=2, actions=60, allowed=allowed, time_out=None)
    with Service(problem, tmp_path, learning=False) as service:
        page = Dashboard(service).states(Query())
    assert len(page["actions"]) == 24
    assert page["n_actions"] == 60
    for s, row in enumerate(page["states"]):
        assert page["actions"][row["chosen"]] == row["action"]
        forbidden = [int(a) % 2 != s for a in page["actions"]]
        assert [cell is None for cell in page["visits"][s]] == forbidden
        assert [cell is None for cell in page["widths"][s]] == forbidden


def test_every_kind_of_event_has_words(service):
    decisions = direct(service)
    for how in ("complete", "end", "abandon", "time_out"):
        name = decisions.open("local", episode=how).episode
        decisions.ask("local", name, state=0)
        if how == "complete":
            decisions.tell("local", name, reward=0.25, terminated=True)
        else:
            decisions.tell("local", name, reward=0.25, next_state=2) if how == "end" else None
            getattr(decisions, how)("local", name)
    decisions.set_mode("local", "shadow", "holiday")
    shadow = decisions.open("local").episode
    decisions.ask("local", shadow, state=0)
    decisions.note([Draft("alarm", "learner", {"words": "a tide"})])
    decisions.note([Draft("token", "local", {"name": "x", "scopes": ["read"], "what": "created"})])
    rows = {event.kind: event_row(event, service.problem)["words"] for event in service.log.read()}
    assert set(rows) == set(KINDS)
    assert rows["told"] == "step 0, state 0: order earned 0.25, then state 2"
    assert rows["mode"] == "from live to shadow: holiday"
    assert rows["asked"].startswith("step 0, state 0: the application decides (advised: ")
    assert rows["timed_out"] == "on request"


def test_one_look_serves_all_viewers(service):
    looks, clock = [], Clock()
    feed = Feed(lambda: {"now": str(len(looks)), "plan": looks.append(1) or "{}"}, clock=clock)
    assert [feed.latest() for _ in range(5)][-1] == {"now": (1, "0"), "plan": (1, "{}")}
    assert len(looks) == 1
    clock.now += 1.1
    assert feed.is_old
    assert feed.latest() == {"now": (2, "1"), "plan": (1, "{}")}  # only what changed has a new version


def test_a_look_that_takes_long_is_taken_rarely():
    clock = Clock()

    def slow():
        clock.now += 2.0
        return {}

    feed = Feed(slow, clock=clock)
    feed.latest()
    clock.now += 9.9
    assert not feed.is_old
    clock.now += 0.2
    assert feed.is_old


def test_a_broken_log_is_said(service, monkeypatch):
    dashboard = eager(service, monkeypatch)
    assert part(dashboard, "now")["log"] is None
    before = part(dashboard, "plan")

    def fail():
        raise StoreError("no space left")

    monkeypatch.setattr(service.log, "last", fail)
    assert part(dashboard, "now")["log"] == "no space left"
    assert part(dashboard, "plan") == before  # what was known stays


def test_the_page_says_nothing_and_its_data_need_the_scope_read(tmp_path):
    with Service(shop(name="secret-shop"), tmp_path, learning=False) as service:
        tokens = {scope: create_token(service.log, scope, [scope]) for scope in ("read", "ask")}
        with web_of(service) as web:
            page = web.get("/")
            assert page.status_code == 200
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            for path in ("/", "/dashboard/page.css", "/dashboard/page.js"):
                assert "secret-shop" not in web.get(path).text
            assert "plotly.js v" in web.get("/dashboard/plotly.js").text[:500]
            for path in ("/v1/stream", "/v1/states"):
                assert web.get(path).status_code == 401
                assert web.get(f"{path}?token={tokens['read']}").status_code == 401
                headers = {"Authorization": f"Bearer {tokens['ask']}"}
                assert web.get(path, headers=headers).status_code == 403
            headers = {"Authorization": f"Bearer {tokens['read']}"}
            assert web.get("/v1/states", headers=headers).json()["n_states"] == 3
            for wrong in ("sort=nonsense", "stage=-1", "page=x", f"search={'x' * 101}"):
                assert web.get(f"/v1/states?{wrong}", headers=headers).status_code == 422
            assert web.get("/dashboard/../commands.py").status_code == 404
            assert web.get("/dashboard/dashboard.html.j2").status_code == 404


def test_a_stream_sends_what_changed_and_then_signs_of_life(monkeypatch):
    import asyncio

    monkeypatch.setattr("matrixrl.pages.server._TICK", 0.0)
    monkeypatch.setattr("matrixrl.pages.server._HEARTBEAT", 3)
    clock, value, said = Clock(), ["1"], []
    feed = Feed(lambda: {"now": value[0], "plan": "{}"}, clock=clock)

    async def follow():
        async for text in event_stream(feed, lambda: len(said) > 4):
            said.append(text)
            if len(said) == 3:
                value[0] = "2"
                clock.now += 2.0

    asyncio.run(follow())
    assert said[1:] == [
        "event: now\ndata: 1\n\n",
        "event: plan\ndata: {}\n\n",
        "event: now\ndata: 2\n\n",
        ": nothing new\n\n",
    ]
