"""Episodes in memory: the open ones, those that were over a moment ago, and others from the log."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from matrixrl_serve.errors import NotFound
from matrixrl_serve.log import Draft, Event, EventLog, Writer
from matrixrl_serve.projection import EPISODE_NAME, EpisodeState, Projection

__all__ = ["EpisodeMemory", "Recent"]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """The last entries that were added, and all that are not durable yet.

    Args:
        size: Number of entries to keep.
        durable: Function that returns the number of the last durable event.

    >>> recent = Recent(1, durable=lambda: 2)
    >>> for number in range(1, 5):
    ...     recent.add(number, str(number), seq=number)
    >>> recent.get(2), recent.get(3), recent.get(4)
    (None, '3', '4')
    """

    def __init__(self, size: int, durable: Callable[[], int]) -> None:
        self._size, self._durable = size, durable
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def add(self, key: Key, value: Value, seq: int) -> None:
        """Add an entry of an event, and forget the oldest ones if there are too many, and the log has them."""
        self._entries[key] = value, seq
        if len(self._entries) > self._size:
            last = self._durable()
            while len(self._entries) > self._size and next(iter(self._entries.values()))[1] <= last:
                self._entries.popitem(last=False)

    def get(self, key: Key) -> Value | None:
        """Return an entry, or None."""
        found = self._entries.get(key)
        return None if found is None else found[0]


_REMEMBERED = 1000  # keys and episodes


class EpisodeMemory:
    """Appends events, and finds episodes and keys: in memory, else in the log.

    Args:
        projection: What the log says.
        log: The log.
        writer: Its writer.
    """

    def __init__(self, projection: Projection, log: EventLog, writer: Writer) -> None:
        self.projection = projection
        self._log, self._writer = log, writer
        self._by_key: Recent[tuple[str, str], str] = Recent(_REMEMBERED, lambda: writer.durable)
        self._over: Recent[str, EpisodeState] = Recent(_REMEMBERED, lambda: writer.durable)

    def append(self, drafts: Sequence[Draft]) -> None:
        """Give events their place in the log, and apply them."""
        events = self._writer.append(drafts)
        try:
            self.follow(events)
        except BaseException as error:  # such as MemoryError: the log will have what memory has not
            self._writer.fail(f"event {events[0].seq} was taken, and is not in memory ({type(error).__name__})")
            raise

    def follow(self, events: Sequence[Event]) -> None:
        """Apply events that have their place in the log, in order."""
        for event in events:
            closed = self.projection.apply(event)
            if closed is not None:
                self._over.add(closed.id, closed, event.seq)
            elif event.kind == "opened" and event.key is not None:
                self._by_key.add((event.actor, event.key), str(event.episode), event.seq)

    def find(self, name: str) -> EpisodeState:
        """Return an episode, open or over; one that is over for long is folded from its events.

        Raises:
            NotFound: There is none.
        """
        found = self.projection.episodes.get(name) or self._over.get(name)
        if found is not None:
            return found
        rows = self._log.of_episode(name) if EPISODE_NAME.fullmatch(name) else []
        if not rows:
            raise NotFound(f"episode {name!r} does not exist; open it first")
        past, closed = Projection(self.projection.mode), None
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
