"""What ``matrixrl run``, ``inspect``, ``list`` and ``demo`` do; imported when one runs: it loads the library."""

from __future__ import annotations

import inspect as python_inspect
import json
from collections.abc import Iterable
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape

from matrixrl.agents import KernelControl, KernelMatrixRL, MatrixRL
from matrixrl.algorithms import BASELINES, PRESETS, MatrixRLSettings
from matrixrl.checks import choice, fail, integer
from matrixrl.cli.options import allow_imports, parse_settings
from matrixrl.cli.tables import new_table, print_inspection, print_line, print_results
from matrixrl.core import RADII, SANDWICH_SETS, SETS
from matrixrl.core.sets import LIKELIHOOD_SETS
from matrixrl.envs import CONTROL, ENVIRONMENTS, open_problem
from matrixrl.errors import MissingExtra
from matrixrl.interrupts import INTERRUPTED
from matrixrl.lab.demo import DEMO, FILM
from matrixrl.lab.plots import draw_regret
from matrixrl.lab.return_plots import draw_returns
from matrixrl.lab.shipped import shipped_titles
from matrixrl.play import OutputDirectory, RunResult, Simulation, inspect_problem
from matrixrl.plots.style import require_matplotlib
from matrixrl.plots.vectors import checked_coordinates
from matrixrl.problems import ContinuousTask, Problem
from matrixrl.random_streams import seed_list
from matrixrl.settings import describe_settings

__all__ = ["TOPICS", "film_demo", "inspect", "print_listing", "run", "run_demo"]

TOPICS = ["envs", "agents", "settings", "sets", "radii", "presets", "specs"]


def run(
    env: str,
    *,
    set_: list[str] | None,
    agent: str | None,
    agent_set: list[str] | None,
    episodes: int | None,
    seeds: int | None,
    seed: int,
    out: Path | None,
    overwrite: bool,
    plot_coordinates: tuple[int, int] | None,
    record: Path | None,
    certify: bool,
    compiled: bool | None,
    trust_code: bool,
    as_json: bool,
) -> None:
    """Play one agent on one environment, write the results, and print them; the arguments are those of the command."""
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
    directory = _directory(out, overwrite)
    interrupted = False
    try:
        result = runs.run(progress=not as_json)
    except KeyboardInterrupt:
        interrupted, result = True, runs.result()
    name = agent or result.agent
    label = " ".join([name, *(agent_set or [])])
    files = _write({label: result}, directory, runs, title=f"{name} on {env}", coordinates=plot_coordinates)
    if recorder is not None and not interrupted:
        before, after, both = recorder.record_both(runs.fresh(), runs.algorithm)
        files += [before.path, after.path, both]
    _print({label: result}, files, as_json=as_json)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def inspect(
    env: str,
    *,
    set_: list[str] | None,
    agent: str,
    agent_set: list[str] | None,
    trust_code: bool,
    as_json: bool,
) -> None:
    """Print constants, bounds and cost of a problem; the arguments are those of the command."""
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


