"""Scorecards: ``python -m scorecards bsuite``, ``colosseum`` or ``icu-sepsis`` in the directory ``benchmarks``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from matrixrl.cli.main import main as run_command_line
from matrixrl.cli.options import parse_path
from matrixrl.cli.tables import print_line
from matrixrl.display import literal
from matrixrl.errors import MissingExtra
from matrixrl.interrupts import INTERRUPTED

__all__ = ["main"]

app = typer.Typer(
    help="Run agents on problems that others chose, and score them as their authors do.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        parser=parse_path,
        metavar="DIR",
        help="Directory of results, out/scorecard/<name> by default; runs that are there are not played again.",
    ),
]
OnlyOption = Annotated[list[str] | None, typer.Option("--only", help="Only this one; may be given several times.")]
AgentOption = Annotated[list[str] | None, typer.Option("--agent", help="Only this agent; may be given several times.")]
SeedsOption = Annotated[int, typer.Option("--seeds", "-k", help="Number of seeds.")]


@app.command("bsuite")
def bsuite_command(
    out: OutOption = None,
    env: Annotated[
        Path | None,
        typer.Option(
            "--env", parser=parse_path, metavar="DIR", help="Virtual environment with bsuite; created if it is missing."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Create a virtual environment without asking.")] = False,
    only: OnlyOption = None,
    agent: AgentOption = None,
    every: Annotated[int, typer.Option("--every", help="Run every k-th setting of an experiment.")] = 1,
    vector_episodes: Annotated[
        int | None, typer.Option("--vector-episodes", help="Stop KernelControl after so many episodes.")
    ] = None,
) -> None:
    """Run bsuite's experiments and score them by its own analysis (Osband et al. 2020)."""
    from scorecards.bsuite.ids import TAGS, chosen_experiments
    from scorecards.bsuite.launch import answers
    from scorecards.bsuite.scores import Score, by_tag, published_scores, scores_of
    from scorecards.learners import AGENTS
    from scorecards.probe import PROBE_EPISODES
    from scorecards.radar import draw_radar
    from scorecards.score_tables import print_scores

    agents = _chosen(agent, list(AGENTS), list(AGENTS))
    folder = _folder(out, "bsuite")
    order: dict[str, Any] = {
        "folder": str(folder / "runs"),
        "agents": agents,
        "experiments": chosen_experiments(only or []),
        "every": _at_least("--every", every, 1, "1 runs every setting."),
        "vector_episodes": None
        if vector_episodes is None
        else _at_least("--vector-episodes", vector_episodes, PROBE_EPISODES, "Play more."),
    }
    python = _interpreter(env or folder.parent / "venv", asked=env is not None or yes)
    interrupted = False
    with _progress() as bar:
        task = _begin(bar, "starting", None)
        try:
            for told in answers(python, "run", order):
                if "cell" in told:
                    words = f"{told['agent']} on {told['id']}" if told["id"] else "done"
                    bar.update(task, description=literal(words), completed=told["cell"], total=told["of"], note="")
                else:
                    bar.update(task, note=f"episode {told['episode']:,} of {told['last']:,}")
        except KeyboardInterrupt:
            interrupted = True
    scores = scores_of(answers(python, "score", order))
    console = Console(emoji=False)
    if scores:
        beside = [*scores, *published_scores(score.experiment for score in scores if score.agent == agents[0])]
        print_scores(console, beside)
        title = "bsuite: mean score by tag"
        _write(console, folder, Score, scores, lambda path: draw_radar(by_tag(beside), TAGS, path, title=title))
    _leave(interrupted)


@app.command("colosseum")
def colosseum_command(
    data: Annotated[
        Path, typer.Option("--data", parser=parse_path, metavar="DIR", help="Folder with the tables of the MDPs.")
    ],
    out: OutOption = None,
    only: OnlyOption = None,
    agent: AgentOption = None,
    steps: Annotated[int, typer.Option("--steps", help="Steps of a run; 500,000 in Colosseum's benchmark.")] = 500_000,
    seeds: SeedsOption = 1,
    env: Annotated[
        Path | None,
        typer.Option(
            "--env",
            parser=parse_path,
            metavar="DIR",
            help="Virtual environment with Colosseum, for its own agents.",
        ),
    ] = None,
) -> None:
    """Run Colosseum's episodic MDPs: normalised cumulative regret beside the hardness (Conserva & Rauber 2022)."""
    from scorecards.colosseum.own_agents import THEIRS, interpreter, play_theirs
    from scorecards.colosseum.picture import draw_rows
    from scorecards.colosseum.rows import AGENTS, Row, play_tables
    from scorecards.score_tables import print_rows
    from scorecards.tables import find_tables

    paths = find_tables(data, only or [])
    agents = _chosen(agent, [*AGENTS, *(THEIRS if env else ())], [*AGENTS, *THEIRS])
    ours, theirs = [name for name in agents if name in AGENTS], [name for name in agents if name in THEIRS]
    folder = _folder(out, "colosseum")
    options: dict[str, Any] = {
        "n_steps": _at_least("--steps", steps, 1, "Such as 500000."),
        "n_seeds": _seeds(seeds),
    }
    played = play_tables(paths, folder / "runs", agents=ours, **options)
    if theirs:
        python = interpreter(_needed("--env", env, f"to play {theirs[0]}"))
        played = chain(played, play_theirs(python, paths, folder / "runs", agents=theirs, **options))
    named = ((f"{name} on {mdp}", row) for mdp, name, row in played)
    rows, interrupted = _collect(named, len(paths) * len(agents))
    console = Console(emoji=False)
    if rows:
        print_rows(console, rows)
        _write(console, folder, Row, rows, lambda path: draw_rows(rows, path))
    _leave(interrupted)


