"""The writer of a log: one thread decides requests in transactions, in which no other process appends anything."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa

from matrixrl.errors import MatrixRLError, StoreError
from matrixrl_serve.errors import WentBack, went_back
from matrixrl_serve.log.database import appending, failing
from matrixrl_serve.log.events import Draft, Event, chained
from matrixrl_serve.log.tables import events_from, insert

if TYPE_CHECKING:
    from matrixrl_serve.log.event_log import EventLog

__all__ = ["Head", "Reader", "Writer"]

_MOST = 500  # requests in one transaction, as all other processes wait for its end
_STALLED = 4.0  # seconds after which a transaction counts as one that the log does not take
_LATE = 2.0  # seconds since the last transaction after which news may be too many to read them while others wait

_Request = tuple[Callable[[], Any], Future[Any]]
Head = tuple[int, str]
"""Number and digest of an event."""


class Reader(Protocol):
    """The memory of a process."""

    def follow(self, events: Sequence[Event]) -> None:
        """Take events that another process appended."""

    def start_again(self) -> Head:
        """Forget everything, read the log again, and return number and digest of the last event."""


class Writer:
    """Carries out requests in transactions in which no other process appends anything.

    A transaction takes the lock of the log, reads what others appended since the last one, decides everything that
    waits, and commits. So each decision is a function of the whole log before it, whichever process makes it. If the
    transaction fails, all its requests fail, and memory, which may be ahead of the log, is read again.

    Args:
        log: The log.
        head: Number and digest of the last event that is in memory.
        clock: Function that returns the time in seconds since 1970; PostgreSQL has its own, which processes share.
        on_commit: Function that is called after every transaction with events.
    """

    def __init__(
        self,
        log: EventLog,
        head: Head,
        *,
        clock: Callable[[], float] = time.time,
        on_commit: Callable[[], None] | None = None,
    ) -> None:
        self._log, self._clock, self._on_commit = log, clock, on_commit
        self._durable = self._head = head
        self._news = threading.Condition()
        self._waiting: deque[_Request] = deque()
        self._closing = False
        self._connection: sa.Connection | None = None
        self._now = 0.0  # of this transaction
        self._last_commit = time.monotonic()
        self._began: float | None = None  # the transaction that is under way
        self._taken: list[Event] = []  # of this transaction
        self._stale = False
        self._latest = _transaction()
        self._latest.set_result(None)
        self.error: MatrixRLError | None = None
        """Why the last transaction failed; None after one that did not."""
        self._went_back: WentBack | None = None  # from then on nothing is read or written
        self._broken: str | None = None  # why memory is not what was taken in this transaction
        self.n_commits = 0
        self._thread: threading.Thread | None = None

    def start(self, reader: Reader) -> None:
        """Start the thread that takes transactions.

        Args:
            reader: Memory that follows the log.
        """
        self._reader = reader
        self._thread = threading.Thread(target=self._run, name="matrixrl-log", daemon=True)
        self._thread.start()

    @property
    def seq(self) -> int:
        """Number of the last event that is in memory."""
        return self._head[0]

    @property
    def latest(self) -> Future[None]:
        """The present or last transaction: once it is over, everything that memory shows is durable."""
        return self._latest

    @property
    def is_stalled(self) -> bool:
        """Whether the last transaction failed, or the present one takes so long that it probably will."""
        began = self._began
        return self.error is not None or (began is not None and time.monotonic() - began > _STALLED)

    @property
    def durable(self) -> int:
        """Number of the last event that is known to be committed."""
        return self._durable[0]

    @property
    def connection(self) -> sa.Connection:
        """The connection of this transaction, for what must be written with it."""
        assert self._connection is not None
        return self._connection

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        """Let a request wait for its transaction, and return its answer once that is durable.

        Args:
            work: Function that decides, and returns the answer.

        Raises:
            StoreError: The service is being closed.
        """
        with self._news:
            if self._closing:
                raise StoreError("the log takes no events: it was closed")
            future: Future[Any] = Future()
            self._waiting.append((work, future))
            self._news.notify()
            return future

    def run(self, work: Callable[[], Any]) -> Any:
        """Carry out one request in a transaction, and return its answer."""
        return self.submit(work).result()

    def append(self, drafts: Sequence[Draft]) -> list[Event]:
        """Give events their place in the log; only requests in their transaction may call it."""
        assert threading.current_thread() is self._thread, "decisions are made in transactions: use carry_out or run"
        events, (seq, digest) = [], self._head
        for draft in drafts:
            event = chained(draft, seq + 1, self._now, digest)
            seq, digest = event.seq, event.digest
            events.append(event)
        self._head = seq, digest  # of all of them or of none
        self._taken.extend(events)
        return events

    def fail(self, words: str) -> None:
        """Undo this transaction: an event was taken, and memory does not have it."""
        self._broken = words

    def close(self) -> None:
        """Carry out what waits, and stop."""
        with self._news:
            self._closing = True
            self._news.notify()
        if self._thread is not None:
            self._thread.join()
        self._disconnect()

    def _run(self) -> None:
        while True:
            with self._news:
                while not self._waiting and not self._closing:
                    self._news.wait()
                if not self._waiting:
                    return
            self._began = time.monotonic()
            self._transact()
            self._began = None

    def _transact(self) -> None:
        group: list[_Request] | None = None
        transaction, self._taken, self._broken = _transaction(), [], None
        try:
            if self._went_back is not None:
                raise self._went_back
            with failing(self._log.data):
                self._come_up()
                with appending(self.connection, self._clock) as self._now:
                    self._check_place()
                    self._read_news()
                    group = self._next_group()  # with what came in while others had their transaction
                    self._latest = transaction
                    outcomes = [self._carry_out(work) for work, _ in group]
                    if self._taken:
                        insert(self.connection, self._taken)
                self._check_place()  # what nobody will find is not acknowledged
        except MatrixRLError as error:
            self._fail(error, group, transaction)
        except Exception as error:  # noqa: BLE001  # of any kind: the requests that wait receive it
            self._fail(StoreError(f"a transaction failed: {error}"), group, transaction)
        else:
            self._durable, self.error = self._head, None
            self._last_commit = time.monotonic()
            transaction.set_result(None)
            for (_, future), (answer, refusal) in zip(group, outcomes, strict=True):
                if refusal is None:
                    future.set_result(answer)
                else:
                    future.set_exception(refusal)
            if self._taken:
                self.n_commits += 1
                if self._on_commit is not None:
                    self._on_commit()

    def _next_group(self) -> list[_Request]:
        """Return the requests of this transaction; those that were cancelled are left out."""
        with self._news:
            some = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST))]
        return [request for request in some if request[1].set_running_or_notify_cancel()]

    def _come_up(self) -> None:
        """Connect, and read what would take long, before anybody waits for us."""
        if self._connection is None:
            self._connection = self._log.engine.connect()
            if self._log.file is not None:
                self._log.file.connected()
        if self._stale:
            self._start_again()
        if time.monotonic() - self._last_commit > _LATE:
            self._follow(list(self._log.news(self._head)))

    def _check_place(self) -> None:
        if self._log.file is not None:
            self._log.file.check()

    def _start_again(self) -> None:
        """Read the log again; everything that was acknowledged must be in it."""
        seq, digest = self._durable
        rows = self._log.page(seq - 1, limit=1, until=seq)
        if [row.digest for row in rows] != [digest]:
            raise went_back(self._log.data, seq)
        self._head = self._durable = self._reader.start_again()
        self._stale = False

    def _read_news(self) -> None:
        found = events_from(self.connection, self._head[0])
        if not found or (found[0].seq, found[0].digest) != self._head:
            raise went_back(self._log.data, self._head[0])
        self._follow(found[1:])

    def _follow(self, news: Sequence[Event]) -> None:
        if news:
            self._stale = True  # if it stops half-way
            self._reader.follow(news)
            self._head = self._durable = news[-1].seq, news[-1].digest
            self._stale = False

    def _carry_out(self, work: Callable[[], Any]) -> tuple[Any, Exception | None]:
        """Decide, and return the answer or the refusal."""
        before = len(self._taken)
        answer, refusal = None, None
        try:
            answer = work()
        except Exception as error:  # noqa: BLE001  # the request that waits for the answer receives it
            refusal = error
        is_unforeseen = refusal is not None and not isinstance(refusal, MatrixRLError)
        if (is_unforeseen and len(self._taken) > before) or self._broken is not None:
            raise StoreError("a request failed after it was taken")  # memory may be wrong
        return answer, refusal

    def _fail(self, error: MatrixRLError, group: list[_Request] | None, transaction: Future[None]) -> None:
        """Let everything of this transaction fail; what was taken into memory may not be in the log.

        A log that went back is refused from now on, also if it grows again: it has another history.
        """
        if isinstance(error, WentBack):
            self._went_back = error
        self._stale = self._stale or bool(self._taken)
        self._disconnect()
        self.error = error
        self._latest = transaction  # what memory shows is refused as well
        transaction.set_exception(error)
        for _, future in self._next_group() if group is None else group:
            future.set_exception(error)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()


def _transaction() -> Future[None]:
    """Return a transaction that is under way, which nobody can cancel."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future
