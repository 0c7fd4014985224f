"""A radar picture of scores by tag, as bsuite draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from matrixrl.archive import atomic_write
from matrixrl.colours import look
from matrixrl.plots.style import require_matplotlib

__all__ = ["draw_radar"]


def draw_radar(scores: Mapping[str, Mapping[str, float]], tags: Sequence[str], path: Path, *, title: str) -> None:
    """Draw one polygon for each agent.

    Args:
        scores: Score of each tag, by agent; a tag without a score is drawn at the centre.
        tags: Spokes, in order.
        path: File of the picture.
        title: Title of the picture.
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    axes = figure.add_subplot(projection="polar")
    angles = np.linspace(0.0, 2.0 * np.pi, len(tags), endpoint=False)
    closed = [*angles, angles[0]]
    for k, (agent, by_tag) in enumerate(scores.items()):
        values = [by_tag.get(tag, 0.0) for tag in tags]
        style = look(k)
        name = agent.replace("_", " ")
        axes.plot(closed, [*values, values[0]], color=style.colour, marker=style.marker, markersize=4, label=name)
        axes.fill(closed, [*values, values[0]], color=style.colour, alpha=0.12, linewidth=0)
    spokes = axes.set_xticks(angles, [tag.replace("_", "\n") for tag in tags], fontsize=9)
    for spoke, angle in zip(spokes, angles, strict=True):  # labels at the sides begin or end at the circle
        side = np.cos(angle)
        spoke.label1.set_horizontalalignment("left" if side > 0.1 else "right" if side < -0.1 else "center")
    axes.set_ylim(0.0, 1.0)
    axes.set_yticks([0.25, 0.5, 0.75, 1.0], ["¼", "½", "¾", "1"], fontsize=8)
    axes.grid(linestyle=":", alpha=0.7)
    axes.set_title(title, fontsize=10)
    figure.legend(loc="outside right upper", fontsize=9, frameon=False)
    atomic_write(path, lambda temporary: figure.savefig(temporary, dpi=110))
