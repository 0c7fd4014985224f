"""A figure of the curves of a store, in the size and with the fonts of a paper."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Any

from matrixrl.checks import choice, fail
from matrixrl.colours import Look
from matrixrl.plots.style import draw_curve, require_matplotlib
from matrixrl_lab.analysis import Aggregate, EnvSummary, aggregate, summarise
from matrixrl_lab.report.charts import looks_of
from matrixrl_lab.report.figure_files import escaped, kind_of, save_figure, style_of
from matrixrl_lab.store import Store

__all__ = ["draw_paper_figure"]

_WIDTHS = {1: 3.25, 2: 6.75}  # width in inches of one column of a paper, and of two
_PANEL = 2.1  # height of a panel in inches
_LETTER, _HANDLE = 0.058, 0.45  # width in inches of a letter at 7 pt, and of the line before a name
_MARKERS = 6  # markers on a curve, so that curves differ in a grey print


def draw_paper_figure(
    store: Store, path: Path, *, columns: int = 1, env: str | None = None, profile: bool = False
) -> Path:
    r"""Draw cumulative regret (or returns) with 95 % bands, one panel for each environment, and return the path.

    Args:
        store: Store, open for reading or writing.
        path: File to write; an existing file is replaced. .pdf and .svg are vector graphics, .png has 600 dots per
            inch, and .pgf is for \input in LaTeX, with the fonts of the document; only .pgf needs LaTeX to be written.
        columns: 1 for a figure 3.25 inches wide, 2 for 6.75 inches.
        env: Id of the only environment to draw; None draws all of them.
        profile: Add two panels: performance profiles, and interquartile means with their intervals, over all drawn
            environments.

    Raises:
        InvalidInput: The suffix or the number of columns is not supported, the store has no episodes, or has no scores
            for a profile.
        UnknownName: The store has no environment with this id.
        MissingExtra: matplotlib is not installed.
    """
    kind = kind_of(path)
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
    together = aggregate(played) if profile else None
    if profile and together is None:
        words = "V* is unknown, or rewards may be negative, in several environments"
        fail("profile", "needs scores of one scale", words, "Draw one environment with env.")
    _draw(played, together, looks_of(store.experiment), path, kind, columns)
    return path


def _draw(
    environments: list[EnvSummary],
    together: Aggregate | None,
    looks: dict[str, Look],
    path: Path,
    kind: str,
    columns: int,
) -> None:
    import matplotlib as mpl  # slow to import, and optional
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    panels = len(environments) + 2 * (together is not None)
    across = 1 if columns == 1 else 2 if panels == 4 else min(panels, 3)
    down = -(-panels // across)
    width = _WIDTHS[columns]
    ids = dict.fromkeys(agent.id for env in environments for agent in env.agents if agent.curve is not None)
    names = [_wrap(agent_id, width - _HANDLE, kind) for agent_id in ids]
    legend_columns, rows = _legend_shape(names, width)
    with mpl.rc_context(style_of(kind)):
        size = (width, _PANEL * down + 0.155 * rows + 0.1)
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03))
        grid = list(figure.subplots(down, across, squeeze=False).ravel())
        lines: dict[str, Any] = {}
        for axes, env in zip(grid, environments, strict=False):
            lines |= _draw_panel(axes, env, looks)
            if panels > 1:  # a figure of one panel is named by its caption in the paper
                axes.set_title(_wrap(env.id, width / across - 0.4, kind), fontsize=7.5, pad=3)
        if together is not None:
            _draw_profiles(grid[len(environments)], together, looks)
            _draw_iqm(grid[len(environments) + 1], together, looks)
        for axes in grid[panels:]:
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
        save_figure(figure, path, kind)


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
    _open_frame(axes)
    return lines


def _open_frame(axes: Any) -> None:
    """Leave out the upper and the right edge of a panel, and add a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3, linewidth=0.4)


def _draw_profiles(axes: Any, found: Aggregate, looks: dict[str, Look]) -> None:
    """Draw the share of runs with a score above τ, with its band."""
    for agent in found.agents:
        profile = agent.profile
        band = (profile.low, profile.high)
        draw_curve(axes, profile.threshold, profile.share, band, looks[agent.id], line_width=1.1)
    first, last = found.agents[0].profile.threshold[[0, -1]]
    axes.set_xlim(first, last + 0.02 * (last - first))
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(r"score $\tau$")
    axes.set_ylabel(r"runs with score $> \tau$")
    axes.set_title("performance profiles", fontsize=7.5, pad=3)
    _open_frame(axes)


def _draw_iqm(axes: Any, found: Aggregate, looks: dict[str, Look]) -> None:
    """Draw the interquartile mean of every agent as a point in its interval, the first agent at the top."""
    for row, agent in enumerate(found.agents):
        look, iqm = looks[agent.id], agent.iqm
        if math.isfinite(iqm.low):
            axes.plot([iqm.low, iqm.high], [row, row], color=look.colour, linewidth=3.0, alpha=0.45)
        axes.plot([iqm.value], [row], color=look.colour, marker=look.marker, markersize=4.0)
    axes.set_ylim(len(found.agents) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xlabel("score")
    axes.set_title("interquartile mean, 95 %", fontsize=7.5, pad=3)
    _open_frame(axes)


def _legend_shape(names: list[str], width: float) -> tuple[int, int]:
    """Return the number of legend columns that fit in a width, and the number of text lines of the legend."""
    lines = [name.split("\n") for name in names]
    longest = max(len(line) for name in lines for line in name) * _LETTER + _HANDLE
    columns = max(1, min(len(names), int(width / longest)))
    down = -(-len(names) // columns)
    tall = [sum(len(name) for name in lines[i : i + down]) for i in range(0, len(names), down)]
    return columns, max(tall)


def _wrap(text: str, width: float, kind: str) -> str:
    """Break text into lines of at most `width` inches and escape it for the format of the figure."""
    lines = textwrap.wrap(text, max(10, int(width / _LETTER))) or [""]
    return escaped("\n".join(lines), kind)
