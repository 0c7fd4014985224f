"""Turning points of a service: its plans with their bounds, changes of the mode, and alarms."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from matrixrl_serve.dashboard.words import event_row
from matrixrl_serve.log import EventLog
from matrixrl_serve.problem import ServedProblem

__all__ = ["DecisionHistory"]

_POINTS = 300  # of a curve
_TURNS = 20  # changes of the mode and alarms
_PAGE = 1000


class DecisionHistory:
    """What the log says about plans, modes and alarms, read as it grows.

    Args:
        log: The log.
        problem: The problem.
    """

    def __init__(self, log: EventLog, problem: ServedProblem) -> None:
        self._log, self._problem = log, problem
        self._seq = 0
        self._plans: list[tuple[float, ...]] = []
        self._turns: deque[dict[str, Any]] = deque(maxlen=_TURNS)

    def refresh(self, last: int) -> None:
        """Read what came since, up to the event with a number."""
        while self._seq < last:
            rows = self._log.page(self._seq, limit=_PAGE, until=last, kinds=["planned", "mode", "alarm"])
            for event in rows:
                if event.kind == "planned":
                    self._plans.append(_of_plan(event.at, event.body))
                else:
                    self._turns.append(event_row(event, self._problem))
            self._seq = last if len(rows) < _PAGE else rows[-1].seq

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The last changes of the mode and alarms, the newest first."""
        return list(reversed(self._turns))

    def curves(self) -> dict[str, list[float | None]]:
        """Return the bounds of the plans as columns; of many plans, only some and the last."""
        plans = np.array(self._plans).reshape(-1, len(_COLUMNS))
        some = np.unique(np.linspace(0, max(0, len(plans) - 1), min(_POINTS, len(plans))).round().astype(int))
        return {
            name: [None if value != value else value for value in plans[some, k].tolist()]
            for k, name in enumerate(_COLUMNS)
        }


_COLUMNS = ("at", "plan", "episodes", "lower", "upper", "better_by", "better_by_most")


def _of_plan(at: float, body: dict[str, Any]) -> tuple[float, ...]:
    shown, compared = body["certificate"], body["comparison"]
    difference = (np.nan, np.nan) if compared is None else (compared["lower"], compared["upper"])
    return (at, body["plan"], body["episodes"], shown["lower"], shown["upper"], *difference)
