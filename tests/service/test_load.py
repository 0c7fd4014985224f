"""Clients that ask for much, or do not read: others are answered meanwhile, and nothing is lost."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import numpy as np
import pytest
import uvicorn
from processes import until
from worlds_of_service import direct, play, shop

from matrixrl.errors import StoreError
from matrixrl.pages.server import open_socket
from matrixrl_serve import Client, Service, make_app
from matrixrl_serve.export import export
from matrixrl_serve.http import server, write_routes
from matrixrl_serve.log import EventLog


@pytest.fixture
def service(tmp_path):
    with Service(shop(), tmp_path / "data", learning=False) as service:
        yield service


@contextmanager
def listening(service):
    """Serve in a thread, and yield the server and its address."""
    with open_socket(0) as listener:
        server.end_unread(listener)
        own = uvicorn.Server(uvicorn.Config(make_app(service), log_level="warning", http="httptools", ws="none"))
        thread = threading.Thread(target=own.run, kwargs={"sockets": [listener]})
        thread.start()
        until(lambda: own.started)
        try:
            yield own, listener.getsockname()
        finally:
            own.should_exit = True
            thread.join()


def test_others_are_answered_during_a_batch(service):
    """Each of 1,000 unknown episodes is looked for in the log, which takes the time of hundreds of other requests."""
    asks = [{"do": "ask", "episode": f"none-{k}", "state": 0} for k in range(1000)]
    with Client(app=make_app(service)) as client, ThreadPoolExecutor() as pool:
        batch = pool.submit(client.post, "/v1/batch", {"requests": asks})
        until(batch.running)
        n_opened = 0
        while not batch.done():
            client.open()
            n_opened += 1
        assert {result["status"] for result in batch.result()["results"]} == {404}
        assert n_opened > 5  # in one transaction they would all wait for its end


@pytest.mark.parametrize("turn", [0.0, 10.0])
def test_a_batch_has_one_result_for_each_request_in_order_however_often_it_yields(service, turn, monkeypatch):
    monkeypatch.setattr(write_routes, "_TURN", turn)
    names = [f"e{k}" for k in range(20)]
    with Client(app=make_app(service)) as client:
        opens = [{"do": "open", "episode": name} for name in [*names, "e3"]]
        results = client.post("/v1/batch", {"requests": opens})["results"]
        assert [result["body"].get("episode") for result in results[:-1]] == names
        assert [result["body"].get("repeated") for result in results] == [False] * 20 + [True]
        assert client.post("/v1/batch", {"requests": []})["results"] == []


def test_a_batch_says_which_requests_the_log_has_not_taken(service, tmp_path, monkeypatch):
    monkeypatch.setattr(write_routes, "_TURN", 0.0)
    data, moved = tmp_path / "data", tmp_path / "moved"
    opens = [{"do": "open", "episode": f"e{k}"} for k in range(1000)]
    with Client(app=make_app(service), retries=0) as client, ThreadPoolExecutor() as pool:
        batch = pool.submit(client.post, "/v1/batch", {"requests": opens})
        until(lambda: service.writer.durable > 5)
        data.rename(moved)
        results = batch.result()["results"]
        moved.rename(data)
    statuses = [result["status"] for result in results]
    n_taken = statuses.count(200)
    assert statuses == [200] * n_taken + [503] * (1000 - n_taken)
    assert 0 < n_taken < 1000
    log = EventLog(data)
    found = [event.episode for event in log.read() if event.kind == "opened"]
    log.close()
    assert found[:n_taken] == [f"e{k}" for k in range(n_taken)]
    assert len(found) <= n_taken + 1  # the one whose commit was not acknowledged


def test_an_export_ends_with_the_service(service, tmp_path):
    play(direct(service), np.random.default_rng(0))
    assert export(service.log, service.problem, str(tmp_path / "all.csv"), lambda: False) == 3
    with pytest.raises(StoreError, match="the service ends"):
        export(service.log, service.problem, str(tmp_path / "none.csv"), lambda: True)
    assert not (tmp_path / "none.csv").exists()


def test_the_files_of_the_page_are_compressed_for_those_who_can(service):
    with listening(service) as (_, (host, port)):
        packed, plain = (
            httpx.get(f"http://{host}:{port}/dashboard/plotly.js", headers={"accept-encoding": coding}, timeout=60.0)
            for coding in ("gzip", "identity")
        )
        assert packed.content == plain.content
        assert int(packed.headers["content-length"]) < 0.4 * int(plain.headers["content-length"])


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such deadline")
def test_clients_that_do_not_read_hold_neither_memory_nor_connections_for_long(service, monkeypatch):
    monkeypatch.setattr(server, "_UNREAD", 1.0)
    with listening(service) as (own, place):
        unread = [socket.create_connection(place) for _ in range(30)]
        for one in unread:
            one.sendall(b"GET /dashboard/plotly.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        until(lambda: len(own.server_state.connections) == 30)
        until(lambda: not own.server_state.connections)
        for one in unread:
            one.close()
