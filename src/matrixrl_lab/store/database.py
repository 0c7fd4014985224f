"""The file of a store: its lock, its connection, and its rows, which are verified by their checksums when read."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matrixrl.errors import StoreError
from matrixrl.folder_lock import FolderLock
from matrixrl_lab.store.schema import FILE, LOCK, TABLES

__all__ = [
    "Database",
    "as_text",
    "checksum",
    "connect",
    "damaged",
    "release_on_error",
    "sealed",
    "store_errors",
    "writer_lock",
]


def writer_lock(folder: Path) -> FolderLock:
    """Return the exclusive permission to write to a store, until its `release` or the end of the process.

    Raises:
        StoreError: Another process has the lock, or the directory cannot be written.
    """
    return FolderLock(folder, LOCK, f"wait for it, or follow it: matrixrl watch {folder}")


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open the file of a store.

    Args:
        path: File of the store.
        read_only: Whether to open it for reading only.
    """
    if read_only:
        # Reading in WAL mode needs two auxiliary files in the directory. If they are missing and cannot be created, no
        # process is writing, and the file can be opened as immutable.
        has_wal = os.access(path.parent, os.W_OK) or path.with_name(f"{path.name}-wal").exists()
        uri = f"{path.absolute().as_uri()}?mode=ro{'' if has_wal else '&immutable=1'}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30.0)
    else:
        connection = sqlite3.connect(path, isolation_level=None, timeout=30.0)
        connection.execute("PRAGMA journal_mode = WAL")
        # a kill loses nothing; a power failure loses at most the last blocks
        connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA trusted_schema = OFF")  # a view or a trigger of a changed file runs no functions
    return connection


def damaged(folder: Path, words: str) -> StoreError:
    """Return the error of a store whose contents are not what was written."""
    return StoreError(
        f"{folder / FILE} is damaged: {words}. Restore it from a copy, or run the experiment again in another directory"
    )


@contextmanager
def store_errors(folder: Path) -> Iterator[None]:
    """Raise errors of SQLite and of the operating system as a `StoreError` that names the directory."""
    try:
        yield
    except sqlite3.Error as error:
        words = str(error)
        if "full" in words:
            raise StoreError(
                f"{folder}: the disk is full; nothing of this block was stored and all earlier ones are intact"
            ) from error
        if "readonly" in words or "unable to open" in words or "disk I/O" in words:
            raise StoreError(f"{folder}: it cannot be written or opened ({words})") from error
        if "locked" in words:
            raise StoreError(f"{folder}: another process keeps {FILE} locked; try again later") from error
        raise StoreError(
            f"{folder}: {FILE} is damaged or not a store of matrixrl ({words}). Restore it from a copy, or run the "
            "experiment again in another directory"
        ) from error
    except MemoryError as error:
        raise damaged(folder, "one of its values does not fit in memory") from error
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror}") from error


@contextmanager
def release_on_error(lock: FolderLock) -> Iterator[None]:
    """Release a lock if the body raises."""
    try:
        yield
    except BaseException:
        lock.release()
        raise


Value = None | int | float | str | bytes
"""A value of an SQLite column."""

_SIZE = 16  # bytes


def checksum(table: str, row: Iterable[Value]) -> bytes:
    """Return the checksum of a row: a hash of its table and of the type, the length and the bytes of every value.

    Args:
        table: Name of the table.
        row: Values of all columns except the checksum.

    >>> checksum("meta", ["format", "3"]) == checksum("meta", ["format", 3])
    False
    """
    total = hashlib.blake2b(table.encode(), digest_size=_SIZE)
    for value in row:
        data = value if isinstance(value, bytes) else str(value).encode()
        total.update(f" {type(value).__name__} {len(data)} ".encode())
        total.update(data)
    return total.digest()


Row = tuple[Any, ...]


class Database:
    """An open file of a store.

    Args:
        folder: Directory of the store.
        connection: Connection to its file.
        is_writer: Whether rows may be written.
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection, *, is_writer: bool) -> None:
        self.folder, self._connection, self._is_writer = folder, connection, is_writer
        self._identity = _identity(folder / FILE)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def select(self, table: str, clause: str = "", values: tuple[Value, ...] = ()) -> list[Row]:
        """Return the rows of a table, without their checksums.

        Args:
            table: Name of the table.
            clause: The rest of the query, such as WHERE and ORDER BY.
            values: Values of the placeholders in the clause.

        Raises:
            StoreError: A row does not have its checksum, or the file cannot be read.
        """
        found = self.query(f"SELECT {', '.join(TABLES[table])}, checksum FROM {table} {clause}", values)
        for *row, kept in found:
            if kept != checksum(table, row):
                raise damaged(self.folder, f"a row of the table {table} does not have its checksum")
        return [row[:-1] for row in found]

    def query(self, text: str, values: tuple[Value, ...] = ()) -> list[Row]:
        """Return the rows of any query, which are not verified."""
        with store_errors(self.folder):
            return self._connection.execute(text, values).fetchall()

    def put(self, table: str, rows: Iterable[Row]) -> None:
        """Insert rows, or replace those with the same key."""
        names = (*TABLES[table], "checksum")
        text = f"INSERT OR REPLACE INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        self._connection.executemany(text, (sealed(table, row) for row in rows))

    def execute(self, text: str, values: tuple[Value, ...] = ()) -> None:
        """Execute a statement that returns no rows."""
        self._connection.execute(text, values)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read from one snapshot of the store inside a ``with`` statement, while another process may write."""
        if self._connection.in_transaction:
            yield
            return
        self._check_file()
        with store_errors(self.folder):
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            with store_errors(self.folder):
                self._connection.execute("COMMIT")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Commit all changes of the body, or none if it raises or if the file of the store is gone."""
        if not self._is_writer:
            raise StoreError(f"{self.folder} was opened to read only")
        with store_errors(self.folder):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._check_file()
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _check_file(self) -> None:
        """Raise if the path of the store no longer leads to the open file: what is written there would be lost."""
        if _identity(self.folder / FILE) != self._identity:
            raise StoreError(
                f"{self.folder / FILE} was deleted, moved or replaced while it was in use; later results cannot be "
                "stored. Put it back and resume, or run the experiment again"
            )


def sealed(table: str, row: Iterable[Value]) -> Row:
    """Return a row with its checksum."""
    clean = [as_text(value) if isinstance(value, str) else value for value in row]
    return (*clean, checksum(table, clean))


def as_text(text: str) -> str:
    """Return text that SQLite can store: lone surrogates, which UTF-8 does not have, become escapes."""
    return text.encode("utf-8", errors="backslashreplace").decode()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
