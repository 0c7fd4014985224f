"""The commands ``matrixrl run``, ``inspect``, ``list`` and ``demo``; `matrixrl.cli.lab` has those of the lab.

Only what the help needs is imported here; a command imports the rest when it runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

import matrixrl
from matrixrl.cli.lab import add_lab_commands
from matrixrl.cli.options import TrustOption, never_fail_to_encode, parse_path
from matrixrl.cli.scorecard import add_scorecard_commands
from matrixrl.cli.serve import add_serve_commands
from matrixrl.display import printable
from matrixrl.errors import MatrixRLError
from matrixrl.interrupts import INTERRUPTED, ending_at_once
from matrixrl.lab.demo import DEMO

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
    _play().print_listing(topic)


@app.command("run")
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
    episodes: Annotated[
        int | None, typer.Option("--episodes", "-n", help="Episodes of each seed; 1000, or 25 for vectors as states.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", "-k", help="Number of seeds; 8, or 1 for vectors as states.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The first seed.")] = 0,
    out: OutOption = None,
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
    """Run an agent on an environment and print its regret, or its returns if the optimal value is unknown."""
    _play().run(**locals())  # all arguments, by their names


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
    _play().inspect(**locals())


@app.command("demo")
def demo_command(
    out: Annotated[
        Path, typer.Option("--out", parser=parse_path, metavar="DIR", help="Directory of the results.")
    ] = Path("out/demo"),
    episodes: Annotated[int, typer.Option("--episodes", "-n")] = DEMO.n_episodes,
    seeds: Annotated[int, typer.Option("--seeds", "-k")] = DEMO.n_seeds,
    overwrite: OverwriteOption = False,
    film: Annotated[
        bool, typer.Option("--film", help="Write an animated GIF of one seed that learns, and nothing else.")
    ] = False,
) -> None:
    """Run MatrixRL on RiverSwim, from the confidence set of the paper to the two presets."""
    if film:
        _play().film_demo(out, episodes, overwrite=overwrite)
    else:
        _play().run_demo(out, episodes, seeds, overwrite=overwrite)


def _play() -> ModuleType:
    """Return the module of these commands, which takes a second or two to import; Ctrl-C ends the command meanwhile."""
    with ending_at_once():
        from matrixrl.cli import play
    return play


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
