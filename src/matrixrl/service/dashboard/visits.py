"""How often each action was taken in each state, counted from the log by its database."""

from __future__ import annotations

import numpy as np
import sqlalchemy as sa

from matrixrl.records import IntArray
from matrixrl.service.log import EventLog
from matrixrl.service.log.database import failing
from matrixrl.service.log.tables import events

__all__ = ["Visits"]

_MOST = 50_000  # events that are counted at once; a long log takes several looks


class Visits:
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
        state, action = _number("state", self._log), _number("action", self._log)
        query = (
            sa.select(state, action, sa.func.count())
            .where(events.c.seq > self.seq, events.c.seq <= until, events.c.kind == "told")
            .group_by(state, action)
        )
        with failing(self._log.data), self._log.engine.connect() as connection:
            rows = [(int(s), int(a), int(n)) for s, a, n in connection.execute(query)]
        if rows:
            table = self.table.copy()
            for s, a, n in rows:
                table[s, a] += n
            self.table = table
        self.seq = until


def _number(name: str, log: EventLog) -> sa.ColumnElement[int]:
    """Return a number in the body of an event as an expression of the database."""
    as_json = sa.type_coerce if log.engine.dialect.name == "sqlite" else sa.cast
    found: sa.ColumnElement[int] = as_json(events.c.body, sa.JSON())[name].as_integer()
    return found
