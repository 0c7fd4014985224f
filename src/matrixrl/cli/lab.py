"""The commands ``matrixrl compare``, ``resume``, ``show``, ``export``, ``report``, ``watch`` and ``reproduce``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from matrixrl.cli.lab_tables import print_failures, print_show, print_summary, print_verdicts
from matrixrl.cli.output import as_text, parse_path
from matrixrl.cli.trust import TrustOption, allow_imports
from matrixrl.lab.requirements import require_lab

__all__ = ["add_lab_commands"]

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


def add_lab_commands(app: typer.Typer) -> None:
    """Add the commands of the lab to the command line."""
    app.command("compare")(compare_command)
    app.command("resume")(resume_command)
    app.command("show")(show_command)
    app.command("export")(export_command)
    app.command("report")(report_command)
    app.command("watch")(watch_command)
    app.command("reproduce")(reproduce_command)


def compare_command(
    spec: Annotated[str, typer.Argument(help="A .toml or .yaml file, or a shipped spec: matrixrl list specs.")],
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
    """Run all agents, environments and seeds of a spec, store the results, and write a table, a report and a figure."""
    require_lab()
    from matrixrl.lab.execution.executors import check_executor
    from matrixrl.lab.spec import read_spec, work_out
    from matrixrl.lab.store import Store

    given = {"episodes": episodes, "seeds": seeds}
    allow_imports(trust_code)
    file = read_spec(spec, {key: value for key, value in given.items() if value is not None})
    check_executor(on or file.spec.executor, workers, address)  # before a store is created
    experiment = work_out(file, trust_code=trust_code)
    folder = Path("out") / experiment.name if out is None else out
    with Store.create(folder, experiment, file.text, file.command) as store:
        _run(store, on or experiment.executor, workers, address, tensorboard, trust_code)


def resume_command(
    folder: FolderArgument,
    on: OnOption = None,
    workers: WorkersOption = None,
    address: AddressOption = None,
    tensorboard: TensorBoardOption = None,
    trust_code: TrustOption = False,
) -> None:
    """Continue an experiment that was interrupted or killed, or that had failures; the results are the same."""
    require_lab()
    from matrixrl.lab.execution.executors import check_executor
    from matrixrl.lab.experiments import check_trust
    from matrixrl.lab.store import Store

    allow_imports(trust_code)
    with Store.open_to_write(folder) as store:
        chosen = on or store.experiment.executor
        check_executor(chosen, workers, address)
        check_trust(store.experiment, trust_code=trust_code)  # before event files are created
        for name, (then, now) in store.changed_versions().items():
            typer.echo(f"note: started with {name} {then}, now {now}: last digits may differ", err=True)
        _run(store, chosen, workers, address, tensorboard, trust_code)


def show_command(
    folder: FolderArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Print the status of every cell of an experiment, and the results so far."""
    require_lab()
    from matrixrl.lab.analysis import summarise
    from matrixrl.lab.listing import listing
    from matrixrl.lab.store import Store

    with Store.open_to_read(folder) as store:
        if as_json:
            typer.echo(json.dumps(listing(store), allow_nan=False))
            return
        console = Console()
        print_show(console, listing(store))
        print_summary(console, summarise(store))


def export_command(
    folder: FolderArgument,
    out: Annotated[Path, typer.Option("--out", parser=parse_path, metavar="FILE", help="File to write.")],
    form: Annotated[str, typer.Option("--format", help="csv or parquet.")] = "csv",
) -> None:
    """Write all episodes of an experiment as one flat table."""
    require_lab()
    from matrixrl.lab.export import export
    from matrixrl.lab.store import Store

    with Store.open_to_read(folder) as store:
        count = export(store, out, form)
    typer.echo(f"wrote {count:,} episodes to {out}")


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
            help="Also write a figure for a paper to this file (.pdf or .png).",
        ),
    ] = None,
    columns: Annotated[int, typer.Option("--columns", help="Width of the figure: 1 or 2 columns of a page.")] = 1,
    env: Annotated[str | None, typer.Option("--env", help="Draw only this environment.")] = None,
) -> None:
    """Write the report of an experiment as one HTML file that works offline."""
    require_lab()
    from matrixrl.lab.report import draw_paper_figure, write_report
    from matrixrl.lab.store import Store

    with Store.open_to_read(folder) as store:
        typer.echo(f"wrote {write_report(store, folder / 'report.html' if out is None else out)}")
        if figure is not None:
            typer.echo(f"wrote {draw_paper_figure(store, figure, columns=columns, env=env)}")


