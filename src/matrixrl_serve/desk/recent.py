"""Memory of what was over a moment ago, so that requests that arrive twice need no database."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Recent"]

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
