"""ASGI middleware that sees every request first: Host and Origin, size and time of the body, headers of answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from matrixrl.errors import InvalidInput, MatrixRLError
from matrixrl.pages.server import LOOPBACK, host_name
from matrixrl_serve.errors import status_of

__all__ = ["LARGEST_BODY", "Message", "Receive", "RequestGuard", "Send", "error_body", "refused", "respond"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

LARGEST_BODY = 1 << 20
_PATIENCE = 20.0  # seconds in which the whole body must arrive
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_ALL_HEADERS = [*_HEADERS, (b"cache-control", b"no-store")]
_OF_STATUS = {401: [(b"www-authenticate", b"Bearer")], 429: [(b"retry-after", b"1")]}


class RequestGuard:
    """Refuses requests of other hosts and sites, bodies that are too large, and bodies that take too long.

    Args:
        app: Application that answers the accepted requests.
        hosts: Names under which the service may be reached besides those of this machine.
        patience: Seconds in which the whole body must arrive.
    """

    def __init__(self, app: App, *, hosts: Sequence[str] = (), patience: float = _PATIENCE) -> None:
        self._app, self._patience = app, patience
        self._hosts = {*LOOPBACK, *(host.lower() for host in hosts)}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass an accepted request on, with its body read; answer any other."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or host_name(hosts[0]) not in self._hosts:
            return await _refuse(send, 421, "the Host header must be a name of this service; see --allow-host")
        if self._is_foreign(scope):
            return await _refuse(send, 403, "pages of other sites may not send requests to this service")
        body: bytes | None = b""
        if scope["method"] not in ("GET", "HEAD"):
            try:
                async with asyncio.timeout(self._patience):
                    body = await _read(receive)
            except _ClientGone:
                return None  # half a request is none
            except TimeoutError:
                return await _refuse(send, 408, f"the body must arrive within {self._patience:g} seconds")
        if body is None:
            return await _refuse(send, 413, f"the body must have at most {LARGEST_BODY} bytes; send smaller batches")
        whole: Message = {"type": "http.request", "body": body, "more_body": False}
        messages = iter([whole])

        async def receive_read() -> Message:
            found = next(messages, None)
            return await receive() if found is None else found

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", []))
                cached = any(name == b"cache-control" for name, _ in own)
                message = {**message, "headers": own + (_HEADERS if cached else _ALL_HEADERS)}
            await send(message)

        return await self._app(scope, receive_read, send_guarded)

    def _is_foreign(self, scope: Message) -> bool:
        """Say whether a page of another site made a browser send a request; a link to the dashboard is none."""
        for name, value in scope["headers"]:
            if name == b"sec-fetch-site" and value not in (b"same-origin", b"none"):
                return not (scope["method"] == "GET" and scope["path"] == "/")
            if name == b"origin" and host_name(value.decode("latin-1").partition("://")[2]) not in self._hosts:
                return True
        return False


class _ClientGone(Exception):
    """The client went away before its request was whole."""


async def _read(receive: Receive) -> bytes | None:
    """Return the body of a request; None if it is too large."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > LARGEST_BODY:
            return None
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


async def _refuse(send: Send, status: int, text: str) -> None:
    await respond(send, status, error_body(text), [*_ALL_HEADERS, (b"connection", b"close")])


def error_body(text: str, argument: str | None = None) -> bytes:
    """Return the body of a refusal."""
    return json.dumps({"error": text, "argument": argument}, ensure_ascii=False).encode()


def refused(error: MatrixRLError) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    """Return status, body and headers of the answer to a request that failed with an error."""
    argument = error.argument if isinstance(error, InvalidInput) else None
    status = status_of(error)
    return status, error_body(str(error), argument), _OF_STATUS.get(status, [])


async def respond(send: Send, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """Answer a request with JSON."""
    own = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": own})
    await send({"type": "http.response.body", "body": body})
