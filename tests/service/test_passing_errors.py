"""A passing error of a write passes, one that does not ends the process, and nothing that is not durable is shown."""

from __future__ import annotations

import os
import re
import resource
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from processes import SHOP, end, start, until
from worlds_of_service import direct, play, shop

from matrixrl_serve import replay
from matrixrl_serve.log import Draft, EventLog
from matrixrl_serve.log.events import chained
from matrixrl_serve.log.tables import insert
from matrixrl_serve.service import Service

HELD = float(os.environ.get("MATRIXRL_TEST_LOCK_HELD", "7"))  # seconds; a transaction waits for 5


@pytest.fixture
def problem(tmp_path):
    path = tmp_path / "problem.toml"
    path.write_text(SHOP)
    return path


@contextmanager
def locked(folder):
    """Hold the write lock of a log in the block, as another program that has the file open may do."""
    connection = sqlite3.connect(folder / "log.db", isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


def test_a_lock_that_is_held_for_long_passes_and_nothing_is_lost(tmp_path, problem):
    process, url = start(tmp_path / "data", problem=problem)
    try:
        with httpx.Client(base_url=url, timeout=HELD + 60.0) as web, ThreadPoolExecutor() as pool:
            assert web.post("/v1/episodes", json={"episode": "a"}).status_code == 200
            question = {"state": 0, "step": 0, "key": "k"}
            with locked(tmp_path / "data"):
                waiting = pool.submit(web.post, "/v1/episodes/a/ask", json=question)
                time.sleep(HELD)
                assert web.get("/health").status_code == 503
                assert web.post("/v1/episodes", json={"episode": "b"}).status_code == 503
            assert waiting.result().status_code == 503  # not acknowledged: the client sends it again
            until(lambda: web.get("/health").status_code == 200)
            again = web.post("/v1/episodes/a/ask", json=question)
            assert again.status_code == 200
            assert again.json()["repeated"] is False
            assert web.post("/v1/episodes", json={"episode": "b"}).json()["repeated"] is False
            for name in ("c", "d"):
                web.post("/v1/episodes", json={"episode": name})
                for state in (0, 1, 2):
                    web.post(f"/v1/episodes/{name}/ask", json={"state": state})
                    body = {"reward": 0.5, "next_state": min(state + 1, 2)}
                    assert web.post(f"/v1/episodes/{name}/tell", json=body).status_code == 200
            web.post("/v1/episodes/a/tell", json={"reward": 0.0, "terminated": True})
            until(lambda: web.get("/v1/certificate").json()["plan"] > 1)  # the learner goes on too
            assert web.get("/health").json()["learner"] == "ok"
    finally:
        end(process)
    log = EventLog(tmp_path / "data")
    assert [event.step for event in log.of_episode("a") if event.kind == "asked"] == [0]
    log.check()
    log.close()
    assert replay(tmp_path / "data").difference is None


def test_a_plan_that_is_made_while_the_log_is_locked_is_published_later(tmp_path):
    with Service(shop(time_out=None), tmp_path, learning=False) as service:
        rng = np.random.default_rng(0)
        for _ in range(3):
            play(direct(service), rng)
        before = direct(service).projection.plan
        with locked(tmp_path):
            learning = threading.Thread(target=service.learn_now)
            learning.start()
            until(lambda: service.writer.error is not None)
        learning.join(30.0)
        assert direct(service).projection.plan == before + 1
        for _ in range(3):
            play(direct(service), rng)
        service.loop.catch_up()
        made = service.learner.plan()
        with locked(tmp_path):
            service.writer.submit(lambda: service.decisions.open("local"))
            until(lambda: service.writer.error is not None)  # now the log takes no events
            publishing = threading.Thread(target=service._publish, args=made)
            publishing.start()
            time.sleep(0.3)
        publishing.join(30.0)
        assert direct(service).projection.plan == before + 2
        assert service.failure is None
    assert replay(tmp_path).difference is None


def test_what_another_program_appends_is_read_before_the_next_answer(tmp_path):
    with Service(shop(), tmp_path, learning=False) as service:
        with service.log.engine.begin() as connection:
            seq, digest = service.log.last()
            body = {"from": "live", "to": "shadow", "reason": ""}
            insert(connection, [chained(Draft("mode", "x", body), seq + 1, 0.0, digest)])
        assert direct(service).open("local").mode == "shadow"
    assert replay(tmp_path).difference is None


def _few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


def test_a_service_without_files_for_connections_loses_nothing_and_goes_on_later(tmp_path, problem, monkeypatch):
    """More idle connections than the process may have files: a proxy would close them."""
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: popen(*a, **k, preexec_fn=_few_files))
    process, url = start(tmp_path / "data", problem=problem)
    monkeypatch.undo()
    place, idle, statuses = urlsplit(url), [], []

    def send(method, path, **body):
        with httpx.Client(base_url=url, timeout=30.0) as web:
            web.get("/health")  # its connection is there before the others
            is_ready.wait()
            is_full.wait()
            for _ in range(15):
                with suppress(httpx.TransportError):
                    statuses.append(web.request(method, path, **body).status_code)

    is_ready, is_full = threading.Barrier(9), threading.Barrier(9)
    work = [("POST", "/v1/episodes", {"json": {}})] * 4 + [("GET", "/v1/events?limit=100", {})] * 4
    try:
        with ThreadPoolExecutor(8) as pool:
            sent = [pool.submit(send, method, path, **body) for method, path, body in work]
            is_ready.wait()
            idle.extend(socket.create_connection((place.hostname, place.port), timeout=30.0) for _ in range(400))
            is_full.wait()
            for one in sent:
                one.result()
        assert set(statuses) <= {200, 500, 503}
        for one in idle:
            one.close()
        idle.clear()
        until(lambda: _opens(url))
    finally:
        for one in idle:
            one.close()
        end(process)
    assert replay(tmp_path / "data").difference is None


