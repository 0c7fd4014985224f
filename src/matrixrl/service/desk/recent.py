"""Memory of what was over a moment ago, so that requests that arrive twice need no database."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Recent"]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """The last entries that were added, at most `size` of them.

    The size is larger than any transaction, so an entry that is not here any more is durable.

    >>> recent = Recent(2)
    >>> for number in range(3):
    ...     recent.add(number, str(number))
    >>> recent.get(0), recent.get(2)
    (None, '2')
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[Key, Value] = OrderedDict()

    def add(self, key: Key, value: Value) -> None:
        """Add an entry, and forget the oldest one if there are too many."""
        self._entries[key] = value
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def get(self, key: Key) -> Value | None:
        """Return an entry, or None."""
        return self._entries.get(key)
