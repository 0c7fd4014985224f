"""What the servers of pages share: sockets, headers, names of hosts, and a feed of events."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

from matrixrl.checks import integer
from matrixrl.errors import MatrixRLError

__all__ = [
    "CONTENT_POLICY",
    "LOOPBACK",
    "PAGE_HEADERS",
    "Feed",
    "event_stream",
    "host_name",
    "is_loopback",
    "open_socket",
    "run_server",
]

# Plotly saves an image of a chart through data: and blob: addresses.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)
"""Headers of every answer of a server that serves one page: nothing from elsewhere, nothing inline, no frame."""

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine."""

_PAUSE = 1.0  # seconds between two snapshots
_SHARE = 0.2  # largest share of the time that snapshots may take, so that large ones do not slow down other work
_TICK = 0.2  # seconds between two checks for news or for the end
_HEARTBEAT = 25  # ticks without news after which a comment is sent, so that a lost connection is noticed


def open_socket(port: int, host: str = "127.0.0.1") -> socket.socket:
    """Return a socket of this machine that accepts connections; port 0 chooses a free one.

    Raises:
        InvalidInput: The port is not a number from 0 to 65535.
        MatrixRLError: The port is in use, or the address is none of this machine.
    """
    integer("--port", port, low=0, high=65535, remedy="Ports go from 1 to 65535.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    if os.name == "posix":  # reuse a port that was closed a moment ago; on Windows the option has another meaning
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)  # before the address is announced
    except OSError as error:
        listener.close()
        raise MatrixRLError(f"--port {port} cannot be used ({error.strerror}). Choose another with --port.") from error
    return listener


def run_server(app: Any, listener: socket.socket, **options: Any) -> None:
    """Serve an ASGI application until an interrupt.

    Args:
        app: The application; its `state.stopping` says whether open streams must end, as the server waits for them.
        listener: Socket that accepts connections.
        options: Other options of `uvicorn.Config`.
    """
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, access_log=False, server_header=False, **options))
    app.state.stopping = lambda: server.should_exit
    with suppress(KeyboardInterrupt):  # uvicorn raises the interrupt again after its shutdown
        server.run(sockets=[listener])


def host_name(host: str) -> str | None:
    """Return the name in a Host header, without its port and in small letters; None if the header is malformed.

    Another site can let its own name resolve to this machine (DNS rebinding), but the Host header still has that name.

    >>> host_name("LocalHost:8787"), host_name("[::1]:80"), host_name("a:b")
    ('localhost', '[::1]', None)
    """
    name, colon, port = host.rpartition(":")
    if not colon or "]" in port:
        name, port = host, ""
    return name.lower() if name and (port == "" or port.isdigit()) else None


def is_loopback(host: str) -> bool:
    """Return whether a Host header is a loopback name, with or without a port.

    >>> is_loopback("localhost:8787"), is_loopback("localhost.example.com:8787")
    (True, False)
    """
    return host_name(host) in LOOPBACK


class Feed:
    """Parts of a snapshot, each with a version number that increases whenever the part changes.

    `take` returns the parts as text by their names, and `clock` a time in seconds that never goes back.

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


async def event_stream(feed: Feed, is_over: Callable[[], bool]) -> AsyncIterator[str]:
    """Yield each new part of a shared feed as an event with its name, until `is_over`.

    From time to time it yields a comment if there is no news.
    """
    yield "retry: 1000\n\n"
    seen: dict[str, int] = {}
    silence = 0
    while not is_over():
        parts = await asyncio.to_thread(feed.latest) if feed.is_old else feed.parts
        news = {name: part for name, part in parts.items() if seen.get(name) != part[0]}
        for name, (version, text) in news.items():
            seen[name], silence = version, 0
            yield f"event: {name}\ndata: {text}\n\n"
        if silence >= _HEARTBEAT:
            silence = 0
            yield ": nothing new\n\n"
        silence += 1
        await asyncio.sleep(_TICK)
