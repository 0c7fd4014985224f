"""Requests that change something: open, ask, tell, end, abandon, time-out, batches, mode."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, TypeAdapter
from pydantic_core import to_json
from starlette.routing import BaseRoute, Route

from matrixrl.checks import fail
from matrixrl.errors import InvalidInput, MatrixRLError, StoreError
from matrixrl_serve.access import Access
from matrixrl_serve.decisions import Answer, Closed, Decisions, Opened, Recorded
from matrixrl_serve.errors import status_of
from matrixrl_serve.http.bodies import AskBody, BatchBody, BatchItem, CloseBody, ModeBody, OpenBody, TellBody, parsed
from matrixrl_serve.http.guard import Message, Receive, Send, refused, respond

__all__ = [
    "COMMANDS",
    "Command",
    "RouteContext",
    "authorization_of",
    "decision_routes",
    "describe_decisions",
    "writing_routes",
]

_TURN = 0.02  # seconds that the requests of a batch may take in one transaction, for which others wait
_REFERENCE = "#/components/schemas/{model}"


@dataclass(frozen=True)
class RouteContext:
    """What the routes of a service need.

    Attributes:
        decisions: What answers requests.
        access: Tokens.
        carry_out: Function of the service that decides a request, and returns its answer once it is durable.
    """

    decisions: Decisions
    access: Access
    carry_out: Callable[[Callable[[], Any]], Awaitable[Any]]

    def reader(self, request: Request, scope: str = "read") -> str:
        """Return who sends a request that needs a scope, or refuse it."""
        return self.actor(authorization_of(request), scope)

    def actor(self, authorization: str, *scopes: str) -> str:
        """Return who sends a request with a header, or refuse it."""
        kind, _, secret = authorization.partition(" ")
        return self.access.actor(secret.strip() if kind.lower() == "bearer" and secret else None, scopes)


@dataclass(frozen=True)
class Command:
    """A request that is about one episode.

    Attributes:
        model: Its body.
        scope: Scope that it needs.
        run: Method of `Decisions`; its keyword arguments are the fields of the body.
        answer: Record of the answer.
        words: What it does.
    """

    model: type[BaseModel]
    scope: str
    run: Callable[..., Any]
    answer: type
    words: str

    def reply(self, decisions: Decisions, actor: str, episode: str | None, body: BaseModel) -> Any:
        """Decide the request of an actor about an episode; one that opens it has its name in the body."""
        if self.model is OpenBody:
            return self.run(decisions, actor, **dict(body))
        if episode is None:
            fail("episode", "must be given", "nothing", "Give the name of an open episode.")
        return self.run(decisions, actor, episode, **dict(body))


COMMANDS = {
    "open": Command(
        OpenBody, "ask", Decisions.open, Opened, "Open an episode, which keeps the present plan until its end."
    ),
    "ask": Command(
        AskBody, "ask", Decisions.ask, Answer, "Ask what to do in a state; the same question has the same answer."
    ),
    "tell": Command(
        TellBody,
        "tell",
        Decisions.tell,
        Recorded,
        "Report the outcome of a step: late, in any order, and twice if in doubt.",
    ),
    "end": Command(CloseBody, "tell", Decisions.end, Closed, "End an episode before its last step."),
    "abandon": Command(
        CloseBody, "tell", Decisions.abandon, Closed, "Forget an episode; what is proven may end with it."
    ),
    "time_out": Command(
        CloseBody,
        "tell",
        Decisions.time_out,
        Closed,
        "Close an episode whose outcomes do not come, with the default reward.",
    ),
}


class _DecisionRoute:
    """ASGI endpoint of a request about an episode; one of FastAPI takes twice the time.

    Args:
        context: What it needs.
        command: What is requested.
    """

    def __init__(self, context: RouteContext, command: Command) -> None:
        self._context, self._command = context, command

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request once it is durable."""
        authorization, key = "", None
        for name, value in scope["headers"]:
            if name == b"authorization":
                authorization = value.decode("latin-1")
            elif name == b"idempotency-key":
                key = value.decode("latin-1")
        data = (await receive()).get("body", b"")  # the guard has read it whole
        context, command, episode = self._context, self._command, scope["path_params"].get("episode")
        try:
            actor = context.actor(authorization, command.scope)
            body = parsed(command.model, data)
            if key is not None:
                body = parsed(command.model, body.model_dump() | {"key": key})
            answer = await context.carry_out(lambda: command.reply(context.decisions, actor, episode, body))
        except MatrixRLError as error:
            return await respond(send, *refused(error))
        return await respond(send, 200, _dumped(answer))


