"""The commands ``matrixrl run``, ``inspect`` and ``list``."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from matrixrl.cli.options import JsonOption, TrustOption, allow_imports, loading, parse_path, parse_settings
from matrixrl.cli.tables import new_table, print_inspection, print_line, print_results
from matrixrl.errors import MissingExtra
from matrixrl.interrupts import INTERRUPTED

if TYPE_CHECKING:
    from matrixrl.play import OutputDirectory, RunResult, Simulation
    from matrixrl.problems import Problem

__all__ = ["EPISODES_OPTION", "LIBRARY", "OUT_OPTION", "SEEDS_OPTION", "TOPICS", "OverwriteOption", "app"]
__all__ += ["print_runs", "write_runs"]

TOPICS = ["envs", "agents", "settings", "sets", "radii", "presets"]
"""What ``matrixrl list`` lists."""

LIBRARY = ("matrixrl.agents", "matrixrl.play.simulation", "matrixrl.plots.figures")

SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Environment setting key=value (see matrixrl list envs).")
]
AgentSetOption = Annotated[
    list[str] | None, typer.Option("--agent-set", help="Agent setting key=value (see matrixrl list settings).")
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in --out.")]
OUT_OPTION = typer.Option(
    "--out", parser=parse_path, metavar="DIR", help="Directory for the summary, episodes and a figure."
)
EPISODES_OPTION = typer.Option("--episodes", "-n", help="Episodes of each seed.")
SEEDS_OPTION = typer.Option("--seeds", "-k", help="Number of seeds.")

app = typer.Typer()


@app.command("run")
@loading(*LIBRARY)
def run_command(
    env: Annotated[str, typer.Argument(help="river-swim, cart-pole, …, gym:FrozenLake-v1, or package.module:Name")],
    set_: SetOption = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent", help="See matrixrl list agents; matrix-rl by default, kernel-control for vectors as states."
        ),
    ] = None,
    agent_set: AgentSetOption = None,
    episodes: Annotated[int | None, EPISODES_OPTION] = None,
    seeds: Annotated[int | None, SEEDS_OPTION] = None,
    seed: Annotated[int, typer.Option("--seed", help="The first seed.")] = 0,
    out: Annotated[Path | None, OUT_OPTION] = None,
    overwrite: OverwriteOption = False,
    plot_coordinates: Annotated[
        tuple[int, int] | None,
        typer.Option(
            "--plot-coordinates",
            metavar="I J",
            help="Coordinates of the observation in the figure of --out, counted from 0; by default the two with the "
            "shortest fitted length scales, or the first two.",
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            parser=parse_path,
            metavar="DIR",
            help="Directory for videos of the first episode, of one more after the last, and of both side by side.",
        ),
    ] = None,
    certify: Annotated[
        bool, typer.Option("--certify", help="Certify every episode: a band in the figure, columns in the CSV.")
    ] = False,
    compiled: Annotated[
        bool | None,
        typer.Option(
            "--compiled/--no-compiled", help="Use compiled loops (numba); chosen by the length of the run by default."
        ),
    ] = None,
    trust_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run an agent on an environment and print its regret, or its returns if the optimal value is unknown.

    By default 8 seeds play 1000 episodes each; with vectors as states, one seed plays 25.
    """
    from matrixrl.checks import integer
    from matrixrl.envs import open_problem
    from matrixrl.play import OutputDirectory, Simulation
    from matrixrl.random_streams import seed_list

    allow_imports(trust_code)
    env_settings = parse_settings("--set", set_ or [])
    settings = parse_settings("--agent-set", agent_set or [])
    problem = open_problem(env, env_settings, trust_code=trust_code, known_reward=False)
    is_continuous = problem.kind == "continuous"
    _check_coordinates(plot_coordinates, problem, out)
    recorder = None
    if record is not None:
        from matrixrl.play.video import Recorder

        recorder = Recorder(env, env_settings, record, trust_code=trust_code)
    n_episodes = (25 if is_continuous else 1000) if episodes is None else episodes
    n_seeds = (1 if is_continuous else 8) if seeds is None else seeds
    runs = Simulation(
        env,
        n_episodes=integer("--episodes", n_episodes, low=1, remedy="Play at least one episode."),
        seeds=seed_list(seed, integer("--seeds", n_seeds, low=1, remedy="Use at least one seed.")),
        agent=agent,
        settings=settings,
        env_settings=env_settings,
        certify=certify,
        compiled=compiled,
        trust_code=trust_code,
    )
    directory = None if out is None else OutputDirectory(out, overwrite=overwrite)
    interrupted = False
    try:
        result = runs.run(progress=not as_json)
    except KeyboardInterrupt:
        interrupted, result = True, runs.result()
    name = agent or result.agent
    label = " ".join([name, *(agent_set or [])])
    files = write_runs({label: result}, directory, runs, title=f"{name} on {env}", coordinates=plot_coordinates)
    if recorder is not None and not interrupted:
        before, after, both = recorder.record_both(runs.fresh(), runs.algorithm)
        files += [before.path, after.path, both]
    if as_json:
        typer.echo(json.dumps(result.as_dict(), allow_nan=False))
    else:
        print_runs({label: result}, files)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


