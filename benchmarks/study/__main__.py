"""Run the study: ``make study``, or ``python -m study --full`` in the directory ``benchmarks``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from matrixrl.cli.main import main as run_command_line
from matrixrl.cli.options import loading, parse_path
from matrixrl.cli.tables import print_line
from matrixrl.display import literal
from matrixrl.interrupts import INTERRUPTED
from matrixrl_lab.execution.executors import check_executor
from study import Section, run_study, write_pages

__all__ = ["main", "print_verdicts"]

WorkersOption = Annotated[int | None, typer.Option("--workers", help="Number of workers; all cores by default.")]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
@loading("matrixrl.play.simulation", "matrixrl_lab.experiments")
def study_command(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", parser=parse_path, metavar="DIR", help="Directory of the results; out/study-SIZE by default."
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full/--quick", help="The whole study, or a small one (five minutes of processor time)."),
    ] = False,
    on: Annotated[str, typer.Option("--on", help="serial, processes or ray.")] = "processes",
    workers: WorkersOption = None,
    only: Annotated[list[str] | None, typer.Option("--only", help="Ids of questions; all by default.")] = None,
) -> None:
    """Test every claim of the paper and of the library by an experiment. The same command continues after a stop."""
    check_executor(on, workers, None)
    size = "full" if full else "quick"
    folder = Path("out") / f"study-{size}" if out is None else out
    console = Console(emoji=False)
    try:
        sections = run_study(
            folder,
            size,
            on=on,
            workers=workers,
            progress=True,
            announce=lambda title: console.print(f"[dim]…[/] {literal(title)}", highlight=False),
            only=only,
        )
    except KeyboardInterrupt:
        console.print("stopped; run the same command to continue", highlight=False)
        raise typer.Exit(INTERRUPTED) from None
    print_verdicts(console, sections)
    command = "make study-full" if full else "make study"
    for path in write_pages(sections, folder, size=size, command=command):
        print_line(console, f"wrote {path}")


def print_verdicts(console: Console, sections: Sequence[Section]) -> None:
    """Print the verdict of each question of the study."""
    for section in sections:
        answer = section.answer
        failed = "[red]✗[/]" if answer.is_tested and not answer.is_undecided else "[yellow]–[/]"
        mark = "[green]✓[/]" if answer.is_borne_out else failed
        said = f"{section.outcome}. {answer.verdict}" if answer.is_undecided else answer.verdict
        words = f"{mark} [bold]{literal(section.question.title)}[/]: {literal(said)}"
        console.print(words, highlight=False)


def main() -> None:
    """Run the command."""
    run_command_line(app)


if __name__ == "__main__":
    main()
