"""The memory of a desk: the fold of the log so far, and what was over a moment ago."""

from __future__ import annotations

from collections.abc import Sequence

from matrixrl_serve.desk.recent import Recent
from matrixrl_serve.errors import NotFound
from matrixrl_serve.fold import EPISODE_NAME, Book, EpisodeState
from matrixrl_serve.log import Commit, Draft, Event, EventLog, Taker

__all__ = ["Ledger"]

_REMEMBERED = 1000  # keys and episodes


class Ledger:
    """Appends events, and finds episodes and keys: in memory, else in the log.

    Args:
        book: What the log says.
        log: The log.
        writer: Its writer.
    """

    def __init__(self, book: Book, log: EventLog, writer: Taker) -> None:
        self.book = book
        self._log, self._writer = log, writer
        self._by_key: Recent[tuple[str, str], str] = Recent(_REMEMBERED, lambda: writer.durable)
        self._over: Recent[str, EpisodeState] = Recent(_REMEMBERED, lambda: writer.durable)

    @property
    def latest(self) -> Commit:
        """The transaction of the last event."""
        return self._writer.latest

    def append(self, drafts: Sequence[Draft]) -> Commit:
        """Give events their place in the log, and apply them."""
        events, commit = self._writer.append(drafts)
        try:
            self.follow(events)
        except BaseException as error:  # such as MemoryError: the log will have what memory has not
            self._writer.fail(f"event {events[0].seq} was taken, and is not in memory ({type(error).__name__})")
            raise
        return commit

    def follow(self, events: Sequence[Event]) -> None:
        """Apply events that have their place in the log, in order."""
        for event in events:
            closed = self.book.apply(event)
            if closed is not None:
                self._over.add(closed.id, closed, event.seq)
            elif event.kind == "opened" and event.key is not None:
                self._by_key.add((event.actor, event.key), str(event.episode), event.seq)

    def find(self, name: str) -> EpisodeState:
        """Return an episode, open or over; one that is over for long is folded from its events.

        Raises:
            NotFound: There is none.
        """
        found = self.book.episodes.get(name) or self._over.get(name)
        if found is not None:
            return found
        rows = self._log.of_episode(name) if EPISODE_NAME.fullmatch(name) else []
        if not rows:
            raise NotFound(f"episode {name!r} does not exist; open it first")
        past, closed = Book(self.book.mode), None
        for event in rows:
            past.seq = event.seq - 1
            closed = past.apply(event)
        return past.episodes[name] if closed is None else closed  # open, where another process opened it just now

    def opened_with(self, actor: str, key: str) -> str | None:
        """Return the name of the episode that an actor opened with an idempotency key."""
        known = self._by_key.get((actor, key))
        if known is not None:
            return known
        event = self._log.opened_by(actor, key)
        return None if event is None else event.episode
