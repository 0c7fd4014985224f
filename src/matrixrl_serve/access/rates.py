"""A limit on the number of requests a second."""

from __future__ import annotations

import time
from collections.abc import Callable

from matrixrl_serve.errors import TooMany

__all__ = ["RateLimit"]


class RateLimit:
    """Allows each actor so many requests a second, and as many at once.

    Args:
        rate: Requests a second.
        clock: Function that returns a time in seconds that never goes back.

    >>> limit = RateLimit(2.0, clock=lambda: 0.0)
    >>> limit.take("a"), limit.take("a"), limit.take("b")
    (None, None, None)
    >>> limit.take("a")
    Traceback (most recent call last):
    matrixrl_serve.errors.TooMany: a may send 2 requests a second; wait and send this one again
    """

    def __init__(self, rate: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, actor: str, cost: int = 1) -> None:
        """Count a request, or refuse it.

        Args:
            actor: Who sends it.
            cost: Number of requests that it counts as, such as the size of a batch.
        """
        now = self._clock()
        left, then = self._left.get(actor, (self._rate, now))
        left = min(self._rate, left + (now - then) * self._rate)
        if left < min(cost, self._rate):
            raise TooMany(f"{actor} may send {self._rate:g} requests a second; wait and send this one again")
        self._left[actor] = (left - cost, now)
