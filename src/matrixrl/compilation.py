"""Compilation of loops with numba: whether to use it, and the decorators that compile.

numba is imported only when compiled loops are used, because the import takes half a second and some platforms have no
numba.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.checks import fail, optional_flag
from matrixrl.extras import missing_packages

__all__ = [
    "compiled",
    "inlined",
    "internal",
    "lean",
    "loop_array",
    "merged",
    "pays_off",
    "saves_time",
    "summed",
    "to_compile",
    "why_not_usable",
]

_WORTH_IT = 20_000  # stages with up to 100 pairs
_LOADING = 1.5  # seconds to import numba and to read compiled loops from their cache
_READING = 0.1  # seconds of the second part alone
_SOURCES = ("core/compiled/*.py", "play/compiled/*.py", "core/likelihood/radii.py")
_SPEAKERS = ("MainProcess", "LokyProcess-1")  # all workers of an experiment compile at the same time: one says so
_NOTE = "matrixrl: compiling loops with numba, which takes up to a minute; later runs read them from a cache"


@cache
def why_not_usable() -> str | None:
    """Return the reason why numba cannot be used, or None if it can; the first call imports numba."""
    if missing_packages(["numba"]):
        return "numba is not installed"
    try:
        import numba  # noqa: F401
    except ImportError as error:  # such as a NumPy version that numba does not support yet
        return f"numba cannot be imported ({error})"
    return None


def pays_off(n_episodes: int, horizon: int, n_pairs: int) -> bool:
    """Return whether compiled loops save more time than loading numba and the loops costs (about a second).

    With NumPy a stage of a backup takes about 60 µs, and more if there are hundreds of pairs.

    >>> pays_off(100, horizon=24, n_pairs=12), pays_off(1000, horizon=24, n_pairs=12)
    (False, True)
    """
    return n_episodes * horizon * max(1.0, n_pairs / 100.0) >= _WORTH_IT


def saves_time(wanted: bool | None, seconds: float) -> bool:
    """Return whether to use compiled loops that save so many `seconds` once they are loaded; as `to_compile`.

    >>> saves_time(False, 1000.0), saves_time(None, 0.001)
    (False, False)
    """
    if wanted is None:
        return seconds > (_READING if "numba" in sys.modules else _LOADING) and _usable()
    return to_compile(wanted, n_episodes=0, horizon=0, n_pairs=0)


def to_compile(wanted: bool | None, *, n_episodes: int, horizon: int, n_pairs: int) -> bool:
    """Return whether to use compiled loops: if they are wanted, or if that is None, they are available and pay off.

    Raises:
        InvalidInput: Compiled loops are requested but not available, or `wanted` is not True, False or None.
    """
    chosen = optional_flag("compiled", wanted)
    if chosen is None:
        return pays_off(n_episodes, horizon, n_pairs) and _usable()
    if chosen and (reason := why_not_usable()) is not None:
        fail("compiled", "needs numba", reason, "Install it: pip install numba.")
    return chosen


@cache
def _usable() -> bool:
    """Return whether numba can be used; warn once if it is installed but cannot be used."""
    reason = why_not_usable()
    if reason is not None and not missing_packages(["numba"]):
        warnings.warn(f"{reason}: compiled loops are left out", RuntimeWarning, stacklevel=2)
    return reason is None


def _jit(function: Callable[..., Any], fastmath: set[str], *, is_cached: bool, **more: Any) -> Any:
    """Return the compiled function, with a cache on disk if there is a writable directory and it is wanted."""
    from numba import njit

    _announce_first_compilation()
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath, "no_cfunc_wrapper": True}
    options |= more
    if not is_cached:
        return njit(**options)(function)
    try:
        made: Any = njit(cache=True, **options)(function)
    except RuntimeError:  # no writable cache directory: compile again in each process
        return njit(**options)(function)
    if made is function:  # NUMBA_DISABLE_JIT=1: the loops run as Python
        return function
    # numba watches the file of the function alone, and not those of the functions that it calls. It reads nothing of
    # a cache of another version, so classes of arguments may be renamed, too.
    made._cache._cache_file._version += _sources_stamp()
    return made


def _part(function: Callable[..., Any], fastmath: set[str], **more: Any) -> Any:
    """Return a compiled function that compiled functions alone call.

    The code that converts arguments from Python, which takes longer to compile than many a loop if they are tuples of
    arrays, is left out, and so is the cache: that of `compiled` functions has all that they call.
    """
    return _jit(function, fastmath, is_cached=False, no_cpython_wrapper=True, **more)


@cache
def _sources_stamp() -> str:
    """Return sizes and times of all files that loops are made of: if one changes, all loops are compiled again."""
    root = Path(__file__).parent
    found = [path.stat() for pattern in _SOURCES for path in sorted(root.glob(pattern))]
    return "".join(f" {stat.st_size} {stat.st_mtime_ns}" for stat in found)


@cache
def _announce_first_compilation() -> None:
    """Print one line on standard error when the first loop is compiled, so that nobody waits for it in silence."""
    from numba.core import event

    class FirstCompilation(event.Listener):
        is_said = False

        def on_start(self, event: Any) -> None:
            module = event.data["dispatcher"].py_func.__module__ or ""  # a function made by exec has none
            if self.is_said or not module.startswith("matrixrl."):
                return
            self.is_said = True
            is_quiet = os.environ.get("MATRIXRL_PROGRESS_SECONDS") == "0"  # as for lines of progress
            if multiprocessing.current_process().name in _SPEAKERS and not is_quiet:
                print(_NOTE, file=sys.stderr, flush=True)

        def on_end(self, event: Any) -> None:
            """Do nothing."""

    register: Any = event.register  # numba has no annotations
    register("numba:compile", FirstCompilation())


def loop_array(array: Any) -> Any:
    """Return an array as loops take it, C-contiguous and writable; numba compiles them again for other arrays."""
    return np.require(array, requirements=["C", "W"])


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, without NaN, so that minima and maxima can be single instructions."""
    return _jit(function, {"nnan", "nsz"}, is_cached=True)


def internal(function: Callable[..., Any]) -> Any:
    """Compile a function that compiled functions alone call."""
    return _part(function, {"nnan", "nsz"})


def lean(function: Callable[..., Any]) -> Any:
    """Compile an internal function that makes no arrays: references to its arguments are not counted.

    Counting takes several nanoseconds for each array, also for those in tuples, which is more than a short loop takes.
    """
    return _part(function, {"nnan", "nsz"}, _nrt=False)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a lean function into those that call it, so that tuples of arrays are not copied for each call."""
    return _part(function, {"nnan", "nsz"}, _nrt=False, forceinline=True)


def merged(function: Callable[..., Any]) -> Any:
    """Compile an internal function as a part of the one that calls it, in which references are counted or not.

    This saves a compilation: numba optimises a function once by itself, and again with each one that calls it. It
    pays off for one call; for several of them the function would be compiled as often.
    """
    return _part(function, {"nnan", "nsz"}, inline="always")


def summed(function: Callable[..., Any]) -> Any:
    """Compile a lean function whose sums may be computed in any order, which is up to eight times as fast."""
    return _part(function, {"reassoc", "nnan", "nsz"}, _nrt=False)
