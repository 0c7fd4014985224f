"""Lock for the only writer of a directory; the operating system releases it when the process ends."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from pathlib import Path

from matrixrl.errors import StoreError

if sys.platform != "win32":
    import fcntl

__all__ = ["FolderLock"]


class FolderLock:
    """Exclusive permission to write to a directory, until `release` or the end of the process.

    There are two locks. One is an exclusive transaction on an empty SQLite file in the directory, which works on every
    operating system, but the file can be deleted on POSIX systems. There the directory itself is locked as well, which
    nobody can delete without deleting what is in it. The SQLite file has the `name`, and `remedy` says what to do if
    another process has the lock.

    Raises:
        StoreError: Another process has the lock, or the directory cannot be written.
    """

    def __init__(self, folder: Path, name: str, remedy: str) -> None:
        self._folder = _locked_folder(folder, remedy)
        self._connection: sqlite3.Connection | None = None
        try:
            self._connection = sqlite3.connect(folder / name, timeout=0.0, isolation_level=None)
            self._connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            self.release()
            if "locked" in str(error):
                raise _in_use(folder, remedy) from error
            raise StoreError(f"cannot write to {folder}: {error}") from error

    def release(self) -> None:
        """Release the lock."""
        if self._connection is not None:
            self._connection.close()
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None


def _locked_folder(folder: Path, remedy: str) -> int | None:
    """Return a descriptor of the directory that holds a lock; None if the file system has no locks of directories."""
    if sys.platform == "win32":  # a file in use cannot be deleted
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise StoreError(f"cannot write to {folder}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise _in_use(folder, remedy) from error
        return None  # some network file systems lock files only
    return descriptor


def _in_use(folder: Path, remedy: str) -> StoreError:
    return StoreError(f"{folder} is being written by another process; {remedy}")
