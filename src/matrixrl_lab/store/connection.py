"""Connections to the file of a store, and translation of errors of SQLite and of the operating system."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matrixrl.errors import StoreError
from matrixrl_lab.store.lock import WriterLock
from matrixrl_lab.store.schema import FILE

__all__ = ["connect", "damaged", "release_on_error", "store_errors"]


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
def release_on_error(lock: WriterLock) -> Iterator[None]:
    """Release a lock if the body raises."""
    try:
        yield
    except BaseException:
        lock.release()
        raise
