"""A figure of the curves of a store, in the size and with the fonts of a paper."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from matrixrl.archive.whole import write_whole
from matrixrl.checks import choice, fail
from matrixrl.lab.analysis import EnvSummary, summarise
from matrixrl.lab.palette import looks_of
from matrixrl.lab.store import Store
from matrixrl.plots.drawing import draw_curve, require_matplotlib
from matrixrl.plots.looks import Look

__all__ = ["draw_paper_figure"]

_WIDTHS = {1: 3.25, 2: 6.75}  # width in inches of one column of a paper, and of two
_PANEL = 2.1  # height of a panel in inches
_DPI = 600
_LETTER, _HANDLE = 0.058, 0.45  # width in inches of a letter at 7 pt, and of the line before a name
_MARKERS = 6  # markers on a curve, so that curves differ in a grey print
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # included in matplotlib, so figures are the same on every machine
    "font.size": 8.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "pdf.fonttype": 42,  # embed TrueType fonts, which publishers require, not Type 3
    "axes.unicode_minus": True,
}


def draw_paper_figure(store: Store, path: Path, *, columns: int = 1, env: str | None = None) -> Path:
    """Draw cumulative regret (or returns) with 95 % bands, one panel for each environment, and return the path.

    Args:
        store: Store, open for reading or writing.
        path: File to write, .pdf (vector graphics, TrueType fonts embedded) or .png; an existing file is replaced.
        columns: 1 for a figure 3.25 inches wide, 2 for 6.75 inches.
        env: Id of the only environment to draw; None draws all of them.

    Raises:
        InvalidInput: The suffix or the number of columns is not supported, or the store has no episodes.
        UnknownName: The store has no environment with this id.
        MissingExtra: matplotlib is not installed.
    """
    if path.suffix.lower() not in (".pdf", ".png"):
        fail("path", "must end in .pdf or .png", repr(path.name), "Choose one of the two.")
    if columns not in _WIDTHS:
        fail("columns", "must be 1 or 2", repr(columns), "Choose how many columns of the paper the figure fills.")
    require_matplotlib()
    environments = summarise(store)
    if env is not None:
        choice("env", env, [e.id for e in environments])
        environments = [e for e in environments if e.id == env]
    played = [e for e in environments if any(agent.curve is not None for agent in e.agents)]
    if not played:
        fail("store", "must have results to draw", f"none in {store.folder}", "Run matrixrl resume first.")
    _draw(played, looks_of(store.experiment), path, columns)
    return path


def _draw(environments: list[EnvSummary], looks: dict[str, Look], path: Path, columns: int) -> None:
    import matplotlib as mpl  # slow to import, and optional
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    across = min(len(environments), columns if columns == 1 else 3)
    down = -(-len(environments) // across)
    width = _WIDTHS[columns]
    ids = dict.fromkeys(agent.id for env in environments for agent in env.agents if agent.curve is not None)
    names = [_wrap(agent_id, width - _HANDLE) for agent_id in ids]
    legend_columns, rows = _legend_shape(names, width)
    with mpl.rc_context(_STYLE):
        size = (width, _PANEL * down + 0.155 * rows + 0.1)
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03))
        grid = figure.subplots(down, across, squeeze=False).ravel()
        lines: dict[str, Any] = {}
        for axes, env in zip(grid, environments, strict=False):
            lines |= _draw_panel(axes, env, looks)
            if len(environments) > 1:  # a figure of one panel is named by its caption in the paper
                axes.set_title(_wrap(env.id, width / across - 0.4), fontsize=7.5, pad=3)
        for axes in grid[len(environments) :]:
            axes.set_axis_off()
        figure.legend(
            [lines[agent_id] for agent_id in ids],
            names,
            loc="outside lower center",
            ncols=legend_columns,
            frameon=False,
            handlelength=2.6,
            columnspacing=1.2,
            labelspacing=0.3,
            borderaxespad=0.1,
        )
        kind = path.suffix.lower().removeprefix(".")
        # without the creation date, the same numbers give the same file
        metadata = {"CreationDate": None} if kind == "pdf" else None
        write_whole(path, lambda fresh: figure.savefig(fresh, format=kind, dpi=_DPI, metadata=metadata))


def _draw_panel(axes: Any, env: EnvSummary, looks: dict[str, Look]) -> dict[str, Any]:
    """Draw one environment and return the line of each agent id."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    curves = {agent.id: agent.curve for agent in env.agents if agent.curve is not None}
    lines = {
        agent_id: draw_curve(
            axes,
            curve.episode,
            curve.mean,
            (curve.low, curve.high),
            looks[agent_id],
            line_width=1.1,
            markers=_MARKERS,
        )
        for agent_id, curve in curves.items()
    }
    axes.set_xlim(0, max(float(curve.episode[-1]) for curve in curves.values()))
    if env.measure == "regret":
        axes.set_ylim(bottom=0)
    axes.set_xlabel("episode")
    axes.set_ylabel("cumulative regret" if env.measure == "regret" else "return")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(EngFormatter(sep=""))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3, linewidth=0.4)
    return lines


def _legend_shape(names: list[str], width: float) -> tuple[int, int]:
    """Return the number of legend columns that fit in a width, and the number of text lines of the legend."""
    lines = [name.split("\n") for name in names]
    longest = max(len(line) for name in lines for line in name) * _LETTER + _HANDLE
    columns = max(1, min(len(names), int(width / longest)))
    down = -(-len(names) // columns)
    tall = [sum(len(name) for name in lines[i : i + down]) for i in range(0, len(names), down)]
    return columns, max(tall)


def _wrap(text: str, width: float) -> str:
    """Break text into lines of at most `width` inches and escape it for matplotlib.

    Without escaping, $ starts mathematics and a leading underscore hides the entry of a legend.
    """
    lines = textwrap.wrap(text, max(10, int(width / _LETTER))) or [""]
    shown = "\n".join(lines).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown
