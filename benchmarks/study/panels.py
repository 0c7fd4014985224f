"""Matplotlib drawings that the questions of the study share: curves with bands, points and bars with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from matrixrl.colours import COLOURS, REFERENCE, look
from matrixrl.plots.style import add_grid, draw_curve
from matrixrl_lab.analysis import AgentSummary, Interval

__all__ = ["bars", "curves", "points"]


def curves(axes: Any, agents: Sequence[AgentSummary], *, log: bool = True, bounds: bool = False) -> None:
    """Draw the cumulative regret of each agent with its band.

    Args:
        axes: Axes of matplotlib.
        agents: Agents to draw; those without episodes are left out.
        log: Use logarithmic axes.
        bounds: Also draw N·H, dotted, and the explicit bound of each agent where it is below, dashed. The legend says
            until which N a bound is trivial.
    """
    played = [(i, agent, agent.curve) for i, agent in enumerate(agents) if agent.curve is not None]
    for i, agent, curve in played:
        draw_curve(axes, curve.episode, curve.mean, (curve.low, curve.high), look(i), label=agent.id, dashed=False)
        if bounds:
            _draw_bound(axes, agent, look(i).colour)
    if bounds:
        _draw_most(axes, [agent for _, agent, _ in played])
    axes.set_xlabel("episodes N")
    axes.set_ylabel("cumulative regret")
    if log:
        axes.set_xscale("log")
        axes.set_yscale("log")
        largest = max((float(curve.mean[-1]) for _, _, curve in played), default=1.0)
        axes.set_ylim(bottom=max(1e-2, 1e-4 * largest))
    _add_grid_and_legend(axes)


def _draw_bound(axes: Any, agent: AgentSummary, colour: str) -> None:
    found = agent.bounds
    if found is None or found.explicit is None:
        return
    below = np.where(found.explicit < found.largest, found.explicit, np.nan)
    label = f"explicit bound: {found.extent}"
    axes.plot(found.episode, below, color=colour, linestyle="--", linewidth=0.9, label=label)


def _draw_most(axes: Any, agents: Sequence[AgentSummary]) -> None:
    found = next((agent.bounds for agent in agents if agent.bounds is not None), None)
    if found is not None:
        style = {"color": REFERENCE, "linestyle": ":", "linewidth": 0.9}
        axes.plot(found.episode, found.largest, label="N·H, the most possible", **style)


def points(
    axes: Any,
    x: Sequence[float],
    series: Mapping[str, Sequence[Interval]],
    *,
    x_label: str,
    y_label: str,
    log: bool = True,
) -> None:
    """Draw values with their intervals against x, one line for each series.

    Args:
        axes: Axes of matplotlib.
        x: Positions, shape (m,).
        series: m values with intervals, by the name in the legend.
        x_label: Label of the x-axis.
        y_label: Label of the y-axis.
        log: Use logarithmic axes.
    """
    for i, (label, values) in enumerate(series.items()):
        middle = np.array([v.value for v in values])
        style = {"color": look(i).colour, "marker": look(i).marker, "linewidth": 1.2, "capsize": 2}
        axes.errorbar(x, middle, yerr=_error_bars(values), label=label, **style)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if log:
        axes.set_xscale("log")
        axes.set_yscale("log")
    _add_grid_and_legend(axes)


def bars(axes: Any, labels: Sequence[str], values: Sequence[Interval], *, x_label: str) -> None:
    """Draw one horizontal bar with its interval for each label."""
    position = np.arange(len(labels))[::-1]
    middle = [v.value for v in values]
    axes.barh(position, middle, xerr=_error_bars(values), color=COLOURS[0], height=0.6, capsize=2)
    axes.set_yticks(position, labels)
    axes.set_xlabel(x_label)
    add_grid(axes, "x")


def _error_bars(values: Sequence[Interval]) -> Any:
    """Return the distances from each value to the ends of its interval, shape (2, m); 0 without an interval."""
    reach = np.array([[v.value - v.low, v.high - v.value] for v in values]).T
    return np.maximum(np.nan_to_num(reach), 0.0)


def _add_grid_and_legend(axes: Any) -> None:
    add_grid(axes)
    axes.legend(fontsize=7, framealpha=0.9)
