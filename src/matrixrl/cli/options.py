"""Options that several commands share: paths, key=value settings, permission to import code."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from matrixrl.errors import InvalidInput
from matrixrl.interrupts import INTERRUPTED, ending_at_once

__all__ = [
    "JsonOption",
    "TrustOption",
    "allow_imports",
    "loading",
    "never_fail_to_encode",
    "parse_path",
    "parse_settings",
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]

TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Allow names like package.module:Name to import code, also from the current directory.",
    ),
]


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


def parse_settings(option: str, items: Sequence[str]) -> dict[str, Any]:
    """Parse settings key=value of an option: numbers, true, false and null as such, "a,b" as a list, else text.

    >>> parse_settings("--set", ["n_states=6", "slip=0.1", "name=abc", "reward_range=-1,0"])
    {'n_states': 6, 'slip': 0.1, 'name': 'abc', 'reward_range': [-1, 0]}
    """
    settings: dict[str, Any] = {}
    for item in items:
        key, equals, value = item.partition("=")
        key = key.strip()
        if not equals or not key:
            raise InvalidInput(f"{option} must be key=value; got {item!r}. Write for example n_states=6.")
        if key in settings:
            raise InvalidInput(f"{option} {key} must be given once; got two values. Remove one of them.")
        settings[key] = _value(value.strip())
    return settings


def _value(text: str) -> Any:
    if "," in text:
        return [_value(part) for part in text.split(",")]
    try:
        return json.loads(text)
    except ValueError:
        return text


def allow_imports(trust_code: bool) -> None:
    """Add the current directory to the import path if code is trusted."""
    here = str(Path.cwd())
    if trust_code and here not in sys.path:
        sys.path.insert(0, here)


@contextmanager
def loading(*modules: str) -> Iterator[None]:
    """Import modules, which takes a second or more, and run a command; Ctrl-C ends it with one line.

    Imports come first because some of them turn a KeyboardInterrupt into another error, or lose it.
    """
    with ending_at_once():
        for module in modules:
            import_module(module)
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        raise typer.Exit(INTERRUPTED) from None
