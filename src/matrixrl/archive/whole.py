"""Write a file completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from matrixrl.errors import MatrixRLError

__all__ = ["write_whole"]

Result = TypeVar("Result")


def write_whole(path: Path, fill: Callable[[Path], Result]) -> Result:
    """Write a file atomically: call `fill` with the path of a temporary file, rename it to `path`, return the result.

    The temporary file is in the same directory and has the same suffix, because functions that write pictures and
    tables choose the format by the suffix.

    Raises:
        MatrixRLError: The file cannot be written.
    """
    temporary = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            result = fill(temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise MatrixRLError(f"cannot write {path}: {error.strerror or error}") from error
    return result
