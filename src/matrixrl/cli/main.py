"""The command line ``matrixrl``: a table of commands, whose modules are imported when they are needed.

Those modules import what the help needs, and the rest when a command runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

import matrixrl
from matrixrl.cli.options import never_fail_to_encode
from matrixrl.display import printable
from matrixrl.errors import MatrixRLError
from matrixrl.interrupts import INTERRUPTED

__all__ = ["COMMANDS", "app", "main"]

_MODULES = {
    "matrixrl.cli.play": ("run", "inspect", "list", "demo"),
    "matrixrl.lab.commands": ("compare", "resume", "show", "export", "report", "watch", "reproduce"),
    "matrixrl.service.commands": ("serve",),
    "matrixrl.scorecards.commands": ("scorecard",),
}
COMMANDS = {name: module for module, names in _MODULES.items() for name in names}
"""Module of each command, which has it in its `app`."""


@cache
def _commands_of(module: str) -> Mapping[str, Any]:
    """Return the commands of a module."""
    return get_group(import_module(module).app).commands


class _CommandTable(Mapping[str, Any]):
    """Commands by their names; looking one up imports its module."""

    def __getitem__(self, name: str) -> Any:
        return _commands_of(COMMANDS[name])[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Commands(TyperGroup):
    """The commands of the table."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = _CommandTable()


app = typer.Typer(
    name="matrixrl",
    cls=_Commands,
    help="Reinforcement learning that explores with a proof and learns from few episodes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"matrixrl {matrixrl.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


def main() -> None:
    """Run the command line; an error of the user is printed as one line on standard error."""
    never_fail_to_encode()
    try:
        app()
    except MatrixRLError as error:
        typer.echo(f"error: {printable(error)}", err=True)
        sys.exit(2)
    except MemoryError:
        typer.echo("error: the problem does not fit in memory; use fewer states, episodes or seeds", err=True)
        sys.exit(2)
    except OSError as error:
        typer.echo(f"error: {printable(error.strerror or error)}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
