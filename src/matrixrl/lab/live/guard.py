"""What stands before every answer: requests from elsewhere are refused, and pages get headers that keep them alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["Guard"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

# Data addresses of images: pictures that the chart makes of itself when the reader asks for one.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


class Guard:
    """ASGI middleware that lets through GET requests to a name of this machine, and nothing else.

    A page of another site can make its own name point here (DNS rebinding); the Host header then still says that name.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not _is_loopback(hosts[0]):
            return await _refuse(send, 421, "This page is only for this machine: open it as 127.0.0.1 or localhost.\n")
        if scope["method"] != "GET":
            return await _refuse(send, 405, "Only GET: nothing can be changed here.\n", [(b"allow", b"GET")])

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
            await send(message)

        return await self._app(scope, receive, send_guarded)


def _is_loopback(host: str) -> bool:
    """Say whether a Host header names this machine, with or without a port.

    >>> _is_loopback("localhost:8787"), _is_loopback("localhost.example.com:8787")
    (True, False)
    """
    name, colon, port = host.rpartition(":")
    if not colon or "]" in port:
        name, port = host, ""
    return name.lower() in _LOOPBACK and (port == "" or port.isdigit())


async def _refuse(send: Send, status: int, words: str, more: list[tuple[bytes, bytes]] | None = None) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *_HEADERS, *(more or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": words.encode()})
