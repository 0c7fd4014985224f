"""ASGI middleware of the live page: refuses requests from other hosts and adds security headers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from matrixrl.pages.server import PAGE_HEADERS, is_loopback

__all__ = ["Guard"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class Guard:
    """ASGI middleware that accepts only GET requests whose Host header is a loopback name.

    Another site can let its own name resolve to this machine (DNS rebinding), but the Host header still has that name.

    Args:
        app: Application that answers the accepted requests.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass an accepted request to the application, and refuse any other."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not is_loopback(hosts[0]):
            return await _refuse(send, 421, "This page is local: open it as 127.0.0.1 or localhost.\n")
        if scope["method"] != "GET":
            return await _refuse(send, 405, "Only GET is allowed: this page is read-only.\n", [(b"allow", b"GET")])

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *PAGE_HEADERS]}
            await send(message)

        return await self._app(scope, receive, send_guarded)


async def _refuse(send: Send, status: int, text: str, more: list[tuple[bytes, bytes]] | None = None) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *PAGE_HEADERS, *(more or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
