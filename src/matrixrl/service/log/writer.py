"""Group commit: one thread writes everything that came in meanwhile in one transaction."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from matrixrl.errors import MatrixRLError, StoreError
from matrixrl.service.log.events import Draft, Event, chained

__all__ = ["Commit", "Taker", "Writer"]


class Sink(Protocol):
    """What a writer writes to."""

    def append(self, rows: Sequence[Event]) -> None:
        """Write events durably."""

    def last(self) -> tuple[int, str]:
        """Return number and digest of the last event."""


class Taker(Protocol):
    """What gives events their place in a log."""

    @property
    def latest(self) -> Commit:
        """The transaction of the last event that was taken."""

    @property
    def durable(self) -> int:
        """Number of the last event that is on disk."""

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
        """Wake up all that wait; one call into each event loop."""
        with self._lock:
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

    After an error nothing more is taken: what is in memory may be ahead of the log, so the process must start again.

    Args:
        log: The log.
        clock: Function that returns the time in seconds since 1970.
        on_commit: Function that is called after every transaction.
    """

    def __init__(
        self, log: Sink, *, clock: Callable[[], float] = time.time, on_commit: Callable[[], None] | None = None
    ) -> None:
        self._log, self._clock, self._on_commit = log, clock, on_commit
        self._seq, self._digest = log.last()
        self._durable = self._seq
        self._news = threading.Condition()
        self._pending: list[Event] = []
        self._commit = Commit()
        self._closing = False
        self.error: MatrixRLError | None = None
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
            StoreError: The log could not be written earlier.
        """
        with self._news:
            if self.error is not None or self._closing:
                raise StoreError(f"the log takes no events: {self.error or 'it was closed'}")
            taken, seq, digest = [], self._seq, self._digest
            for draft in drafts:
                event = chained(draft, seq + 1, self._clock(), digest)
                seq, digest = event.seq, event.digest
                taken.append(event)
            self._seq, self._digest = seq, digest  # of all of them or of none
            self._pending.extend(taken)
            self._last = self._commit
            self._news.notify()
            return taken, self._commit

    def close(self) -> None:
        """Write what was taken, and stop."""
        with self._news:
            self._closing = True
            self._news.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._news:
                while not self._pending and not self._closing:
                    self._news.wait()
                if not self._pending:
                    return
                rows, commit = self._pending, self._commit
                self._pending, self._commit = [], Commit()
            try:
                self._log.append(rows)
            except MatrixRLError as error:
                self._fail(error, commit)
                return
            except Exception as error:  # noqa: BLE001  # of any kind: the requests that wait receive it
                self._fail(StoreError(f"the log cannot be written: {error}"), commit)
                return
            self._durable = rows[-1].seq
            commit.finish()
            self.n_commits += 1
            if self._on_commit is not None:
                self._on_commit()

    def _fail(self, error: MatrixRLError, commit: Commit) -> None:
        with self._news:
            self.error = error
            later = self._commit
        commit.finish(error)
        later.finish(error)
