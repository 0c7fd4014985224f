"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from rich.console import Console
from rich.table import Table

from matrixrl.run import RunResult

__all__ = ["print_notes", "result_table"]


def result_table(results: Mapping[str, RunResult]) -> Table:
    """Return one row for each labelled result."""
    first = next(iter(results.values()))
    short = {"n_states": "S", "n_actions": "A", "d": "d", "d_psi": "d_psi"}
    sizes = " ".join(f"{short[k]}={v}" for k, v in first.sizes.items())
    seeds = f"{len(first.seeds)} seed" + "s" * (len(first.seeds) > 1)
    table = Table(
        title=f"{first.env}  {sizes} H={first.horizon}  {seeds}  V*(s0) = {first.optimal_value:.4g}",
        title_justify="left",
        title_style="bold",
        padding=(0, 1, 0, 0),
    )
    table.add_column("agent", min_width=18)
    for heading in ("episodes", "regret", "at end", "optim.", "time"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("proof", no_wrap=True)
    for label, result in results.items():
        table.add_row(label, *_cells(result), _short(result.guarantee))
    return table


def print_notes(console: Console, results: Mapping[str, RunResult]) -> None:
    """Say in words why a guarantee is off, and what the columns mean."""
    said: dict[str, list[str]] = {}
    for label, result in results.items():
        if result.guarantee is not True:
            said.setdefault(result.guarantee, []).append(label)
    for reason, labels in said.items():
        console.print(f"[yellow]no proof:[/] {reason}.", highlight=False)
        for name in labels:
            console.print(f"  · {name}", highlight=False)
    console.print(
        "regret: total of V*(s0) − V^π(s0), exact, mean ± std over seeds; at end: per episode over the last "
        "10 %; optim.: share of episodes whose upper bound covers V*(s0); proof: does the guarantee hold.",
        style="dim",
        highlight=False,
    )


def _cells(result: RunResult) -> list[str]:
    n = result.n_episodes
    played = f"{n:,}" + (" (stopped)" if result.interrupted else "")
    if n == 0:
        return [played, "–", "–", "–", f"{result.seconds:.1f} s"]
    final = result.final_regret
    spread = f" ± {final.std(ddof=1):,.1f}" if len(final) > 1 else ""
    tail = result.regret[:, -max(1, n // 10) :]
    return [
        played,
        f"{final.mean():,.1f}{spread}",
        f"{np.mean(tail):.3f}",
        f"{100 * result.optimistic_share:.1f} %",
        f"{result.seconds:.1f} s",
    ]


def _short(guarantee: Literal[True] | str) -> str:
    if guarantee is True:
        return "[green]yes[/]"
    return "[red]alarm[/]" if "alarm" in guarantee else "[yellow]no[/]"
