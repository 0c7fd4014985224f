"""``matrixrl``: run, inspect, list, demo; the commands of the lab are beside."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import matrixrl
from matrixrl.agents import KernelMatrixRL, MatrixRL
from matrixrl.checks import choice, integer
from matrixrl.cli.control import ControlOrder, run_control
from matrixrl.cli.lab import add_lab_commands
from matrixrl.cli.listing import TOPICS, print_listing
from matrixrl.cli.parsing import parse_settings
from matrixrl.cli.tables import print_inspection, print_notes, result_table
from matrixrl.envs import is_control
from matrixrl.errors import InvalidInput, MatrixRLError
from matrixrl.lab import DEMO, compare_settings, draw_regret, require_matplotlib
from matrixrl.seeding import seed_list
from matrixrl.simulate import OutputDirectory, RunResult, Simulation, inspect_problem

__all__ = ["app", "main"]

app = typer.Typer(
    name="matrixrl",
    help="Reinforcement learning that explores with a proof and learns from few episodes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
add_lab_commands(app)

OutOption = Annotated[Path | None, typer.Option("--out", help="Write result.json, episodes.csv and regret.png there.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Environment setting key=value (see matrixrl list envs).")
]
AgentSetOption = Annotated[
    list[str] | None, typer.Option("--agent-set", help="Agent setting key=value (see matrixrl list settings).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in --out.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"matrixrl {matrixrl.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    del version


@app.command("list")
def list_command(
    topic: Annotated[str | None, typer.Argument(help="envs, agents, settings, sets, radii, presets, specs")] = None,
) -> None:
    """List what there is: environments, agents, their settings, sets, radii, presets, shipped specs."""
    topics = TOPICS if topic is None else [choice("topic", topic, TOPICS)]
    print_listing(Console(), topics)


@app.command("run")
def run_command(
    env: Annotated[str, typer.Argument(help="river-swim, linear-mdp, …, or gym:FrozenLake-v1")],
    set_: SetOption = None,
    agent: Annotated[
        str | None,
        typer.Option("--agent", help="See matrixrl list agents; control tasks have kernel-matrix-rl."),
    ] = None,
    agent_set: AgentSetOption = None,
    episodes: Annotated[
        int | None, typer.Option("--episodes", "-n", help="Episodes of each seed; 1000, or 25 of a control task.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", "-k", help="How many seeds; 8, or 1 of a control task.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The first seed.")] = 0,
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    record: Annotated[
        Path | None, typer.Option("--record", help="Control tasks: write a video of one more episode there.")
    ] = None,
    certify: Annotated[
        bool, typer.Option("--certify", help="Certify every episode: a band in the picture, columns in the CSV.")
    ] = False,
    compiled: Annotated[
        bool | None,
        typer.Option("--compiled/--no-compiled", help="Compiled loops (numba); by default where they pay off."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run an agent: exact regret where the optimum is known, returns on a control task."""
    settings = parse_settings("--agent-set", agent_set or [])
    env_settings = parse_settings("--set", set_ or [])
    if is_control(env):
        choice("--agent", agent or KernelMatrixRL.name, [KernelMatrixRL.name])
        if compiled:
            raise InvalidInput("--compiled must be left out of a control task; got it. It has no compiled loops.")
        if certify:
            raise InvalidInput("--certify must be left out of a control task; got it. Nothing is proven there.")
        count = integer("--episodes", 25 if episodes is None else episodes, low=1, remedy="Ask for at least one.")
        some = integer("--seeds", 1 if seeds is None else seeds, low=1, remedy="Ask for at least one seed.")
        order = ControlOrder(env, env_settings, settings, count, seed_list(seed, some), record, as_json)
        run_control(order, _directory(out, overwrite))
        return
    if record is not None:
        raise InvalidInput(f"--record must be left out for {env}; got {record}. Only control tasks are drawn.")
    agent = agent or MatrixRL.name
    episodes, seeds = 1000 if episodes is None else episodes, 8 if seeds is None else seeds
    simulation = Simulation(
        env,
        n_episodes=integer("--episodes", episodes, low=1, remedy="Ask for at least one episode."),
        seeds=seed_list(seed, integer("--seeds", seeds, low=1, remedy="Ask for at least one seed.")),
        agent=agent,
        settings=settings,
        env_settings=env_settings,
        certify=certify,
        compiled=compiled,
    )
    directory = _directory(out, overwrite)
    interrupted = False
    try:
        result = simulation.run(progress=not as_json)
    except KeyboardInterrupt:
        interrupted, result = True, simulation.result()
    label = " ".join([agent, *(agent_set or [])])
    _finish({label: result}, directory, title=f"{agent} on {env}", as_json=as_json)
    if interrupted:
        raise typer.Exit(130)


