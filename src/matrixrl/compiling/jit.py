"""Decorators that compile loops with numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from matrixrl.compiling.clock import listen_to_numba
from matrixrl.compiling.first_use import announce_first_compilation

__all__ = ["compiled", "inlined", "lean", "summed"]

announce_first_compilation()
listen_to_numba()  # an episode that imports this module has begun its clock before


def _jit(function: Callable[..., Any], fastmath: set[str], **more: Any) -> Any:
    """Return the compiled function, with a cache on disk if there is a writable directory."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath, **more}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # no writable cache directory: compile again in each process
        return njit(**options)(function)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function without NaN, so that minima and maxima can be single instructions."""
    return _jit(function, {"nnan", "nsz"})


def lean(function: Callable[..., Any]) -> Any:
    """Compile a function that makes no arrays: references to its arguments are not counted.

    Counting takes several nanoseconds for each array, also for those in tuples, which is more than a short loop takes.
    """
    return _jit(function, {"nnan", "nsz"}, _nrt=False)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a lean function into those that call it, so that tuples of arrays are not copied for each call."""
    return _jit(function, {"nnan", "nsz"}, _nrt=False, forceinline=True)


def summed(function: Callable[..., Any]) -> Any:
    """Compile a lean function whose sums may be computed in any order, which is up to eight times as fast."""
    return _jit(function, {"reassoc", "nnan", "nsz"}, _nrt=False)
