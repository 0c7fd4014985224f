"""What the command line reads and prints: paths, and output that cannot fail to be encoded."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from matrixrl.errors import InvalidInput

__all__ = ["never_fail_to_encode", "parse_path"]


def parse_path(text: str) -> Path:
    """Return a path; the empty one, which would mean the current directory, is refused."""
    from matrixrl.checks import file_path  # imports NumPy, which the help does not need

    try:
        return Path(file_path("the value", text))
    except InvalidInput as error:
        raise typer.BadParameter(str(error)) from error


def never_fail_to_encode() -> None:
    """Replace characters that the encoding of standard output or standard error lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
