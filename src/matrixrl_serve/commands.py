"""The commands ``matrixrl serve``, ``serve replay``, ``serve check`` and ``serve token``."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from matrixrl.cli.options import parse_path
from matrixrl.display import printable
from matrixrl.errors import MatrixRLError
from matrixrl.extras import naming_the_extra

if TYPE_CHECKING:
    from matrixrl_serve.log import EventLog

__all__ = ["app"]

_RUN = "run"
_service = partial(naming_the_extra, "serve", "the service")


def _parse_place(text: str) -> Any:
    """Return the directory of a service, or the address of a database as it is."""
    return text if "://" in text else parse_path(text)


DirArgument = Annotated[
    Any,
    typer.Argument(parser=_parse_place, metavar="DIR", help="Directory of a service, or postgresql://… of a database."),
]


class _ServeGroup(TyperGroup):
    """A group whose default command serves: ``serve problem.toml`` is ``serve run problem.toml``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command."""
        if not args or (args[0] not in self.commands and args[0] not in ("--help", "-h")):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the commands, and what the default one takes."""
        super().format_help(ctx, formatter)
        run = self.commands[_RUN]
        run.format_help(run.context_class(run, info_name=_RUN, parent=ctx), formatter)


app = typer.Typer()
serve_app = typer.Typer(
    cls=_ServeGroup, help="Serve decisions over HTTP, durable and certified: serve PROBLEM.toml --data DIR."
)
token_app = typer.Typer(help="Create, revoke and list tokens.", no_args_is_help=True)
app.add_typer(serve_app, name="serve")
serve_app.add_typer(token_app, name="token")


@serve_app.command(_RUN)
@_service()
def run_command(
    problem: Annotated[
        Path | None, typer.Argument(parser=parse_path, metavar="[PROBLEM.toml]", help="That of the log by default.")
    ] = None,
    data: Annotated[
        Any,
        typer.Option(
            "--data",
            parser=_parse_place,
            metavar="DIR",
            help="Directory of the log, or postgresql://… of a database that several processes serve.",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address; another one than 127.0.0.1 needs tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port; 0 chooses a free one.")] = 8799,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", help="Name of this service in requests, such as that of a proxy."),
    ] = None,
    role: Annotated[
        str, typer.Option("--role", help="With a database: web answers, learner learns, all does both.")
    ] = "all",
) -> None:
    """Serve a problem until Ctrl-C."""
    from matrixrl_serve.http.server import serve
    from matrixrl_serve.problem import read_problem

    if data is None:
        raise MatrixRLError("--data must be given: the directory of the log, such as --data shop-data")
    serve(
        None if problem is None else read_problem(problem),
        data,
        host=host,
        port=port,
        allow_hosts=allow_host or [],
        role=role,
        announce=lambda words: typer.echo(f"{words}  (Ctrl-C ends it)"),
    )


@serve_app.command("replay")
@_service()
def replay_command(folder: DirArgument) -> None:
    """Make every plan and every decision of a log again, and compare."""
    from matrixrl_serve.log_replay import replay

    found = replay(folder)
    counts = f"{found.n_events:,} events, {found.n_decisions:,} decisions, {found.n_plans:,} plans"
    if found.difference is not None:
        typer.echo(f"{counts}: different: {printable(found.difference)}", err=True)
        raise typer.Exit(1)
    typer.echo(f"{counts}: equal bit for bit")


@serve_app.command("check")
@_service()
def check_command(folder: DirArgument) -> None:
    """Verify the digest of every event of a log."""
    with _log(folder) as log:
        found = log.check()
        if not found.n_events:
            raise MatrixRLError(f"{log.data} holds no service: its log is empty")
    typer.echo(f"{found.n_events:,} events are whole; digest of the last one {found.digest}")


@token_app.command("create")
@_service()
def create_command(
    folder: DirArgument,
    name: Annotated[str, typer.Argument(help="Name of the token, which the log shows as the actor.")],
    scope: Annotated[list[str], typer.Option("--scope", help="ask, tell, read or admin; give it several times.")],
) -> None:
    """Create a token and print its secret, which is shown once."""
    from matrixrl_serve.access import create_token

    with _log(folder) as log:
        typer.echo(create_token(log, name, scope))


@token_app.command("revoke")
@_service()
def revoke_command(folder: DirArgument, name: Annotated[str, typer.Argument(help="Name of the token.")]) -> None:
    """Revoke a token for good; a service that runs takes notice within seconds."""
    from matrixrl_serve.access import revoke_token

    with _log(folder) as log:
        revoke_token(log, name)
    typer.echo(f"revoked {printable(name)}")


@token_app.command("list")
@_service()
def list_command(folder: DirArgument) -> None:
    """List tokens, without their secrets."""
    from matrixrl_serve.access import list_tokens

    with _log(folder) as log:
        for token in list_tokens(log):
            state = "valid" if token.revoked_at is None else "revoked"
            typer.echo(f"{token.name}  {','.join(token.scopes)}  {state}")


def _log(folder: Any) -> closing[EventLog]:
    """Return the log of a service, to be closed at the end of a block."""
    from matrixrl_serve.log import EventLog

    return closing(EventLog(folder, create=False))
