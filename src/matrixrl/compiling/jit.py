"""Decorators that compile loops with numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

__all__ = ["compiled", "summed"]


def _jit(function: Callable[..., Any], fastmath: set[str]) -> Any:
    """Return the compiled function, with a cache on disk if there is a writable directory."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # no writable cache directory: compile again in each process
        return njit(**options)(function)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function without NaN, so that minima and maxima can be single instructions."""
    return _jit(function, {"nnan", "nsz"})


def summed(function: Callable[..., Any]) -> Any:
    """Compile a function whose sums may be computed in any order, which is up to eight times as fast."""
    return _jit(function, {"reassoc", "nnan", "nsz"})
