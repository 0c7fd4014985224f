"""Context managers for Ctrl-C (SIGINT), which never interrupts a change halfway.

A service treats a termination signal (SIGTERM) in the same way.

A process whose parent ignores SIGINT, such as a background job of a shell, ignores it too, and so do these functions.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

__all__ = ["INTERRUPTED", "ending_at_once", "ending_in_order", "uninterrupted"]

INTERRUPTED = 130
"""Exit status of a command that Ctrl-C ended."""


class _Delayed:
    """Whether a block of the main thread delays Ctrl-C, so that blocks inside it need not."""

    active = False


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the block is finished.

    Outside the main thread this does nothing, because Python handles signals in the main thread only.
    """
    if _Delayed.active or threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[tuple[int, FrameType | None]] = []
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):  # SIGINT is ignored or has the default action of the system: nothing to delay
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: pending.append((number, frame)))
    _Delayed.active = True
    try:
        yield
    finally:
        _Delayed.active = False
        signal.signal(signal.SIGINT, before)
        if pending:
            before(*pending[0])


@contextmanager
def ending_at_once() -> Iterator[None]:
    """End the process with one line on Ctrl-C inside the block: for imports, which leave nothing to clean up."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Let a termination signal (SIGTERM) raise KeyboardInterrupt inside the block, as Ctrl-C does.

    Without it, the process ends at once and cleans nothing up. Outside the main thread this does nothing.

    >>> import os, signal
    >>> with ending_in_order():
    ...     try:
    ...         os.kill(os.getpid(), signal.SIGTERM)
    ...     except KeyboardInterrupt:
    ...         print("in order")
    in order
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    os.write(2, b"stopped\n")
    os._exit(INTERRUPTED)
