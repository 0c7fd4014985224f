"""A transport that calls an application in the same process, for tests and notebooks: no server, no port."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from typing import Any

import httpx

__all__ = ["InProcess"]


class InProcess(httpx.BaseTransport):
    """Runs an ASGI application in an event loop of its own thread; its lifespan lasts until `close`.

    Args:
        app: The application, such as `make_app(service)`.
    """

    def __init__(self, app: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="matrixrl-in-process", daemon=True)
        self._thread.start()
        self._inner = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        self._stack = AsyncExitStack()
        self._run(self._stack.enter_async_context(app.router.lifespan_context(app)))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the answer of the application."""
        return self._run(self._answer(request))  # type: ignore[no-any-return]

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        body = request.read()
        own = httpx.Request(request.method, request.url, headers=request.headers, content=body)
        answer = await self._inner.handle_async_request(own)
        content = await answer.aread()
        plain = [pair for pair in answer.headers.multi_items() if pair[0] not in ("content-encoding", "content-length")]
        return httpx.Response(answer.status_code, headers=plain, content=content)

    def close(self) -> None:
        """End the application and its thread."""
        if self._thread.is_alive():
            self._run(self._stack.aclose())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
