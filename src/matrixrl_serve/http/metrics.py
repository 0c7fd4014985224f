"""Metrics in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from matrixrl_serve.problem import MODES

if TYPE_CHECKING:
    from matrixrl_serve.runner import Service
    from matrixrl_serve.shared import SharedService

__all__ = ["metrics_text"]


def metrics_text(service: Service | SharedService) -> str:
    """Return the metrics of a service."""
    return "\n".join(_lines(service)) + "\n"


def _lines(service: Service | SharedService) -> Iterator[str]:
    desk, book = service.desk, service.desk.book
    certificate, report = desk.newest.report["certificate"], desk.newest.report
    yield from _metric("events_total", "counter", "Events of the log.", book.counts, label="kind")
    yield from _metric("open_episodes", "gauge", "Episodes that are open.", len(book.episodes))
    held = "Episodes that are over, and wait until an older one is over too."
    yield from _metric("held_back_episodes", "gauge", held, book.n_held_back)
    yield from _metric("repeated_requests_total", "counter", "Requests that had been answered.", desk.n_repeated)
    yield from _metric("commits_total", "counter", "Transactions since the start.", service.writer.n_commits)
    yield from _metric("plan_version", "gauge", "Version of the newest plan.", book.plan)
    yield from _metric("learned_episodes", "gauge", "Episodes behind the newest plan.", report["episodes"])
    yield from _metric("learner_behind_events", "gauge", "Events that the learner has not seen.", service.n_behind)
    yield from _metric("learner_running", "gauge", "Whether the learner runs.", int(service.failure is None))
    yield from _metric("value_lower", "gauge", "Lower bound of the recommended policy.", certificate["lower"])
    yield from _metric("value_upper", "gauge", "Upper bound of the best policy.", certificate["upper"])
    yield from _metric("proven", "gauge", "Whether the bounds are proven.", int(certificate["guarantee"]["holds"]))
    yield from _metric("alarm", "gauge", "Whether an alarm was raised.", int(book.alarm is not None))
    yield from _metric("mode", "gauge", "The present mode.", {m: int(m == book.mode) for m in MODES}, label="mode")


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
