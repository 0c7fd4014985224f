"""The commands ``matrixrl run``, ``inspect``, ``list`` and ``demo``; `matrixrl.cli.lab` has those of the lab."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import matrixrl
from matrixrl.checks import choice, integer
from matrixrl.cli.lab import add_lab_commands
from matrixrl.cli.listing import TOPICS, print_listing
from matrixrl.cli.output import never_fail_to_encode, parse_path
from matrixrl.cli.parsing import parse_settings
from matrixrl.cli.scorecard import add_scorecard_commands
from matrixrl.cli.serve import add_serve_commands
from matrixrl.cli.tables import print_inspection, print_results
from matrixrl.cli.trust import TrustOption, allow_imports
from matrixrl.envs import open_problem
from matrixrl.errors import MatrixRLError, MissingExtra
from matrixrl.lab.demo import DEMO
from matrixrl.lab.plots import draw_regret, require_matplotlib
from matrixrl.lab.return_plots import draw_returns
from matrixrl.printable import literal, printable
from matrixrl.seeding import seed_list
from matrixrl.simulate import OutputDirectory, RunResult, SeedRuns, inspect_problem

__all__ = ["app", "main"]

app = typer.Typer(
    name="matrixrl",
    help="Reinforcement learning that explores with a proof and learns from few episodes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
add_lab_commands(app)
add_serve_commands(app)
add_scorecard_commands(app)

OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", parser=parse_path, metavar="DIR", help="Directory for result.json, episodes.csv and a figure."
    ),
]
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


@app.command("list")
def list_command(
    topic: Annotated[str | None, typer.Argument(help="envs, agents, settings, sets, radii, presets, specs")] = None,
) -> None:
    """List environments, agents, settings, confidence sets, radii, presets and shipped specs."""
    topics = TOPICS if topic is None else [choice("topic", topic, TOPICS)]
    print_listing(Console(emoji=False), topics)


@app.command("run")
def run_command(
    env: Annotated[str, typer.Argument(help="river-swim, cart-pole, …, gym:FrozenLake-v1, or package.module:Name")],
    set_: SetOption = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent", help="See matrixrl list agents; matrix-rl by default, kernel-matrix-rl for vectors as states."
        ),
    ] = None,
    agent_set: AgentSetOption = None,
    episodes: Annotated[
        int | None, typer.Option("--episodes", "-n", help="Episodes of each seed; 1000, or 25 for vectors as states.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", "-k", help="Number of seeds; 8, or 1 for vectors as states.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The first seed.")] = 0,
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    record: Annotated[
        Path | None,
        typer.Option("--record", parser=parse_path, metavar="DIR", help="Directory for a video of one more episode."),
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
    """Run an agent on an environment and print its regret, or its returns if the optimal value is unknown."""
    allow_imports(trust_code)
    env_settings = parse_settings("--set", set_ or [])
    settings = parse_settings("--agent-set", agent_set or [])
    is_continuous = open_problem(env, env_settings, trust_code=trust_code, known_reward=False).kind == "continuous"
    if record is not None:
        from matrixrl.simulate.recording import make_rendered, require_recorder

        require_recorder()
        make_rendered(env, env_settings, trust_code=trust_code).close()  # before anything is played
    n_episodes = (25 if is_continuous else 1000) if episodes is None else episodes
    n_seeds = (1 if is_continuous else 8) if seeds is None else seeds
    runs = SeedRuns(
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
    directory = _directory(out, overwrite)
    interrupted = False
    try:
        result = runs.run(progress=not as_json)
    except KeyboardInterrupt:
        interrupted, result = True, runs.result()
    name = agent or result.agent
    label = " ".join([name, *(agent_set or [])])
    files = _write({label: result}, directory, runs, title=f"{name} on {env}")
    if record is not None and not interrupted:
        from matrixrl.simulate.recording import record_episode

        files.append(record_episode(runs.first.algorithm, env, env_settings, record, trust_code=trust_code))
    _print({label: result}, files, as_json=as_json)
    if interrupted:
        raise typer.Exit(130)


@app.command("inspect")
def inspect_command(
    env: Annotated[str, typer.Argument(help="river-swim, linear-mdp, …, or gym:FrozenLake-v1")],
    set_: SetOption = None,
    agent: Annotated[str, typer.Option("--agent", help="matrix-rl or kernel-matrix-rl.")] = "matrix-rl",
    agent_set: AgentSetOption = None,
    trust_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print constants, regret bounds, cost and warnings for a problem."""
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


@app.command("demo")
def demo_command(
    out: Annotated[
        Path, typer.Option("--out", parser=parse_path, metavar="DIR", help="Directory of the results.")
    ] = Path("out/demo"),
    episodes: Annotated[int, typer.Option("--episodes", "-n")] = DEMO.n_episodes,
    seeds: Annotated[int, typer.Option("--seeds", "-k")] = DEMO.n_seeds,
    overwrite: OverwriteOption = False,
) -> None:
    """Run MatrixRL on RiverSwim, from the confidence set of the paper to the two presets."""
    directory = _directory(out, overwrite)
    results: dict[str, RunResult] = {}
    interrupted = False
    for label, settings in DEMO.settings.items():
        runs = SeedRuns(
            DEMO.env,
            n_episodes=episodes,
            seeds=seed_list(0, seeds),
            settings=settings,
            env_settings=DEMO.env_settings,
        )
        try:
            results[label] = runs.run(progress=True, label=label)
        except KeyboardInterrupt:
            interrupted, results[label] = True, runs.result()
            break
    _print(results, _write(results, directory, None, title=DEMO.title), as_json=False)
    if interrupted:
        raise typer.Exit(130)


def _directory(out: Path | None, overwrite: bool) -> OutputDirectory | None:
    """Return the output directory; raise before anything is played if results cannot be written."""
    return None if out is None else OutputDirectory(out, overwrite=overwrite)


def _write(
    results: dict[str, RunResult], directory: OutputDirectory | None, runs: SeedRuns | None, *, title: str
) -> list[Path]:
    """Write summary, episodes and figure, if any episode was played; return the files.

    Without matplotlib there is no figure, and a note on standard error says which extra draws it.
    """
    if directory is None or not any(r.n_episodes for r in results.values()):
        return []
    files = directory.write_results(results)
    first = next(iter(results.values()))
    try:
        require_matplotlib()
    except MissingExtra as error:
        typer.echo(f"note: no figure was drawn: {error}", err=True)
        return files
    if first.optimal_value is not None:
        files.append(directory.write_picture(lambda path: draw_regret(results, path, title=title)))
    elif runs is not None:
        algorithm = runs.first.algorithm
        files.append(directory.write_picture(lambda path: draw_returns(first, algorithm, path), of="return"))
    return files


def _print(results: dict[str, RunResult], files: list[Path], *, as_json: bool) -> None:
    """Print one JSON object, or tables and the names of the written files."""
    if as_json:
        typer.echo(json.dumps(next(iter(results.values())).as_dict(), allow_nan=False))
        return
    console = Console(emoji=False)
    print_results(console, results)
    for file in files:
        console.print(f"wrote {literal(file)}", highlight=False, soft_wrap=True)


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
        sys.exit(130)
