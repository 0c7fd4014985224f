"""A learner in a process of its own: it may die at any time, and ends with the service."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from processes import end, start, until
from worlds_of_service import direct, outcome, shop

from matrixrl.errors import StoreError
from matrixrl_serve import Client, Service, replay
from matrixrl_serve.learner import process as module


def play(service, rng, n):
    """Play episodes as their answers say, and wait until the log holds them."""
    for _ in range(n):
        direct(service).together(_play_one, rng, service.problem.horizon)


def _play_one(decisions, rng, horizon):
    name, state = decisions.open("local").episode, 0
    for _ in range(horizon):
        answer = decisions.ask("local", name, state=state)
        reward, state = outcome(rng, state, ["wait", "order"].index(answer.action))
        decisions.tell("local", name, reward=reward, next_state=state)


def command_of(process):
    return (process / "cmdline").read_bytes().decode()


def test_it_learns_what_a_learner_in_the_same_process_learns(tmp_path):
    with Service(shop(), tmp_path) as service:
        assert direct(service).newest.version == 1
        play(service, np.random.default_rng(0), 20)
        until(lambda: service.n_behind == 0)
        assert direct(service).newest.version > 1
        assert direct(service).newest.report["episodes"] > 0
        newest = direct(service).newest.digest
    assert replay(tmp_path).difference is None
    with Service(None, tmp_path, learning=False) as again:  # from its checkpoint
        assert direct(again).newest.digest == newest


def test_a_learner_that_dies_is_started_again_and_goes_on(tmp_path):
    rng = np.random.default_rng(1)
    with Service(shop(), tmp_path) as service:
        play(service, rng, 5)
        learner = service._process
        first = learner.pid
        os.kill(first, signal.SIGKILL)
        play(service, rng, 5)  # answers do not notice
        until(lambda: learner.n_deaths == 1 and learner.pid != first and service.n_behind == 0)
        version = direct(service).newest.version
        play(service, rng, 30)
        until(lambda: direct(service).newest.version > version and service.n_behind == 0)
        assert service.failure is None
    assert replay(tmp_path).difference is None


def test_it_ends_with_the_service_also_if_that_is_killed(tmp_path):
    path = tmp_path / "shop.toml"
    path.write_text('states = 3\nactions = ["wait", "order"]\nhorizon = 3\nstart = 0\n')
    process, url = start(tmp_path / "data", problem=path)
    with Client(url) as client:
        episode = client.open()
        episode.ask(0)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    [learner] = [
        child for child in map(Path, (f"/proc/{pid}" for pid in children)) if "spawn_main" in command_of(child)
    ]
    end(process, signal.SIGKILL)
    until(lambda: not learner.exists() or "spawn_main" not in command_of(learner))
    assert replay(tmp_path / "data").difference is None


def test_a_learner_that_fails_is_reported_and_answers_go_on(tmp_path, monkeypatch):
    with Service(shop(), tmp_path) as service:
        monkeypatch.setattr(service, "_publish", None)
        service._process._publish = _refuse
        play(service, np.random.default_rng(2), 30)
        until(lambda: service.failure is not None)
        assert "no room" in service.failure
        play(service, np.random.default_rng(3), 1)


def _refuse(publication, drafts):
    raise StoreError("no room")


def test_learners_that_die_at_once_wait_longer_and_longer(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_PAUSES", (0.0, 0.0, 300.0))
    monkeypatch.setattr(module, "_SHORT_LIFE", 600.0)  # a busy machine starts slowly
    with Service(shop(), tmp_path) as service:
        learner = service._process
        for deaths in (1, 2):
            pid = learner.pid
            os.kill(pid, signal.SIGKILL)
            until(lambda deaths=deaths: learner.n_deaths == deaths)
            if deaths == 1:
                until(lambda pid=pid: learner.pid != pid)
        last = learner.pid
        time.sleep(0.3)
        assert learner.pid == last  # nobody was started
        begin = time.monotonic()
    assert time.monotonic() - begin < 30.0  # closing does not wait for the pause


def test_a_damaged_log_is_refused_at_the_start(tmp_path):
    with Service(shop(), tmp_path) as service:
        play(service, np.random.default_rng(4), 3)
        until(lambda: service.n_behind == 0)
    for path in (tmp_path / "checkpoints").iterdir():
        path.unlink()
    with Service(None, tmp_path, learning=False) as service:
        [planned, *_] = [event for event in service.log.page(limit=50) if event.kind == "planned"]
        log = service.log
        with log.engine.begin() as connection:
            connection.exec_driver_sql(
                "UPDATE events SET body = replace(body, '\"episodes\":0', '\"episodes\":1') WHERE seq = ?",
                (planned.seq,),
            )
    for path in (tmp_path / "checkpoints").iterdir():
        path.unlink()
    with pytest.raises(StoreError, match="event 2 was changed"):
        Service(None, tmp_path)


def test_a_program_that_does_not_close_its_service_ends(tmp_path):
    """The learner ignores the signal by which Python ends its processes, so the service closes itself."""
    code = """
import sys
from matrixrl_serve import Service
from matrixrl_serve.problem import ProblemFile
if __name__ == "__main__":
    service = Service(ProblemFile(states=2, actions=["a", "b"], horizon=2), sys.argv[1])
"""
    script, data = tmp_path / "program.py", tmp_path / "data"
    script.write_text(code)
    done = subprocess.run([sys.executable, str(script), str(data)], timeout=60, check=False)
    assert done.returncode == 0
    assert list((data / "checkpoints").glob("*.state"))
