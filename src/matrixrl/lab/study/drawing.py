"""What the figures of the study share: colours, curves with bands, points with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from matrixrl.lab.analysis import AgentSummary, Interval
from matrixrl.lab.report.look import COLOURS, MARKERS

__all__ = ["bars", "curves", "points"]


def curves(axes: Any, agents: Sequence[AgentSummary], *, log: bool = True, bounds: bool = False) -> None:
    """Draw cumulative regret with its band, and optionally the explicit bound of each."""
    for i, agent in enumerate(agents):
        curve = agent.curve
        if curve is None:
            continue
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(curve.episode, curve.mean, color=colour, label=agent.id, linewidth=1.3)
        axes.fill_between(curve.episode, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
        if bounds and agent.bounds is not None:
            axes.plot(agent.bounds["episode"], agent.bounds["explicit"], color=colour, linestyle="--", linewidth=0.9)
    axes.set_xlabel("episodes N")
    axes.set_ylabel("cumulative regret")
    if log:
        axes.set_xscale("log")
        axes.set_yscale("log")
        tops = [float(a.curve.mean[-1]) for a in agents if a.curve is not None]
        axes.set_ylim(bottom=max(1e-2, 1e-4 * max(tops, default=1.0)))
    _finish(axes)


def points(
    axes: Any,
    x: Sequence[float],
    series: Mapping[str, Sequence[Interval]],
    *,
    x_label: str,
    y_label: str,
    log: bool = True,
) -> None:
    """Draw values with their intervals against x, one line for each series."""
    for i, (label, values) in enumerate(series.items()):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        middle = np.array([v.value for v in values])
        low, high = (np.nan_to_num(np.array([getattr(v, end) for v in values]), nan=0.0) for end in ("low", "high"))
        low, high = np.where(low == 0.0, middle, low), np.where(high == 0.0, middle, high)
        reach = np.maximum(np.stack([middle - low, high - middle]), 0.0)
        axes.errorbar(x, middle, yerr=reach, color=colour, marker=marker, label=label, linewidth=1.2, capsize=2)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if log:
        axes.set_xscale("log")
        axes.set_yscale("log")
    _finish(axes)


def bars(axes: Any, labels: Sequence[str], values: Sequence[Interval], *, x_label: str) -> None:
    """Draw one horizontal bar for each label, with its interval."""
    place = np.arange(len(labels))[::-1]
    middle = np.array([v.value for v in values])
    reach = np.array([[max(v.value - v.low, 0.0), max(v.high - v.value, 0.0)] for v in values]).T
    axes.barh(place, middle, xerr=np.nan_to_num(reach), color=COLOURS[0], height=0.6, capsize=2)
    axes.set_yticks(place, labels)
    axes.set_xlabel(x_label)
    axes.grid(alpha=0.25, linewidth=0.6, axis="x")


def _finish(axes: Any) -> None:
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.legend(fontsize=7, framealpha=0.9)
