"""Tables of the scorecards for the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from matrixrl.cli.tables import new_table
from scorecards.bsuite.ids import LEFT_OUT, TAGS
from scorecards.bsuite.scores import Score, agents_of, by_tag
from scorecards.colosseum.rows import Row
from scorecards.sepsis import SepsisRow

__all__ = ["print_rows", "print_scores", "print_sepsis"]

_UNIFORM = "uniform"
_COLUMNS_AT_ONCE = 3  # so many fit a terminal of 80 characters


def _table(title: str, first: str, headings: Sequence[str]) -> Table:
    long_names = [heading.replace("_", " ") for heading in headings]  # so that they can be wrapped
    return new_table(title, {first: {"no_wrap": True}}, long_names, wrap=True, pad_edge=False)


def print_scores(console: Console, scores: Sequence[Score]) -> None:
    """Print bsuite's scores by tag and by experiment."""
    agents = agents_of(scores)
    tags = by_tag(scores)
    table = _table("bsuite, mean score by tag", "tag", agents)
    for tag in TAGS:
        table.add_row(tag, *(f"{tags[a][tag]:.2f}" if tag in tags[a] else "–" for a in agents))
    console.print(table)
    table = _table("bsuite, score by experiment", "experiment", agents)
    runs = _table("bsuite, what was run", "experiment", ["settings", "episodes", "played by"])
    for experiment in dict.fromkeys(score.experiment for score in scores):
        own = {score.agent: score for score in scores if score.experiment == experiment}
        table.add_row(experiment, *(f"{own[a].score:.2f}" if a in own else "–" for a in agents))
        one = own[agents[0]] if agents[0] in own else next(iter(own.values()))
        episodes = f"{one.episodes:,}" if one.is_whole else f"{one.episodes:,} of {one.of:,}"
        runs.add_row(experiment, str(len(one.ids.split())), episodes, ", ".join(one.learners.split()))
    console.print(table)
    console.print(runs)
    out = ", ".join(f"{name} ({why})" for name, why in LEFT_OUT.items())
    console.print(f"out of scope: {out}", style="dim", highlight=False)


def print_rows(console: Console, rows: Sequence[Row]) -> None:
    """Print the normalised regret on Colosseum's MDPs."""
    found = {(row.mdp, row.agent): row.regret for row in rows} | {(row.mdp, _UNIFORM): row.random for row in rows}
    diameters = {row.mdp: row.diameter for row in sorted(rows, key=lambda row: row.diameter)}
    columns = [_UNIFORM, *dict.fromkeys(row.agent for row in rows)]
    for first in range(0, len(columns), _COLUMNS_AT_ONCE):
        shown = columns[first : first + _COLUMNS_AT_ONCE]
        title = "Colosseum, normalised cumulative regret / episodes"
        table = _table(title, "MDP", ["diameter", *(name.replace(" ", "\n") for name in shown)])
        for mdp, diameter in diameters.items():
            cells = [f"{found[mdp, name]:.4f}" if (mdp, name) in found else "–" for name in shown]
            table.add_row(_short(mdp), f"{diameter:.1f}", *cells)
        console.print(table)


def _short(name: str) -> str:
    """Return the name of a table in words.

    >>> _short("ergodic-DeepSeaEpisodic-prms_0"), _short("my-own")
    ('DeepSea 0, ergodic', 'my-own')
    """
    found = re.fullmatch(r"(\w+)-(\w+)Episodic-prms_(\d+)", name)
    return f"{found[2]} {found[3]}, {found[1]}" if found else name


def print_sepsis(console: Console, rows: Sequence[SepsisRow]) -> None:
    """Print values and regret on ICU-Sepsis."""
    table = _table("ICU-Sepsis, a benchmark of algorithms", "policy", ["value", "loss", "regret", "seeds", "s"])
    for row in rows:
        error = f" ± {row.error:.3f}" if row.seeds > 1 else ""
        seeds = str(row.seeds) if row.seeds else "–"
        table.add_row(
            row.policy, f"{row.value:.3f}{error}", f"{row.loss:.1%}", f"{row.regret:,.1f}", seeds, f"{row.seconds:.1f}"
        )
    console.print(table)
