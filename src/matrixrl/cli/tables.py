"""Tables of ``matrixrl run``, ``demo`` and ``inspect`` for the terminal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rich.console import Console
from rich.table import Table

from matrixrl.cli.lab_tables import SHORT_SIZES, proof_cell
from matrixrl.printable import literal
from matrixrl.simulate import Inspection, RunResult
from matrixrl.sparklines import sparkline

__all__ = ["print_inspection", "print_results"]


def print_results(console: Console, results: Mapping[str, RunResult]) -> None:
    """Print a table of regret if the optimal value is known, else of returns, with notes on its columns."""
    first = next(iter(results.values()))
    if first.optimal_value is None:
        console.print(return_table(first))
        if first.guarantee is not True:
            console.print(f"[yellow]no proof:[/] {literal(first.guarantee)}.", highlight=False)
        return
    console.print(result_table(results))
    print_notes(console, results)


def return_table(result: RunResult) -> Table:
    """Return a table of returns with one row for each seed."""
    title = f"{literal(result.env)}  H={result.horizon}  {literal(result.agent)}"
    table = Table(title=title, title_justify="left", title_style="bold", padding=(0, 1, 0, 0))
    for heading in ("seed", "returns", "best", "second half", "features", "s/episode"):
        table.add_column(heading, justify="left" if heading == "returns" else "right", no_wrap=True)
    for k, seed in enumerate(result.seeds):
        played = result.returns[k][~np.isnan(result.returns[k])]
        if len(played):
            half, pace = result.second_half(k), float(np.nanmean(result.seconds[k]))
            cells = [f"{played.max():.4g}", f"{half:.4g}", str(result.n_features[k]), f"{pace:.2f}"]
            table.add_row(str(seed), sparkline(played), *cells)
    return table


def result_table(results: Mapping[str, RunResult]) -> Table:
    """Return a table of regret with one row for each result."""
    first = next(iter(results.values()))
    sizes = " ".join(f"{SHORT_SIZES.get(k, k)}={v}" for k, v in first.sizes.items())
    seeds = f"{len(first.seeds)} seed" + "s" * (len(first.seeds) > 1)
    steps = f"H={first.horizon}" + f" discount={first.discount:g}" * (first.discount < 1.0)
    table = Table(
        title=f"{literal(first.env)}  {sizes} {steps}  {seeds}  V*(s0) = {first.optimal_value:.4g}",
        title_justify="left",
        title_style="bold",
        padding=(0, 1, 0, 0),
    )
    table.add_column("agent", min_width=18)
    table.add_column("proof", no_wrap=True)
    for heading in ("episodes", "regret", "at end", "gap", "time"):
        table.add_column(heading, justify="right", no_wrap=True)
    for label, result in results.items():
        name = literal(f"{label} (stopped)" if result.interrupted else label)
        table.add_row(name, proof_cell(result.guarantee), *_cells(result))
    return table


def print_notes(console: Console, results: Mapping[str, RunResult]) -> None:
    """Print why a guarantee does not hold, and the meaning of the columns."""
    labels_of: dict[str, list[str]] = {}
    for label, result in results.items():
        if result.guarantee is not True:
            labels_of.setdefault(result.guarantee, []).append(label)
    for reason, labels in labels_of.items():
        console.print(f"[yellow]no proof:[/] {literal(reason)}.", highlight=False)
        for name in labels:
            console.print(f"  · {literal(name)}", highlight=False)
    shown = [c.guarantee is True for result in results.values() for c in result.certificate]
    certified = "certified" if all(shown) else "certified (where a proof holds, else estimated)"
    console.print(
        "regret: total of V*(s0) − V^π(s0), exact, mean ± std over seeds; at end: per episode over the last "
        f"10 %; gap: the final policy of a seed is {certified} to be within this of V*(s0), with probability 1 − δ for "
        "each seed, mean over seeds; proof: whether the regret bound is proven.",
        style="dim",
        highlight=False,
    )


def _cells(result: RunResult) -> list[str]:
    n = result.n_episodes
    played = f"{n:,}"
    if n == 0:
        return [played, "–", "–", "–", f"{result.total_seconds:.1f} s"]
    final = result.final_regret
    spread = f" ± {_amount(final.std(ddof=1))}" if len(final) > 1 else ""
    certificate = result.mean_certificate()
    tail = result.held_regret[:, -max(1, n // 10) :]
    return [
        played,
        f"{_amount(final.mean())}{spread}",
        f"{np.mean(tail):.3f}",
        "–" if certificate is None else f"{certificate.gap:.3g}",
        f"{result.total_seconds:.1f} s",
    ]


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.1f}"


def print_inspection(console: Console, found: Inspection) -> None:
    """Print the result of ``matrixrl inspect``."""
    sizes = "  ".join(f"{name}={value:,}" for name, value in found.sizes.items())
    console.print(f"[bold]{literal(found.env)}[/]  {sizes}  V*(s0) = {found.optimal_value:.4g}", highlight=False)
    if found.embedding is not None:
        share, worst = found.embedding["explained"], found.embedding["residual"]
        console.print(f"features explain {100 * share:.4g} % of P, largest error {worst:.2g}", highlight=False)
    if found.effective_dimension is not None:
        chosen, visited = found.effective_dimension["chosen"], found.effective_dimension["visited"]
        words = f"effective dimension: {chosen:.3g} on well chosen pairs, {visited:.3g} on the pairs of a few episodes"
        console.print(words, highlight=False)
    table = Table(title="constants", title_justify="left")
    for heading in ("constant", "value", "known"):
        table.add_column(heading)
    for name, constant in found.constants.items():
        table.add_row(name, f"{constant['value']:.4g}", constant["known"])
    console.print(table)
    bounds = Table(title="upper bounds on the regret after N episodes", title_justify="left")
    headings = {
        "theorem_1": "Theorem 1, c=1",
        "theorem_2": "Theorem 2, c=1",
        "theorem_3": "Theorem 3, c=1",
        "explicit": "explicit",
        "learning_nothing": "learning nothing",
    }
    keys = [key for key in headings if key in found.bounds[0]]
    for heading in ("N", *(headings[key] for key in keys)):
        bounds.add_column(heading, justify="right")
    for row in found.bounds:
        cells = ("–" if row[key] is None else f"{row[key]:,.4g}" for key in keys)
        bounds.add_row(f"{row['n_episodes']:,}", *cells)
    console.print(bounds)
    cost = found.cost
    console.print(
        f"about {cost['seconds_per_1000_episodes']:.2g} s for 1,000 episodes of one seed, "
        f"{cost['megabytes_shared']:.3g} MB shared, {cost['megabytes_per_seed']:.3g} MB for each seed",
        highlight=False,
    )
    for warning in found.warnings:
        console.print(f"[yellow]warning:[/] {literal(warning)}", highlight=False)