def run_demo(out: Path, episodes: int, seeds: int, *, overwrite: bool) -> None:
    """Play the settings of `DEMO` one after the other, write the results, and print them."""
    directory = _directory(out, overwrite)
    results: dict[str, RunResult] = {}
    interrupted = False
    for label, settings in DEMO.settings.items():
        runs = Simulation(
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
        raise typer.Exit(INTERRUPTED)


def film_demo(out: Path, episodes: int, *, overwrite: bool) -> None:
    """Let one agent learn and write the film of it."""
    require_matplotlib()
    from matrixrl.plots import film

    n_episodes = integer("--episodes", episodes, low=1, remedy="Play at least one episode.")
    directory = OutputDirectory(out, overwrite=overwrite)
    agent = MatrixRL(DEMO.env, **FILM)

    def write(path: Path) -> None:
        film(agent, path, n_episodes=n_episodes, progress=True)

    file = directory.write_picture(write, of="film")
    found = agent.certificate()
    console = Console(emoji=False)
    words = f"{n_episodes:,} episodes: regret {agent.history.cumulative_regret[-1]:.0f}"
    console.print(f"{words}, certified {found.lower:.2f} to {found.upper:.2f}", highlight=False)
    print_line(console, f"wrote {file}")


def _directory(out: Path | None, overwrite: bool) -> OutputDirectory | None:
    """Return the output directory; raise before anything is played if results cannot be written."""
    return None if out is None else OutputDirectory(out, overwrite=overwrite)


def _check_coordinates(given: tuple[int, int] | None, problem: Problem, out: Path | None) -> None:
    """Refuse coordinates of a figure that would not be drawn, before anything is played."""
    if given is None:
        return
    if not isinstance(problem.task, ContinuousTask):
        fail("--plot-coordinates", "must be left out for numbered states", given, "Leave it out.")
    if out is None:
        fail("--plot-coordinates", "is about the figure of --out, which must be given too", given, "Add --out DIR.")
    checked_coordinates("--plot-coordinates", given, problem.task.n_coordinates)


def _write(
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
        algorithm = runs.algorithm
        files.append(
            directory.write_picture(
                lambda path: draw_returns(first, algorithm, path, coordinates=coordinates), of="return"
            )
        )
    return files


def _print(results: dict[str, RunResult], files: list[Path], *, as_json: bool) -> None:
    """Print one JSON object, or tables and the names of the written files."""
    if as_json:
        typer.echo(json.dumps(next(iter(results.values())).as_dict(), allow_nan=False))
        return
    console = Console(emoji=False)
    print_results(console, results)
    for file in files:
        print_line(console, f"wrote {file}")


def print_listing(wanted: str | None) -> None:
    """Print the table of one of `TOPICS`, or of all of them."""
    console = Console(emoji=False)
    for topic in TOPICS if wanted is None else [choice("topic", wanted, TOPICS)]:
        left = {"name": {"style": "bold cyan", "no_wrap": True}, "description": {}}
        table = new_table(topic, left, (), box=None, pad_edge=False)
        for name, text in _rows(topic):
            table.add_row(name, text)
        console.print(table)
        console.print()


def _rows(topic: str) -> Iterable[tuple[str, str]]:
    if topic == "envs":
        for entry in ENVIRONMENTS.values():
            shown = ", ".join(f"{k}={v}" for k, v in entry.defaults().items())
            yield entry.name, f"{entry.summary}\n[dim]{entry.id}: {shown}[/]"
        for task in CONTROL.values():
            shown = ", ".join(f"{k}={v}" for k, v in task.defaults.items())
            yield task.name, f"{task.summary}\n[dim]control, {task.id}: {shown}[/]"
        yield (
            "gym:ID",
            "Any Gymnasium environment with a transition table (gym:FrozenLake-v1) or with vectors as observations",
        )
    elif topic == "agents":
        for agent in (MatrixRL, KernelMatrixRL, KernelControl):
            yield agent.name, (python_inspect.getdoc(agent) or "").partition("\n")[0]
        for name, baseline in BASELINES.items():
            shown = ", ".join(f"{key}={value}" for key, value, _ in describe_settings(baseline.settings_class))
            words = (python_inspect.getdoc(baseline) or "").partition("\n")[0]
            yield name, f"{escape(words)}\n[dim]baseline: {escape(shown)}[/]"
    elif topic == "settings":
        for key, value, text in describe_settings(MatrixRLSettings):
            yield f"{key}={value}", text
    elif topic == "sets":
        for name, kind in {**SETS, **SANDWICH_SETS}.items():
            yield name, kind.summary
        for name, likelihood in LIKELIHOOD_SETS.items():
            yield name, likelihood.summary
    elif topic == "radii":
        for name, radius in RADII.items():
            yield name, radius.summary
    elif topic == "presets":
        for name, settings in PRESETS.items():
            yield name, ", ".join(f"{k}={v}" for k, v in settings.items())
    else:
        for name, title in shipped_titles().items():
            yield name, f"{escape(title)}\n[dim]matrixrl compare {name}[/]"