def decision_routes(context: RouteContext) -> list[BaseRoute]:
    """Return the routes of requests about episodes; each is acknowledged once it is durable."""
    return [Route(_path(name), _DecisionRoute(context, one), methods=["POST"]) for name, one in COMMANDS.items()]


def describe_decisions(openapi: dict[str, Any]) -> None:
    """Add these routes to a description in the form of OpenAPI, and what the requests of batches refer to."""
    schemas = openapi["components"]["schemas"]
    schemas.update(BatchBody.model_json_schema(ref_template=_REFERENCE)["$defs"])
    for name, command in COMMANDS.items():
        answer = TypeAdapter(command.answer).json_schema(ref_template=_REFERENCE)
        schemas.update(answer.pop("$defs", {}))
        described = {"description": "Successful Response", "content": {"application/json": {"schema": answer}}}
        entry: dict[str, Any] = {
            "tags": ["decisions"],
            "summary": command.words,
            "operationId": name,
            "responses": {"200": described},
        }
        if name != "open":
            named = {"name": "episode", "in": "path", "required": True, "schema": {"type": "string"}}
            entry["parameters"] = [named]
        openapi["paths"].setdefault(_path(name), {})["post"] = entry | _documented(command.model)


def _path(name: str) -> str:
    return "/v1/episodes" if name == "open" else f"/v1/episodes/{{episode}}/{name.replace('_', '-')}"


def writing_routes(context: RouteContext) -> APIRouter:
    """Return the routes of batches and of the mode; each is acknowledged once it is durable."""
    router, decisions = APIRouter(), context.decisions

    @router.post(
        "/v1/batch",
        summary="Many requests at once, answered one by one in their order.",
        openapi_extra=_documented(BatchBody),
        response_class=Response,
        tags=["decisions"],
    )
    async def batch(request: Request) -> Response:
        authorization = authorization_of(request)
        actor = context.actor(authorization, "ask", "tell")
        body = parsed(BatchBody, await request.body())
        results: list[dict[str, Any]] = []
        while len(results) < len(body.requests):
            rest = body.requests[len(results) :]
            try:
                results += await context.carry_out(partial(_batch, context, actor, authorization, rest))
            except StoreError as error:
                if not results:
                    raise
                results += [_refusal(error)] * len(rest)  # the log has those before
        return Response(_dumped({"results": results}), media_type="application/json")

    @router.post(
        "/v1/mode",
        summary="Change the mode of the episodes that are opened from now on.",
        openapi_extra=_documented(ModeBody),
        response_class=Response,
        tags=["administration"],
    )
    async def mode(request: Request) -> Response:
        actor = context.reader(request, "admin")
        body = parsed(ModeBody, await request.body())
        found = await context.carry_out(lambda: decisions.set_mode(actor, body.mode, body.reason))
        return Response(_dumped({"mode": found}), media_type="application/json")

    return router


def _batch(
    context: RouteContext, actor: str, authorization: str, requests: Sequence[BatchItem]
) -> list[dict[str, Any]]:
    """Return the results of the first requests of some: of as many as others may wait for."""
    results: list[dict[str, Any]] = []
    deadline = time.monotonic() + _TURN
    for item in requests:
        try:
            command = COMMANDS[item.do]
            context.actor(authorization, command.scope)
            named = {"episode": item.episode} if item.do == "open" else {}
            own = parsed(command.model, (item.model_extra or {}) | named)
            results.append({"status": 200, "body": command.reply(context.decisions, actor, item.episode, own)})
        except MatrixRLError as error:
            results.append(_refusal(error))
        if time.monotonic() > deadline:
            break
    return results


def _refusal(error: MatrixRLError) -> dict[str, Any]:
    """Return the result of a request of a batch that failed with an error."""
    argument = error.argument if isinstance(error, InvalidInput) else None
    return {"status": status_of(error), "body": {"error": str(error), "argument": argument}}


def authorization_of(request: Request) -> str:
    """Return the header with the token; empty without one."""
    return request.headers.get("authorization", "")


def _dumped(data: object) -> bytes:
    """Return records and plain data as JSON."""
    return to_json(data, inf_nan_mode="null")


def _documented(model: type[BaseModel]) -> dict[str, Any]:
    """Return the description of a body for OpenAPI."""
    schema = model.model_json_schema(ref_template=_REFERENCE)
    schema.pop("$defs", None)
    return {"requestBody": {"content": {"application/json": {"schema": schema}}, "required": True}}
