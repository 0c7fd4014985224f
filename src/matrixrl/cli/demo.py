"""The command ``matrixrl demo``: a shop, for people who decide, and RiverSwim, for researchers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from matrixrl.cli.options import loading
from matrixrl.cli.play import (
    EPISODES_OPTION,
    LIBRARY,
    OUT_OPTION,
    SEEDS_OPTION,
    OverwriteOption,
    print_runs,
    write_runs,
)
from matrixrl.cli.tables import new_table, print_line
from matrixrl.errors import MissingExtra
from matrixrl.interrupts import INTERRUPTED

if TYPE_CHECKING:
    from matrixrl.play import OutputDirectory, RunResult
    from matrixrl.plots.months import Months

__all__ = ["DEMO", "DEMO_SETTINGS", "app", "learn_shop"]

DEMO: dict[str, Any] = {"env": "river-swim", "env_settings": {"n_states": 6, "horizon": 24}}
"""Problem of ``matrixrl demo river-swim``."""

DEMO_SETTINGS: dict[str, dict[str, Any]] = {
    "paper's set, theorem radius": {"preset": "optimistic", "set": "frobenius", "radius": "theorem"},
    "normalised set, proven radius": {"preset": "optimistic", "set": "normalised"},
    "optimistic preset: likelihood set": {"preset": "optimistic"},
    "default: the same, with a budget": {},
    "tuned preset: smaller radius": {"preset": "tuned"},
}
"""Settings of MatrixRL that ``matrixrl demo river-swim`` compares, by the label of the curve."""

_NAMES = ("shop", "river-swim")
_FIRST_SEED = 2000  # of the shop; nothing was tuned on its seeds
_LOOKS = (1, 2, 3, 4, 6, 8, 12, 18, 24, 36, 60, 120, 240, 600, 1200)
_ROWS = (1, 3, 12, 36, 120)

app = typer.Typer()


@app.command("demo")
@loading(*LIBRARY)
def demo_command(
    name: Annotated[str, typer.Argument(help=", ".join(_NAMES))] = _NAMES[0],
    out: Annotated[Path, OUT_OPTION] = Path("out/demo"),
    episodes: Annotated[int | None, EPISODES_OPTION] = None,
    seeds: Annotated[int | None, SEEDS_OPTION] = None,
    overwrite: OverwriteOption = False,
    film: Annotated[
        bool, typer.Option("--film", help="Write an animated GIF of one seed that learns RiverSwim, and nothing else.")
    ] = False,
) -> None:
    """Learn a shop's orders and compare them with its usual rule, in euros; or run MatrixRL on RiverSwim.

    The shop plays 12 months with 4 seeds by default. RiverSwim plays 3000 episodes with 16 seeds, from the confidence
    set of the paper to the presets.
    """
    from matrixrl.checks import choice, integer
    from matrixrl.play import OutputDirectory

    chosen = choice("demo", name, _NAMES)
    if film:
        _write_film(out, 3000 if episodes is None else episodes, overwrite)
        return
    default = (12, 4) if chosen == "shop" else (3000, 16)
    n_episodes, n_seeds = (
        integer(option, usual if given is None else given, low=1, remedy="Give at least one.")
        for option, given, usual in zip(("--episodes", "--seeds"), (episodes, seeds), default, strict=True)
    )
    run = _run_shop if chosen == "shop" else _run_river
    interrupted = run(OutputDirectory(out, overwrite=overwrite), n_episodes, n_seeds)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _run_river(directory: OutputDirectory, episodes: int, seeds: int) -> bool:
    """Run all settings on RiverSwim, and return whether that was interrupted."""
    from matrixrl.play import Simulation
    from matrixrl.random_streams import seed_list

    results: dict[str, RunResult] = {}
    interrupted = False
    for label, settings in DEMO_SETTINGS.items():
        runs = Simulation(**DEMO, n_episodes=episodes, seeds=seed_list(0, seeds), settings=settings)
        try:
            results[label] = runs.run(progress=True, label=label)
        except KeyboardInterrupt:
            interrupted, results[label] = True, runs.result()
            break
    print_runs(results, write_runs(results, directory, None, title="MatrixRL on RiverSwim (6 states, horizon 24)"))
    return interrupted


def _run_shop(directory: OutputDirectory, months: int, seeds: int) -> bool:
    """Learn the shop with all seeds, and return whether that was interrupted; finished seeds are shown."""
    from matrixrl.plots.months import draw_months
    from matrixrl.random_streams import seed_list

    found, interrupted = learn_shop(seed_list(_FIRST_SEED, seeds), months)
    if not found.seeds:
        return interrupted
    files = [directory.write_summary(found.as_dict())]
    try:
        files.append(directory.write_picture(lambda path: draw_months(found, path), of="shop"))
    except MissingExtra as error:
        typer.echo(f"note: no figure was drawn: {error}", err=True)
    console = Console(emoji=False)
    _print_shop(console, found)
    for file in files:
        print_line(console, f"wrote {file}")
    return interrupted


def learn_shop(seeds: list[int], n_months: int) -> tuple[Months, bool]:
    """Let one agent of each seed run the shop for some months; return what is known, and whether it was stopped.

    An agent decides from the first month on. What is recorded is the greedy policy: its exact value, the agent's
    estimate and bounds, and the comparison with the usual rule.
    """
    import numpy as np

    from matrixrl.agents import MatrixRL
    from matrixrl.compilation import why_not_usable
    from matrixrl.envs.shop import shop, usual_orders
    from matrixrl.plots.months import Months
    from matrixrl.problems import evaluate, solve
    from matrixrl.progress import EpisodeProgress

    known, usual = shop(), usual_orders()
    assert known.mdp is not None
    mdp, first = known.mdp, int(np.argmax(known.mdp.task.start))
    looks = sorted({month for month in _LOOKS if month <= n_months} | {n_months})
    rows = {month for month in _ROWS if month <= n_months} | {n_months}
    seen: list[tuple[list[list[float]], list[float]]] = []
    stopped = False
    try:
        with EpisodeProgress("shop", n_months * len(seeds)) as bar:
            for seed in seeds:
                agent, numbers = MatrixRL(known, seed=seed, compiled=why_not_usable() is None), []
                for month in looks:
                    played = month - agent.n_episodes
                    agent.learn(played)
                    policy = agent.greedy()
                    value, shown = float(evaluate(mdp, policy.table)[0, first]), policy.certificate
                    assert shown is not None
                    gain = [np.nan] * 3
                    if month in rows:
                        compared = agent.compare(policy, usual)
                        gain = [compared.lower, compared.estimate or 0.0, compared.upper]
                    numbers.append([value, shown.estimate or 0.0, shown.lower, shown.upper, *gain])
                    bar.advance(f"seed {seed}, {value:,.0f} euros a month", count=played)
                seen.append((numbers, agent.history.returns.tolist()))
    except KeyboardInterrupt:
        stopped = True
    low, high = known.reward_range
    table = np.array([numbers for numbers, _ in seen]).reshape(len(seen), len(looks), 7)
    found = Months(
        seeds=tuple(seeds[: len(seen)]),
        months=np.array(looks),
        value=table[..., 0],
        estimate=table[..., 1],
        bounds=table[..., 2:4],
        gain=table[..., 4:],
        received=np.array([returns for _, returns in seen]),
        usual=float(evaluate(mdp, np.tile(usual, (mdp.horizon, 1)))[0, first]),
        best=solve(mdp).start_value,
        trivial=(mdp.horizon * low, mdp.horizon * high),
    )
    return found, stopped


def _print_shop(console: Console, found: Months) -> None:
    """Print what the learned policy earns after some months, beside the usual rule and the best policy."""
    import numpy as np

    n, best, usual = len(found.seeds), found.best, found.usual
    title = f"a shop that orders every evening: euros in a month, {n} seed{'s' * (n > 1)}"
    table = new_table(
        title, {"policy": {"no_wrap": True}}, ("earns", "of best", "proven", "gain", "estimate", "proven")
    )
    table.add_row("usual rule", f"{usual:,.0f}", f"{usual / best:.1%}")
    for k, month in enumerate(found.months.tolist()):
        if np.isnan(found.gain[:, k]).all():
            continue
        value = found.value[:, k].mean()
        low, high = found.bounds[:, k].mean(axis=0)
        least, guess, most = found.gain[:, k].mean(axis=0)
        numbers = (
            f"{low:,.0f} to {high:,.0f}",
            f"{value - usual:+,.0f}",
            f"{guess:+,.0f}",
            f"{least:,.0f} to {most:,.0f}",
        )
        table.add_row(f"after {month} month{'s' * (month > 1)}", f"{value:,.0f}", f"{value / best:.1%}", *numbers)
    table.add_row("best", f"{best:,.0f}", "100.0%")
    console.print(table)
    total, n_months = found.received.sum(axis=1).mean(), found.received.shape[1]
    more = total - n_months * usual
    span = f"{n_months} month{'s' * (n_months > 1)}"
    console.print(
        f"While it learned, the shop received {total / n_months:,.0f} euros a month: {abs(more):,.0f} "
        f"{'more' if more >= 0 else 'less'} in {span} than its usual rule is expected to.",
        highlight=False,
    )
    console.print(
        "usual rule: at least 10 pieces on the shelf, on every day; the others: the greedy policy; earns, and gain "
        "over the usual rule: exact, with a demand that agents do not know; estimate, proven: by the agent, proven "
        "with probability 0.95 for each seed. All are means over seeds.",
        style="dim",
        highlight=False,
    )


def _write_film(out: Path, episodes: int, overwrite: bool) -> None:
    """Let one agent learn and write the film of it."""
    from matrixrl.agents import MatrixRL
    from matrixrl.checks import integer
    from matrixrl.play import OutputDirectory
    from matrixrl.plots import film
    from matrixrl.plots.style import require_matplotlib

    require_matplotlib()
    n_episodes = integer("--episodes", episodes, low=1, remedy="Play at least one episode.")
    directory = OutputDirectory(out, overwrite=overwrite)
    problem, env_settings = DEMO["env"], DEMO["env_settings"]
    agent = MatrixRL(
        problem, env_settings=env_settings, switch_growth=0.05, seed=0
    )  # new plans when a pair was visited 5 % more often

    def write(path: Path) -> None:
        film(agent, path, n_episodes=n_episodes, progress=True)

    file = directory.write_picture(write, of="film")
    found = agent.certificate()
    console = Console(emoji=False)
    words = f"{n_episodes:,} episodes: regret {agent.history.cumulative_regret[-1]:.0f}"
    console.print(f"{words}, certified {found.lower:.2f} to {found.upper:.2f}", highlight=False)
    print_line(console, f"wrote {file}")
