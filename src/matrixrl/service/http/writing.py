"""Requests that change something: open, ask, tell, end, abandon, time-out, batches, mode."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from matrixrl.checks import fail
from matrixrl.errors import InvalidInput, MatrixRLError
from matrixrl.service.access import Access, RateLimit
from matrixrl.service.desk import Answer, Closed, Desk, Opened, Recorded, Reply
from matrixrl.service.errors import status_of
from matrixrl.service.http.bodies import AskBody, BatchBody, CloseBody, ModeBody, OpenBody, TellBody, parsed

__all__ = ["Doors", "plain", "writing_routes"]

_KEY = "idempotency-key"


@dataclass(frozen=True)
class Doors:
    """What the routes of a service need.

    Attributes:
        desk: The desk.
        access: Tokens.
        limit: Limit of requests.
    """

    desk: Desk
    access: Access
    limit: RateLimit

    def actor(self, request: Request, *scopes: str) -> str:
        """Return who sends a request, or refuse it."""
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        found = self.access.actor(secret.strip() if kind.lower() == "bearer" and secret else None, scopes)
        self.limit.take(found)
        return found


@dataclass(frozen=True)
class _Command:
    """A request that is about one episode."""

    model: type[BaseModel]
    scope: str
    run: Callable[[Desk, str, str | None, Any], Reply]
    answer: type
    words: str


def _open(desk: Desk, actor: str, name: str | None, body: OpenBody) -> Reply:
    return desk.open(actor, episode=body.episode if name is None else name, key=body.key)


def _ask(desk: Desk, actor: str, name: str | None, body: AskBody) -> Reply:
    return desk.ask(actor, _named(name), state=body.state, allowed=body.allowed, step=body.step, key=body.key)


def _tell(desk: Desk, actor: str, name: str | None, body: TellBody) -> Reply:
    return desk.tell(
        actor,
        _named(name),
        reward=body.reward,
        next_state=body.next_state,
        terminated=body.terminated,
        state=body.state,
        action=body.action,
        step=body.step,
        key=body.key,
    )


def _end(desk: Desk, actor: str, name: str | None, body: CloseBody) -> Reply:
    return desk.end(actor, _named(name), key=body.key)


def _abandon(desk: Desk, actor: str, name: str | None, body: CloseBody) -> Reply:
    return desk.abandon(actor, _named(name), key=body.key)


def _time_out(desk: Desk, actor: str, name: str | None, body: CloseBody) -> Reply:
    return desk.time_out(actor, _named(name), key=body.key)


def _named(name: str | None) -> str:
    if name is None:
        fail("episode", "must be given", "nothing", "Give the name of an open episode.")
    return name


COMMANDS = {
    "open": _Command(OpenBody, "ask", _open, Opened, "Open an episode, which keeps the present plan until its end."),
    "ask": _Command(AskBody, "ask", _ask, Answer, "Ask what to do in a state; the same question has the same answer."),
    "tell": _Command(
        TellBody, "tell", _tell, Recorded, "Report the outcome of a step: late, in any order, and twice if in doubt."
    ),
    "end": _Command(CloseBody, "tell", _end, Closed, "End an episode before its last step."),
    "abandon": _Command(CloseBody, "tell", _abandon, Closed, "Forget an episode; what is proven may end with it."),
    "time_out": _Command(
        CloseBody, "tell", _time_out, Closed, "Close an episode whose outcomes do not come, with the default reward."
    ),
}


def writing_routes(doors: Doors) -> APIRouter:
    """Return the routes of requests that change something; each is acknowledged once it is durable."""
    router, desk = APIRouter(), doors.desk
    for name, command in COMMANDS.items():
        path = "/v1/episodes" if name == "open" else f"/v1/episodes/{{episode}}/{name.replace('_', '-')}"
        router.add_api_route(
            path,
            _handler(doors, command),
            methods=["POST"],
            summary=command.words,
            operation_id=name,
            openapi_extra=_documented(command.model),
            responses={200: {"model": command.answer}},
            response_class=Response,
            tags=["decisions"],
        )

    @router.post(
        "/v1/batch",
        summary="Many requests at once, answered one by one in their order.",
        openapi_extra=_documented(BatchBody),
        response_class=Response,
        tags=["decisions"],
    )
    async def batch(request: Request) -> Response:
        actor = doors.actor(request, "ask", "tell")
        body = parsed(BatchBody, await request.body())
        doors.limit.take(actor, len(body.requests))
        results, commit = [], None
        for item in body.requests:
            try:
                command = COMMANDS[item.do]
                doors.access.actor(_secret(request), [command.scope])
                own = parsed(
                    command.model, (item.model_extra or {}) | ({"episode": item.episode} if item.do == "open" else {})
                )
                reply = command.run(desk, actor, item.episode, own)
                commit = reply.commit
                results.append({"status": 200, "body": plain(reply.answer)})
            except MatrixRLError as error:
                argument = error.argument if isinstance(error, InvalidInput) else None
                results.append({"status": status_of(error), "body": {"error": str(error), "argument": argument}})
        if commit is not None:
            await commit.durable()  # the last one: transactions are durable in their order
        return _json({"results": results})

    @router.post(
        "/v1/mode",
        summary="Change the mode of the episodes that are opened from now on.",
        openapi_extra=_documented(ModeBody),
        response_class=Response,
        tags=["administration"],
    )
    async def mode(request: Request) -> Response:
        actor = doors.actor(request, "admin")
        body = parsed(ModeBody, await request.body())
        await desk.set_mode(actor, body.mode, body.reason).durable()
        return _json({"mode": desk.book.mode})

    return router


def _handler(doors: Doors, command: _Command) -> Callable[..., Any]:
    async def handle(request: Request) -> Response:
        actor = doors.actor(request, command.scope)
        body = parsed(command.model, await request.body())
        key = request.headers.get(_KEY)
        if key is not None:
            body = parsed(command.model, body.model_dump() | {"key": key})
        reply = command.run(doors.desk, actor, request.path_params.get("episode"), body)
        await reply.commit.durable()
        return _json(plain(reply.answer))

    return handle


def _secret(request: Request) -> str | None:
    return request.headers.get("authorization", "").partition(" ")[2].strip() or None


def plain(answer: Opened | Answer | Recorded | Closed) -> dict[str, Any]:
    """Return an answer as plain data."""
    found = {name: getattr(answer, name) for name in answer.__dataclass_fields__}
    if isinstance(answer, Answer) and answer.why is not None:
        found["why"] = [{"action": b.action, "lower": b.lower, "upper": b.upper} for b in answer.why]
    return found


def _json(data: dict[str, Any]) -> Response:
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return Response(text, media_type="application/json")


def _documented(model: type[BaseModel]) -> dict[str, Any]:
    """Return the description of a body for OpenAPI."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    return {"requestBody": {"content": {"application/json": {"schema": schema}}, "required": True}}