@app.command("icu-sepsis")
def sepsis_command(
    out: OutOption = None,
    agent: AgentOption = None,
    episodes: Annotated[int, typer.Option("--episodes", "-n", help="Episodes of each seed.")] = 10_000,
    seeds: SeedsOption = 4,
    quick: Annotated[bool, typer.Option("--quick", help="One seed of 1,000 episodes.")] = False,
) -> None:
    """Run ICU-Sepsis beside the policy of clinicians (Choudhary et al. 2024); not for medical practice."""
    from scorecards.score_tables import print_sepsis
    from scorecards.sepsis import LEARNERS, SepsisRow, draw_sepsis, play_sepsis

    learners = _chosen(agent, list(LEARNERS), list(LEARNERS))
    folder = _folder(out, "icu-sepsis")
    count = _at_least("--episodes", 1_000 if quick else episodes, 1, "Such as 10000.")
    played = play_sepsis(folder / "runs", learners=learners, n_episodes=count, n_seeds=_seeds(1 if quick else seeds))
    rows, interrupted = _collect(played, len(learners) + 3)
    console = Console(emoji=False)
    if rows:
        print_sepsis(console, rows)
        _write(console, folder, SepsisRow, rows, lambda path: draw_sepsis(rows, path))
    _leave(interrupted)


def _chosen(names: Sequence[str] | None, default: list[str], options: list[str]) -> list[str]:
    from matrixrl.checks import choice

    return [choice("--agent", name, options) for name in names] if names else default


def _at_least(option: str, given: int, least: int, remedy: str) -> int:
    from matrixrl.checks import integer  # loads NumPy, which --help does not need

    return integer(option, given, low=least, remedy=remedy)


def _needed(option: str, given: Path | None, purpose: str) -> Path:
    from matrixrl.checks import fail

    if given is None:
        fail(option, f"must be given {purpose}", given, "Name a virtual environment that has the package.")
    return given


def _seeds(count: int) -> int:
    return _at_least("--seeds", count, 1, "Use at least one seed.")


def _folder(out: Path | None, name: str) -> Path:
    folder = out or Path("out") / "scorecard" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _interpreter(folder: Path, *, asked: bool) -> Path:
    """Return an interpreter that has bsuite: this one, or that of a virtual environment the user agrees to."""
    from scorecards.bsuite.launch import REQUIREMENT, has_bsuite, make_environment
    from scorecards.workers import interpreter_of

    if has_bsuite():
        return Path(sys.executable)
    there = interpreter_of(folder).exists()
    question = f"Run bsuite with {folder}?" if there else f"Create {folder} and install {REQUIREMENT} there?"
    if not asked and not typer.confirm(f"bsuite is not installed. {question}"):
        raise MissingExtra(f"the scorecard needs bsuite; pip install '{REQUIREMENT}', or pass --env DIR")
    typer.echo(f"bsuite runs in the virtual environment {folder}", err=True)
    return make_environment(folder)


def _progress() -> Progress:
    """Return a bar over runs on standard error, with a note about the run at hand."""
    parts = (TextColumn("{task.description}"), BarColumn(bar_width=16), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    return Progress(
        *parts, TextColumn("{task.fields[note]}"), console=console, disable=not console.is_terminal, transient=True
    )


def _begin(bar: Progress, label: str, total: int | None) -> TaskID:
    """Return the only task of a bar, whose note is empty at first."""
    return bar.add_task(label, total=total, note="")


def _collect(played: Any, total: int) -> tuple[list[Any], bool]:
    """Return the rows that were played, and whether an interrupt came before the last one."""
    rows: list[Any] = []
    with _progress() as bar:
        task = _begin(bar, "", total)
        try:
            for name, row in played:
                bar.update(task, description=literal(name))
                if row is not None:
                    rows.append(row)
                    bar.advance(task)
        except KeyboardInterrupt:
            return rows, True
    return rows, False


def _write(
    console: Console, folder: Path, kind: type[Any], records: Sequence[Any], draw: Callable[[Path], None]
) -> None:
    """Write the table and the picture, and say where they are; without matplotlib there is no picture."""
    from scorecards.results import write_records

    files = [folder / "scorecard.csv"]
    write_records(files[0], kind, records)
    try:
        draw(folder / "scorecard.png")
        files.append(folder / "scorecard.png")
    except MissingExtra as error:
        typer.echo(f"note: no picture was drawn: {error}", err=True)
    for file in files:
        print_line(console, f"wrote {file}")


def _leave(interrupted: bool) -> None:
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def main() -> None:
    """Run the commands."""
    run_command_line(app)


if __name__ == "__main__":
    main()
