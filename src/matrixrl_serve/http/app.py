"""The ASGI application of a service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response

from matrixrl import __version__
from matrixrl.errors import MatrixRLError, StoreError
from matrixrl_serve.access import Access
from matrixrl_serve.dashboard import Dashboard
from matrixrl_serve.http.dashboard import dashboard_routes
from matrixrl_serve.http.guard import RequestGuard, error_body, refused
from matrixrl_serve.http.read_routes import reading_routes
from matrixrl_serve.http.write_routes import RouteContext, decision_routes, describe_decisions, writing_routes
from matrixrl_serve.service import Service

__all__ = ["make_app"]

logger = logging.getLogger("matrixrl_serve")
_READERS = 4  # threads of requests that read: more would only take time from those that write
_TICK = 1.0  # seconds between two looks at time-outs and tokens
_DESCRIPTION = (
    "Decisions for sequential problems, durable and with a proven bound on the policy in use. "
    "Open an episode, ask what to do in each state, and report what came of it. Every request may be sent again with "
    'the same idempotency key; it is done once. A refusal is `{"error": …, "argument": …}` and changes nothing.'
)


def make_app(service: Service, *, hosts: Sequence[str] = ()) -> FastAPI:
    """Return the application that serves a service.

    Args:
        service: The service, which the application does not close.
        hosts: Names under which it may be reached besides those of this machine.

    >>> import tempfile
    >>> from matrixrl_serve.problem import ProblemFile
    >>> with Service(ProblemFile(states=2, actions=2, horizon=2), tempfile.mkdtemp(), learning=False) as service:
    ...     app = make_app(service)
    >>> app.title
    'matrixrl serve'
    """
    access = Access(service.log)
    context = RouteContext(service.decisions, access, service.carry_out)
    dashboard = Dashboard(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = _READERS
        tasks = [asyncio.create_task(_maintain(service, access)), asyncio.create_task(_watch(dashboard))]
        yield
        for task in tasks:
            task.cancel()

    app = FastAPI(
        title="matrixrl serve",  # no name of the problem: /openapi.json needs no token
        description=_DESCRIPTION,
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=decision_routes(context),
    )
    app.add_middleware(RequestGuard, hosts=hosts)
    app.state.access = access
    app.state.stopping = lambda: False
    app.include_router(writing_routes(context))
    app.include_router(reading_routes(service, context, lambda: app.state.stopping()))
    app.include_router(dashboard_routes(dashboard, context, lambda: app.state.stopping()))
    app.add_exception_handler(MatrixRLError, _refused)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(Exception, _failed)
    app.add_exception_handler(404, _nothing_here)
    app.add_exception_handler(405, _nothing_here)
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            describe_decisions(described())
        return described()

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI documents it
    return app


async def _maintain(service: Service, access: Access) -> None:
    """Let overdue episodes time out, and take notice of new and revoked tokens."""
    while True:
        try:
            await asyncio.to_thread(service.maintain, access)
        except StoreError as error:
            logger.error("the log cannot be used: %s", error)
        except Exception:  # time-outs and tokens are looked after as long as the service runs
            logger.exception("looking after time-outs and tokens failed")
        await asyncio.sleep(_TICK)


async def _watch(dashboard: Dashboard) -> None:
    """Count decisions by the minute, whether a page is open or not."""
    while True:
        dashboard.sample()
        await asyncio.sleep(_TICK)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, MatrixRLError)
    status, body, headers = refused(error)
    return Response(body, status, {name.decode(): value.decode() for name, value in headers}, "application/json")


async def _malformed(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    argument = str(first["loc"][-1])
    words = f"{argument} is invalid ({first['msg']}); got {first.get('input')!r}. Correct it."
    return Response(error_body(words, argument), 422, media_type="application/json")


async def _failed(_: Request, __: Exception) -> Response:
    body = error_body("the service failed; its standard error says why")
    return Response(body, 500, {"connection": "close"}, "application/json")  # uvicorn closes it after an error


async def _nothing_here(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    words = "there is nothing at this address" if status == 404 else f"{request.method} is not known at this address"
    return Response(error_body(f"{words}; see /openapi.json"), status, media_type="application/json")
