"""Databases that hold a log: one SQLite file in a directory, or PostgreSQL by its address."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from matrixrl.checks import file_path
from matrixrl.errors import StoreError
from matrixrl_serve.log.postgres import create_tables, is_address, lock_log, make_engine, shown_place
from matrixrl_serve.log.tables import metadata

__all__ = ["FILE", "appending", "failing", "open_database"]

FILE = "log.db"
"""Name of the SQLite file in the directory of a service."""
_BUSY = 5.0  # seconds that a transaction waits for another process that writes to the file


def open_database(data: str | os.PathLike[str], *, create: bool = True) -> sa.Engine:
    """Return the database of a directory or an address; its tables are created if it has none.

    SQLite commits are on disk when they return (WAL, synchronous=FULL).

    Args:
        data: Directory, or address of a PostgreSQL database.
        create: Whether to create what does not exist.

    Raises:
        StoreError: There is no log, or it cannot be opened.
    """
    if is_address(data):
        engine = make_engine(str(data))
    else:
        path = Path(file_path("data", data)) / FILE
        if not create and not path.is_file():
            raise StoreError(f"{path.parent} holds no log of a service ({FILE})")
        engine = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": _BUSY})
        sa.event.listen(engine, "connect", _set_pragmas)
    with failing(shown_place(data)):
        if create and is_address(data):
            create_tables(engine)
        elif create:
            metadata.create_all(engine)
        elif not sa.inspect(engine).has_table("events"):
            raise StoreError(f"{shown_place(data)} holds no log of a service")
    return engine


@contextmanager
def failing(place: str) -> Iterator[None]:
    """Turn errors of the database into `StoreError`.

    Args:
        place: Place of the log for messages; see `shown_place`.
    """
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise StoreError(f"the log in {place} cannot be used: {' '.join(str(cause).split())[:300]}") from error


@contextmanager
def appending(connection: sa.Connection, clock: Callable[[], float] = time.time) -> Iterator[float]:
    """Hold the lock of the log in a transaction, and yield the time in seconds since 1970.

    Transactions follow one another: the next one sees what this one committed. So numbers of events have no gaps and
    are those of the commits.

    Args:
        connection: The connection.
        clock: Function that returns the time; processes that share a PostgreSQL database use its clock instead.
    """
    with connection.begin():
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield clock()
        else:
            yield lock_log(connection)


def _set_pragmas(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()
