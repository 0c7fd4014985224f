"""Tables of the lab commands for the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from matrixrl.cli.tables import new_table, proof_cell, short_sizes
from matrixrl.display import literal

if TYPE_CHECKING:
    from matrixrl_lab.analysis import AgentSummary, Aggregate, EnvSummary, Interval
    from matrixrl_lab.spec import Experiment

__all__ = ["print_failures", "print_show", "print_summary"]


def print_summary(console: Console, environments: Sequence[EnvSummary]) -> None:
    """Print one table of results for each environment, and one of the scores over all of them."""
    from matrixrl_lab.analysis import aggregate  # SciPy, which the help does not need
    from matrixrl_lab.analysis.number_text import few_seeds_note

    for env in environments:
        console.print(_table(env))
    together = aggregate(environments)
    if together is not None and together.agents[0].runs > 1:
        console.print(_aggregate_table(together))
    notes = [few_seeds_note(agent.seeds for env in environments for agent in env.agents if agent.final is not None)]
    if together is not None and together.agents[0].runs > 1:
        notes += [f"scores: {words}" for words in together.left_out_words()]
    if any(env.measure == "regret" for env in environments):
        notes.append(
            "proof: whether a regret bound is proven for these settings (the report has the reasons); regret: mean "
            "total of V*(s0) − V^π(s0), exact, with a 95 % bootstrap interval over seeds; at end: per episode over the "
            "last tenth; growth: exponent of regret over the last decade (1 linear, 0.5 the theorems' rate, 0 no "
            "growth); to best: mean difference on the same seeds; s/1k: seconds per 1,000 episodes of one seed, "
            "without compiling; IQM: interquartile mean of the scores of all runs, with a stratified interval."
        )
    for note in filter(None, notes):
        console.print(literal(note), style="dim", highlight=False)


def _table(env: EnvSummary) -> Table:
    facts = env.facts
    sizes = short_sizes(facts.get("sizes", {}))
    value = f"  V*(s0) = {facts['optimal_value']:.4g}" if "optimal_value" in facts else ""
    horizon = f" H={facts['horizon']}" if "horizon" in facts else ""
    seeds = max((agent.seeds for agent in env.agents), default=0)
    episodes = max((agent.episodes for agent in env.agents), default=0)
    title = f"{literal(env.id)}  {sizes}{horizon}{value}  {seeds} seed{'s' * (seeds != 1)}, {episodes:,} episodes"
    regret = env.measure == "regret"
    headings = ["regret", "95 %", "at end", "growth", "to best", "s/1k"]
    if not regret:
        headings = ["return, 2nd half", "95 %", "at end", "to best", "s/1k"]
    left = {"agent": {"min_width": 14, "overflow": "fold"}, "proof": {"min_width": 6}}
    table = new_table(title, left, headings, pad_edge=False)
    for agent in env.agents:
        name = f"[bold]{literal(agent.id)}[/]" if agent.id == env.best else literal(agent.id)
        if agent.seeds and (agent.seeds, agent.episodes) != (seeds, episodes):
            name += f"\n[yellow]{agent.seeds} of {seeds} seeds, {agent.episodes:,} of {episodes:,} episodes[/]"
        table.add_row(name, proof_cell(agent.guarantee), *_cells(agent, regret, is_best=agent.id == env.best))
    return table


def _aggregate_table(found: Aggregate) -> Table:
    count = len(found.env_ids)
    where = f"{count} environments" if count > 1 else literal(found.env_ids[0])
    title = f"scores in {where}: {literal(found.score)}"
    left = {"agent": {"min_width": 16, "overflow": "fold"}}
    table = new_table(title, left, ("runs", "IQM", "95 %", "mean", "median"), pad_edge=False)
    for agent in found.agents:
        ends = _ends(agent.iqm, agent.seeds, "{:.3f}".format)
        numbers = [f"{agent.iqm.value:.3f}", ends, f"{agent.mean.value:.3f}", f"{agent.median.value:.3f}"]
        table.add_row(literal(agent.id), f"{agent.runs:,}", *numbers)
    return table


def _cells(agent: AgentSummary, regret: bool, *, is_best: bool) -> list[str]:
    from matrixrl_lab.analysis.number_text import hundredths

    if agent.final is None:
        return ["failed" if agent.failed else "–", *["–"] * (5 if regret else 4)]
    exponent = "–" if agent.exponent is None else hundredths(agent.exponent.value)
    difference = "best" if is_best else "–"
    if agent.difference is not None:
        sign = "+" if agent.difference.value >= 0 else "−"
        difference = sign + _amount(abs(agent.difference.value))
    at_end = f"{agent.at_end:.3f}" if regret else f"{agent.at_end:.4g}"
    middle = [at_end, exponent] if regret else [at_end]
    return [
        _amount(agent.final.value),
        _ends(agent.final, agent.seeds),
        *middle,
        difference,
        f"{agent.seconds_per_1000:.2g}",
    ]


def _ends(interval: Interval, seeds: int, number: Callable[[float], str] | None = None) -> str:
    """Return the ends of an interval, with a mark if it is from few seeds."""
    from matrixrl_lab.analysis.number_text import few_seeds_mark

    if math.isnan(interval.low):
        return "–"
    shown = number or _amount
    return f"{shown(interval.low)}–{shown(interval.high)}{few_seeds_mark(seeds)}"


def _amount(value: float) -> str:
    """Return a number in at most six characters.

    >>> _amount(27349.2), _amount(1145.2), _amount(29.71)
    ('27.3k', '1,145', '29.7')
    """
    if abs(value) >= 10_000:
        return f"{value / 1000:,.1f}k"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}"


def print_show(console: Console, held: dict[str, Any]) -> None:
    """Print the contents of a store."""
    console.print(f"[bold]{literal(held['title'])}[/]", highlight=False)
    versions = ", ".join(f"{literal(name)} {literal(number)}" for name, number in held["versions"].items())
    console.print(
        f"{held['name']}  spec {held['hash']}  rows {held['rows']}  {held['megabytes']:.1f} MB\n{versions}",
        highlight=False,
        style="dim",
    )
    table = Table(box=None, pad_edge=False)
    for heading in ("environment", "agent", "seeds", "episodes"):
        table.add_column(heading)
    for cell in held["cells"]:
        seeds = ", ".join(f"{count} {status}" for status, count in cell["seeds"].items())
        played = f"{cell['episodes']:,} of {held['episodes']:,}"
        table.add_row(literal(cell["env"]), literal(cell["agent"]), seeds, played)
    console.print(table)
    for cell in held["cells"]:
        for reason in cell["reasons"]:
            console.print(f"[red]failed:[/] {literal(cell['env'])} / {literal(cell['agent'])}: {literal(reason)}")


def print_failures(
    console: Console, experiment: Experiment, failed: Sequence[tuple[int, tuple[int, ...], str]]
) -> None:
    """Print which tasks failed and why."""
    for number, seeds, reason in failed:
        some = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} … {seeds[-1]}"
        console.print(f"[red]failed:[/] {literal(experiment.cells[number].id)}, {some}: {literal(reason)}")