@app.command("inspect")
@loading(*LIBRARY)
def inspect_command(
    env: Annotated[str, typer.Argument(help="river-swim, linear-mdp, …, or gym:FrozenLake-v1")],
    set_: SetOption = None,
    agent: Annotated[str, typer.Option("--agent", help="matrix-rl or kernel-matrix-rl.")] = "matrix-rl",
    agent_set: AgentSetOption = None,
    trust_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print constants, regret bounds, cost and warnings for a problem."""
    from matrixrl.play import inspect_problem

    allow_imports(trust_code)
    found = inspect_problem(
        env,
        env_settings=parse_settings("--set", set_ or []),
        settings=parse_settings("--agent-set", agent_set or []),
        agent=agent,
        trust_code=trust_code,
    )
    if as_json:
        typer.echo(json.dumps(found.as_dict(), allow_nan=False))
    else:
        print_inspection(Console(emoji=False), found)


def _check_coordinates(given: tuple[int, int] | None, problem: Problem, out: Path | None) -> None:
    """Refuse coordinates of a figure that would not be drawn, before anything is played."""
    from matrixrl.checks import fail
    from matrixrl.plots.vectors import checked_coordinates
    from matrixrl.problems import ContinuousTask

    if given is None:
        return
    if not isinstance(problem.task, ContinuousTask):
        fail("--plot-coordinates", "must be left out for numbered states", given, "Leave it out.")
    if out is None:
        fail("--plot-coordinates", "is about the figure of --out, which must be given too", given, "Add --out DIR.")
    checked_coordinates("--plot-coordinates", given, problem.task.n_coordinates)


def write_runs(
    results: dict[str, RunResult],
    directory: OutputDirectory | None,
    runs: Simulation | None,
    *,
    title: str,
    coordinates: tuple[int, int] | None = None,
) -> list[Path]:
    """Write summary, episodes and figure, if any episode was played; return the files.

    Without matplotlib there is no figure, and a note on standard error says which extra draws it.
    """
    from matrixrl.plots.figures import draw_regret, draw_returns

    if directory is None or not any(r.n_episodes for r in results.values()):
        return []
    files = directory.write_results(results)
    first = next(iter(results.values()))
    try:
        if first.optimal_value is not None:
            files.append(directory.write_picture(lambda path: draw_regret(results, path, title=title)))
        elif runs is not None:
            learned = runs.algorithm
            files.append(
                directory.write_picture(
                    lambda path: draw_returns(first, learned, path, coordinates=coordinates), of="return"
                )
            )
    except MissingExtra as error:
        typer.echo(f"note: no figure was drawn: {error}", err=True)
    return files


def print_runs(results: dict[str, RunResult], files: list[Path]) -> None:
    """Print tables and the names of the written files."""
    console = Console(emoji=False)
    print_results(console, results)
    for file in files:
        print_line(console, f"wrote {file}")


@app.command("list")
@loading(*LIBRARY)
def list_command(topic: Annotated[str | None, typer.Argument(help=", ".join(TOPICS))] = None) -> None:
    """List environments, agents, settings, confidence sets, radii, and presets."""
    from matrixrl.checks import choice

    console = Console(emoji=False)
    for name in TOPICS if topic is None else [choice("topic", topic, TOPICS)]:
        left = {"name": {"style": "bold cyan", "no_wrap": True}, "description": {}}
        table = new_table(name, left, (), box=None, pad_edge=False)
        for row in _rows(name):
            table.add_row(*row)
        console.print(table)
        console.print()


def _rows(topic: str) -> Iterable[tuple[str, str]]:
    from matrixrl.agents import KernelControl, KernelMatrixRL, MatrixRL
    from matrixrl.algorithms import BASELINES, PRESETS, MatrixRLSettings
    from matrixrl.core import RADII, SANDWICH_SETS, SETS
    from matrixrl.core.sets import LIKELIHOOD_SETS
    from matrixrl.envs import CONTROL, ENVIRONMENTS
    from matrixrl.settings import describe_settings

    if topic == "envs":
        for entry in ENVIRONMENTS.values():
            yield entry.name, f"{entry.summary}\n[dim]{entry.id}: {_listed(entry.defaults())}[/]"
        for task in CONTROL.values():
            yield task.name, f"{task.summary}\n[dim]control, {task.id}: {_listed(task.defaults)}[/]"
        yield (
            "gym:ID",
            "Any Gymnasium environment with a transition table (gym:FrozenLake-v1) or with vectors as observations",
        )
    elif topic == "agents":
        for agent in (MatrixRL, KernelMatrixRL, KernelControl):
            yield agent.name, _first_line(agent)
        for name, baseline in BASELINES.items():
            shown = ", ".join(f"{key}={value}" for key, value, _ in describe_settings(baseline.settings_class))
            yield name, f"{escape(_first_line(baseline))}\n[dim]baseline: {escape(shown)}[/]"
    elif topic == "settings":
        for key, value, text in describe_settings(MatrixRLSettings):
            yield f"{key}={value}", text
    elif topic == "sets":
        for name, kind in {**SETS, **SANDWICH_SETS, **LIKELIHOOD_SETS}.items():
            yield name, kind.summary
    elif topic == "radii":
        for name, radius in RADII.items():
            yield name, radius.summary
    else:
        for name, settings in PRESETS.items():
            yield name, _listed(settings)


def _listed(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]
