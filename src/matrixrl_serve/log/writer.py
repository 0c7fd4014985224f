"""Group commit: one thread writes everything that came in meanwhile in one transaction."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from matrixrl.errors import MatrixRLError, StoreError
from matrixrl_serve.log.events import Draft, Event, chained

if TYPE_CHECKING:
    from matrixrl_serve.log.event_log import EventLog

__all__ = ["Commit", "EventWriter", "Refused", "Writer"]

logger = logging.getLogger("matrixrl_serve")
_PAUSES = (0.1, 0.2, 0.5, 1.0)  # seconds before the next attempt, after so many that failed in a row


class Refused(StoreError):
    """The database does not take an event beside those that it has, now or later."""


class EventWriter(Protocol):
    """What gives events their place in a log."""

    @property
    def latest(self) -> Commit:
        """The transaction of the last event that was taken."""

    @property
    def durable(self) -> int:
        """Number of the last event that is on disk."""

    @property
    def seq(self) -> int:
        """Number of the last event that was taken."""

    error: MatrixRLError | None
    """Why the log cannot be written at present; None if it can."""

    def fail(self, words: str) -> None:
        """Take nothing more: an event was taken, and memory does not have it."""

    def append(self, drafts: Sequence[Draft]) -> tuple[list[Event], Commit]:
        """Give events their place in the log, and return them with the transaction that will hold all of them."""


class Commit:
    """A transaction that is not over yet: wait for it before anything that it holds is acknowledged."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._error: MatrixRLError | None = None
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    @property
    def is_durable(self) -> bool:
        """Whether the transaction is on disk."""
        return self._over.is_set() and self._error is None

    def wait(self, timeout: float | None = None) -> None:
        """Return once the transaction is on disk.

        Raises:
            StoreError: It could not be written, or the time is over.
        """
        if not self._over.wait(timeout):
            raise StoreError("the log did not take an event in time")
        if self._error is not None:
            raise self._error

    async def durable(self) -> None:
        """Return once the transaction is on disk; see `wait`."""
        if not self._over.is_set():
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            with self._lock:
                if not self._over.is_set():
                    self._waiting.append((loop, future))
                else:
                    future.set_result(None)
            await future
        if self._error is not None:
            raise self._error

    def finish(self, error: MatrixRLError | None = None) -> None:
        """Wake up all that wait, one call into each event loop; a second call changes nothing."""
        with self._lock:
            if self._over.is_set():
                return
            self._error = error
            self._over.set()
            waiting, self._waiting = self._waiting, []
        for loop in {loop for loop, _ in waiting}:
            futures = [future for own, future in waiting if own is loop]
            try:
                loop.call_soon_threadsafe(_resolve, futures)
            except RuntimeError:  # the loop was closed: nobody waits any more
                continue


def _resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


