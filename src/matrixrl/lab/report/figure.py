"""The curves of a store as a figure for a paper."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.checks import choice, fail
from matrixrl.lab.analysis import AgentSummary, EnvSummary, summarise
from matrixrl.lab.plots import require_matplotlib
from matrixrl.lab.report.look import DASHES, Look, looks_of
from matrixrl.lab.store import Store
from matrixrl.simulate.files import write_whole

__all__ = ["draw_paper_figure"]

_WIDTHS = {1: 3.25, 2: 6.75}  # inches of one column of a paper, and of both
_PANEL = 2.1  # inches high
_DPI = 600
_LETTER, _HANDLE = 0.058, 0.45  # inches of a letter at 7 pt, and of the line before a name
_MARKS = 6  # markers on a curve: enough to tell curves apart in grey
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same figure on every machine
    "font.size": 8.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "pdf.fonttype": 42,  # TrueType, which publishers ask for; matplotlib's default is Type 3
    "axes.unicode_minus": True,
}
_LINES: dict[str, Any] = dict(
    zip(
        DASHES,
        ["-", (0, (4, 1.6)), (0, (1, 1.4)), (0, (4, 1.4, 1, 1.4)), (0, (7, 2)), (0, (7, 1.6, 1, 1.6))],
        strict=True,
    )
)


def draw_paper_figure(store: Store, path: Path, *, columns: int = 1, env: str | None = None) -> Path:
    """Draw cumulative regret (or returns) with 95 % bands, one panel for each environment, and return the path.

    Args:
        store: open to read or to write.
        path: ends in .pdf (vectors, TrueType fonts embedded) or .png; an earlier file is replaced.
        columns: 1 for a figure 3.25 in wide, 2 for 6.75 in.
        env: id of the only environment to draw; all of them by default.

    Raises:
        InvalidInput: another suffix, another number of columns, or nothing played yet.
        UnknownName: there is no such environment.
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
    with mpl.rc_context(_STYLE):
        shown = [a for e in environments for a in e.agents if a.curve is not None]
        width = _WIDTHS[columns]
        names = {agent.id: _wrapped(agent.id, width - _HANDLE) for agent in shown}
        entries = [_entry(name, looks[agent_id]) for agent_id, name in names.items()]
        legend_columns, rows = _legend_shape(list(names.values()), width)
        size = (width, _PANEL * down + 0.155 * rows + 0.1)
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03))
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, env in zip(grid, environments, strict=False):
            _panel(axes, env, looks, width=width / across - 0.4, named=len(environments) > 1)
        for axes in grid[len(environments) :]:
            axes.set_axis_off()
        figure.legend(
            handles=entries,
            loc="outside lower center",
            ncols=legend_columns,
            frameon=False,
            handlelength=2.6,
            columnspacing=1.2,
            labelspacing=0.3,
            borderaxespad=0.1,
        )
        kind = path.suffix.lower().removeprefix(".")
        # the creation date would make two files of the same numbers differ
        metadata = {"CreationDate": None} if kind == "pdf" else None
        write_whole(path, lambda fresh: figure.savefig(fresh, format=kind, dpi=_DPI, metadata=metadata))


def _panel(axes: Any, env: EnvSummary, looks: dict[str, Look], *, width: float, named: bool) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    for agent in env.agents:
        if agent.curve is not None:
            _curve(axes, agent, looks[agent.id])
    curves = [agent.curve for agent in env.agents if agent.curve is not None]
    axes.set_xlim(0, max(float(curve.episode[-1]) for curve in curves))
    if env.measure == "regret":
        axes.set_ylim(bottom=0)
    axes.set_xlabel("episode")
    axes.set_ylabel("cumulative regret" if env.measure == "regret" else "return")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(EngFormatter(sep=""))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3, linewidth=0.4)
    if named:  # which problem it is must be said somewhere; one panel has its caption
        axes.set_title(_wrapped(env.id, width), fontsize=7.5, pad=3)


def _curve(axes: Any, agent: AgentSummary, look: Look) -> None:
    curve = agent.curve
    assert curve is not None
    at = np.searchsorted(curve.episode, np.linspace(0.12, 0.95, _MARKS) * curve.episode[-1])
    axes.plot(
        curve.episode,
        curve.mean,
        color=look.colour,
        linestyle=_LINES[look.dash],
        linewidth=1.1,
        marker=look.marker,
        markersize=2.8,
        markeredgewidth=0,
        markevery=np.unique(at.clip(max=len(curve.episode) - 1)).tolist(),
    )
    if (curve.low < curve.high).any():
        axes.fill_between(curve.episode, curve.low, curve.high, color=look.colour, alpha=0.18, linewidth=0)


def _entry(name: str, look: Look) -> Any:
    from matplotlib.lines import Line2D

    return Line2D(
        [],
        [],
        color=look.colour,
        linestyle=_LINES[look.dash],
        linewidth=1.1,
        marker=look.marker,
        markersize=2.8,
        markeredgewidth=0,
        label=name,
    )


def _legend_shape(names: list[str], width: float) -> tuple[int, int]:
    """Return how many columns of the longest name fit in a width, and how many lines that makes."""
    lines = [name.split("\n") for name in names]
    longest = max(len(line) for name in lines for line in name) * _LETTER + _HANDLE
    columns = max(1, min(len(names), int(width / longest)))
    down = -(-len(names) // columns)
    tall = [sum(len(name) for name in lines[i : i + down]) for i in range(0, len(names), down)]
    return columns, max(tall)


def _wrapped(text: str, width: float) -> str:
    """Return text in lines of at most some inches, none of it taken for mathematics or for an entry to leave out."""
    lines = textwrap.wrap(text, max(10, int(width / _LETTER))) or [""]
    shown = "\n".join(lines).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown
