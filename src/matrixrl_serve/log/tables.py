"""Tables of the database; PostgreSQL has two more, for plans and checkpoints that one process makes for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from matrixrl_serve.log.events import Event

__all__ = [
    "CLOSED",
    "OPENED",
    "STEPS",
    "TURNING",
    "checkpoints",
    "event_of",
    "events",
    "events_from",
    "insert",
    "metadata",
    "plans",
    "shared_metadata",
    "tokens",
]

shared_metadata = sa.MetaData()

plans = sa.Table(
    "plans",
    shared_metadata,
    sa.Column("version", sa.BigInteger(), primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger(), nullable=False),
    sa.Column("tables", sa.LargeBinary(), nullable=False),
)
"""Tables of the plans that open episodes have, and of the newest one; `seq` is the event that published it."""

checkpoints = sa.Table(
    "checkpoints",
    shared_metadata,
    sa.Column("seq", sa.BigInteger(), primary_key=True, autoincrement=False),
    sa.Column("agent", sa.LargeBinary(), nullable=False),
    sa.Column("state", sa.LargeBinary(), nullable=False),
)
"""The newest checkpoints: the two files of each."""


metadata = sa.MetaData()

events = sa.Table(
    "events",
    metadata,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("at", sa.Double(), nullable=False),
    sa.Column("kind", sa.Text(), nullable=False),
    sa.Column("actor", sa.Text(), nullable=False),
    sa.Column("episode", sa.Text()),
    sa.Column("step", sa.Integer()),
    sa.Column("key", sa.Text()),
    sa.Column("body", sa.Text(), nullable=False),
    sa.Column("digest", sa.Text(), nullable=False),
)
"""The log. Rows are only ever inserted."""


def _indexed(name: str, condition: str, *columns: sa.Column[Any], unique: bool = True) -> sa.TextClause:
    """Add an index of the events of some kinds, and return its condition."""
    where = sa.text(condition)
    sa.Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)
    return where


# No two processes can answer one question, or take one outcome, in two ways.
STEPS = _indexed("one_answer", "kind IN ('asked', 'told')", events.c.episode, events.c.step, events.c.kind)
OPENED = _indexed("one_episode", "kind = 'opened'", events.c.episode)
_indexed("one_begin", "kind = 'opened' AND key IS NOT NULL", events.c.actor, events.c.key)
CLOSED = _indexed("one_end", "kind IN ('ended', 'abandoned', 'timed_out')", events.c.episode)
TURNING = _indexed(
    "turning_points", "kind IN ('planned', 'mode', 'alarm', 'created')", events.c.kind, events.c.seq, unique=False
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("name", sa.Text(), primary_key=True),
    sa.Column("sha256", sa.Text(), nullable=False),
    sa.Column("scopes", sa.Text(), nullable=False),
    sa.Column("created_at", sa.Double(), nullable=False),
    sa.Column("revoked_at", sa.Double()),
    sa.Column("noted", sa.Text(), nullable=False),
)
"""Tokens; `noted` is what the log says about one: nothing, created, or revoked."""


def event_of(row: Any) -> Event:
    """Return the event of a row, whose columns are its attributes."""
    return Event(*row)


def events_from(connection: sa.Connection, seq: int) -> list[Event]:
    """Return the events with this number and above, in order."""
    query = sa.select(events).where(events.c.seq >= seq).order_by(events.c.seq)
    return [event_of(row) for row in connection.execute(query)]


def insert(connection: sa.Connection, rows: Sequence[Event]) -> None:
    """Write events."""
    connection.execute(events.insert(), [event.row() for event in rows])