def _opens(url):
    with suppress(httpx.TransportError):
        return httpx.post(f"{url}/v1/episodes", json={}).status_code == 200
    return False


BROKEN = """
import sys
from matrixrl_serve.projection import Projection
from matrixrl.cli.main import main
apply = Projection.apply
def without_memory(self, event):
    if event.episode == "heavy" and event.kind == "asked":
        raise MemoryError
    return apply(self, event)
Projection.apply = without_memory
sys.argv = ["matrixrl", "serve", *sys.argv[1:]]
if __name__ == "__main__":
    main()
"""


def test_an_event_that_memory_cannot_take_is_undone(tmp_path, problem):
    """No memory after an event was taken: the request fails, and nothing of it is in the log."""
    script = tmp_path / "broken.py"
    script.write_text(BROKEN)
    command = [sys.executable, str(script), str(problem), "--data", str(tmp_path / "data"), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://\S+", process.stdout.readline())[0]
        with httpx.Client(base_url=url, timeout=30.0) as web:
            assert web.post("/v1/episodes", json={"episode": "light"}).status_code == 200
            assert web.post("/v1/episodes", json={"episode": "heavy"}).status_code == 200
            assert web.post("/v1/episodes/heavy/ask", json={"state": 0, "step": 0}).status_code == 503
            assert web.post("/v1/episodes/light/ask", json={"state": 0, "step": 0}).status_code == 200
    finally:
        process.kill()
        process.communicate()
    process, url = start(tmp_path / "data")
    try:
        with httpx.Client(base_url=url, timeout=30.0) as web:
            for name, known in (("heavy", False), ("light", True)):
                answer = web.post(f"/v1/episodes/{name}/ask", json={"state": 0, "step": 0})
                assert (answer.status_code, answer.json()["repeated"]) == (200, known)
    finally:
        end(process)
    assert replay(tmp_path / "data").difference is None


READS = [
    "/v1/events",
    "/v1/episodes",
    "/v1/episodes/new",
    "/v1/mode",
    "/v1/certificate",
    "/v1/policy",
    "/v1/alarm",
    "/metrics",
]


def test_what_is_not_durable_is_neither_shown_nor_the_reason_of_a_refusal(tmp_path, problem):
    """A process that is killed now would know nothing of the episode `new`."""
    process, url = start(tmp_path / "data", problem=problem)
    try:
        with httpx.Client(base_url=url, timeout=30.0) as web, ThreadPoolExecutor(20) as pool:
            assert web.post("/v1/episodes", json={"episode": "old", "key": "k"}).status_code == 200
            with locked(tmp_path / "data"):
                asked = pool.submit(web.post, "/v1/episodes", json={"episode": "new"})
                time.sleep(0.5)
                reads = {path: pool.submit(web.get, path) for path in READS}
                refusals = [
                    pool.submit(web.post, "/v1/episodes", json={"episode": "new", "key": "other"}),
                    pool.submit(web.post, "/v1/episodes/new/ask", json={"state": 1}),
                    pool.submit(
                        web.post, "/v1/batch", json={"requests": [{"do": "open", "episode": "new", "key": "more"}]}
                    ),
                ]
                for path, answer in reads.items():  # they show what the log holds
                    assert answer.result(10.0).status_code == (404 if path.endswith("/new") else 200)
                    assert path.endswith("/new") or '"new"' not in answer.result().text
                time.sleep(1.0)
                assert not any(answer.done() for answer in [asked, *refusals])
            assert asked.result().status_code == 200
            assert [answer.result().status_code for answer in refusals] == [409, 422, 200]
            assert refusals[2].result().json()["results"][0]["status"] == 409
    finally:
        end(process)
