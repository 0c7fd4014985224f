"""Start of a worker process: it ignores Ctrl-C, and it ends when its parent does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time

__all__ = ["start_worker"]

_PAUSE = 0.5  # seconds between two looks at the parent
_FAILURE = 1


def start_worker(parent: int) -> None:
    """Prepare a worker; the first thing that it runs.

    A parent that is killed cannot stop its workers, and one in the middle of a long block would not notice.

    Args:
        parent: Process id of the parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers
    threading.Thread(target=_end_with, args=(parent,), name="end-with-parent", daemon=True).start()


def _end_with(parent: int) -> None:
    """Wait for the end of the parent, then end this process without cleaning up: nobody would read the result."""
    if os.name == "posix":
        while os.getppid() == parent:
            time.sleep(_PAUSE)
    else:
        process = multiprocessing.parent_process()
        if process is None:
            return
        process.join()
    os._exit(_FAILURE)