@app.command("inspect")
def inspect_command(
    env: Annotated[str, typer.Argument(help="river-swim, linear-mdp, …, or gym:FrozenLake-v1")],
    set_: SetOption = None,
    agent: Annotated[str, typer.Option("--agent", help="matrix-rl or kernel-matrix-rl.")] = MatrixRL.name,
    agent_set: AgentSetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what can be known of a problem before running it: constants, bounds, cost, warnings."""
    if is_control(env):
        raise InvalidInput(f"inspect must be given a problem with a known P; got {env}. Try matrixrl run {env}.")
    found = inspect_problem(
        env,
        env_settings=parse_settings("--set", set_ or []),
        settings=parse_settings("--agent-set", agent_set or []),
        agent=agent,
    )
    if as_json:
        typer.echo(json.dumps(found.as_dict(), allow_nan=False))
    else:
        print_inspection(Console(), found)


@app.command("demo")
def demo_command(
    out: Annotated[Path, typer.Option("--out", help="Where table and picture go.")] = Path("out/demo"),
    episodes: Annotated[int, typer.Option("--episodes", "-n")] = DEMO.n_episodes,
    seeds: Annotated[int, typer.Option("--seeds", "-k")] = DEMO.n_seeds,
    overwrite: OverwriteOption = False,
) -> None:
    """Watch MatrixRL learn RiverSwim with the paper's confidence set and with the normalised one."""
    directory = _directory(out, overwrite)
    results: dict[str, RunResult] = {}
    interrupted = False
    try:
        for label, result in compare_settings(
            DEMO.env,
            DEMO.contenders,
            n_episodes=episodes,
            seeds=seed_list(0, seeds),
            env_settings=DEMO.env_settings,
            progress=True,
        ):
            results[label] = result
    except KeyboardInterrupt:
        interrupted = True
    if results:
        _finish(results, directory, title=DEMO.title, as_json=False)
    if interrupted:
        raise typer.Exit(130)


def _directory(out: Path | None, overwrite: bool) -> OutputDirectory | None:
    """Refuse early, before an hour of work, what cannot be written at the end."""
    if out is None:
        return None
    require_matplotlib()
    return OutputDirectory(out, overwrite=overwrite)


def _finish(results: dict[str, RunResult], directory: OutputDirectory | None, *, title: str, as_json: bool) -> None:
    files: list[Path] = []
    if directory is not None and any(r.n_episodes for r in results.values()):
        files = directory.write_results(results)
        files.append(directory.write_picture(lambda path: draw_regret(results, path, title=title)))
    if as_json:
        summary: Any = next(iter(results.values())).as_dict()
        typer.echo(json.dumps(summary, allow_nan=False))
        return
    console = Console()
    console.print(result_table(results))
    print_notes(console, results)
    for file in files:
        console.print(f"wrote {file}", highlight=False, soft_wrap=True)


def main() -> None:
    """Run the command line; a mistake of the user ends in one line on standard error."""
    try:
        app()
    except MatrixRLError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except MemoryError:
        typer.echo("error: this problem does not fit in memory; ask for fewer states, episodes or seeds", err=True)
        sys.exit(2)
    except OSError as error:
        typer.echo(f"error: {error.strerror or error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