def watch_command(
    folder: FolderArgument,
    port: Annotated[int, typer.Option("--port", help="Port of the page, which only this machine can open.")] = 8787,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve a web page on this machine that shows an experiment while it runs."""
    require_lab()
    from matrixrl.lab.live import serve
    from matrixrl.lab.store import Store

    if not Store.is_there(folder):
        typer.echo(f"{folder} holds no results yet; the page shows them when they appear", err=True)
    serve(folder, port=port, open_browser=browser, announce=lambda url: typer.echo(f"watching {folder} on {url}"))


def reproduce_command(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", parser=parse_path, metavar="DIR", help="Directory of the results; out/study-SIZE by default."
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full/--quick", help="The whole study (within an hour on 2 cores), or a small one (5 minutes)."),
    ] = False,
    on: Annotated[str, typer.Option("--on", help="serial, processes or ray.")] = "processes",
    workers: WorkersOption = None,
    only: Annotated[list[str] | None, typer.Option("--only", help="Ids of questions; all by default.")] = None,
) -> None:
    """Test every claim of the paper and of the library by an experiment. The same command continues after a stop."""
    require_lab()
    from matrixrl.lab.execution.executors import check_executor
    from matrixrl.lab.study import run_study, write_pages

    check_executor(on, workers, None)
    size = "full" if full else "quick"
    folder = Path("out") / f"study-{size}" if out is None else out
    console = Console()
    try:
        sections = run_study(
            folder,
            size,
            on=on,
            workers=workers,
            progress=True,
            announce=lambda title: console.print(f"[dim]…[/] {title}", highlight=False),
            only=only,
        )
    except KeyboardInterrupt:
        console.print("stopped; run the same command to continue", highlight=False)
        raise typer.Exit(130) from None
    print_verdicts(console, sections)
    command = f"matrixrl reproduce {'--full' if full else '--quick'}"
    for path in write_pages(sections, folder, size=size, command=command):
        console.print(f"wrote {as_text(path)}", highlight=False, soft_wrap=True)


def _run(
    store: Any, on: str, workers: int | None, address: str | None, tensorboard: Path | None, trust_code: bool
) -> None:
    """Play the missing episodes, then print the results and write the report and the figure."""
    from matrixrl.lab.analysis import summarise
    from matrixrl.lab.experiments import play
    from matrixrl.lab.report import draw_paper_figure, write_report

    console, folder = Console(), store.folder
    observers: list[Any] = []
    if tensorboard is not None:
        from matrixrl.lab.tensorboard import TensorBoardObserver

        observers.append(TensorBoardObserver(tensorboard, store))
    try:
        outcome = play(
            store,
            on=on,
            workers=workers,
            address=address,
            observers=observers,
            progress=True,
            trust_code=trust_code,
        )
    except KeyboardInterrupt:
        console.print(f"stopped; continue with: matrixrl resume {as_text(folder)}", highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    finally:
        for observer in observers:
            observer.close()
    summaries = summarise(store)
    written = [write_report(store, folder / "report.html")]  # before anything is printed
    if any(agent.final is not None for env in summaries for agent in env.agents):
        written.append(draw_paper_figure(store, folder / "figure.png", columns=2))
    print_summary(console, summaries)
    console.print(
        f"{outcome.episodes:,} episodes in {outcome.seconds:.1f} s ({on}); spec {store.experiment.hash}, "
        f"rows {store.digest()}",
        highlight=False,
        style="dim",
    )
    for path in written:
        console.print(f"wrote {as_text(path)}", highlight=False, soft_wrap=True)
    if outcome.failed:
        print_failures(console, store.experiment, outcome.failed)
        console.print(f"try them again with: matrixrl resume {as_text(folder)}", highlight=False, soft_wrap=True)
        raise typer.Exit(1)
