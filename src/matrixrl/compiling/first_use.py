"""A note on standard error when loops are compiled, so that nobody waits for them in silence."""

from __future__ import annotations

import multiprocessing
import os
import sys
from typing import Any

from numba.core import event

__all__ = ["FirstCompilation", "announce_first_compilation"]

_SPEAKERS = ("MainProcess", "LokyProcess-1")  # all workers of an experiment compile at the same time: one says so
_NOTE = "matrixrl: compiling loops with numba, which takes up to a minute; later runs read them from a cache"


class FirstCompilation(event.Listener):
    """Print one line when the first loop of the library is compiled; reading loops from the cache prints nothing."""

    is_said = False

    def on_start(self, event: Any) -> None:
        """Print the note if this is the first compilation of one of the library's functions."""
        module = event.data["dispatcher"].py_func.__module__ or ""  # a function made by exec has none
        if self.is_said or not module.startswith("matrixrl."):
            return
        FirstCompilation.is_said = True
        is_quiet = os.environ.get("MATRIXRL_PROGRESS_SECONDS") == "0"  # as for lines of progress
        if multiprocessing.current_process().name in _SPEAKERS and not is_quiet:
            print(_NOTE, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Do nothing."""


def announce_first_compilation() -> None:
    """Print a note when the first loop is compiled in this process."""
    register: Any = event.register  # numba has no annotations
    register("numba:compile", FirstCompilation())
