"""Tables of the terminal: one form for all commands, and those of ``matrixrl run``, ``demo`` and ``inspect``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from matrixrl.display import literal, printable, sparkline

if TYPE_CHECKING:
    from matrixrl.play import Inspection, RunResult
    from matrixrl.records import Guarantee

__all__ = ["new_table", "print_inspection", "print_line", "print_results", "proof_cell", "short_sizes"]

_SHORT = {
    **{"n_states": "S", "n_actions": "A", "d": "d", "d_psi": "d_psi"},
    **{"stage_classes": "classes of stages", "allowed_pairs": "allowed pairs"},
}
_PROOF_COLOURS = {"proven": "green", "alarm": "red", "not-known-yet": "dim"}
_BOUNDS = {
    "theorem_1": "Theorem 1, c=1",
    "theorem_2": "Theorem 2, c=1",
    "theorem_3": "Theorem 3, c=1",
    "explicit": "explicit",
    "learning_nothing": "learning nothing",
}


def new_table(
    title: str, left: Mapping[str, Any], right: Iterable[str], *, wrap: bool = False, **options: Any
) -> Table:
    """Return an empty table with columns of text on the left and of numbers on the right, which may be wrapped.

    The title is in Rich's markup; columns on the left have options of Rich.
    """
    table = Table(title=title, title_justify="left", title_style="bold", padding=(0, 1, 0, 0), **options)
    for heading, own in left.items():
        table.add_column(heading, **own)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=not wrap)
    return table


def print_line(console: Console, words: str) -> None:
    """Print one line as it is: no markup, no colours, and not folded."""
    console.print(printable(words), highlight=False, markup=False, emoji=False, soft_wrap=True)


def proof_cell(guarantee: Guarantee | None) -> str:
    """Return the label of a guarantee in its colour."""
    from matrixrl.play.results import proof_label  # the library, which the help does not need

    proof = proof_label(guarantee)
    return f"[{_PROOF_COLOURS.get(proof['kind'], 'yellow')}]{proof['label']}[/]"


def short_sizes(sizes: Mapping[str, Any]) -> str:
    """Return the sizes of a problem for a title."""
    return " ".join(f"{_SHORT.get(name, name)}={size}" for name, size in sizes.items())


def print_results(console: Console, results: Mapping[str, RunResult]) -> None:
    """Print a table of regret if the optimal value is known, else of returns, with notes on its columns."""
    first = next(iter(results.values()))
    if first.optimal_value is None:
        console.print(return_table(first))
        if not first.guarantee:
            console.print(f"[yellow]no proof:[/] {literal(first.guarantee.reason)}.", highlight=False)
        return
    console.print(result_table(results))
    print_notes(console, results)


def return_table(result: RunResult) -> Table:
    """Return a table of returns with one row for each seed."""
    import numpy as np  # the help does not need it

    title = f"{literal(result.env)}  H={result.horizon}  {literal(result.agent)}"
    left = {"seed": {"justify": "right", "no_wrap": True}, "returns": {"no_wrap": True}}
    table = new_table(title, left, ("best", "second half", "features", "s/episode"))
    for k, seed in enumerate(result.seeds):
        took_place = ~np.isnan(result.returns[k])
        played = result.returns[k][took_place]
        if len(played):
            half, pace = result.second_half(k), float(np.nanmean(result.seconds[k]))
            cells = [f"{played.max():.4g}", f"{half:.4g}", str(result.n_features[k]), f"{pace:.2f}"]
            table.add_row(str(seed), sparkline(played), *cells)
    return table


def result_table(results: Mapping[str, RunResult]) -> Table:
    """Return a table of regret with one row for each result."""
    first = next(iter(results.values()))
    seeds = f"{len(first.seeds)} seed" + "s" * (len(first.seeds) > 1)
    steps = f"H={first.horizon}" + f" discount={first.discount:g}" * (first.discount < 1.0)
    sizes = f"{short_sizes(first.sizes)} {steps}"
    title = f"{literal(first.env)}  {sizes}  {seeds}  V*(s0) = {first.optimal_value:.4g}"
    left = {"agent": {"min_width": 18}, "proof": {"no_wrap": True}}
    table = new_table(title, left, ("episodes", "regret", "at end", "gap", "time"))
    for label, result in results.items():
        name = literal(f"{label} (stopped)" if result.interrupted else label)
        table.add_row(name, proof_cell(result.guarantee), *_cells(result))
    return table


def print_notes(console: Console, results: Mapping[str, RunResult]) -> None:
    """Print why a guarantee does not hold, and the meaning of the columns."""
    labels_of: dict[str, list[str]] = {}
    for label, result in results.items():
        if not result.guarantee:
            labels_of.setdefault(result.guarantee.reason, []).append(label)
    for reason, labels in labels_of.items():
        console.print(f"[yellow]no proof:[/] {literal(reason)}.", highlight=False)
        for name in labels:
            console.print(f"  · {literal(name)}", highlight=False)
    shown = [c.guarantee.holds for result in results.values() for c in result.certificate]
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
    if n == 0:
        return ["0", "–", "–", "–", f"{result.total_seconds:.1f} s"]
    final = result.final_regret
    spread = f" ± {_amount(final.std(ddof=1))}" if len(final) > 1 else ""
    certificate = result.mean_certificate()
    tail = result.held_regret[:, -max(1, n // 10) :]
    return [
        f"{n:,}",
        f"{_amount(final.mean())}{spread}",
        f"{tail.mean():.3f}",
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
    keys = [key for key in _BOUNDS if key in found.bounds[0]]
    for heading in ("N", *(_BOUNDS[key] for key in keys)):
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
