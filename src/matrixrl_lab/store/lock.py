"""Lock for the only writer of a store."""

from __future__ import annotations

from pathlib import Path

from matrixrl.folder_lock import FolderLock
from matrixrl_lab.store.schema import LOCK

__all__ = ["WriterLock"]


class WriterLock(FolderLock):
    """Exclusive permission to write to a store, until `release` or the end of the process.

    Args:
        folder: Directory of the store.

    Raises:
        StoreError: Another process has the lock, or the directory cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, LOCK, f"wait for it, or follow it: matrixrl watch {folder}")
