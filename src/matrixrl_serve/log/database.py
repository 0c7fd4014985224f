"""Databases that hold a log: one SQLite file in a directory, or PostgreSQL by its address."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from matrixrl.checks import file_path
from matrixrl.errors import StoreError
from matrixrl_serve.errors import WentBack
from matrixrl_serve.log.postgres import create_tables, is_address, lock_log, make_engine, shown_place
from matrixrl_serve.log.tables import metadata

__all__ = ["FILE", "LogFile", "appending", "failing", "log_file", "open_database"]

FILE = "log.db"
"""Name of the SQLite file in the directory of a service."""
_BUSY = 5.0  # seconds that a transaction waits for another process that writes to the file


def log_file(data: str | os.PathLike[str]) -> Path | None:
    """Return the file of a log in a directory; None for the address of a database."""
    return None if is_address(data) else Path(file_path("data", data)) / FILE


class LogFile:
    """The file of a log that is open: requests may be acknowledged only while it is in its place.

    A file that was deleted, replaced or moved with its directory still takes events by the connections that are open,
    and nobody finds them later. A log never shrinks, so a smaller file holds an older copy.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._wal = path, path.with_name(f"{path.name}-wal")
        self._known, self._size = _identity(path)
        self._known_wal: tuple[int, int] | None = None

    def connected(self) -> None:
        """Take the write-ahead log of a new connection as the right one."""
        self._known_wal = None

    def check(self) -> None:
        """Verify that the path leads to the file that is open.

        Raises:
            StoreError: It does not.
            WentBack: The file was overwritten by a smaller one, or its write-ahead log is gone.
        """
        (found, size), (wal, _) = _identity(self._path), _identity(self._wal)
        if found != self._known:
            words = "was deleted, replaced or moved while it was in use; nothing is acknowledged"
            raise StoreError(f"the log in {self._path.parent} {words}. Put it back, or stop the service")
        self._known_wal = self._known_wal or wal
        if size < self._size or wal != self._known_wal:
            words = "lost events: log.db was overwritten, or log.db-wal deleted, while it was in use"
            raise WentBack(f"the log in {self._path.parent} {words}. Stop the service, and restore a backup")
        self._size = size


def _identity(path: Path) -> tuple[tuple[int, int] | None, int]:
    """Return device and number of a file, and its size; None and 0 without one."""
    try:
        found = path.stat()
    except OSError:
        return None, 0
    return (found.st_dev, found.st_ino), found.st_size


def open_database(data: str | os.PathLike[str], *, create: bool = True) -> sa.Engine:
    """Return the database of a directory or an address; its tables are created if it has none.

    SQLite commits are on disk when they return (WAL, synchronous=FULL).

    Args:
        data: Directory, or address of a PostgreSQL database.
        create: Whether to create what does not exist.

    Raises:
        StoreError: There is no log, or it cannot be opened.
    """
    path = log_file(data)
    if path is None:
        engine = make_engine(str(data))
    else:
        if not path.is_file():
            if not create:
                raise StoreError(f"{path.parent} holds no log of a service ({FILE})")
            _create(path)
        place = f"{path.absolute().as_uri()}?mode=rw"  # a connection never creates a second, empty log
        engine = sa.create_engine(
            "sqlite://",
            creator=lambda: sqlite3.connect(place, uri=True, timeout=_BUSY, check_same_thread=False),
            poolclass=sa.pool.QueuePool,
        )
        sa.event.listen(engine, "connect", _set_pragmas)
    try:
        with failing(shown_place(data)):
            if create and path is None:
                create_tables(engine)
            elif create:
                metadata.create_all(engine)
            elif not sa.inspect(engine).has_table("events"):
                raise StoreError(f"{shown_place(data)} holds no log of a service")
    except BaseException:
        engine.dispose()
        raise
    return engine


def _create(path: Path) -> None:
    """Create an empty file that only its owner may read; SQLite gives its other files the same rights."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StoreError(f"cannot create {path}: {error.strerror}") from error


@contextmanager
def failing(place: str) -> Iterator[None]:
    """Turn errors of the database into `StoreError`.

    Args:
        place: Place of the log for messages; see `shown_place`.
    """
    try:
        yield
    except (sa.exc.SQLAlchemyError, sqlite3.Error, UnicodeError, OverflowError) as error:  # the last two: damaged cells
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
