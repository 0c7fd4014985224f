"""The latest state as JSON, taken at most once a second for any number of open pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

__all__ = ["Feed"]

_PAUSE = 1.0  # seconds between two snapshots
_SHARE = 0.2  # largest share of the time that snapshots may take, so that large ones do not slow down other work


class Feed:
    """Parts of a snapshot, each with a version number that increases whenever the part changes.

    Args:
        take: Function that returns the parts as text by their names.
        clock: Function that returns a time in seconds that never goes back.

    >>> feed = Feed(lambda: {"message": "{}"})
    >>> feed.latest(), feed.is_old
    ({'message': (1, '{}')}, False)
    """

    def __init__(self, take: Callable[[], Mapping[str, str]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._take, self._clock = take, clock
        self._lock = threading.Lock()
        self._parts: dict[str, tuple[int, str]] = {}
        self._next = -float("inf")

    @property
    def is_old(self) -> bool:
        """Whether `latest` takes a new snapshot."""
        return self._clock() >= self._next

    @property
    def parts(self) -> dict[str, tuple[int, str]]:
        """Version and text of each part, as they were taken last; taking costs nothing."""
        return self._parts

    def latest(self) -> dict[str, tuple[int, str]]:
        """Return version and text of each part, which are taken again if they are old enough."""
        with self._lock:
            started = self._clock()
            if started >= self._next:
                fresh = dict(self._parts)
                for name, text in self._take().items():
                    version, before = fresh.get(name, (0, ""))
                    if text != before:
                        fresh[name] = version + 1, text
                self._parts = fresh
                ended = self._clock()
                self._next = ended + max(_PAUSE, (ended - started) / _SHARE)
            return self._parts
