"""Panels of the figure for a paper: performance profiles, and interquartile means with their intervals."""

from __future__ import annotations

import math
from typing import Any

from matrixrl.plots.style import Look, draw_curve
from matrixrl_lab.analysis import Aggregate

__all__ = ["draw_iqm", "draw_profiles", "open_frame"]

_SCORE = "score"


def open_frame(axes: Any) -> None:
    """Leave out the upper and the right edge of a panel, and add a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3, linewidth=0.4)


def draw_profiles(axes: Any, found: Aggregate, looks: dict[str, Look]) -> None:
    """Draw the share of runs with a score above τ, with its band.

    Args:
        axes: Axes of matplotlib.
        found: Agents over all environments.
        looks: Look of every agent id.
    """
    for agent in found.agents:
        profile = agent.profile
        band = (profile.low, profile.high)
        draw_curve(axes, profile.threshold, profile.share, band, looks[agent.id], line_width=1.1)
    first, last = found.agents[0].profile.threshold[[0, -1]]
    axes.set_xlim(first, last + 0.02 * (last - first))
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(rf"{_SCORE} $\tau$")
    axes.set_ylabel(r"runs with score $> \tau$")
    axes.set_title("performance profiles", fontsize=7.5, pad=3)
    open_frame(axes)


def draw_iqm(axes: Any, found: Aggregate, looks: dict[str, Look]) -> None:
    """Draw the interquartile mean of every agent as a point in its interval, the first agent at the top.

    Args:
        axes: Axes of matplotlib.
        found: Agents over all environments.
        looks: Look of every agent id.
    """
    for row, agent in enumerate(found.agents):
        look, iqm = looks[agent.id], agent.iqm
        if math.isfinite(iqm.low):
            axes.plot([iqm.low, iqm.high], [row, row], color=look.colour, linewidth=3.0, alpha=0.45)
        axes.plot([iqm.value], [row], color=look.colour, marker=look.marker, markersize=4.0)
    axes.set_ylim(len(found.agents) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xlabel(_SCORE)
    axes.set_title("interquartile mean, 95 %", fontsize=7.5, pad=3)
    open_frame(axes)
