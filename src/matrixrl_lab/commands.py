"""The commands ``matrixrl compare``, ``specs``, ``resume``, ``show``, ``export``, ``report`` and ``watch``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from matrixrl.cli.options import JsonOption, TrustOption, allow_imports, loading, parse_path
from matrixrl.cli.tables import new_table, print_line
from matrixrl.display import literal, printable
from matrixrl.extras import require_packages
from matrixrl.interrupts import INTERRUPTED, ending_at_once
from matrixrl_lab import NEEDED
from matrixrl_lab.tables import print_failures, print_show, print_summary

if TYPE_CHECKING:
    from matrixrl_lab.execution import Executor
    from matrixrl_lab.store import Store

__all__ = ["app"]

OnOption = Annotated[str | None, typer.Option("--on", help="serial, processes or ray; the spec's executor by default.")]
WorkersOption = Annotated[int | None, typer.Option("--workers", help="Number of workers; all cores by default.")]
AddressOption = Annotated[str | None, typer.Option("--address", help="Address of a running Ray cluster.")]
TensorBoardOption = Annotated[
    Path | None,
    typer.Option("--tensorboard", parser=parse_path, metavar="DIR", help="Directory for event files."),
]
FolderArgument = Annotated[
    Path, typer.Argument(parser=parse_path, metavar="FOLDER", help="Directory of an experiment.")
]

app = typer.Typer()


@contextmanager
def _lab() -> Iterator[None]:
    """Run a command of the lab, once its packages are found and loaded."""
    require_packages(NEEDED, extra="lab", purpose="the lab")
    with loading("matrixrl.play.simulation", "matrixrl_lab.experiments"):
        yield


@app.command("compare")
@_lab()
def compare_command(
    spec: Annotated[str, typer.Argument(help="A .toml or .yaml file, or a shipped spec: matrixrl specs.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", parser=parse_path, metavar="DIR", help="Directory of the results; out/NAME by default."),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option("--episodes", "-n", help="Number of episodes, in place of the spec's.")
    ] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", "-k", help="Number of seeds, in place of the spec's.")] = None,
    on: OnOption = None,
    workers: WorkersOption = None,
    address: AddressOption = None,
    tensorboard: TensorBoardOption = None,
    trust_code: TrustOption = False,
) -> None:
    """Run all agents, environments and seeds of a spec, store the results, and write a table, a report and a figure.

    If the directory holds all results of the same spec, nothing is run: the table and the files are made again.
    """
    from matrixrl_lab.execution.executors import check_executor, make_executor
    from matrixrl_lab.spec import read_spec, work_out
    from matrixrl_lab.store import Store

    given = {"episodes": episodes, "seeds": seeds}
    allow_imports(trust_code)
    file = read_spec(spec, {key: value for key, value in given.items() if value is not None})
    chosen = on or file.spec.executor
    check_executor(chosen, workers, address)
    experiment = work_out(file, trust_code=trust_code)
    folder = Path("out") / experiment.name if out is None else out
    if Store.is_there(folder):
        with Store.open_to_read(folder) as held:
            if held.experiment.hash == experiment.hash and held.is_finished:
                _show_finished(held, tensorboard)
                return
    Store.check_free(folder, experiment)
    executor = make_executor(chosen, workers, address)  # before a store is created: a cluster may not be reachable
    with closing(executor), Store.create(folder, experiment, file.text, file.command) as store:
        _run(store, executor, chosen, tensorboard, trust_code)


@app.command("specs")
def specs_command() -> None:
    """List the shipped specs."""
    from matrixrl_lab.shipped import shipped_titles

    table = new_table("specs", {"name": {"style": "bold cyan", "no_wrap": True}, "description": {}}, (), box=None)
    for name, title in shipped_titles().items():
        table.add_row(name, f"{literal(title)}\n[dim]matrixrl compare {name}[/]")
    Console(emoji=False).print(table)


@app.command("resume")
@_lab()
def resume_command(
    folder: FolderArgument,
    on: OnOption = None,
    workers: WorkersOption = None,
    address: AddressOption = None,
    tensorboard: TensorBoardOption = None,
    trust_code: TrustOption = False,
) -> None:
    """Continue an experiment that was interrupted or killed, or that had failures; the results are the same."""
    from matrixrl_lab.execution.executors import make_executor
    from matrixrl_lab.experiments import check_trust
    from matrixrl_lab.store import Store

    allow_imports(trust_code)
    with Store.open_to_write(folder) as store:
        chosen = on or store.experiment.executor
        check_trust(store.experiment, trust_code=trust_code)  # before event files are created
        for name, (then, now) in store.changed_versions().items():
            words = f"note: started with {name} {then}, now {now}: last digits may differ"
            typer.echo(printable(words), err=True)
        with closing(make_executor(chosen, workers, address)) as executor:
            _run(store, executor, chosen, tensorboard, trust_code)


@app.command("show")
@_lab()
def show_command(
    folder: FolderArgument,
    as_json: JsonOption = False,
) -> None:
    """Print the status of every cell of an experiment, and the results so far."""
    from matrixrl_lab.analysis import summarise
    from matrixrl_lab.analysis.summary import contents
    from matrixrl_lab.store import Store

    with Store.open_to_read(folder) as store:
        if as_json:
            typer.echo(json.dumps(contents(store), allow_nan=False))
            return
        console = Console(emoji=False)
        print_show(console, contents(store))
        print_summary(console, summarise(store))


@app.command("export")
@_lab()
def export_command(
    folder: FolderArgument,
    out: Annotated[Path, typer.Option("--out", parser=parse_path, metavar="FILE", help="File to write.")],
    form: Annotated[str, typer.Option("--format", help="csv or parquet.")] = "csv",
) -> None:
    """Write all episodes of an experiment as one flat table."""
    from matrixrl_lab.export import export
    from matrixrl_lab.store import Store

    with Store.open_to_read(folder) as store:
        count = export(store, out, form)
    typer.echo(f"wrote {count:,} episodes to {printable(out)}")


@app.command("report")
@_lab()
def report_command(
    folder: FolderArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", parser=parse_path, metavar="FILE", help="HTML file; DIR/report.html by default."),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            "--figure",
            parser=parse_path,
            metavar="FILE",
            help="Also write a figure for a paper to this file (.pdf, .svg, .pgf or .png).",
        ),
    ] = None,
    columns: Annotated[int, typer.Option("--columns", help="Width of the figure: 1 or 2 columns of a page.")] = 1,
    env: Annotated[str | None, typer.Option("--env", help="Draw only this environment.")] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Add performance profiles and interquartile means to the figure.")
    ] = False,
    table: Annotated[
        Path | None,
        typer.Option(
            "--table", parser=parse_path, metavar="FILE", help="Also write the tables, as .md or .tex (LaTeX)."
        ),
    ] = None,
    bibtex: Annotated[
        Path | None,
        typer.Option("--bibtex", parser=parse_path, metavar="FILE", help="Also write the references as BibTeX."),
    ] = None,
) -> None:
    """Write the report of an experiment as one HTML file that works offline."""
    from matrixrl_lab.report import draw_paper_figure, table_form, write_bibtex, write_report, write_table
    from matrixrl_lab.store import Store

    if table is not None:
        table_form(table)  # refuse another suffix before anything is written
    with Store.open_to_read(folder) as store:
        typer.echo(f"wrote {printable(write_report(store, folder / 'report.html' if out is None else out))}")
        if figure is not None:
            picture = draw_paper_figure(store, figure, columns=columns, env=env, profile=profile)
            typer.echo(f"wrote {printable(picture)}")
        for path, write in ((table, write_table), (bibtex, write_bibtex)):
            if path is not None:
                typer.echo(f"wrote {printable(write(store, path))}")


@app.command("watch")
@_lab()
def watch_command(
    folder: FolderArgument,
    port: Annotated[int, typer.Option("--port", help="Port of the page, which only this machine can open.")] = 8787,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve a web page on this machine that shows an experiment while it runs."""
    from matrixrl_lab.live import serve
    from matrixrl_lab.store import Store

    shown = printable(folder)
    if not Store.is_there(folder):
        typer.echo(f"{shown} holds no results yet; the page shows them when they appear", err=True)
    serve(folder, port=port, open_browser=browser, announce=lambda url: typer.echo(f"watching {shown} on {url}"))


