"""The command line ``matrixrl``: a table of commands, whose modules are imported when they are needed.

Those modules import what the help needs, and the rest when a command runs. Commands of `matrixrl_lab` and
`matrixrl_serve` are entry points of this distribution. They are listed if the packages that they need are installed;
calling one of the others says what to install.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.metadata import version as version_of
from platform import python_version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

import matrixrl
from matrixrl.cli.options import never_fail_to_encode
from matrixrl.display import printable
from matrixrl.errors import MatrixRLError
from matrixrl.extras import missing_packages
from matrixrl.interrupts import INTERRUPTED

__all__ = ["app", "commands", "main"]

_OWN = dict.fromkeys(("run", "inspect", "list"), "matrixrl.cli.play")
_OWN |= {"demo": "matrixrl.cli.demo", "audit": "matrixrl.cli.audit"}
_GROUP = "matrixrl.commands"


@cache
def commands() -> dict[str, str]:
    """Return the module of each command, which has it in its `app`."""
    return _OWN | {entry.name: entry.module for entry in entry_points(group=_GROUP)}


@cache
def _commands_of(module: str) -> Mapping[str, Any]:
    """Return the commands of a module."""
    return get_group(import_module(module).app).commands


def _is_listed(name: str) -> bool:
    """Return whether the packages that a command needs are installed."""
    package = import_module(commands()[name].partition(".")[0])
    return not missing_packages(getattr(package, "NEEDED", ()))


class _CommandTable(Mapping[str, Any]):
    """Commands by their names; looking one up imports its module."""

    def __getitem__(self, name: str) -> Any:
        return _commands_of((_OWN if name in _OWN else commands())[name])[name]

    def __iter__(self) -> Iterator[str]:
        return iter(commands())

    def __len__(self) -> int:
        return len(commands())


class _Commands(TyperGroup):
    """The commands of the table."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = _CommandTable()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands that the help shows."""
        del ctx
        return [name for name in commands() if _is_listed(name)]


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
        is_slow = missing_packages(["numba"])
        loops = "no compiled loops: numba is missing" if is_slow else f"compiled loops by numba {version_of('numba')}"
        typer.echo(f"matrixrl {matrixrl.__version__} (Python {python_version()}; {loops})")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


def main(run: Callable[[], object] = app) -> None:
    """Run a command line; an error of the user is printed as one line on standard error."""
    never_fail_to_encode()
    try:
        run()
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
