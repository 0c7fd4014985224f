"""A clock that stands still while numba compiles functions, or reads compiled ones from its cache."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

__all__ = ["listen_to_numba", "playing_time"]


class _Spent(threading.local):
    """Seconds that a thread has spent in the compiler, and whether it is there now."""

    seconds = 0.0
    depth = 0
    entered = 0.0


_spent = _Spent()
_is_listening = False


def playing_time() -> float:
    """Return `time.perf_counter()` without the seconds that this thread has spent in the compiler of numba.

    The difference of two calls is the time of what happened between them. Compiling, which is needed once on a machine,
    is not part of it, nor is loading compiled functions, nor waiting for another thread that compiles. Importing numba
    is. Without numba this is `time.perf_counter()`.
    """
    listen_to_numba()
    return time.perf_counter() - _spent.seconds


def listen_to_numba() -> None:
    """Register for the events of numba, once, if numba is imported."""
    global _is_listening
    if _is_listening or "numba.core.event" not in sys.modules:
        return
    from numba.core import event

    class Compiler(event.Listener):
        """Add up the time between the first request of the lock of the compiler and its last release."""

        def on_start(self, _: Any) -> None:
            """Note the time at the first request of a thread; a function may compile those that it calls."""
            if _spent.depth == 0:
                _spent.entered = time.perf_counter()
            _spent.depth += 1

        def on_end(self, _: Any) -> None:
            """Add the time since the first request at the last release."""
            if _spent.depth == 0:  # locked before this listener was registered
                return
            _spent.depth -= 1
            if _spent.depth == 0:
                _spent.seconds += time.perf_counter() - _spent.entered

    register: Any = event.register  # numba has no annotations
    register("numba:compiler_lock", Compiler())
    _is_listening = True