def _run(store: Store, executor: Executor, on: str, tensorboard: Path | None, trust_code: bool) -> None:
    """Play the missing episodes, then print the results and write the report and the figure."""
    console = Console(emoji=False)
    try:
        failed = _played(store, executor, on, tensorboard, trust_code, console)
    except KeyboardInterrupt:
        print_line(console, f"stopped; continue with: {store.resume_command}")
        raise typer.Exit(INTERRUPTED) from None
    if failed:
        print_failures(console, store.experiment, failed)
        print_line(console, f"try them again with: {store.resume_command}")
        raise typer.Exit(1)


def _played(
    store: Store, executor: Executor, on: str, tensorboard: Path | None, trust_code: bool, console: Console
) -> list[tuple[int, tuple[int, ...], str]]:
    """Play the missing episodes, print and write the results, and return what failed."""
    from matrixrl_lab.experiments import play

    observers: list[Any] = []
    if tensorboard is not None:
        from matrixrl_lab.tensorboard import TensorBoardObserver

        observers.append(TensorBoardObserver(tensorboard, store))
    try:
        outcome = play(store, executor=executor, observers=observers, progress=True, trust_code=trust_code)
    finally:
        for observer in observers:
            observer.close()
    if outcome.restarted:
        words = (
            f"note: {outcome.restarted:,} runs were played again from their first episode: their state was not stored"
        )
        typer.echo(f"{words}, or by another version of matrixrl", err=True)
    _present(store, f"{outcome.episodes:,} episodes in {outcome.seconds:.1f} s ({on})", console)
    return outcome.failed


def _show_finished(store: Store, tensorboard: Path | None) -> None:
    """Print the results of a finished experiment and write its files again; nothing is run."""
    if tensorboard is not None:
        typer.echo("note: nothing was played, so no event files were written", err=True)
    _present(store, f"nothing was played: {printable(store.folder)} holds all episodes", Console(emoji=False))


def _present(store: Store, what: str, console: Console) -> None:
    """Write the report and the figure, and print the results.

    Args:
        store: Store, open for reading or writing.
        what: What was played, in words.
        console: Console to print on.
    """
    with ending_at_once():
        from matrixrl_lab.analysis import summarise
        from matrixrl_lab.report import draw_paper_figure, write_report

    summaries = summarise(store)
    written = [write_report(store, store.folder / "report.html")]  # before anything is printed
    if any(agent.final is not None for env in summaries for agent in env.agents):
        written.append(draw_paper_figure(store, store.folder / "figure.png", columns=2))
    print_summary(console, summaries)
    ends = f"{what}; spec {store.experiment.hash}, rows {store.digest()}"
    console.print(ends, highlight=False, markup=False, style="dim", soft_wrap=True)
    for path in written:
        print_line(console, f"wrote {path}")
