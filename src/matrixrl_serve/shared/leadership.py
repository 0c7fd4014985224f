"""The lock of the learner: at most one session has it, and publishes plans through it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import sqlalchemy as sa

from matrixrl_serve.errors import Deposed, went_back
from matrixrl_serve.learner import Publication
from matrixrl_serve.log import Draft
from matrixrl_serve.log.database import appending, failing
from matrixrl_serve.log.events import chained
from matrixrl_serve.log.postgres import LEARN, SCHEMA
from matrixrl_serve.log.tables import TURNING, event_of, events, insert
from matrixrl_serve.problem import ServedProblem
from matrixrl_serve.projection import Projection
from matrixrl_serve.shared.storage import forget_plans, packed, write_plan

__all__ = ["Leadership", "publish", "somebody_leads"]

_HOLDERS = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = "
    f"{LEARN} AND objid = {SCHEMA}::oid AND objsubid = 2"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def somebody_leads(connection: sa.Connection) -> bool:
    """Say whether any process has the lock of the learner."""
    return bool(connection.execute(sa.text(_HOLDERS)).scalar_one())


class Leadership:
    """A session of the database that has the lock of the learner.

    The database releases the lock when the session ends, for whatever reason, and only after its last transaction is
    either committed or undone. Every transaction here runs in that session and verifies that it has the lock. So
    the next holder of the lock sees everything that was published before, and a learner that lost it publishes nothing.

    Args:
        connection: The session.
        place: Place of the log for messages.
    """

    def __init__(self, connection: sa.Connection, place: str) -> None:
        self._connection, self.place = connection, place

    @classmethod
    def attempt(cls, engine: sa.Engine, place: str) -> Self | None:
        """Return the leadership if no other session has it.

        Args:
            engine: Connections that are not kept for later use.
            place: Place of the log for messages.
        """
        with failing(place):
            connection = engine.connect()
            try:
                with connection.begin():
                    query = sa.text(f"SELECT pg_try_advisory_lock({LEARN}, {SCHEMA})")
                    if connection.execute(query).scalar_one():
                        return cls(connection, place)
                connection.close()
            except BaseException:
                connection.close()
                raise
        return None

    def check(self) -> None:
        """Verify that the session lives and has the lock.

        Raises:
            Deposed: It has not.
        """
        with self.transaction():
            pass

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Begin a transaction that only a learner may commit."""
        with failing(self.place), self._connection.begin():
            self._verify()
            yield self._connection

    @contextmanager
    def appending(self) -> Iterator[tuple[sa.Connection, float]]:
        """Begin a transaction with the lock of the log, and yield it with the time of the database."""
        with failing(self.place), appending(self._connection) as now:
            self._verify()
            yield self._connection, now

    def _verify(self) -> None:
        # A connection that was lost may have been replaced by a new session, which does not have the lock.
        mine = self._connection.execute(sa.text(f"{_HOLDERS} AND pid = pg_backend_pid()")).scalar_one()
        if not mine:
            raise Deposed(f"this process is not the learner of {self.place} any more: its session was lost")

    def close(self) -> None:
        """End the session, which releases the lock."""
        self._connection.invalidate()
        self._connection.close()


def publish(
    leadership: Leadership,
    publication: Publication,
    drafts: Sequence[Draft],
    problem: ServedProblem,
    projection: Projection,
) -> int:
    """Append the events of a plan, write its tables, and return the number of the last event.

    A change of mode is left out if the mode was changed meanwhile.

    Args:
        leadership: The session of the learner.
        publication: The plan.
        drafts: Its events, of which the first one publishes it.
        problem: The problem.
        projection: What the learner knows of the log.

    Raises:
        Deposed: Another learner published a plan meanwhile, or may do so.
        WentBack: The log is not the one that the plan was made from.
    """
    tables = packed(publication)
    with leadership.appending() as (connection, now):
        learned = connection.execute(sa.select(events.c.digest).where(events.c.seq == projection.seq)).scalar()
        if learned != projection.digest:
            raise went_back(leadership.place, projection.seq)
        newest, change = _newest(connection, "planned"), _newest(connection, "mode")
        if publication.version != (0 if newest is None else newest["plan"]) + 1:
            raise Deposed(f"plan {publication.version} was published by another learner")
        mode = problem.file.mode if change is None else change["to"]
        head = connection.execute(sa.select(events.c.seq, events.c.digest).order_by(events.c.seq.desc()).limit(1)).one()
        seq, digest, rows = int(head.seq), str(head.digest), []
        for draft in drafts:
            if draft.kind != "mode" or draft.body["from"] == mode:
                rows.append(chained(draft, seq + 1, now, digest))
                seq, digest = rows[-1].seq, rows[-1].digest
        insert(connection, rows)
        write_plan(connection, publication.version, tables, rows[0].seq)
        forget_plans(connection, projection)
    return seq


def _newest(connection: sa.Connection, kind: str) -> dict[str, Any] | None:
    """Return the body of the newest event of a kind; None without one."""
    query = sa.select(events).where(TURNING, events.c.kind == kind).order_by(events.c.seq.desc()).limit(1)
    found = connection.execute(query).first()
    return None if found is None else event_of(found).body
