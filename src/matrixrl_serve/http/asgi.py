"""Messages of ASGI, and refusals as answers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from matrixrl.errors import InvalidInput, MatrixRLError
from matrixrl_serve.errors import status_of

__all__ = ["App", "Message", "Receive", "Send", "error_body", "refused", "respond"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

_OF_STATUS = {401: [(b"www-authenticate", b"Bearer")], 429: [(b"retry-after", b"1")]}


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
