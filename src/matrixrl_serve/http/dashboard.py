"""The dashboard over HTTP: a page that needs no token, and data that do."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Callable
from functools import cache

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from matrixrl.checks import choice
from matrixrl.pages.server import CONTENT_POLICY, event_stream
from matrixrl_serve.dashboard import PAGES, SORTS, Dashboard
from matrixrl_serve.dashboard.states import Query as StatesQuery
from matrixrl_serve.errors import Denied, TooMany
from matrixrl_serve.http.write_routes import RouteContext, authorization_of

__all__ = ["dashboard_routes"]

_FOLDER = "dashboard/"
_MOST_STREAMS = 64
_PART = 1 << 16  # bytes
_KEPT = {"cache-control": "private, max-age=86400"}  # it is large, and the same for all services
_POLICY = {"content-security-policy": CONTENT_POLICY}


def dashboard_routes(dashboard: Dashboard, context: RouteContext, is_stopping: Callable[[], bool]) -> APIRouter:
    """Return the routes of the dashboard.

    The page and its files say nothing about the service; what it shows comes through /v1/stream and /v1/states.

    Args:
        dashboard: What is shown.
        context: Tokens and limits.
        is_stopping: Function that says whether the server ends, so that open streams must end.
    """
    router, streams = APIRouter(), _Streams(dashboard, context, is_stopping)
    files = cache(_files)  # when first asked for, and then once for all connections

    def add_file(path: str, headers: dict[str, str] | None = None) -> None:
        def file(request: Request) -> Response:
            media_type, plain, packed = files()[path]
            own = {**(headers or {}), "vary": "accept-encoding"}
            if "gzip" in request.headers.get("accept-encoding", ""):
                plain, own["content-encoding"] = packed, "gzip"
            own["content-length"] = str(len(plain))
            return StreamingResponse(_parts(plain), media_type=media_type, headers=own)

        router.get(path, include_in_schema=False)(file)

    add_file("/", _POLICY)
    add_file(f"/{_FOLDER}page.css")
    add_file(f"/{_FOLDER}page.js")
    add_file(f"/{_FOLDER}plotly.js", _KEPT)

    @router.get("/v1/stream", summary="What the dashboard shows, as server-sent events.", tags=["reading"])
    async def stream(request: Request) -> Response:
        context.reader(request)
        streams.check()
        return StreamingResponse(streams.of(authorization_of(request)), media_type="text/event-stream")

    @router.get("/v1/states", summary="A page of the states: actions, visits and bounds.", tags=["reading"])
    def states(
        request: Request,
        stage: int = Query(0, ge=0, description="Stage, counted from 0; the last one if there are fewer."),
        search: str = Query("", max_length=100, description="Part of the names of the states."),
        sort: str = Query("state", description=f"One of {', '.join(SORTS)}."),
        descending: bool = False,
        page: int = Query(0, ge=0, description="Page of 50 states, counted from 0."),
    ) -> JSONResponse:
        context.reader(request)
        choice("sort", sort, SORTS)
        return JSONResponse(dashboard.states(StatesQuery(stage, search, sort, descending, page)))  # once it is durable

    return router


def _files() -> dict[str, tuple[str, bytes, bytes]]:
    """Return media type, bytes and compressed bytes of the files of the page, by their addresses."""
    found = {}
    for path, (media_type, text) in PAGES.served("dashboard", folder=_FOLDER, title="matrixrl serve").items():
        data = text.encode()
        found[path] = media_type, data, gzip.compress(data, mtime=0)
    return found


async def _parts(data: bytes) -> AsyncIterator[memoryview]:
    """Yield parts of a file, each once the one before is on its way: a client that does not read holds little."""
    whole = memoryview(data)
    for begin in range(0, len(data), _PART):
        yield whole[begin : begin + _PART]


class _Streams:
    """Open streams; one whose token is revoked ends."""

    def __init__(self, dashboard: Dashboard, context: RouteContext, is_stopping: Callable[[], bool]) -> None:
        self._feed, self._context, self._is_stopping = dashboard.feed, context, is_stopping
        self._n_open = 0

    def check(self) -> None:
        """Refuse one more stream if there are too many."""
        if self._n_open >= _MOST_STREAMS:
            raise TooMany(f"{_MOST_STREAMS} dashboards are open, which is the limit; close one")

    async def of(self, authorization: str) -> AsyncIterator[str]:
        """Yield the events for a viewer, as long as the token is valid."""

        def is_over() -> bool:
            try:
                self._context.actor(authorization, "read")
            except Denied:
                return True
            return self._is_stopping()

        self._n_open += 1
        try:
            async for text in event_stream(self._feed, is_over):
                yield text
        finally:
            self._n_open -= 1
