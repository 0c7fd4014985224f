"""Connections to the file of a store, and translation of errors of SQLite and of the operating system."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matrixrl.errors import StoreError
from matrixrl.lab.store.lock import WriterLock
from matrixrl.lab.store.schema import FILE

__all__ = ["connect", "release_on_error", "store_errors"]


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
        connection.execute(
            "PRAGMA synchronous = NORMAL"
        )  # a kill loses nothing; a power failure loses at most the last blocks
    return connection


@contextmanager
def store_errors(folder: Path) -> Iterator[None]:
    """Raise errors of SQLite and of the operating system as a `StoreError` that names the directory."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        words = str(error)
        if "full" in words:
            words = "the disk is full; nothing of this block was stored and all earlier ones are intact"
        elif "not a database" in words or "malformed" in words or "no such" in words:
            words = f"{FILE} is damaged or not a store of matrixrl ({words})"
        elif "readonly" in words or "unable to open" in words:
            words = f"it cannot be written or opened ({words})"
        raise StoreError(f"{folder}: {words}") from error
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror}") from error


@contextmanager
def release_on_error(lock: WriterLock) -> Iterator[None]:
    """Release a lock if the body raises."""
    try:
        yield
    except BaseException:
        lock.release()
        raise
