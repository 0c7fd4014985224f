"""What the dashboard shows over time: decisions by minutes, plans with their bounds, changes, and visits of pairs."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import sqlalchemy as sa

from matrixrl.records import IntArray
from matrixrl_serve.dashboard.event_text import event_row
from matrixrl_serve.log import EventLog
from matrixrl_serve.log.database import failing
from matrixrl_serve.log.tables import events
from matrixrl_serve.problem import ServedProblem

__all__ = ["DecisionCounter", "DecisionHistory", "VisitTable"]

_MINUTES = 60


class DecisionCounter:
    """Counts decisions by minutes; nothing is known of the time before the first sample.

    Args:
        clock: Function that returns a time in seconds that never goes back.

    >>> times = iter([0.0, 30.0, 60.0, 90.0, 90.0])
    >>> counter = DecisionCounter(clock=lambda: next(times))
    >>> for count in (100, 110, 125, 145):
    ...     counter.sample(count)
    >>> counter.by_minute()
    [10, 35]
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque(maxlen=_MINUTES * 60 + 60)

    def sample(self, count: int) -> None:
        """Note the number of decisions so far; call it about once a second."""
        self._samples.append((self._clock(), count))

    def by_minute(self) -> list[int]:
        """Return the decisions of each minute of the last hour, the last 60 seconds at the end."""
        samples, now = list(self._samples), self._clock()  # a copy: samples come from another thread
        if not samples:
            return []
        times = [at for at, _ in samples]
        known = min(_MINUTES, int(-(-(now - times[0]) // 60)))
        edges = [bisect_right(times, now - 60.0 * k) - 1 for k in range(known, 0, -1)]
        counts = [samples[max(0, edge)][1] for edge in edges] + [samples[-1][1]]
        return [after - before for before, after in pairwise(counts)]


_POINTS = 300  # of a curve
_CHANGES = 20  # changes of the mode and alarms
_PAGE = 1000


class DecisionHistory:
    """What the log says about plans, modes and alarms, read as it grows."""

    def __init__(self, log: EventLog, problem: ServedProblem) -> None:
        self._log, self._problem = log, problem
        self._seq = 0
        self._plans: list[tuple[float, ...]] = []
        self._changes: deque[dict[str, Any]] = deque(maxlen=_CHANGES)

    def refresh(self, last: int) -> None:
        """Read what came since, up to the event with a number."""
        while self._seq < last:
            rows = self._log.page(self._seq, limit=_PAGE, until=last, kinds=["planned", "mode", "alarm"])
            for event in rows:
                if event.kind == "planned":
                    self._plans.append(_of_plan(event.at, event.body))
                else:
                    self._changes.append(event_row(event, self._problem))
            self._seq = last if len(rows) < _PAGE else rows[-1].seq

    @property
    def changes(self) -> list[dict[str, Any]]:
        """The last changes of the mode and alarms, the newest first."""
        return list(reversed(self._changes))

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


_MOST_EVENTS = 50_000  # events that are counted at once; a long log takes several looks


class VisitTable:
    """Reported steps by state and action.

    Args:
        log: The log.
        n_states: Number of states.
        n_actions: Number of actions.

    Attributes:
        table: (S, A) Number of reported steps; a new array after each change.
        seq: Number of the last event that was counted.
    """

    def __init__(self, log: EventLog, n_states: int, n_actions: int) -> None:
        self._log = log
        self.table: IntArray = np.zeros((n_states, n_actions), dtype=np.int64)
        self.seq = 0

    def refresh(self, last: int) -> None:
        """Count some of the events that came since.

        Args:
            last: Number of the last event of the log.
        """
        until = min(last, self.seq + _MOST_EVENTS)
        if until <= self.seq:
            return
        query = _pairs(self._log, self.seq, until)
        with failing(self._log.data), self._log.engine.connect() as connection:
            rows = [(int(s), int(a), int(n)) for s, a, n in connection.execute(query)]
        if rows:
            table = self.table.copy()
            for s, a, n in rows:
                table[s, a] += n
            self.table = table
        self.seq = until


def _pairs(log: EventLog, after: int, until: int) -> sa.Select[Any]:
    """Return the query that counts pairs; numbers are read from the bodies by the database, not in Python."""
    as_json = sa.type_coerce if log.engine.dialect.name == "sqlite" else sa.cast
    body = as_json(events.c.body, sa.JSON())
    numbers = [body[name].as_integer().label(name) for name in ("state", "action")]
    told = sa.select(*numbers).where(events.c.seq > after, events.c.seq <= until, events.c.kind == "told").subquery()
    return sa.select(*told.c, sa.func.count()).group_by(*told.c)
