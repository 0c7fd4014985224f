"""HTTP/1.1 with limits that httptools does not have: how long a head may be, and how long it may take."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["LARGEST_HEAD", "BoundedProtocol"]

LARGEST_HEAD = 1 << 16
"""Bytes of the request line and the headers."""
PATIENCE = 20.0
"""Seconds in which they must arrive."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections whose next request has too long a head, or one that does not come to its end in time."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._is_head, self._size = True, 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take data, and close the connection if its head is too long."""
        super().data_received(data)
        if self._is_head:
            self._size += len(data)
            if self._size > LARGEST_HEAD:
                self.transport.abort()

    def on_message_begin(self) -> None:
        """Wait for the end of the head."""
        super().on_message_begin()
        self._size = 0
        self._expect_head()

    def on_headers_complete(self) -> None:
        """Take the head; the body has limits of its own."""
        self._is_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def _expect_head(self) -> None:
        self._is_head = True
        if self._deadline is None:
            self._deadline = self.loop.call_later(PATIENCE, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.abort()
