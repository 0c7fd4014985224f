"""The server of the live page: a read-only view of one store on the loopback address."""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from matrixrl.colours import LOOKS
from matrixrl.extras import naming_the_extra
from matrixrl.pages.server import Feed, event_stream, open_socket, run_server
from matrixrl_lab.live.snapshot import snapshots_of
from matrixrl_lab.pages import PAGES

if TYPE_CHECKING:
    from fastapi import FastAPI
from collections.abc import Awaitable, MutableMapping
from typing import Any

from matrixrl.pages.server import PAGE_HEADERS, is_loopback

__all__ = ["make_app", "serve"]

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


_HOST = "127.0.0.1"
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
    with naming_the_extra("lab", "the live page"):
        from fastapi import FastAPI
        from fastapi.responses import Response, StreamingResponse

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.stopping = lambda: False
    feed = Feed(snapshots_of(folder))

    def add_file(path: str, media_type: str, text: str) -> None:
        app.get(path, response_model=None)(lambda: Response(text, media_type=media_type))

    looks = [asdict(look) for look in LOOKS]
    for path, (media_type, text) in PAGES.served("live", folder="", title="matrixrl live", looks=looks).items():
        add_file(path, media_type, text)

    @app.get("/snapshot.json", response_model=None)
    def latest() -> Response:
        return Response(feed.latest()["message"][1], media_type="application/json")

    @app.get("/events", response_model=None)
    async def events() -> Response:
        return StreamingResponse(event_stream(feed, lambda: app.state.stopping()), media_type="text/event-stream")

    app.add_middleware(Guard)
    return app


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
    with naming_the_extra("lab", "the live page"), open_socket(port) as listener:
        url = f"http://{_HOST}:{listener.getsockname()[1]}/"
        if announce is not None:
            announce(url)
        if open_browser:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()  # the call may block
        run_server(app, listener, log_level="critical", timeout_graceful_shutdown=_GRACE)
