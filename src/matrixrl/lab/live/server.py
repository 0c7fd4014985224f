"""The server of the live page: this machine only, GET only, from one store that it only reads."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
import webbrowser
from collections.abc import AsyncIterator, Callable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from matrixrl.checks import fail, integer
from matrixrl.errors import MatrixRLError, MissingExtra
from matrixrl.lab.live.feed import Feed
from matrixrl.lab.live.guard import Guard

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["make_app", "serve"]

_HOST = "127.0.0.1"
_PORT_REMEDY = "Choose another with --port."
_TICK = 0.2  # seconds between two looks at whether to stop
_HEARTBEAT = 25  # ticks of silence before a sign of life, so that a lost connection is noticed
_SHEET_ID = re.compile(r'getElementById\("([0-9a-f]{64})"\)')
_GRACE = 2  # seconds that open connections have at the end


def make_app(folder: Path) -> FastAPI:
    """Return the live page of a store as an ASGI application.

    GET / is the page, /events a stream of snapshots (server-sent events), /snapshot.json the present one, /page.css,
    /page.js and /plotly.js what the page is made of. Nothing else is answered.

    Args:
        folder: of the store; it may come later.

    Raises:
        MissingExtra: fastapi or plotly is not installed.
    """
    try:
        import plotly  # noqa: F401
        from fastapi import FastAPI
        from fastapi.responses import Response, StreamingResponse
    except ImportError as error:
        raise MissingExtra(f"the live page needs {error.name}; pip install 'matrixrl[lab]'") from error

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.stopping = lambda: False
    feed = Feed(folder)

    def add_file(path: str, media_type: str, content: Callable[[], str]) -> None:
        def answer() -> Response:
            return Response(content(), media_type=media_type)

        app.get(path, response_model=None)(answer)

    add_file("/", "text/html", _page)
    add_file("/page.css", "text/css", lambda: _page_file("page.css"))
    add_file("/page.js", "text/javascript", lambda: _page_file("page.js"))
    add_file("/plotly.js", "text/javascript", _plotly)
    add_file("/snapshot.json", "application/json", lambda: feed.latest()[1])

    @app.get("/events", response_model=None)
    async def events() -> Response:
        return StreamingResponse(_events(feed, lambda: app.state.stopping()), media_type="text/event-stream")

    app.add_middleware(Guard)
    return app


async def _events(feed: Feed, stopping: Callable[[], bool]) -> AsyncIterator[str]:
    """Yield each new snapshot as an event; a comment from time to time where there is none."""
    yield "retry: 1000\n\n"
    seen, silence = 0, 0
    while not stopping():
        version, text = await asyncio.to_thread(feed.latest)
        if version != seen:
            seen, silence = version, 0
            yield f"data: {text}\n\n"
        elif silence >= _HEARTBEAT:
            silence = 0
            yield ": nothing new\n\n"
        silence += 1
        await asyncio.sleep(_TICK)


def serve(
    folder: Path,
    *,
    port: int = 8787,
    open_browser: bool = False,
    announce: Callable[[str], object] | None = None,
) -> None:
    """Serve the live page of a store on this machine until an interrupt (Ctrl-C), which ends it within seconds.

    Args:
        folder: of the store; it may come later.
        port: on 127.0.0.1; 0 takes any that is free.
        open_browser: whether to open the page there.
        announce: called once with the address, when it can be opened.

    Raises:
        MatrixRLError: the port is in use.
        MissingExtra: a package is missing.
    """
    app = make_app(folder)
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtra("the live page needs uvicorn; pip install 'matrixrl[lab]'") from error

    with _listening(port) as listener:
        url = f"http://{_HOST}:{listener.getsockname()[1]}/"
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, timeout_graceful_shutdown=_GRACE, server_header=False
        )
        server = uvicorn.Server(config)
        app.state.stopping = lambda: server.should_exit  # open streams end themselves, or the server would wait
        if announce is not None:
            announce(url)
        if open_browser:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()  # some browsers block
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:
            return  # uvicorn passes the interrupt on after it has ended


def _listening(port: int) -> socket.socket:
    if integer("--port", port, low=0, remedy="Ports go from 1 to 65535.") > 65535:
        fail("--port", "must be at most 65535", port, "Ports go from 1 to 65535.")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":  # a port that was left a moment ago is free; elsewhere the option means another thing
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_HOST, port))
        listener.listen()  # so that whoever is told the address can connect at once
    except OSError as error:
        listener.close()
        raise MatrixRLError(f"--port {port} cannot be used ({error.strerror}). {_PORT_REMEDY}") from error
    return listener


@cache
def _page() -> str:
    """Return the page, with the ids taken under which the chart library would add sheets for its maps.

    They would be inline styles, which the page's policy forbids, and there are no maps.
    """
    taken = "".join(f'<template id="{name}"></template>' for name in sorted(set(_SHEET_ID.findall(_plotly()))))
    return _page_file("page.html").replace("<!--taken ids-->", taken)


@cache
def _page_file(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
