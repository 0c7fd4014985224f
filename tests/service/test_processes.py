from __future__ import annotations

import random
import signal
import threading
import time

import numpy as np
import pytest
from processes import end, serving, start
from worlds_of_service import outcome

from matrixrl.cli.main import app
from matrixrl.errors import InvalidInput, MatrixRLError
from matrixrl.service import Client, replay
from matrixrl.service.errors import Denied
from matrixrl.service.log import EventLog

SHOP = """
name = "shop"
states = 3
actions = ["wait", "order"]
horizon = 3
start = 0
time_out = 60
"""


@pytest.fixture
def problem(tmp_path):
    path = tmp_path / "shop.toml"
    path.write_text(SHOP)
    return path


def run(*arguments):
    from typer.testing import CliRunner

    return CliRunner().invoke(app, ["serve", *map(str, arguments)])


def play(client, seed, acknowledged, stop=None):
    """Play episodes, and note everything that the service acknowledged."""
    rng, k = np.random.default_rng(seed), 0
    while stop is None or not stop.is_set():
        try:
            episode = client.open(f"{seed}-{k}-{rng.integers(1 << 40)}")
            acknowledged.append(("opened", episode.name, None, episode.opened.plan))
            state = 0
            for step in range(3):
                answer = episode.ask(state, step=step)
                acknowledged.append(("asked", episode.name, step, answer.action))
                reward, state = outcome(rng, state, ["wait", "order"].index(answer.action))
                episode.tell(reward, next_state=state, step=step)
                acknowledged.append(("told", episode.name, step, reward))
        except MatrixRLError:  # the service was killed
            return
        k += 1
        if stop is None:
            return


def content(event):
    value = {"opened": "plan", "asked": "action", "told": "reward"}[event.kind]
    found = event.body[value]
    return event.kind, event.episode, event.step, ["wait", "order"][found] if event.kind == "asked" else found


def test_commands_of_a_service(tmp_path, problem):
    data, said = tmp_path / "data", []
    with serving(data, problem=problem) as url, Client(url) as client:
        for seed in range(3):
            play(client, seed, said)
        assert client.get("/health")["status"] == "ok"
    assert "equal bit for bit" in run("replay", data).output
    assert "events are whole" in run("check", data).output
    found = {content(event) for event in EventLog(data).read() if event.kind in ("opened", "asked", "told")}
    assert found == set(said)


def test_tokens_from_the_command_line(tmp_path, problem):
    data = tmp_path / "data"
    with serving(data, problem=problem) as url:
        created = run("token", "create", data, "shop", "--scope", "ask", "--scope", "tell")
        assert created.exit_code == 0
        secret = created.output.strip()
        assert secret not in run("token", "list", data).output
        deadline = time.monotonic() + 20
        with Client(url) as nobody, pytest.raises(Denied):
            while time.monotonic() < deadline:  # until the service takes notice
                nobody.open()
                time.sleep(0.1)
        with Client(url, token=secret) as client:
            episode = client.open()
            with pytest.raises(Denied, match="needs read"):
                client.certificate()
            run("token", "revoke", data, "shop")
            with pytest.raises(Denied, match="not valid"):
                while time.monotonic() < deadline:
                    episode.ask(0)
                    time.sleep(0.1)
    assert "shop  ask,tell  revoked" in run("token", "list", data).output


def test_other_addresses_need_tokens(tmp_path, problem):
    found = run(problem, "--data", tmp_path / "d", "--host", "0.0.0.0", "--port", "0")
    assert isinstance(found.exception, InvalidInput)
    assert "as long as there is no token" in str(found.exception)
    assert "--data must be given" in str(run(problem).exception)


@pytest.mark.slow
def test_a_killed_service_loses_nothing_that_it_acknowledged(tmp_path, problem):
    """Kill −9 under load: every acknowledged event is in the log as it was heard, and the replay is equal."""
    data, rng, said = tmp_path / "data", random.Random(7), []
    for round_ in range(3):
        process, url = start(data, problem=problem)
        stop = threading.Event()
        heard = [[] for _ in range(4)]
        clients = [Client(url, retries=0) for _ in heard]
        threads = [
            threading.Thread(target=play, args=(client, 10 * round_ + k, heard[k], stop))
            for k, client in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.5 + rng.random())
        end(process, signal.SIGKILL)
        stop.set()
        for thread, client in zip(threads, clients, strict=True):
            thread.join()
            client.close()
        said += [event for one in heard for event in one]
    assert len(said) > 100
    log = EventLog(data)
    found = {content(event) for event in log.read() if event.kind in ("opened", "asked", "told")}
    assert not set(said) - found
    log.check()
    log.close()
    again = replay(data)
    assert again.difference is None
    assert again.n_plans > 1
    with serving(data) as url, Client(url) as client:
        play(client, 99, [])
