"""The command ``matrixrl audit``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from matrixrl.cli.options import JsonOption, TrustOption, allow_imports, loading, parse_path, parse_settings
from matrixrl.cli.tables import new_table, print_line
from matrixrl.display import in_digits, literal

if TYPE_CHECKING:
    from matrixrl.agents import Audit

__all__ = ["app"]

_LIBRARY = ("matrixrl.agents", "matrixrl.plots.log_audit")
_FILES = {"json": "audit.json", "picture": "audit.png", "safest": "safest.json"}
_SHOWN = 10  # pairs of the table

app = typer.Typer()


@app.command("audit")
@loading(*_LIBRARY)
def audit_command(
    log: Annotated[Path, typer.Argument(help="CSV or Parquet file, one row for each step.", parser=parse_path)],
    problem: Annotated[
        Path | None,
        typer.Option("--problem", parser=parse_path, metavar="FILE", help="TOML file with the arguments of a Task."),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option("--task", help="Argument key=value of a Task: n_states=6, reward_range=0,1; also over --problem."),
    ] = None,
    env: Annotated[str | None, typer.Option("--env", help="An environment, in place of --problem and --task.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Environment setting key=value (see matrixrl list envs).")
    ] = None,
    policy: Annotated[
        list[Path] | None,
        typer.Option("--policy", parser=parse_path, metavar="FILE", help="A saved policy to audit; may be repeated."),
    ] = None,
    fixed_policy: Annotated[
        bool, typer.Option("--fixed-policy", help="One policy, fixed before the log, chose all its actions.")
    ] = False,
    column: Annotated[list[str] | None, typer.Option("--column", help="Column of a role, such as state=ward.")] = None,
    first_step: Annotated[int | None, typer.Option("--first-step", help="Number of the first step, 0 or 1.")] = None,
    missing: Annotated[str, typer.Option("--missing", help="error, drop_episode or cut_episode.")] = "error",
    delta: Annotated[float, typer.Option("--delta", help="Probability with which any bound may fail.")] = 0.05,
    out: Annotated[
        Path | None,
        typer.Option("--out", parser=parse_path, metavar="DIR", help="Directory for JSON, picture and safest policy."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier audit in --out.")] = False,
    trust_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print what a log proves: the value of its policy, of given ones and of the safest one, and where data lack.

    Nothing is assumed of the probabilities with which the log's actions were chosen.
    """
    from matrixrl.agents import audit_log
    from matrixrl.envs import open_problem
    from matrixrl.errors import OutputExists
    from matrixrl.plots.style import require_matplotlib

    allow_imports(trust_code)
    if out is not None:
        require_matplotlib()
        held = [name for name in _FILES.values() if (out / name).exists()]
        if held and not overwrite:
            raise OutputExists(f"{out} already holds an audit ({', '.join(held)}); choose another or pass --overwrite")
    if env is None:
        asked: Any = _task(problem, parse_settings("--task", task or []))
    else:
        _refuse_both(problem, task)
        asked = open_problem(env, parse_settings("--set", set_ or []), trust_code=trust_code)
    columns = parse_settings("--column", column or [])
    found = audit_log(
        str(log),
        asked,
        policies=_policies(policy or []),
        fixed_policy=fixed_policy,
        delta=delta,
        columns=columns or None,
        first_step=first_step,
        missing=missing,
    )
    files = [] if out is None else _write(found, out)
    if as_json:
        typer.echo(found.to_json())
    else:
        _print(Console(emoji=False), found, files)


def _refuse_both(problem: Path | None, task: list[str] | None) -> None:
    from matrixrl.checks import fail

    if problem is not None or task:
        fail("--env", "must be left out with --problem and --task", "both", "Say once what the problem is.")


def _task(path: Path | None, given: dict[str, Any]) -> Any:
    """Return the task of a TOML file and of options, which take precedence."""
    import inspect

    from matrixrl.checks import fail, shown
    from matrixrl.problems import Task

    arguments: dict[str, Any] = {}
    remedy = "Such as --task n_states=4 --task n_actions=2 --task horizon=20 --task start=0, or --env river-swim."
    if path is None and not given:
        fail("--task", "must say what states and actions there are", "nothing", remedy)
    if path is not None:
        try:
            arguments = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            fail("--problem", "must be a TOML file", f"{path.name}: {error}", remedy)
    arguments |= given
    known = sorted(set(inspect.signature(Task).parameters) - {"features", "successors"})
    unknown = sorted(set(arguments) - set(known))
    if unknown:
        fail("--task", f"must be among {', '.join(known)}", shown(unknown), remedy)
    if isinstance(arguments.get("reward_range"), list):
        arguments["reward_range"] = tuple(arguments["reward_range"])
    return Task(**arguments)


def _policies(paths: list[Path]) -> dict[str, Any]:
    """Return saved policies by the names of their files."""
    from matrixrl.checks import fail
    from matrixrl.policies import Policy

    found: dict[str, Any] = {}
    for path in paths:
        if path.stem in found:
            fail("--policy", "must be files of different names", path.name, "Rename one of them.")
        found[path.stem] = Policy.load(path)
    return found


def _write(found: Audit, out: Path) -> list[Path]:
    """Write an audit, its picture and the safest policy, and return their paths."""
    from matplotlib import pyplot

    from matrixrl.archive import atomic_write
    from matrixrl.plots import log_audit

    out.mkdir(parents=True, exist_ok=True)
    paths = {kind: out / name for kind, name in _FILES.items()}
    figure = log_audit(found).get_figure(root=True)
    assert figure is not None
    try:
        atomic_write(paths["picture"], lambda file: figure.savefig(file, dpi=150, format="png"))
    finally:
        pyplot.close(figure)
    atomic_write(paths["json"], lambda file: file.write_text(found.to_json() + "\n", encoding="utf-8"))
    found.safest.save(paths["safest"])
    return list(paths.values())


def _print(console: Console, found: Audit, files: list[Path]) -> None:
    console.print(f"[bold]{literal(found.log)}[/], values from {literal(found.start)}", highlight=False)
    table = new_table(
        "value of an episode", {"policy": {}}, ["at least", "at most", "estimated", "more than the log, at least"]
    )
    if found.logged is not None:
        name = "the log's policy" if found.fixed_policy else "the log's policies"
        table.add_row(name, *map(in_digits, found.logged), _cell(found.mean_return), "–")
    for one in found.policies:
        known = [gain[0] for gain in (one.gain, one.gain_of_choices) if gain is not None and gain != (0.0, 0.0)]
        bounds = map(in_digits, (one.lower, one.upper))
        table.add_row(literal(one.name), *bounds, _cell(one.estimate), _cell(max(known, default=None)))
    table.add_row("any policy", "–", in_digits(found.optimum), "–", "–")
    console.print(table)
    console.print(f"[bold]{literal(found.verdict)}[/]", highlight=False)
    pairs = new_table("pairs that need data", {"state": {}, "action": {}}, ["visits", "share of the width of safest"])
    for pair in found.pairs[:_SHOWN]:
        share = "under 1 %" if pair.share < 0.01 else f"{100.0 * pair.share:.0f} %"
        pairs.add_row(literal(pair.state), literal(pair.action), f"{pair.visits:,}", share)
    console.print(pairs)
    left_out = found.n_episodes - found.n_counted
    if left_out:
        console.print(f"{left_out:,} episodes begin later or elsewhere: their returns do not count", style="yellow")
    console.print(f"if {literal(found.assumptions)}", style="dim", highlight=False)
    for path in files:
        print_line(console, f"wrote {path}")


def _cell(value: float | None) -> str:
    return "–" if value is None else in_digits(value)
