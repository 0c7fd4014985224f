from __future__ import annotations

import os
import random
import signal
import threading
import time

import pytest
from processes import SHOP, content, end, play, run, serving, start, until

from matrixrl.errors import InvalidInput
from matrixrl_serve import Client, replay
from matrixrl_serve.errors import Denied
from matrixrl_serve.log import EventLog


@pytest.fixture
def problem(tmp_path):
    path = tmp_path / "shop.toml"
    path.write_text(SHOP)
    return path


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


@pytest.mark.parametrize("to", ["the service", "all its processes"])
def test_a_termination_signal_ends_a_service_in_order(tmp_path, problem, to):
    """As `kill` and systemd send it: the learner writes a checkpoint, and the lock of the directory is free."""
    data = tmp_path / "data"
    process, url = start(data, problem=problem, own_group=True)
    with Client(url) as client:
        play(client, 0, [])
    if to == "the service":
        process.send_signal(signal.SIGTERM)
    else:
        os.killpg(process.pid, signal.SIGTERM)
    with process:
        assert process.wait(30) == 0
        assert process.stderr.read() == ""
    last = len(list(EventLog(data).read()))
    assert [path.name for path in (data / "checkpoints").glob("*.state")] == [f"{last:012}.state"]
    with serving(data) as url, Client(url) as client:
        play(client, 1, [])


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


def test_the_help_shows_what_the_default_command_takes():
    found = run("--help").output
    assert all(word in found for word in ("replay", "token", "--data", "--allow-host"))


def test_other_addresses_need_tokens(tmp_path, problem):
    found = run(problem, "--data", tmp_path / "d", "--host", "0.0.0.0", "--port", "0")
    assert isinstance(found.exception, InvalidInput)
    assert "as long as there is no token" in str(found.exception)
    assert "--data must be given" in str(run(problem).exception)


@pytest.mark.slow
def test_a_killed_service_loses_nothing_that_it_acknowledged(tmp_path, problem):
    """Kill −9 under load: every acknowledged event is in the log as it was heard, and the replay is equal."""
    data, rng, said = tmp_path / "data", random.Random(7), []
    for round_ in range(2):
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
        until(lambda heard=heard: sum(map(len, heard)) > 60)
        time.sleep(rng.random())  # at any moment of an episode
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
