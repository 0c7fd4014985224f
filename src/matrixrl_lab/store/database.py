"""The tables of a store: every row is written with its checksum and verified when it is read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matrixrl.errors import StoreError
from matrixrl_lab.store.checksums import Value, checksum
from matrixrl_lab.store.connection import damaged, store_errors
from matrixrl_lab.store.schema import FILE, TABLES

__all__ = ["Database", "as_text", "sealed"]

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
