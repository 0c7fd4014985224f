"""Real processes of a service on PostgreSQL, killed under load."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from processes import SHOP, content, end, launch, play, run, start, until

from matrixrl_serve import Client, replay
from matrixrl_serve.log import EventLog
from postgres import postgres


def line_of(process, words):
    """Read what a process says until a line begins with some words."""
    for line in process.stdout:
        if line.startswith(words):
            return line
    raise RuntimeError(process.stderr.read())


@pytest.mark.slow
def test_processes_that_are_killed_lose_nothing_and_are_replaced(tmp_path):
    problem = tmp_path / "shop.toml"
    problem.write_text(SHOP)
    with postgres() as server:
        address = server.new_database()
        learners = [launch(address, "--role", "learner", problem=problem)]
        line_of(learners[0], "learning")
        learners.append(launch(address, "--role", "learner"))
        line_of(learners[1], "waiting")
        webs = [start(address, "--role", "web") for _ in range(2)]
        stop, heard = threading.Event(), [[] for _ in range(4)]
        clients = [Client(webs[k % 2][1], retries=0) for k in range(4)]
        threads = [threading.Thread(target=play, args=(client, k, heard[k], stop)) for k, client in enumerate(clients)]
        for thread in threads:
            thread.start()
        until(lambda: sum(map(len, heard)) > 30)
        end(learners[0], signal.SIGKILL)
        line_of(learners[1], "learning")
        end(webs[0][0], signal.SIGKILL)
        so_far = sum(map(len, heard))
        until(lambda: sum(map(len, heard)) > so_far + 30)
        stop.set()
        for thread, client in zip(threads, clients, strict=True):
            thread.join()
            client.close()
        assert run("token", "create", address, "shop", "--scope", "ask").exit_code == 0
        end(webs[1][0])
        end(learners[1], signal.SIGTERM)
        said = {event for one in heard for event in one}
        log = EventLog(address)
        found = {content(event) for event in log.read() if event.kind in ("opened", "asked", "told")}
        log.close()
        assert len(said) > 50
        assert not said - found
        assert "events are whole" in run("check", address).output
        assert "equal bit for bit" in run("replay", address).output
        assert replay(address).n_plans > 1


@pytest.mark.slow
def test_a_stalled_server_is_answered_for_and_does_not_keep_a_process_from_its_end(tmp_path):
    problem = tmp_path / "shop.toml"
    problem.write_text(SHOP)
    with postgres() as server:
        process, url = start(server.new_database(), problem=problem)
        with httpx.Client(base_url=url, timeout=60.0) as web, ThreadPoolExecutor() as pool, server.stalled():
            asked = [pool.submit(web.post, "/v1/episodes", json={}) for _ in range(4)]
            until(lambda: web.get("/health").status_code == 503)
            assert [one.result().status_code for one in asked] == [503] * 4
            again = pool.submit(web.post, "/v1/episodes", json={})
            end(process, signal.SIGTERM, within=80)  # less than TimeoutStopSec of the documents
            again.exception()
