"""The present snapshot as JSON, taken at most once a second however many pages are open."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from matrixrl.errors import StoreError
from matrixrl.lab.live.snapshot import Watcher

__all__ = ["Feed"]

_PAUSE = 1.0  # seconds between two looks at the store
_SHARE = 0.2  # of the time at most is spent on looking, or a large store would slow down the work itself


class Feed:
    """Snapshots with a version that goes up whenever something changed.

    Args:
        folder: of the store; where there is none, the snapshot says so in `problem`.
    """

    def __init__(self, folder: Path) -> None:
        self._watcher = Watcher(folder)
        self._lock = threading.Lock()
        self._version, self._text = 0, ""
        self._next = 0.0

    def latest(self) -> tuple[int, str]:
        """Return version and JSON of the latest snapshot; a new one is taken if the last is old enough."""
        with self._lock:
            started = time.monotonic()
            if started >= self._next:
                text = self._look()
                if text != self._text:
                    self._version, self._text = self._version + 1, text
                ended = time.monotonic()
                self._next = ended + max(_PAUSE, (ended - started) / _SHARE)
            return self._version, self._text

    def _look(self) -> str:
        try:
            found = {"problem": None, **self._watcher.snapshot()}
        except (StoreError, OSError) as error:
            found = {"problem": str(error)}
        except (ValueError, LookupError) as error:  # rows that no writer of ours has written
            found = {"problem": f"{self._watcher.folder} is damaged: {error}"}
        return json.dumps(found, allow_nan=False, separators=(",", ":"))
