"""The server of the live page: a read-only view of one store on the loopback address."""

from __future__ import annotations

import asyncio
import re
import threading
import webbrowser
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from matrixrl.errors import MissingExtra
from matrixrl.lab.live.feed import Feed
from matrixrl.lab.live.guard import Guard
from matrixrl.lab.pages import plotly_script, read_file, render, stylesheet
from matrixrl.lab.palette import LOOKS
from matrixrl.pages.listening import listening

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["make_app", "serve"]

_HOST = "127.0.0.1"
_TICK = 0.2  # seconds between two checks for news or for the end
_HEARTBEAT = 25  # ticks without news after which a comment is sent, so that a lost connection is noticed
_SHEET_ID = re.compile(r'getElementById\("([0-9a-f]{64})"\)')
_GRACE = 2  # seconds that open connections have to close at the end


def make_app(folder: Path) -> FastAPI:
    """Return the live page of a store as an ASGI application.

    GET / is the page, /events a stream of snapshots (server-sent events), /snapshot.json the latest snapshot, and
    /page.css, /page.js and /plotly.js are the files of the page. All other paths give an error.

    Args:
        folder: Directory of the store; it may be created later.

    Raises:
        MissingExtra: fastapi, jinja2 or plotly is not installed.
    """
    try:
        from fastapi import FastAPI
        from fastapi.responses import Response, StreamingResponse
    except ImportError as error:
        raise MissingExtra(f"the live page needs {error.name}; pip install 'matrixrl[lab]'") from error

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.stopping = lambda: False
    feed = Feed(folder)
    plotly = plotly_script()

    def add_file(path: str, media_type: str, text: str) -> None:
        app.get(path, response_model=None)(lambda: Response(text, media_type=media_type))

    add_file("/", "text/html", _page(plotly))
    add_file("/page.css", "text/css", stylesheet("live"))
    add_file("/page.js", "text/javascript", read_file("live.js"))
    add_file("/plotly.js", "text/javascript", plotly)

    @app.get("/snapshot.json", response_model=None)
    def latest() -> Response:
        return Response(feed.latest()[1], media_type="application/json")

    @app.get("/events", response_model=None)
    async def events() -> Response:
        return StreamingResponse(_events(feed, lambda: app.state.stopping()), media_type="text/event-stream")

    app.add_middleware(Guard)
    return app


async def _events(feed: Feed, stopping: Callable[[], bool]) -> AsyncIterator[str]:
    """Yield each new snapshot as an event, and a comment from time to time if there is none."""
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
        folder: Directory of the store; it may be created later.
        port: Port on 127.0.0.1; 0 chooses a free one.
        open_browser: Open the page in a web browser.
        announce: Function that is called once with the address, as soon as it accepts connections.

    Raises:
        InvalidInput: The port is not a number from 0 to 65535.
        MatrixRLError: The port is in use.
        MissingExtra: A package of the extra `lab` is not installed.
    """
    app = make_app(folder)
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtra("the live page needs uvicorn; pip install 'matrixrl[lab]'") from error

    with listening(port) as listener:
        url = f"http://{_HOST}:{listener.getsockname()[1]}/"
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, timeout_graceful_shutdown=_GRACE, server_header=False
        )
        server = uvicorn.Server(config)
        app.state.stopping = lambda: server.should_exit  # so that open streams end; the server waits for them
        if announce is not None:
            announce(url)
        if open_browser:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()  # the call may block
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:
            return  # uvicorn raises the interrupt again after its shutdown


def _page(plotly: str) -> str:
    """Return the HTML of the page.

    Plotly adds inline style sheets for maps, which the content policy forbids, unless elements with their ids exist.
    The page has no maps, so it reserves these ids.
    """
    return render(
        "live.html.j2",
        title="matrixrl live",
        reserved_ids=sorted(set(_SHEET_ID.findall(plotly))),
        looks=[asdict(look) for look in LOOKS],
    )
