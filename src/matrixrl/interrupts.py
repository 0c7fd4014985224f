"""Context managers that delay or ignore Ctrl-C (SIGINT), so that it never interrupts a change halfway."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["ignoring_interrupts", "uninterrupted"]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the block is finished.

    Outside the main thread this does nothing, because Python handles signals in the main thread only.

    >>> with uninterrupted():
    ...     done = True
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[tuple[int, FrameType | None]] = []
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):  # SIGINT is ignored or has the default action of the system: nothing to delay
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: pending.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pending:
            before(*pending[0])


@contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C inside the block; processes that are started in the block inherit this and always ignore it.

    >>> with ignoring_interrupts():
    ...     started = True
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
