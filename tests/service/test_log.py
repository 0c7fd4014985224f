from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace

import pytest
import sqlalchemy as sa

from matrixrl.errors import StoreError
from matrixrl_serve.log import Draft, EventLog, Writer
from matrixrl_serve.log.tables import events


@pytest.fixture
def log(tmp_path):
    log = EventLog(tmp_path)
    yield log
    log.close()


class Slow:
    """A log whose commits take time, and which knows what was durable when."""

    def __init__(self, seconds=0.05, fails=False):
        self.batches, self._seconds, self._fails = [], seconds, fails

    def last(self):
        return 0, "0" * 64

    def append(self, rows):
        time.sleep(self._seconds)
        if self._fails:
            raise StoreError("the disk is full")
        self.batches.append(list(rows))


def draft(number):
    return Draft("asked", "local", {"state": number}, episode="e", step=number)


def test_what_was_read_is_what_was_written(log):
    writer = Writer(log, clock=lambda: 0.1 + 0.2)
    taken, commit = writer.append([draft(0), Draft("told", "ä\n", {"x": [1.5, None, "ü"]}, "e", 0, "k")])
    commit.wait()
    writer.close()
    assert list(log.read()) == taken
    assert taken[1].body == {"x": [1.5, None, "ü"]}
    assert log.last() == (2, taken[1].digest)


def test_numbers_go_on_after_a_restart(log):
    for k in range(3):
        writer = Writer(log)
        writer.append([draft(k)])[1].wait()
        writer.close()
    assert [event.seq for event in log.read()] == [1, 2, 3]
    assert log.check().n_events == 3


def test_a_commit_is_over_only_when_its_events_are_written():
    """Without the wait, `is_durable` would be true while the transaction is under way."""
    slow = Slow()
    writer = Writer(slow)
    _, commit = writer.append([draft(0)])
    assert not commit.is_durable
    commit.wait()
    assert len(slow.batches) == 1
    writer.close()


def test_what_comes_in_during_a_commit_is_written_together():
    slow = Slow()
    writer = Writer(slow)
    first = writer.append([draft(0)])[1]
    time.sleep(0.02)
    others = [writer.append([draft(k)])[1] for k in range(1, 9)]
    assert not any(one.is_durable for one in others)
    for one in [first, *others]:
        one.wait()
    writer.close()
    assert [len(batch) for batch in slow.batches] == [1, 8]


def test_every_coroutine_waits_for_its_own_commit():
    async def ask(writer, number, done):
        _, commit = writer.append([draft(number)])
        await commit.durable()
        done.append((number, sum(len(batch) for batch in slow.batches)))

    async def all_of_them(writer):
        done = []
        await asyncio.gather(*(ask(writer, number, done) for number in range(20)))
        return done

    slow = Slow(0.01)
    writer = Writer(slow)
    done = asyncio.run(all_of_them(writer))
    writer.close()
    assert len(done) == 20
    assert all(written > number for number, written in done)


def test_a_cancelled_request_does_not_stop_the_others():
    async def run(writer):
        first = asyncio.create_task(writer.append([draft(0)])[1].durable())
        second = asyncio.create_task(writer.append([draft(1)])[1].durable())
        await asyncio.sleep(0)
        first.cancel()
        await second

    slow = Slow()
    writer = Writer(slow)
    asyncio.run(run(writer))
    writer.close()
    assert sum(len(batch) for batch in slow.batches) == 2


def test_nothing_is_acknowledged_after_an_error():
    writer = Writer(Slow(fails=True))
    _, commit = writer.append([draft(0)])
    with pytest.raises(StoreError, match="the disk is full"):
        commit.wait()
    with pytest.raises(StoreError, match="takes no events: the disk is full"):
        writer.append([draft(1)])
    assert not commit.is_durable
    writer.close()


def test_events_of_many_threads_have_one_order(log):
    writer = Writer(log)

    def work(name):
        for k in range(25):
            writer.append([Draft("asked", name, {}, episode=name, step=k)])[1].wait()

    threads = [threading.Thread(target=work, args=(f"t{k}",)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert log.check().n_events == 200
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
    writer = Writer(log)
    for k in range(4):
        writer.append([draft(k)])
    writer.close()
    assert log.check().counts["asked"] == 4
    with log.engine.begin() as connection:
        connection.execute(change)
    with pytest.raises(StoreError, match=words):
        log.check()


def test_an_event_that_was_written_anew_with_a_digest_of_its_own_is_found(log):
    """Every digest covers the one before, so the next event betrays the change."""
    writer = Writer(log)
    for k in range(4):
        writer.append([draft(k)])
    writer.close()
    first, second, *_ = log.read()
    forged = replace(second, text='{"state":7}')
    forged = replace(forged, digest=forged.digest_after(first.digest))
    with log.engine.begin() as connection:
        change = events.update().where(events.c.seq == 2).values(body=forged.text, digest=forged.digest)
        connection.execute(change)
    with pytest.raises(StoreError, match="event 3 was changed"):
        log.check()


def test_the_database_refuses_a_second_answer_to_one_question(log):
    writer = Writer(log)
    writer.append([draft(0)])
    writer.append([draft(0)])[1]
    with pytest.raises(StoreError, match="cannot be used"):
        writer.latest.wait()
    writer.close()
    assert len(list(log.read())) <= 1


def test_commits_of_sqlite_are_synchronous(log):
    with log.engine.connect() as connection:
        assert connection.execute(sa.text("PRAGMA synchronous")).scalar() == 2
        assert connection.execute(sa.text("PRAGMA journal_mode")).scalar() == "wal"


def test_a_directory_without_a_log_is_not_opened_for_reading(tmp_path):
    with pytest.raises(StoreError, match="holds no log of a service"):
        EventLog(tmp_path, create=False)
