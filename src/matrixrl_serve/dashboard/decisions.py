"""Decisions of the last hour, from samples of a counter."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from itertools import pairwise

__all__ = ["Decisions"]

_MINUTES = 60


class Decisions:
    """Counts decisions by minutes; nothing is known of the time before the first sample.

    Args:
        clock: Function that returns a time in seconds that never goes back.

    >>> times = iter([0.0, 30.0, 60.0, 90.0, 90.0])
    >>> decisions = Decisions(clock=lambda: next(times))
    >>> for count in (100, 110, 125, 145):
    ...     decisions.sample(count)
    >>> decisions.by_minute()
    [10, 35]
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque(maxlen=_MINUTES * 60 + 60)

    def sample(self, count: int) -> None:
        """Note the number of decisions so far; call it about once a second."""
        self._samples.append((self._clock(), count))

    def by_minute(self) -> list[int]:
        """Return the decisions of each minute of the last hour, the last 60 seconds at the end."""
        samples, now = list(self._samples), self._clock()  # a copy: samples come from another thread
        if not samples:
            return []
        times = [at for at, _ in samples]
        known = min(_MINUTES, int(-(-(now - times[0]) // 60)))
        edges = [bisect_right(times, now - 60.0 * k) - 1 for k in range(known, 0, -1)]
        counts = [samples[max(0, edge)][1] for edge in edges] + [samples[-1][1]]
        return [after - before for before, after in pairwise(counts)]
