from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import httpx
import minari
import numpy as np
import pytest
from worlds_of_service import direct, outcome, play, shop

from matrixrl import MatrixRL, Task
from matrixrl.errors import StoreError
from matrixrl_serve.access import create_token, revoke_token
from matrixrl_serve.client import InProcess
from matrixrl_serve.http import make_app
from matrixrl_serve.http.guard import LARGEST_BODY
from matrixrl_serve.log import writer
from matrixrl_serve.service import Service

HOME = "http://127.0.0.1"
ROOT = Path(__file__).parents[2]


def client_of(app, **options):
    return httpx.Client(transport=InProcess(app), **options)


@pytest.fixture
def service(tmp_path):
    with Service(shop(), tmp_path, learning=False) as service:
        yield service


@pytest.fixture
def web(service):
    with client_of(make_app(service), base_url=HOME) as web:
        yield web


def opened(web, **body):
    answer = web.post("/v1/episodes", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["episode"]


def test_an_episode_over_http_is_the_episode_of_the_desk(web, service):
    rng, state = np.random.default_rng(0), 0
    name = opened(web)
    for step in range(3):
        answer = web.post(f"/v1/episodes/{name}/ask", json={"state": state}).json()
        assert answer["step"] == step
        assert answer["action"] == ["wait", "order"][direct(service).newest.policy[step, state]]
        assert answer["propensity"] == 1.0
        assert {bound["action"] for bound in answer["why"]} == {"wait", "order"}
        assert all(0.0 <= bound["lower"] <= bound["upper"] <= 3 - step for bound in answer["why"])
        reward, state = outcome(rng, state, ["wait", "order"].index(answer["action"]))
        told = web.post(f"/v1/episodes/{name}/tell", json={"reward": reward, "next_state": state}).json()
    assert told == {"episode": name, "step": 2, "ended": True, "repeated": False}
    assert web.get(f"/v1/episodes/{name}").json()["closed"] == "ended"


def test_an_answer_is_durable_when_it_is_heard(web, service):
    name = opened(web)
    web.post(f"/v1/episodes/{name}/ask", json={"state": 0})
    kinds = [event.kind for event in service.log.read()]
    assert kinds[-2:] == ["opened", "asked"]


def test_the_header_is_an_idempotency_key(web, service):
    names = {web.post("/v1/episodes", headers={"Idempotency-Key": "k"}).json()["episode"] for _ in range(3)}
    assert len(names) == 1
    assert direct(service).projection.n_opened == 1


def test_a_batch_answers_every_request(web):
    requests = [
        {"do": "open", "episode": "a"},
        {"do": "ask", "episode": "a", "state": 0},
        {"do": "ask", "episode": "b", "state": 0},
        {"do": "tell", "episode": "a", "reward": 0.5, "next_state": 7},
        {"do": "tell", "episode": "a", "reward": 0.5, "terminated": True},
    ]
    results = web.post("/v1/batch", json={"requests": requests}).json()["results"]
    assert [one["status"] for one in results] == [200, 200, 404, 422, 200]
    assert results[3]["body"]["argument"] == "next_state"
    assert results[4]["body"]["ended"] is True


@pytest.mark.parametrize(
    ("path", "body", "status", "words", "argument"),
    [
        ("ask", {"state": 9}, 422, "state must be in 0 … 2; got 9", "state"),
        ("ask", {}, 422, "state must be given; got nothing", "state"),
        ("ask", {"state": 0, "stat": 1}, 422, "stat is not known; got 1. Known are state", "stat"),
        ("ask", {"state": 0, "step": "x"}, 422, "step must be a whole number; got 'x'", "step"),
        ("tell", {"reward": "a"}, 422, "reward must be a number", "reward"),
        ("tell", {"reward": 1e400}, 422, "reward must be", "reward"),
        ("end", {"key": ""}, 422, "key must have at least 1", "key"),
        ("end", {}, 409, "has no steps", None),
        ("ask", b"{", 422, "the request must be valid JSON", "the request"),
        ("ask", b"[]", 422, "the request must be an object", "the request"),
        ("fly", {}, 404, "nothing at this address", None),
    ],
)
def test_a_bad_request_has_the_voice_of_the_library(web, service, path, body, status, words, argument):
    name = opened(web)
    seq = service.writer.seq
    given = {"content": body} if isinstance(body, bytes) else {"content": _text(body)}
    answer = web.post(f"/v1/episodes/{name}/{path}", **given)
    assert answer.status_code == status
    assert words in answer.json()["error"]
    assert answer.json()["argument"] == argument
    assert service.writer.seq == seq


def _text(body):
    return json.dumps(body).encode()


def test_other_hosts_large_bodies_and_other_methods_are_refused(web):
    assert web.post("/v1/episodes", headers={"Host": "evil.example"}).status_code == 421
    assert web.get("/health", headers={"Host": "127.0.0.1.evil.example"}).status_code == 421
    assert web.post("/v1/episodes", content=b" " * (LARGEST_BODY + 1)).status_code == 413
    assert web.delete("/v1/episodes/x").status_code == 405
    assert web.get("/v1/../etc/passwd").status_code == 404


def test_reading(web, service):
    for k in range(10):
        play(direct(service), np.random.default_rng(k))
    service.learn_now()
    shown = web.get("/v1/certificate").json()
    assert shown["lower"] <= shown["upper"]
    assert shown["plan"] == 2
    values = web.get("/v1/values").json()["values"]
    assert [entry["plan"] for entry in values] == [1, 2]
    assert values[1]["upper"] == shown["upper"]
    table = web.get("/v1/policy").json()["policy"]
    assert np.array_equal(
        [[["wait", "order"].index(a) for a in row] for row in table], direct(service).newest.recommended[:, :3]
    )
    assert web.get("/v1/alarm").json() == {"alarm": None, "guarantee": {"holds": True, "reason": ""}}
    events = web.get("/v1/events", params={"after": 2, "limit": 3}).json()["events"]
    assert [event["seq"] for event in events] == [3, 4, 5]
    assert web.get("/v1/events", params={"kind": "nonsense"}).status_code == 422
    assert web.get("/v1/events", params={"after": -1}).status_code == 422
    text = web.get("/metrics").text
    assert 'matrixrl_events_total{kind="asked"} 30' in text
    assert "matrixrl_learned_episodes 10" in text
    assert web.get("/health").json()["status"] == "ok"
    assert web.get("/v1/problem").json()["problem"]["horizon"] == 3


def test_what_is_exported_teaches_another_agent_the_same(web, service, tmp_path):
    for k in range(10):
        play(direct(service), np.random.default_rng(k))
    service.learn_now()
    rows = list(csv.DictReader(io.StringIO(web.get("/v1/export").text)))
    assert len(rows) == 30
    assert {row["action"] for row in rows} <= {"wait", "order"}
    path = tmp_path / "episodes.parquet"
    path.write_bytes(web.get("/v1/export", params={"format": "parquet"}).content)
    file = service.problem.file
    task = Task(states=file.states, actions=file.actions, horizon=file.horizon, start=file.start, may_terminate=True)
    other = MatrixRL(task)
    other.learn_from(path, verbose=False)
    assert np.array_equal(other.algorithm.model.counts.totals(), service.learner.agent.algorithm.model.counts.totals())
    assert web.get("/v1/export", params={"format": "xml"}).status_code == 422


def test_a_data_set_of_minari_holds_the_finished_episodes(web, service, tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    for k in range(4):
        play(direct(service), np.random.default_rng(k))
    opened(web)  # one that is not over
    answer = web.get("/v1/export", params={"format": "minari:shop/log-v0"}).json()
    found = minari.load_dataset("shop/log-v0")
    assert answer["steps"] == found.total_steps == 12
    assert found.total_episodes == 4


def test_modes_are_changed_by_request_and_noted(web, service):
    assert web.post("/v1/mode", json={"mode": "frozen", "reason": "holiday"}).json() == {"mode": "frozen"}
    last = list(service.log.read())[-1]
    assert last.body == {"from": "live", "to": "frozen", "reason": "holiday"}
    name = opened(web)
    answer = web.post(f"/v1/episodes/{name}/ask", json={"state": 0}).json()
    assert answer["action"] == ["wait", "order"][direct(service).newest.recommended[0, 0]]
    assert answer["mode"] == "frozen"


def test_tokens_are_needed_once_one_was_created(service):
    secrets = {name: create_token(service.log, name, [name]) for name in ("ask", "tell", "read", "admin")}
    app = make_app(service)
    with client_of(app, base_url=HOME) as web:

        def send(method, path, who, **options):
            headers = {"Authorization": f"Bearer {secrets[who]}"} if who in secrets else {}
            return web.request(method, path, headers=headers, **options).status_code

        calls = {
            ("POST", "/v1/episodes"): "ask",
            ("POST", "/v1/episodes/e/ask"): "ask",
            ("POST", "/v1/episodes/e/tell"): "tell",
            ("POST", "/v1/episodes/e/end"): "tell",
            ("POST", "/v1/episodes/e/abandon"): "tell",
            ("GET", "/v1/certificate"): "read",
            ("GET", "/v1/events"): "read",
            ("GET", "/metrics"): "read",
            ("POST", "/v1/mode"): "admin",
        }
        for (method, path), scope in calls.items():
            assert send(method, path, "nobody") == 401
            for who in secrets:
                assert (send(method, path, who) in (401, 403)) == (who != scope), (path, who)
        assert web.get("/v1/certificate", headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert web.get("/v1/certificate", headers={"Authorization": f"Basic {secrets['read']}"}).status_code == 401
        assert send("GET", "/health", "nobody") == 200
        items = [{"do": "open", "episode": "x"}, {"do": "tell", "episode": "x", "reward": 0.0}]
        headers = {"Authorization": f"Bearer {secrets['ask']}"}
        statuses = [
            r["status"] for r in web.post("/v1/batch", json={"requests": items}, headers=headers).json()["results"]
        ]
        assert statuses == [200, 403]
        revoke_token(service.log, "read")
        service.maintain(app.state.access)  # the application takes notice by its own clock; here at once
        assert send("GET", "/v1/certificate", "read") == 401
    notes = [event.body for event in service.log.read() if event.kind == "token"]
    assert {"name": "read", "scopes": ["read"], "what": "revoked"} in notes
    assert all(secret not in event.text for event in service.log.read() for secret in secrets.values())


def test_events_say_who_did_it(service):
    secret = create_token(service.log, "shop-server", ["ask", "tell"])
    with client_of(make_app(service), base_url=HOME, headers={"Authorization": f"Bearer {secret}"}) as web:
        opened(web, episode="e")
    assert [event.actor for event in service.log.read() if event.kind == "opened"] == ["shop-server"]


def test_openapi_describes_every_request(web):
    described = web.get("/openapi.json")
    paths, schemas = described.json()["paths"], described.json()["components"]["schemas"]
    assert set(re.findall(r'"#/components/schemas/([^"]+)"', described.text)) <= set(schemas)
    assert len(paths) >= 17
    for path, methods in paths.items():
        for method, entry in methods.items():
            assert entry["summary"], path
            if method == "post":
                schema = entry["requestBody"]["content"]["application/json"]["schema"]
                assert schema["properties"] is not None


def test_the_page_of_requests_lists_all_of_them(web):
    page = (ROOT / "docs" / "service" / "requests.md").read_text()
    listed = re.findall(r"^\| `(GET|POST) (\S+)` \|", page, re.MULTILINE)
    paths = web.get("/openapi.json").json()["paths"]
    described = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert len(listed) == len(set(listed))
    assert set(listed) == described


def test_a_broken_log_answers_with_503(web, monkeypatch):
    def fail(connection, rows):
        raise OSError("no space left on device")

    name = opened(web)
    monkeypatch.setattr(writer, "insert", fail)
    answer = web.post(f"/v1/episodes/{name}/ask", json={"state": 0})
    assert answer.status_code == 503
    assert web.get("/health").status_code == 503
    assert web.post("/v1/episodes").status_code == 503


def test_a_token_can_be_revoked_while_the_log_is_broken(service):
    secret = create_token(service.log, "viewer", ["read"])
    app = make_app(service)
    with client_of(app, base_url=HOME, headers={"Authorization": f"Bearer {secret}"}) as web:
        service.maintain(app.state.access)
        assert web.get("/v1/alarm").status_code == 200
        revoke_token(service.log, "viewer")
        service.decisions.sweep = lambda: (_ for _ in ()).throw(StoreError("no space left on device"))
        with pytest.raises(StoreError):
            service.maintain(app.state.access)
        assert web.get("/v1/alarm").status_code == 401
