"""Requests that change nothing: certificate, policy, values, alarm, episodes, events, export, metrics, health."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.background import BackgroundTask

from matrixrl import __version__
from matrixrl.checks import choice
from matrixrl_serve.errors import TooMany
from matrixrl_serve.export import export
from matrixrl_serve.http.write_routes import RouteContext
from matrixrl_serve.log import KINDS
from matrixrl_serve.problem import MODES
from matrixrl_serve.projection import EpisodeState

if TYPE_CHECKING:
    from matrixrl_serve.service import Service

__all__ = ["reading_routes"]

_FORMATS = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
_MOST = 1000
_LAST = 2**63 - 1  # of the numbers that a database holds


def reading_routes(service: Service, context: RouteContext, is_stopping: Callable[[], bool]) -> APIRouter:
    """Return the routes of requests that change nothing.

    What they read in memory is shown once it is durable.

    Args:
        service: The service.
        context: Tokens.
        is_stopping: Function that says whether the server ends, so that exports must end.
    """
    one_export = threading.Lock()
    router, decisions, problem = APIRouter(tags=["reading"]), service.decisions, service.problem

    def durable(content: dict[str, Any]) -> JSONResponse:
        service.settle()
        return JSONResponse(content)

    @router.get("/v1/certificate", summary="What is proven about the recommended policy and the best one.")
    def certificate(request: Request) -> JSONResponse:
        context.reader(request)
        newest = decisions.newest
        report = newest.report
        return durable({"plan": newest.version, **report["certificate"], "assumptions": report["assumptions"]})

    @router.get("/v1/policy", summary="The recommended policy: one action for each stage and state.")
    def policy(request: Request) -> JSONResponse:
        context.reader(request)
        newest, decode = decisions.newest, problem.actions.decode
        table = [[decode(action) for action in row[: problem.states.size]] for row in newest.recommended.tolist()]
        return durable({"plan": newest.version, "policy": table, "certificate": newest.report["certificate"]})

    @router.get("/v1/values", summary="Bounds on values over time, one entry for each plan.")
    def values(
        request: Request, after: int = Query(0, ge=0, le=_LAST), limit: int = Query(_MOST, ge=1, le=_MOST)
    ) -> JSONResponse:
        context.reader(request)
        rows = service.log.page(after, limit=limit, kinds=["planned"])
        found = [{"seq": row.seq, "at": row.at, **_of_plan(row.body)} for row in rows]
        return JSONResponse({"values": found})

    @router.get("/v1/alarm", summary="Whether the data contradict the assumptions, in words.")
    def alarm(request: Request) -> JSONResponse:
        context.reader(request)
        return durable({"alarm": decisions.projection.alarm, "guarantee": decisions.newest.report["guarantee"]})

    @router.get("/v1/mode", summary="The mode, and what is proven about the incumbent.")
    def mode(request: Request) -> JSONResponse:
        context.reader(request)
        found = {"mode": decisions.projection.mode, "promote": problem.file.promote}
        return durable({**found, "comparison": decisions.newest.report["comparison"]})

    @router.get("/v1/problem", summary="The problem file.")
    async def problem_file(request: Request) -> JSONResponse:
        context.reader(request)
        return JSONResponse({"digest": problem.file.digest, "problem": problem.file.model_dump()})

    @router.get("/v1/episodes", summary="Open episodes, the oldest first.")
    async def episodes(request: Request, limit: int = Query(_MOST, ge=1, le=_MOST)) -> JSONResponse:
        context.reader(request)
        some = [one.summary() for one in list(decisions.projection.episodes.values())[:limit]]
        counts = {"n_open": len(decisions.projection.episodes), "held_back": decisions.projection.n_held_back}
        await asyncio.wrap_future(service.writer.latest)
        return JSONResponse({**counts, "episodes": some})

    @router.get("/v1/episodes/{episode}", summary="One episode, open or over, with its steps.")
    def episode(request: Request, episode: str) -> JSONResponse:
        context.reader(request)
        return durable(_long(decisions.find(episode), service))

    @router.get("/v1/events", summary="The log itself; states and actions count from 0.")
    def events(
        request: Request,
        after: int = Query(0, ge=0, le=_LAST),
        limit: int = Query(100, ge=1, le=_MOST),
        kind: str | None = None,
    ) -> JSONResponse:
        context.reader(request)
        kinds = None if kind is None else [choice("kind", kind, KINDS)]
        rows = service.log.page(after, limit=limit, kinds=kinds)
        return JSONResponse({"events": [row.as_dict() for row in rows]})

    @router.get("/v1/export", summary="All finished episodes as a file; format=minari:NAME writes a data set here.")
    def export_file(request: Request, format: str = "csv") -> Response:
        context.reader(request, "admin" if format.startswith("minari:") else "read")
        if not one_export.acquire(blocking=False):
            raise TooMany("another export is under way; send the request again later")
        try:
            if format.startswith("minari:"):
                return JSONResponse({"steps": export(service.log, problem, format, is_stopping), "dataset": format})
            ending = choice("format", format, _FORMATS, remedy="Or minari: and the name of a new data set.")
            folder = tempfile.TemporaryDirectory(prefix="matrixrl-export-")
            path = Path(folder.name) / f"episodes.{ending}"
            export(service.log, problem, str(path), is_stopping)
        finally:
            one_export.release()
        done = BackgroundTask(folder.cleanup)
        return FileResponse(path, media_type=_FORMATS[ending], filename=path.name, background=done)

    @router.get("/metrics", summary="Metrics in the text format of Prometheus.")
    def metrics(request: Request) -> PlainTextResponse:
        context.reader(request)
        text = "\n".join(_metrics(service)) + "\n"
        service.settle()
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    @router.get("/health", summary="Whether the service takes requests, and whether its learner runs; needs no token.")
    async def health() -> JSONResponse:
        broken = service.writer.is_stalled
        found = {"status": "broken" if broken else "ok", "learner": "stopped" if service.failure else "ok"}
        return JSONResponse({**found, "version": __version__}, status_code=503 if broken else 200)

    return router


def _of_plan(body: dict[str, Any]) -> dict[str, Any]:
    shown = body["certificate"]
    bounds = {name: shown[name] for name in ("lower", "upper", "gap", "guarantee")}
    bounds["start"] = shown.get("start", "")  # plans of earlier versions do not name it
    return {"plan": body["plan"], "episodes": body["episodes"], **bounds, "comparison": body["comparison"]}


def _long(episode: EpisodeState, service: Service) -> dict[str, Any]:
    states, actions = service.problem.states.decode, service.problem.actions.decode
    steps = []
    for number, step in enumerate(episode.steps):
        asked, told = step.asked, step.told
        assert step.state is not None
        answer = None if asked is None or asked.action is None else actions(asked.action)
        entry: dict[str, Any] = {"step": number, "state": states(step.state), "answer": answer}
        if told is not None:
            following = None if told.following is None else states(told.following)
            entry |= {"action": actions(told.action), "reward": told.reward, "next_state": following}
            entry["terminated"] = told.terminated
        steps.append(entry)
    return episode.summary() | {"steps": steps}


def _metrics(service: Service) -> Iterator[str]:
    """Yield the lines of the metrics of a service in the text format of Prometheus."""
    decisions, projection = service.decisions, service.decisions.projection
    certificate, report = decisions.newest.report["certificate"], decisions.newest.report
    yield from _metric("events_total", "counter", "Events of the log.", projection.counts, label="kind")
    yield from _metric("open_episodes", "gauge", "Episodes that are open.", len(projection.episodes))
    held = "Episodes that are over, and wait until an older one is over too."
    yield from _metric("held_back_episodes", "gauge", held, projection.n_held_back)
    yield from _metric("repeated_requests_total", "counter", "Requests that had been answered.", decisions.n_repeated)
    yield from _metric("commits_total", "counter", "Transactions since the start.", service.writer.n_commits)
    yield from _metric("plan_version", "gauge", "Version of the newest plan.", projection.plan)
    yield from _metric("learned_episodes", "gauge", "Episodes behind the newest plan.", report["episodes"])
    yield from _metric("learner_behind_events", "gauge", "Events that the learner has not seen.", service.n_behind)
    yield from _metric("learner_running", "gauge", "Whether the learner runs.", int(service.failure is None))
    yield from _metric("value_lower", "gauge", "Lower bound of the recommended policy.", certificate["lower"])
    yield from _metric("value_upper", "gauge", "Upper bound of the best policy.", certificate["upper"])
    yield from _metric("proven", "gauge", "Whether the bounds are proven.", int(certificate["guarantee"]["holds"]))
    yield from _metric("alarm", "gauge", "Whether an alarm was raised.", int(projection.alarm is not None))
    yield from _metric(
        "mode", "gauge", "The present mode.", {m: int(m == projection.mode) for m in MODES}, label="mode"
    )


def _metric(
    name: str, kind: str, words: str, value: float | dict[str, int], *, label: str | None = None
) -> Iterator[str]:
    full = f"matrixrl_{name}"
    yield f"# HELP {full} {words}"
    yield f"# TYPE {full} {kind}"
    if isinstance(value, dict):
        yield from (f'{full}{{{label}="{key}"}} {number}' for key, number in value.items())
    else:
        yield f"{full} {value}"
