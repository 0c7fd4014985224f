"""The option ``--trust-code``: permission to import code that a spec, a store or a name refers to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["TrustOption", "allow_imports"]

TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Allow names like package.module:Name to import code, also from the current directory.",
    ),
]


def allow_imports(trust_code: bool) -> None:
    """Add the current directory to the import path if code is trusted."""
    here = str(Path.cwd())
    if trust_code and here not in sys.path:
        sys.path.insert(0, here)
