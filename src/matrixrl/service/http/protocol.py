"""HTTP/1.1 with limits that httptools does not have: how long a request may be, and how long it may take."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from matrixrl.service.http.gate import LARGEST_BODY

__all__ = ["LARGEST_HEAD", "BoundedProtocol"]

LARGEST_HEAD = 1 << 16
"""Bytes of the request line and the headers."""
PATIENCE = 25.0
"""Seconds in which a request must arrive; the gate answers a slow body before that."""
_LARGEST = LARGEST_HEAD + 2 * LARGEST_BODY  # the gate answers a large body before that


class BoundedProtocol(HttpToolsProtocol):
    """Closes connections whose next request is too long, or does not come to its end in time."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._is_head, self._is_open, self._is_fresh, self._size = True, False, False, 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take data, and close the connection if the request that is under way is too long."""
        self._is_fresh = False
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