class Writer:
    """The only writer of a log: gives events their numbers and digests, and commits them in groups.

    What was taken is in memory, so it has to be written. If a transaction fails, the requests that wait for it fail,
    and nothing more is taken until another attempt has written it. Once that cannot succeed, for example because
    somebody else wrote to the log, or if memory does not have what was taken, `fatal` says so: the process must end and
    start again from the log.

    Args:
        log: The log.
        clock: Function that returns the time in seconds since 1970.
        on_commit: Function that is called after every transaction.
    """

    def __init__(
        self, log: EventLog, *, clock: Callable[[], float] = time.time, on_commit: Callable[[], None] | None = None
    ) -> None:
        self._log, self._clock, self._on_commit = log, clock, on_commit
        self._seq, self._digest = log.last()
        self._durable, self._durable_digest = self._seq, self._digest
        self._news = threading.Condition()
        self._pending: list[Event] = []
        self._commit = Commit()
        self._closing = self._ending = False
        self.error: MatrixRLError | None = None
        """Why the last attempt to write failed; None after one that did not."""
        self.fatal: MatrixRLError | None = None
        """Why the process must end; None if it need not."""
        self.n_commits = 0
        self._last = Commit()  # of what was there before
        self._last.finish()
        self._thread = threading.Thread(target=self._run, name="matrixrl-log", daemon=True)
        self._thread.start()

    @property
    def seq(self) -> int:
        """Number of the last event that was taken."""
        return self._seq

    @property
    def latest(self) -> Commit:
        """The transaction of the last event that was taken."""
        return self._last

    @property
    def durable(self) -> int:
        """Number of the last event that is on disk."""
        return self._durable

    def append(self, drafts: Sequence[Draft]) -> tuple[list[Event], Commit]:
        """Give events their place in the log, and return them with the transaction that will hold all of them.

        Raises:
            StoreError: The log cannot be written at present.
        """
        with self._news:
            if self.error is not None or self._closing:
                raise StoreError(f"the log takes no events: {self.error or 'it was closed'}")
            taken, seq, digest = [], self._seq, self._digest
            for draft in drafts:
                event = chained(draft, seq + 1, self._clock(), digest)
                seq, digest = event.seq, event.digest
                taken.append(event)
            self._pending.extend(taken)
            self._seq, self._digest = seq, digest  # of all of them or of none
            self._last = self._commit
            self._news.notify_all()
            return taken, self._commit

    def settle(self) -> None:
        """Return once everything that was taken is on disk, however many attempts that takes.

        Raises:
            StoreError: It cannot be written any more.
        """
        with self._news:
            seq = self._seq
            while self._durable < seq or self.error is not None:
                if self.fatal is not None or not self._thread.is_alive() or (self._ending and self.error is not None):
                    raise StoreError(f"the log takes no events: {self.error or 'it was closed'}")
                self._news.wait(1.0)
            if self._closing:
                raise StoreError("the log takes no events: it was closed")

    def end_waiting(self) -> None:
        """Let `settle` fail while the log cannot be written: the service is being closed."""
        with self._news:
            self._ending = True
            self._news.notify_all()

    def fail(self, words: str) -> None:
        """Take nothing more: memory is not what the log says, so the process must end."""
        with self._news:
            self.fatal = self.error = self.fatal or StoreError(words)
            self._news.notify_all()

    def close(self) -> None:
        """Write what was taken, and stop; after an error one more attempt is made."""
        with self._news:
            self._closing = True
            self._news.notify_all()
        self._thread.join()

    def _run(self) -> None:
        n_failed, is_over, commit = 0, False, self._commit
        try:
            while not is_over:
                with self._news:
                    while not self._pending and not self._closing:
                        self._news.wait()
                    if not self._pending:
                        break
                    if n_failed and not self._closing:
                        self._news.wait(_PAUSES[min(n_failed, len(_PAUSES)) - 1])
                    rows, commit, is_over = self._pending, self._commit, self._closing and n_failed > 0
                    self._pending, self._commit = [], Commit()
                try:
                    missing = self._missing(rows) if n_failed else rows
                    if missing:
                        self._log.append(missing)
                except (MatrixRLError, OSError, MemoryError) as error:
                    n_failed += 1
                    is_over = is_over or isinstance(error, Refused)
                    self._put_back(rows, commit, error)
                else:
                    n_failed, is_over = 0, False
                    self._conclude(rows, commit)
        except BaseException as error:  # of any kind: requests must not wait for a thread that is gone
            logger.exception("the log is not written any more")
            self.fail(f"the log is not written any more: {type(error).__name__}: {error}")
            commit.finish(self.fatal)
        self._commit.finish(self.error or StoreError("the log takes no events: it was closed"))

    def _conclude(self, rows: list[Event], commit: Commit) -> None:
        """Acknowledge what is on disk."""
        with self._news:
            self._durable, self._durable_digest = rows[-1].seq, rows[-1].digest
            self.error = self.fatal
            self.n_commits += 1
            self._news.notify_all()
        commit.finish()
        if self._on_commit is not None:
            self._on_commit()

    def _put_back(self, rows: list[Event], commit: Commit, cause: BaseException) -> None:
        """Keep what could not be written for another attempt; requests that wait for it fail."""
        error = cause if isinstance(cause, MatrixRLError) else StoreError(f"the log cannot be written: {cause}")
        if isinstance(cause, Refused):
            self.fail(str(cause))
        with self._news:
            self.error = self.fatal or error
            self._pending[:0] = rows
            if self._last is commit:
                self._last = self._commit  # that of the next attempt
            self._news.notify_all()
        commit.finish(error)

    def _missing(self, rows: list[Event]) -> list[Event]:
        """Return those of some events that the log does not have: an attempt may have failed after its commit.

        Raises:
            Refused: The log has other events in their place.
        """
        last = self._log.last()
        ends = [(self._durable, self._durable_digest), *((row.seq, row.digest) for row in rows)]
        if last not in ends:
            raise Refused(f"the log was changed by somebody else: it ends with event {last[0]}, which differs")
        return rows[ends.index(last) :]
