"""A log that lost its past, or has parts of two histories: refused in words, for good, and never written to."""

from __future__ import annotations

import time

import numpy as np
import pytest
import sqlalchemy as sa
from processes import run, until
from worlds_of_service import direct, play, shop

from matrixrl.errors import StoreError
from matrixrl_serve import replay
from matrixrl_serve.log import Draft, EventLog
from matrixrl_serve.log.events import chained
from matrixrl_serve.log.tables import checkpoints, events, insert, plans
from matrixrl_serve.service import Service
from matrixrl_serve.shared import SharedLearner, SharedService
from postgres import postgres


@pytest.fixture(scope="module")
def server():
    with postgres() as server:
        yield server


@pytest.fixture
def address(server):
    return server.new_database()


def do(service, what, *arguments, **more):
    return service.writer.run(lambda: getattr(service.decisions, what)("local", *arguments, **more))


def plan_rows(log):
    with log.engine.begin() as connection:
        return [dict(row) for row in connection.execute(plans.select()).mappings()]


def put_back(log, seq, kept=None):
    """Put a database back to the copy that ended with an event, between transactions; with the plans it had."""
    with log.engine.begin() as connection:
        connection.execute(sa.text(f"LOCK TABLE {events.name} IN ACCESS EXCLUSIVE MODE"))
        for table in (events, plans, checkpoints):
            connection.execute(table.delete().where(table.c.seq > seq))
        if kept:  # a learner deletes plans that newer ones replaced
            connection.execute(plans.delete())
            connection.execute(plans.insert(), kept)


def opened(log):
    return [event.episode for event in log.read() if event.kind == "opened"]


@pytest.mark.parametrize("idle", [0.0, 2.5], ids=["busy", "idle"])
def test_a_process_that_knew_more_stays_refused_when_the_older_copy_has_grown(address, idle):
    """The process looks at the log again when others have appended more events than it knew."""
    with SharedService(shop(), address) as first:
        do(first, "open", episode="before")
        until(lambda: first.failure is None)
        with SharedService(None, address, learning=False) as knew:
            copy = knew.log.last()[0]
            for number in range(3):
                do(knew, "open", episode=f"lost-{number}")
            do(knew, "ask", "lost-0", state=0)
            put_back(knew.log, copy)
            with SharedService(None, address, learning=False) as fresh:
                for number in range(8):
                    do(fresh, "open", episode=f"new-{number}")
                time.sleep(idle)  # after two seconds news are read before the transaction
                length = fresh.log.last()[0]
                for _ in range(3):
                    for what in (("ask", "lost-0"), ("ask", "new-0")):
                        with pytest.raises(StoreError, match="went back"):
                            do(knew, *what, state=0)
                assert fresh.log.last()[0] == length
                for number in range(3):
                    do(fresh, "open", episode=f"newer-{number}")
                with pytest.raises(StoreError, match="went back"):  # also what it has in memory
                    knew.settle()
                with pytest.raises(StoreError, match="went back"):
                    do(knew, "open", episode="never")
                assert not {"lost-0", "never"} & set(opened(fresh.log))
    assert replay(address).difference is None
    with SharedService(None, address, learning=False) as accepted:
        assert do(accepted, "ask", "new-0", state=0).step == 0


def test_a_learner_that_knew_more_publishes_nothing_and_another_one_takes_over(address):
    learner = SharedLearner(shop(), address)
    learner.candidate.start()
    with SharedService(None, address, learning=False) as web:
        until(lambda: any(event.kind == "planned" for event in web.log.read()))
        copy, kept = web.log.last()[0], plan_rows(web.log)

        def episode(service, name):
            do(service, "open", episode=name)
            for state in (0, 1, 2):
                do(service, "ask", name, state=state)
                do(service, "tell", name, reward=0.0, next_state=min(state + 1, 2))

        for number in range(3):
            episode(web, f"lost-{number}")
        until(
            lambda: learner.candidate.learner is not None and learner.candidate.learner.projection.seq >= web.writer.seq
        )
        put_back(web.log, copy, kept)
    with SharedService(None, address, learning=False) as fresh:
        for number in range(9):
            episode(fresh, f"new-{number}")
        until(lambda: learner.candidate.failure is not None)
        assert "went back" in learner.candidate.failure
        learner.candidate.close()
        learner.log.close()
        with SharedService(None, address) as other:
            until(lambda: any(e.body["episodes"] for e in other.log.read() if e.kind == "planned"))
    found = replay(address)
    assert found.difference is None


def strange(kind, **parts):
    body = {"state": 0, "action": 0, "plan": 1, "propensity": 1.0, "reward": 0.0, "next": 0, "terminated": False}
    body |= {"mode": "live", "follows": "plan", "reason": "request"}
    return Draft(kind, "local", {**body, **parts.pop("body", {})}, **parts)


@pytest.mark.parametrize(
    "draft",
    [
        strange("asked", episode="nowhere", step=0),
        strange("told", episode="nowhere", step=0),
        strange("asked", episode="here", step=7),
        strange("ended", episode="nowhere"),
        strange("timed_out", episode="nowhere"),
        strange("opened", episode="other", body={"plan": 99}),
        Draft("opened", "local", {}, episode="other"),
        Draft("asked", "local", {}, episode="here", step=1),
        Draft("mode", "local", {}),
    ],
    ids=lambda draft: f"{draft.kind}-{draft.episode}-{draft.step}-{len(draft.body)}",
)
def test_an_event_that_cannot_follow_is_refused_in_words(tmp_path, draft):
    """Without the check `serve replay` and every start ended with a KeyError."""
    with Service(shop(), tmp_path, learning=False) as service:
        play(direct(service), np.random.default_rng(0))
        direct(service).open("local", episode="here")
        direct(service).ask("local", "here", state=0)
    log = EventLog(tmp_path)
    seq, digest = log.last()
    with log.engine.begin() as connection:
        insert(connection, [chained(draft, seq + 1, 0.0, digest)])
    log.close()
    assert run("check", tmp_path).exit_code == 0  # its digests are right
    with pytest.raises(StoreError, match=f"event {seq + 1} "):
        replay(tmp_path)
    with pytest.raises(StoreError, match=f"event {seq + 1} "):
        Service(None, tmp_path, learning=False)


def test_the_copy_of_a_database_is_what_was_put_back(address):
    """The helper of the tests above: events after the copy are gone, and nothing else."""
    with SharedService(shop(), address) as service:
        copy = service.log.last()[0]
        do(service, "open", episode="gone")
        put_back(service.log, copy)
        with service.log.engine.connect() as connection:
            assert connection.execute(sa.select(sa.func.max(events.c.seq))).scalar_one() == copy


def test_a_process_that_saw_a_log_go_back_stays_refused_when_the_newer_copy_is_back(address):
    """Others may have answered by the older copy meanwhile."""
    with SharedService(shop(), address) as service:
        do(service, "open", episode="gone")
        seq = service.writer.seq
        with service.log.engine.begin() as connection:
            row = connection.execute(sa.select(events).where(events.c.seq == seq)).one()
            connection.execute(events.delete().where(events.c.seq == seq))
        with pytest.raises(StoreError, match="went back"):
            do(service, "open", episode="first")
        with service.log.engine.begin() as connection:
            connection.execute(events.insert(), [row._asdict()])
        with pytest.raises(StoreError, match="went back"):
            do(service, "open", episode="second")
