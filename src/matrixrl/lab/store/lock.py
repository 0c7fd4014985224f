"""One writer at a time: a lock that the operating system drops when its holder dies, however it dies."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from matrixrl.errors import StoreError
from matrixrl.lab.store.schema import LOCK

__all__ = ["WriterLock"]


class WriterLock:
    """The right to write to a store, held until `release` or the end of the process.

    It is an exclusive transaction on an empty SQLite file beside the store: the same on every system, with nothing to
    clean up after a kill.

    Args:
        folder: of the store.

    Raises:
        StoreError: somebody else is writing.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        try:
            self._connection = sqlite3.connect(path, timeout=0.0, isolation_level=None)
            self._connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise StoreError(
                    f"{folder} is being written by another process; wait for it, or follow it: matrixrl watch {folder}"
                ) from error
            raise StoreError(f"cannot write to {folder}: {error}") from error

    def release(self) -> None:
        """Let others write."""
        self._connection.close()
