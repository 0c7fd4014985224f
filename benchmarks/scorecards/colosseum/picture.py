"""The picture of the scorecard: regret against the measures of hardness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from matrixrl.archive import atomic_write
from matrixrl.colours import REFERENCE, look
from matrixrl.plots.style import require_matplotlib
from scorecards.colosseum.rows import Row

__all__ = ["draw_rows"]

_MEASURES = {
    "diameter": "diameter",
    "value_norm": "environmental value norm",
    "gaps": "sum of reciprocals of gaps",
}


def draw_rows(rows: Sequence[Row], path: Path) -> None:
    """Draw the regret of every agent against the measures of hardness."""
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 4.4), layout="constrained")
    panels = figure.subplots(1, len(_MEASURES), sharey=True)
    agents = list(dict.fromkeys(row.agent for row in rows))
    for axes, (measure, label) in zip(panels, _MEASURES.items(), strict=True):
        shown = [row for row in rows if math.isfinite(getattr(row, measure))]  # a diameter may be infinite
        for k, agent in enumerate(agents):
            own = [row for row in shown if row.agent == agent]
            style = look(k)
            x, y = [getattr(row, measure) for row in own], [row.regret for row in own]
            axes.scatter(x, y, s=22, color=style.colour, marker=style.marker, alpha=0.85, label=agent)
        ones = {row.mdp: row for row in shown}.values()
        x, y = [getattr(row, measure) for row in ones], [row.random for row in ones]
        axes.scatter(x, y, s=22, color=REFERENCE, marker="_", label="uniform play")
        axes.set(xlabel=label, yscale="log")
        if measure == "gaps":
            axes.set_xscale("log")
        axes.grid(linestyle=":", alpha=0.6)
    panels[0].set_ylabel("normalised cumulative regret / episodes")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=9, frameon=False)
    atomic_write(path, lambda temporary: figure.savefig(temporary, dpi=110))
