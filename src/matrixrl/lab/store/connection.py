"""Opening the file of a store, and what SQLite and the system say in words of ours."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matrixrl.errors import StoreError
from matrixrl.lab.store.lock import WriterLock
from matrixrl.lab.store.schema import FILE

__all__ = ["complaining", "connect", "releasing"]


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Return a connection to the file of a store."""
    if read_only:
        # Reading in WAL mode needs helper files beside the store: where they are missing and cannot be made, nobody is
        # writing, and it can be read as it is.
        helped = os.access(path.parent, os.W_OK) or path.with_name(f"{path.name}-wal").exists()
        frozen = "" if helped else "&immutable=1"
        uri = f"{path.absolute().as_uri()}?mode=ro{frozen}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30.0)
    else:
        connection = sqlite3.connect(path, isolation_level=None, timeout=30.0)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # a kill loses nothing; a power cut at most the last blocks
    return connection


@contextmanager
def complaining(folder: Path) -> Iterator[None]:
    """Turn what SQLite and the system say into one clear line."""
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
def releasing(lock: WriterLock) -> Iterator[None]:
    """Let others write if the block does not end well."""
    try:
        yield
    except BaseException:
        lock.release()
        raise
