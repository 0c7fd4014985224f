"""A service that several processes run on one PostgreSQL database; here they are several objects."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
import sqlalchemy as sa
from processes import until
from worlds_of_service import outcome, shop

from matrixrl.cli.main import app
from matrixrl.errors import InvalidInput, MatrixRLError, StoreError
from matrixrl_serve import Client, make_app, replay
from matrixrl_serve.access import Access, create_token, revoke_token
from matrixrl_serve.errors import Conflict, Deposed, NotFound
from matrixrl_serve.learner.restore import restored_learner, restored_projection
from matrixrl_serve.log import EventLog
from matrixrl_serve.log import postgres as database
from matrixrl_serve.log.tables import events
from matrixrl_serve.problem import ServedProblem
from matrixrl_serve.shared import SharedLearner, SharedService
from matrixrl_serve.shared.leadership import Leadership, publish
from matrixrl_serve.shared.storage import StoredCheckpoints
from postgres import postgres


@pytest.fixture(scope="module")
def server():
    with postgres() as server:
        yield server


@pytest.fixture
def address(server):
    """An empty database, whose defaults are not those that a service needs."""
    address = server.new_database()
    name = address.rpartition("/")[2]
    server.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    server.execute(f"ALTER DATABASE {name} SET synchronous_commit = 'off'")
    return address


@pytest.fixture
def pair(address):
    """Two services on one database, of which the first one learns."""
    with SharedService(shop(), address) as one, SharedService(None, address, learning=False) as other:
        yield one, other


def do(service, what, *arguments, **more):
    """Carry out a request of the decisions in a transaction, and return its answer."""
    return service.writer.run(lambda: getattr(service.decisions, what)("local", *arguments, **more))


def play(services, seed, n, said=None, patience=0.0):
    """Play episodes, each request at another service; those that fail are sent again until the patience is over."""
    rng, said = np.random.default_rng(seed), [] if said is None else said

    def send(what, *arguments, **more):
        deadline = time.monotonic() + patience
        while True:
            try:
                return do(services[rng.integers(len(services))], what, *arguments, **more)
            except StoreError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    for k in range(n):
        name, state = f"{seed}-{k}", 0
        said.append(("opened", name, None, send("open", episode=name).plan))
        for step in range(3):
            action = send("ask", name, state=state, step=step).action
            said.append(("asked", name, step, action))
            reward, following = outcome(rng, state, ["wait", "order"].index(action))
            send("tell", name, step=step, reward=reward, next_state=following)
            said.append(("told", name, step, reward))
            state = following
    return said


def stored(address):
    """Return what the log says, in the form of `play`; its digests are verified."""
    log = EventLog(address, create=False)
    log.check()
    names = {"opened": "plan", "asked": "action", "told": "reward"}
    found = [(e.kind, e.episode, e.step, e.body[names[e.kind]]) for e in log.read() if e.kind in names]
    log.close()
    return [(kind, name, step, ["wait", "order"][v] if kind == "asked" else v) for kind, name, step, v in found]


def in_threads(*work):
    errors = []

    def run(one):
        try:
            one()
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_processes_that_play_together_write_one_log_that_can_be_replayed(address, pair):
    said = [[] for _ in range(4)]
    in_threads(*(lambda k=k: play(pair, k, 12, said[k]) for k in range(4)))
    with pair[0].log.engine.connect() as connection:
        assert connection.execute(sa.text("SHOW synchronous_commit")).scalar_one() == "on"
    assert sorted(stored(address), key=str) == sorted((event for one in said for event in one), key=str)
    deadline = time.monotonic() + 10
    while pair[1].writer.run(lambda: pair[1].decisions.projection.plan) < 3 and time.monotonic() < deadline:
        play(pair, int(time.monotonic() * 1e6), 1)
    again = replay(address)
    assert again.difference is None
    assert again.n_plans >= 3
    # Both have folded the same log into the same memory.
    one, other = (service.writer.run(lambda s=service: s.decisions.projection.to_plain()) for service in pair)
    assert one == other


def test_a_question_has_one_answer_whichever_process_is_asked(pair):
    for k in range(10):
        name = do(pair[k % 2], "open").episode
        heard = []
        asks = [partial(do, service, "ask", name, state=0) for service in (*pair, *pair)]
        in_threads(*(lambda ask=ask, heard=heard: heard.append(ask()) for ask in asks))
        assert [answer.repeated for answer in heard].count(False) == 1
        assert len({(answer.action, answer.why) for answer in heard}) == 1


def test_a_process_knows_what_another_one_did_a_moment_ago(pair):
    one, other = pair
    opened = do(one, "open", key="k")
    assert do(other, "open", key="k").episode == opened.episode
    do(one, "ask", opened.episode, state=0)
    do(other, "tell", opened.episode, reward=1.0, next_state=1)
    with pytest.raises(Conflict, match="state must be 1"):
        do(one, "ask", opened.episode, state=2)
    do(one, "abandon", opened.episode)
    with pytest.raises(Conflict, match="it was abandoned"):
        do(other, "ask", opened.episode, state=1)
    one.writer.run(lambda: one.decisions.set_mode("local", "frozen"))
    assert do(other, "open").mode == "frozen"
    with pytest.raises(NotFound):
        do(other, "ask", "nobody", state=0)


def test_processes_that_start_at_once_agree_on_one_problem(address):
    services = []
    in_threads(*(lambda: services.append(SharedService(shop(), address)) for _ in range(3)))
    for service in services:
        service.close()
    log = EventLog(address)
    assert log.check().counts["created"] == 1
    log.close()
    with pytest.raises(StoreError, match="another problem, which differs in horizon"):
        SharedService(shop(horizon=4), address)


def end_sessions(server, address, where):
    """End sessions of a database from outside, as a broken network would."""
    name = address.rpartition("/")[2]
    others = f"datname = '{name}' AND pid <> pg_backend_pid()"
    return server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others} AND {where}")


HAS_LOCK = "pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)"


def test_a_learner_that_lost_its_session_publishes_nothing(server, address):
    learner = SharedLearner(shop(), address)  # which does not run
    log, problem = learner.log, learner.problem
    engine = database.make_engine(address, pooled=False)
    old = Leadership.attempt(engine, log.data)
    assert Leadership.attempt(engine, log.data) is None
    slow = restored_learner(log, StoredCheckpoints(log), problem)
    made = slow.plan()
    assert end_sessions(server, address, HAS_LOCK) == [True]
    with pytest.raises(StoreError, match="cannot be used"):
        old.check()
    # The same object connects anew, and has a session without the lock: nobody else has it, and yet it may not publish.
    with pytest.raises(Deposed, match="its session was lost"):
        publish(old, *made, problem, slow.projection)
    assert log.check().n_events == 1
    new = Leadership.attempt(engine, log.data)
    quick = restored_learner(log, StoredCheckpoints(log), problem)
    publish(new, *quick.plan(), problem, quick.projection)
    with pytest.raises(Deposed, match="its session was lost"):
        publish(old, *made, problem, slow.projection)
    # Whoever has the lock cannot publish a plan that was made before another one was published.
    with pytest.raises(Deposed, match="by another learner"):
        publish(new, *made, problem, slow.projection)
    assert log.check().counts["planned"] == 1
    old.close()
    new.close()
    log.close()


def test_another_process_takes_over_when_the_session_of_the_learner_is_lost(server, address):
    with SharedService(shop(), address) as one, SharedService(None, address) as other:
        for seed in range(4):
            plan = one.writer.run(lambda: one.decisions.projection.plan)
            assert len(end_sessions(server, address, HAS_LOCK)) >= 1
            deadline = time.monotonic() + 20
            while one.writer.run(lambda: one.decisions.projection.plan) == plan and time.monotonic() < deadline:
                play((one, other), int(time.monotonic() * 1e6) + seed, 2, patience=5.0)
            assert one.writer.run(lambda: one.decisions.projection.plan) > plan
    assert replay(address).difference is None


def test_a_connection_that_is_lost_in_a_turn_undoes_it(server, address, pair):
    one, other = pair
    do(one, "open", episode="before")

    def lost():
        one.decisions.open("local", episode="lost")
        pid = one.writer.connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
        assert end_sessions(server, address, f"pid = {pid}") == [True]
        return None, None

    request = one.writer.submit(lost)
    with pytest.raises(StoreError, match="cannot be used"):
        request.result()
    assert do(other, "open", episode="lost").repeated is False
    assert do(one, "ask", "lost", state=0).step == 0
    assert do(one, "ask", "before", state=0).repeated is False
    assert [name for kind, name, *_ in stored(address) if kind == "opened"] == ["before", "lost"]


def test_a_process_that_stops_in_its_turn_does_not_hold_up_the_others(address, monkeypatch):
    monkeypatch.setitem(database._SESSION, "idle_in_transaction_session_timeout", "300ms")
    with SharedService(shop(), address) as one, SharedService(None, address, learning=False) as other:
        request = one.writer.submit(lambda: (one.decisions.open("local", episode="slow"), time.sleep(1.5)))
        time.sleep(0.1)
        begin = time.monotonic()
        do(other, "open", episode="quick")
        assert time.monotonic() - begin < 1.2
        with pytest.raises(StoreError, match="cannot be used"):
            request.result()
        assert do(one, "open", episode="slow").repeated is False


def test_a_request_that_fails_by_a_mistake_of_ours_changes_nothing(pair):
    one, _ = pair

    def half():
        one.decisions.open("local", episode="half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        one.writer.run(lambda: 1 / 0)
    request = one.writer.submit(half)
    with pytest.raises(StoreError, match="failed after it was taken"):
        request.result()
    assert do(one, "open", episode="half").repeated is False


def test_a_database_that_is_restarted_under_load_loses_nothing(server, address, pair):
    said = [[] for _ in range(3)]

    def restart():
        time.sleep(0.5)
        server.restart("immediate")

    in_threads(restart, *(lambda k=k: play(pair, k, 30, said[k], patience=20.0) for k in range(3)))
    assert not {event for one in said for event in one} - set(stored(address))
    assert pair[0].writer.error is None
    assert replay(address).difference is None


def test_a_database_that_lost_events_is_not_written_any_more(address, pair):
    one, other = pair
    do(one, "open", episode="gone")
    do(other, "open", episode="here")
    do(one, "open", episode="here")
    with one.log.engine.begin() as connection:
        connection.execute(events.delete().where(events.c.seq == other.writer.seq))
    for service in pair:
        with pytest.raises(StoreError, match="went back"):
            do(service, "open")
    assert [name for kind, name, *_ in stored(address) if kind == "opened"] == ["gone"]


def test_a_server_that_stalls_is_given_up_and_taken_again(server, address, monkeypatch):
    """No packet is lost, so only a deadline of each statement ends the wait."""
    monkeypatch.setattr(database, "_DEADLINE", 1.0)
    monkeypatch.setitem(database._CONNECTION, "connect_timeout", 2)
    with SharedService(shop(), address, learning=True) as service:
        do(service, "open", episode="before")
        with server.stalled():
            for _ in range(2):  # the open connection, and a new one
                with pytest.raises(StoreError, match="cannot be used"):
                    do(service, "open", episode="during")
            assert service.writer.is_stalled
            with pytest.raises(StoreError, match="cannot be used"):
                service.log.last()
        until(lambda: not _refused(service))
        do(service, "open", episode="after")
        assert not service.writer.is_stalled
    log = EventLog(address)
    assert {"before", "after"} <= {event.episode for event in log.read() if event.kind == "opened"}
    log.check()
    log.close()


def _refused(service):
    with suppress(StoreError):
        do(service, "open")
        return False
    return True


def test_times_are_those_of_the_database(server, address, pair, monkeypatch):
    """The clocks of other machines may be wrong; time-outs follow the one of the database."""
    monkeypatch.setattr(time, "time", lambda: 0.0)
    one, other = pair
    do(one, "open", episode="e")
    do(one, "ask", "e", state=0)
    other.maintain(Access(other.log))
    now = server.execute("SELECT extract(epoch FROM clock_timestamp())::float8")[0]
    assert all(abs(event.at - now) < 60.0 for event in one.log.read())
    assert "e" in other.decisions.projection.episodes  # and did not time out


def test_tokens_are_noted_once(address, pair):
    accesses = [Access(service.log) for service in pair]
    create_token(pair[0].log, "shop", ["ask"])
    in_threads(*(lambda s=s, a=a: s.maintain(a) for s, a in zip(pair, accesses, strict=True)))
    revoke_token(pair[0].log, "shop")
    in_threads(*(lambda s=s, a=a: s.maintain(a) for s, a in zip(pair, accesses, strict=True)))
    assert [e.body["what"] for e in pair[0].log.read() if e.kind == "token"] == ["created", "revoked"]


def test_a_start_from_a_checkpoint_knows_the_same(address):
    with SharedService(shop(), address, checkpoint_every=50) as service:
        play([service], 1, 20)
        deadline = time.monotonic() + 60.0
        while not StoredCheckpoints(service.log).numbers():  # the learner looks a few times a second
            assert time.monotonic() < deadline
            time.sleep(0.05)
        play([service], 2, 20)
        do(service, "open", episode="open")
    log, problem = EventLog(address), ServedProblem(shop())
    checkpoints = StoredCheckpoints(log)
    assert len(checkpoints.numbers()) == 2  # a newer one replaces the oldest

    class Without:
        numbers = staticmethod(list)

    projection = restored_projection(log, checkpoints, problem)
    assert projection.to_plain() == restored_projection(log, Without(), problem).to_plain()
    again = [restored_learner(log, source, problem) for source in (checkpoints, Without())]
    assert again[0].to_plain() == again[1].to_plain()
    log.close()
    with SharedService(None, address) as service:
        assert do(service, "open", episode="open").repeated is True


def test_two_applications_answer_over_http(pair):
    one, other = clients = [Client(app=make_app(service)) for service in pair]
    opened = one.open("e")
    assert other.get("/v1/episodes/e")["closed"] is None
    assert other.post("/v1/episodes/e/ask", {"state": 0, "step": 0})["repeated"] is False
    assert opened.ask(0, step=0).repeated is True
    assert opened.tell(0.5, next_state=1).ended is False
    with pytest.raises(Conflict, match="with another outcome"):
        other.post("/v1/episodes/e/tell", {"reward": 0.6, "next_state": 1, "step": 0})
    assert one.get("/health")["learner"] == other.get("/health")["learner"] == "ok"
    for client in clients:
        client.close()


HOSTILE = [
    "postgresql://shop:hunter2@127.0.0.1:1/shop",
    "postgresql://shop:hunter2@127.0.0.1:hunter2/shop",
    "postgresql://shop:hun@ter2@127.0.0.1:1/shop",
    "postgresql://shop:hunter2/@127.0.0.1:1/shop",
    "postgresql://127.0.0.1:1/shop?password=hunter2",
    "postgresql://127.0.0.1:1/shop?pasword=hunter2",
    "postgresql://shop:hunter2",
    "postgresql://shop:hunter2@[::1",
    "postgres://shop:hunter2@127.0.0.1:1/shop?sslpassword=hunter2",
    "postgresql+psycopg://shop:hunter2@127.0.0.1:1/%00",
    "mysql://shop:hunter2@127.0.0.1/shop",
    "shop:hunter2://",
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_message_shows_a_password(hostile, caplog, capfd):
    from typer.testing import CliRunner

    with pytest.raises(MatrixRLError) as refused:
        EventLog(hostile)
    found = CliRunner().invoke(app, ["serve", "--data", hostile])
    shown = f"{refused.value} {found.output} {found.exception} {caplog.text} {capfd.readouterr()}"
    assert found.exit_code != 0
    assert "hunter2" not in shown
    assert "ter2" not in shown


def test_a_directory_is_served_by_one_process(tmp_path):
    from matrixrl_serve.http.server import serve

    for role in ("web", "learner"):
        with pytest.raises(InvalidInput, match="--role must be all for a directory"):
            serve(shop(), tmp_path, role=role)
