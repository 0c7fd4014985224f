"""The log in a database: append, read, find, check."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from matrixrl.errors import StoreError
from matrixrl_serve.errors import went_back
from matrixrl_serve.log.database import LogFile, appending, failing, log_file, open_database
from matrixrl_serve.log.events import FIRST_DIGEST, KINDS, Draft, Event, chained
from matrixrl_serve.log.postgres import shown_place
from matrixrl_serve.log.tables import CLOSED, OPENED, STEPS, event_of, events, events_from, insert

__all__ = ["Checked", "EventLog"]

_PAGE = 5000  # rows that are read together


@dataclass(frozen=True)
class Checked:
    """What `EventLog.check` found.

    Attributes:
        n_events: Number of events.
        digest: Digest of the last one.
        counts: Number of events of each kind.
    """

    n_events: int
    digest: str
    counts: dict[str, int]


class EventLog:
    """An append-only log of events, to which a `Writer` appends.

    Args:
        data: Directory, or address of a PostgreSQL database.
        create: Whether to create what does not exist.

    >>> import tempfile
    >>> from matrixrl_serve.log.events import Draft
    >>> log = EventLog(tempfile.mkdtemp())
    >>> log.begin(Draft("created", "local", {}))
    >>> log.check().n_events
    1
    >>> log.close()
    """

    def __init__(self, data: str | os.PathLike[str], *, create: bool = True) -> None:
        self.data = shown_place(data)
        """The place of the log for messages, without a password."""
        self.engine = open_database(data, create=create)
        path = log_file(data)
        self.file = None if path is None else LogFile(path)
        """The file of a log in a directory."""

    def begin(self, first: Draft) -> None:
        """Append the first event, unless another process has done so."""
        with failing(self.data), self.engine.connect() as connection, appending(connection) as now:
            if not events_from(connection, 1):
                insert(connection, [chained(first, 1, now, FIRST_DIGEST)])

    def last(self) -> tuple[int, str]:
        """Return number and digest of the last event; 0 and `FIRST_DIGEST` of an empty log."""
        query = sa.select(events.c.seq, events.c.digest).order_by(events.c.seq.desc()).limit(1)
        with failing(self.data), self.engine.connect() as connection:
            found = connection.execute(query).first()
        return (0, FIRST_DIGEST) if found is None else (int(found.seq), str(found.digest))

    def read(self, after: int = 0, *, until: int | None = None) -> Iterator[Event]:
        """Yield the events with numbers above `after`, up to `until`, in order."""
        while True:
            page = self.page(after, limit=_PAGE, until=until)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].seq

    def news(self, head: tuple[int, str], *, until: int | None = None) -> Iterator[Event]:
        """Yield the events after one that was read before, up to `until`, in order.

        Args:
            head: Number and digest of that event.
            until: Largest number of an event.

        Raises:
            WentBack: The log does not have that event any more.
        """
        found = self.read(head[0] - 1, until=until)
        first = next(found, None)
        if first is None or (first.seq, first.digest) != head:
            raise went_back(self.data, head[0])
        yield from found

    def page(
        self,
        after: int = 0,
        *,
        limit: int,
        until: int | None = None,
        kinds: Sequence[str] | None = None,
    ) -> list[Event]:
        """Return at most `limit` events with numbers above `after`, in order.

        Args:
            after: Number of the event before the first.
            limit: Largest number of events.
            until: Largest number of an event.
            kinds: Kinds to return; all by default.
        """
        query = sa.select(events).where(events.c.seq > after).order_by(events.c.seq).limit(limit)
        if until is not None:
            query = query.where(events.c.seq <= until)
        if kinds is not None:
            query = query.where(events.c.kind.in_(list(kinds)))
        with failing(self.data), self.engine.connect() as connection:
            return [event_of(row) for row in connection.execute(query)]

    def opened_by(self, actor: str, key: str) -> Event | None:
        """Return the event of an episode that an actor opened with a key."""
        query = sa.select(events).where(OPENED, events.c.key.is_not(None), events.c.key == key, events.c.actor == actor)
        with failing(self.data), self.engine.connect() as connection:
            found = connection.execute(query).first()
        return None if found is None else event_of(found)

    def of_episode(self, episode: str) -> list[Event]:
        """Return the events of an episode, in order; the conditions are those of the indices."""
        found: list[Event] = []
        with failing(self.data), self.engine.connect() as connection:
            for condition in (OPENED, STEPS, CLOSED):
                query = sa.select(events).where(condition, events.c.episode == episode)
                found.extend(event_of(row) for row in connection.execute(query))
        return sorted(found, key=lambda event: event.seq)

    def check(self, last: int | None = None) -> Checked:
        """Verify digests.

        Args:
            last: Number of events at the end to verify; all by default.

        Raises:
            StoreError: An event was changed, removed or added; the message names the first one.
        """
        number = 0 if last is None else max(0, self.last()[0] - last)
        before, counts = FIRST_DIGEST, _no_counts()
        if number:
            known = self.page(number - 1, limit=1, until=number)
            before = known[0].digest if known else ""
        for event in self.read(number):
            if event.seq != number + 1:
                raise StoreError(f"the log in {self.data} is damaged: event {number + 1} is missing")
            if event.kind not in counts or not event.follows(before):
                raise StoreError(f"the log in {self.data} is damaged: event {event.seq} was changed")
            number, before = event.seq, event.digest
            counts[event.kind] += 1
        return Checked(number, before, counts)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _no_counts() -> dict[str, int]:
    return {kind: 0 for kind in KINDS}  # noqa: C420  # of type str
