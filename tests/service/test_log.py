from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest
import sqlalchemy as sa

from matrixrl.errors import StoreError
from matrixrl_serve.log import Draft, EventLog, Writer
from matrixrl_serve.log import writer as module
from matrixrl_serve.log.tables import events


@pytest.fixture
def log(tmp_path):
    log = EventLog(tmp_path)
    log.begin(Draft("created", "local", {}))
    yield log
    log.close()


class Memory:
    """A reader that remembers what it was told."""

    def __init__(self, log):
        self._log, self.seen = log, []

    def follow(self, events):
        self.seen.extend(events)

    def start_again(self):
        return self._log.last()


@contextmanager
def writing(log, **options):
    """Yield a writer that is closed at the end of the block."""
    writer = Writer(log, log.last(), **options)
    writer.start(Memory(log))
    try:
        yield writer
    finally:
        writer.close()


def appends(writer, *drafts):
    """Append events in a transaction, and return them."""
    return writer.run(lambda: writer.append(drafts))


def draft(number):
    return Draft("asked", "local", {"state": number}, episode="e", step=number)


def slow(writer, seconds=0.2):
    """Return the request of a transaction that takes some time."""
    return writer.submit(lambda: time.sleep(seconds))


def test_what_was_read_is_what_was_written(log):
    with writing(log, clock=lambda: 0.1 + 0.2) as writer:
        taken = appends(writer, draft(0), Draft("told", "ä\n", {"x": [1.5, None, "ü"]}, "e", 0, "k"))
    assert list(log.read(1)) == taken
    assert taken[1].body == {"x": [1.5, None, "ü"]}
    assert taken[1].at == 0.1 + 0.2
    assert log.last() == (3, taken[1].digest)


def test_numbers_go_on_after_a_restart(log):
    for k in range(3):
        with writing(log) as writer:
            appends(writer, draft(k))
    assert [event.seq for event in log.read()] == [1, 2, 3, 4]
    assert log.check().n_events == 4


def test_a_commit_is_over_only_when_its_events_are_written(log):
    with writing(log) as writer:
        request = writer.submit(lambda: (writer.append([draft(0)]), time.sleep(0.2)))
        time.sleep(0.1)
        assert not request.done()
        assert log.last()[0] == 1
        request.result()
        assert log.last()[0] == 2


def test_what_comes_in_during_a_transaction_has_the_next_one_together(log):
    with writing(log) as writer:
        slow(writer)
        time.sleep(0.05)
        others = [writer.submit(lambda k=k: writer.append([draft(k)])) for k in range(8)]
        assert not any(one.done() for one in others)
        for one in others:
            one.result()
    assert writer.n_commits == 1
    assert log.check().n_events == 9


def test_every_coroutine_waits_for_its_own_commit(log):
    async def ask(writer, number, done):
        request = writer.submit(lambda: writer.append([draft(number)]))
        done.append(((await asyncio.wrap_future(request))[0].seq, log.last()[0]))

    async def all_of_them(writer):
        done = []
        await asyncio.gather(*(ask(writer, number, done) for number in range(20)))
        return done

    with writing(log) as writer:
        done = asyncio.run(all_of_them(writer))
    assert len(done) == 20
    assert all(last >= own for own, last in done)


def test_a_request_that_was_cancelled_before_its_transaction_is_left_out(log):
    async def run(writer):
        others = threading.Event()
        writer.submit(others.wait)
        requests = [writer.submit(lambda k=k: writer.append([draft(k)])) for k in (0, 1)]
        first, second = map(asyncio.wrap_future, requests)
        await asyncio.sleep(0)
        first.cancel()
        while not requests[0].cancelled():
            await asyncio.sleep(0)
        others.set()
        await second

    with writing(log) as writer:
        asyncio.run(run(writer))
    assert log.check().n_events == 2


