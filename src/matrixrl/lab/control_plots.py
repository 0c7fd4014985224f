"""Matplotlib figures of control tasks: returns against episodes, and value and width over a plane of states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.agents import KernelMatrixRL
from matrixrl.envs import CONTROL
from matrixrl.lab.palette import COLOURS
from matrixrl.lab.plots import add_grid, require_matplotlib
from matrixrl.records import FloatArray
from matrixrl.simulate import ControlResult

__all__ = ["draw_control"]

_GRID = 61


def draw_control(result: ControlResult, agent: KernelMatrixRL, path: Path) -> None:
    """Draw the returns of every seed and, for two coordinates, the value and the width of one agent.

    Args:
        result: Returns of all seeds.
        agent: Agent of one seed, whose value function is drawn.
        path: PNG file to write.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib.figure import Figure  # slow to import, and optional

    is_plane = agent.task.n_coordinates == 2
    figure = Figure(figsize=(6.2 + 9.0 * is_plane, 4.4), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, 1 + 2 * is_plane))
    _draw_returns(axes[0], result)
    if is_plane:
        names = CONTROL[result.env].axes if result.env in CONTROL else ("first coordinate", "second coordinate")
        _draw_plane(figure, axes[1:], agent, names)
    figure.suptitle(f"KernelMatrixRL on {result.env}", fontsize=12)
    figure.savefig(path, dpi=130, format="png")


def _draw_returns(axes: Any, result: ControlResult) -> None:
    episodes = np.arange(1, result.returns.shape[1] + 1)
    for row in result.returns:
        axes.plot(episodes, row, color=COLOURS[0], alpha=0.35, linewidth=1.0)
    played = ~np.isnan(result.returns).all(axis=0)
    mean = np.nanmean(result.returns[:, played], axis=0)
    axes.plot(episodes[played], mean, color=COLOURS[1], linewidth=2.0, label="mean")
    axes.set_xlabel("episode")
    axes.set_ylabel("return")
    count = len(result.seeds)
    axes.set_title(f"{count} seed{'s' * (count > 1)}, nothing tuned to the task", fontsize=10)
    add_grid(axes)
    axes.legend(fontsize=8.5)


def _draw_plane(figure: Any, axes: Any, agent: KernelMatrixRL, names: tuple[str, ...]) -> None:
    low, high = _box(agent)
    x, y = (np.linspace(low[i], high[i], _GRID) for i in range(2))
    points = np.stack([grid.ravel() for grid in np.meshgrid(x, y)], axis=1)
    value, width = agent.value(points)
    seen = agent.engine.model.data.obs
    panels = ((value, "optimistic value at the first step"), (width, "width: what is not known"))
    for panel, (shown, title) in zip(axes, panels, strict=True):
        mesh = panel.pcolormesh(x, y, shown.reshape(_GRID, _GRID), cmap="viridis", shading="nearest")
        panel.scatter(seen[:, 0], seen[:, 1], s=0.4, color="white", alpha=0.25)
        figure.colorbar(mesh, ax=panel)
        panel.set_title(f"{title}, {agent.n_episodes} episodes", fontsize=10)
        panel.set_xlabel(names[0])
        panel.set_ylabel(names[1])


def _box(agent: KernelMatrixRL) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the plane to draw: the bounds of the space, or of the visited states if unbounded."""
    seen = agent.engine.model.data.obs
    low, high = agent.task.low, agent.task.high
    bounded = (np.abs(low) < 1e6) & (np.abs(high) < 1e6)
    return np.where(bounded, low, seen.min(axis=0)), np.where(bounded, high, seen.max(axis=0))
