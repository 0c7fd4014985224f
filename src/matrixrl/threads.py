"""The number of threads of the linear algebra libraries."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from threadpoolctl import threadpool_limits

from matrixrl.checks import integer

__all__ = ["limited_threads"]


def limited_threads(blas_threads: int | None) -> AbstractContextManager[Any]:
    """Return a context in which the linear algebra uses at most `blas_threads` threads; None leaves them unchanged."""
    if blas_threads is None:
        return nullcontext()
    remedy = "Give a number of threads, or None to leave them unchanged."
    limit: AbstractContextManager[Any] = threadpool_limits(integer("blas_threads", blas_threads, low=1, remedy=remedy))
    return limit
