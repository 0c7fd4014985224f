"""Lock for the only writer of a store; the operating system releases it when the process ends."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from matrixrl.errors import StoreError
from matrixrl.lab.store.schema import LOCK

__all__ = ["WriterLock"]


class WriterLock:
    """Exclusive permission to write to a store, until `release` or the end of the process.

    The lock is an exclusive transaction on an empty SQLite file in the same directory. It works on every operating
    system, and nothing has to be removed after a kill.

    Args:
        folder: Directory of the store.

    Raises:
        StoreError: Another process has the lock, or the directory cannot be written.
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
        """Release the lock."""
        self._connection.close()