def test_nothing_is_acknowledged_after_an_error_and_the_next_transaction_goes_on(log, monkeypatch):
    def full(connection, rows):
        raise sa.exc.OperationalError("INSERT", {}, Exception("the disk is full"))

    with writing(log) as writer:
        with monkeypatch.context() as patched:
            patched.setattr(module, "insert", full)
            request = writer.submit(lambda: writer.append([draft(0)]))
            with pytest.raises(StoreError, match="the disk is full"):
                request.result()
            assert "the disk is full" in str(writer.error)
            with pytest.raises(StoreError, match="the disk is full"):
                writer.latest.result()
        appends(writer, draft(1))
        assert writer.error is None
        writer.latest.result()
    assert [event.step for event in log.read(1)] == [1]


def test_events_of_another_process_are_read_before_anything_is_decided(log, tmp_path):
    other = EventLog(tmp_path)
    with writing(log) as writer, writing(other) as rival:
        appends(writer, draft(0))
        appends(rival, draft(1))
        assert appends(writer, draft(2))[0].seq == 4
        assert [event.step for event in writer._reader.seen] == [1]
    other.close()
    assert log.check().n_events == 4


def test_a_log_that_went_back_is_not_written_any_more(log):
    with writing(log) as writer:
        appends(writer, draft(0))
        with log.engine.begin() as connection:
            connection.execute(events.delete().where(events.c.seq == 2))
        for number in (1, 2):
            with pytest.raises(StoreError, match="went back: event 2"):
                appends(writer, draft(number))
    assert log.last()[0] == 1


def test_events_of_many_threads_have_one_order(log):
    def work(name):
        for k in range(25):
            appends(writer, Draft("asked", name, {}, episode=name, step=k))

    with writing(log) as writer:
        threads = [threading.Thread(target=work, args=(f"t{k}",)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert log.check().n_events == 201
    for k in range(8):
        assert [event.step for event in log.of_episode(f"t{k}")] == list(range(25))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (events.update().where(events.c.seq == 2).values(body='{"state":7}'), "event 2 was changed"),
        (events.update().where(events.c.seq == 3).values(actor="nobody"), "event 3 was changed"),
        (events.update().where(events.c.seq == 1).values(at=1.0), "event 1 was changed"),
        (events.delete().where(events.c.seq == 2), "event 2 is missing"),
        (events.update().where(events.c.seq == 4).values(digest="0" * 64), "event 4 was changed"),
    ],
)
def test_check_finds_what_was_changed(log, change, words):
    with writing(log) as writer:
        appends(writer, *(draft(k) for k in range(3)))
    assert log.check().counts["asked"] == 3
    with log.engine.begin() as connection:
        connection.execute(change)
    with pytest.raises(StoreError, match=words):
        log.check()


def test_an_event_that_was_written_anew_with_a_digest_of_its_own_is_found(log):
    """Every digest covers the one before, so the next event betrays the change."""
    with writing(log) as writer:
        appends(writer, *(draft(k) for k in range(3)))
    first, second, *_ = log.read()
    forged = replace(second, text='{"state":7}')
    forged = replace(forged, digest=forged.digest_after(first.digest))
    with log.engine.begin() as connection:
        change = events.update().where(events.c.seq == 2).values(body=forged.text, digest=forged.digest)
        connection.execute(change)
    with pytest.raises(StoreError, match="event 3 was changed"):
        log.check()


def test_the_database_refuses_a_second_answer_to_one_question(log):
    with writing(log) as writer:
        appends(writer, draft(0))
        with pytest.raises(StoreError, match="cannot be used"):
            appends(writer, draft(0))
    assert log.check().n_events == 2


def test_commits_of_sqlite_are_synchronous(log):
    with log.engine.connect() as connection:
        assert connection.execute(sa.text("PRAGMA synchronous")).scalar() == 2
        assert connection.execute(sa.text("PRAGMA journal_mode")).scalar() == "wal"


def test_a_directory_without_a_log_is_not_opened_for_reading(tmp_path):
    with pytest.raises(StoreError, match="holds no log of a service"):
        EventLog(tmp_path, create=False)
