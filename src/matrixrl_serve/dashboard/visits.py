"""How often each action was taken in each state, counted from the log by its database."""

from __future__ import annotations

from typing import Any

import numpy as np
import sqlalchemy as sa

from matrixrl.records import IntArray
from matrixrl_serve.log import EventLog
from matrixrl_serve.log.database import failing
from matrixrl_serve.log.tables import events

__all__ = ["VisitTable"]

_MOST = 50_000  # events that are counted at once; a long log takes several looks


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
        until = min(last, self.seq + _MOST)
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
