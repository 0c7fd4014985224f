"""HTTP/1.1 with limits that httptools does not have: number of connections, length and duration of a request."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from matrixrl_serve.http.gate import LARGEST_BODY

__all__ = ["LARGEST_HEAD", "BoundedProtocol", "most_connections"]

LARGEST_HEAD = 1 << 16
"""Bytes of the request line and the headers."""
PATIENCE = 25.0
"""Seconds in which a request must arrive; the gate answers a slow body before that."""
_LARGEST = LARGEST_HEAD + 2 * LARGEST_BODY  # the gate answers a large body before that
_MOST = 1000


def most_connections() -> int:
    """Return the largest number of open connections: half of the files that the process may have open, at most 1,000.

    The other half is for the log, the learner, and what is accepted before it can be counted.
    """
    with contextlib.suppress(ImportError):  # Windows
        import resource

        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if files != resource.RLIM_INFINITY:
            return max(8, min(_MOST, files // 2))
    return _MOST


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections whose next request is too long, or does not come to its end in time.

    If there are too many connections, one on which no request is being answered is closed: first those on which none
    ever was, and of them the one that was silent for the longest time.
    """

    _most = most_connections()

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._n_answered, self._heard = 0, self.loop.time()
        self._is_head, self._is_open, self._is_fresh, self._size = True, False, False, 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._expect_request()
        if len(self.connections) > self._most:
            idle = [one for one in self.connections if isinstance(one, BoundedProtocol) and one.is_idle]
            min(idle, key=lambda one: (one._n_answered > 0, one._heard), default=self).transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether no request that arrived as a whole is being answered."""
        return self._is_open or self.cycle is None or bool(self.cycle.response_complete)

    def on_response_complete(self) -> None:
        """Note that a request was answered."""
        self._n_answered += 1
        self._heard = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take data, and close the connection if the request that is under way is too long."""
        self._is_fresh, self._heard = False, self.loop.time()
        super().data_received(data)
        if self._is_open and not self._is_fresh:  # what came before its begin is not counted
            self._size += len(data)
            if self._size > (LARGEST_HEAD if self._is_head else _LARGEST):
                self.transport.abort()

    def on_message_begin(self) -> None:
        """Wait for the end of the request."""
        super().on_message_begin()
        self._is_head = self._is_open = self._is_fresh = True
        self._size = 0
        self._expect_request()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; what follows a body in chunks is none."""
        if self._is_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Take the head; the body has limits of its own."""
        self._is_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Take the end of the request."""
        self._is_open = False
        self._stop_waiting()
        super().on_message_complete()

    def _expect_request(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(PATIENCE, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.abort()
