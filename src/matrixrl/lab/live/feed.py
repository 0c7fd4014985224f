"""The latest snapshot as JSON, taken at most once a second for any number of open pages."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from matrixrl.errors import StoreError
from matrixrl.lab.live.snapshot import Watcher

__all__ = ["Feed"]

_PAUSE = 1.0  # seconds between two snapshots
_SHARE = 0.2  # largest share of the time that snapshots may take, so that a large store does not slow down the runs


class Feed:
    """Snapshots with a version number that increases whenever the snapshot changes.

    Args:
        folder: Directory of the store; if it holds no store, the snapshot has an error message in `problem`.
    """

    def __init__(self, folder: Path) -> None:
        self._watcher = Watcher(folder)
        self._lock = threading.Lock()
        self._version, self._text = 0, ""
        self._next = 0.0

    def latest(self) -> tuple[int, str]:
        """Return version and JSON of the latest snapshot, which is taken again if it is old enough."""
        with self._lock:
            started = time.monotonic()
            if started >= self._next:
                text = self._take()
                if text != self._text:
                    self._version, self._text = self._version + 1, text
                ended = time.monotonic()
                self._next = ended + max(_PAUSE, (ended - started) / _SHARE)
            return self._version, self._text

    def _take(self) -> str:
        try:
            found = {"problem": None, **self._watcher.snapshot()}
        except (StoreError, OSError) as error:
            found = {"problem": str(error)}
        except (ValueError, LookupError) as error:  # rows in an unknown format
            found = {"problem": f"{self._watcher.folder} is damaged: {error}"}
        return json.dumps(found, allow_nan=False, separators=(",", ":"))
