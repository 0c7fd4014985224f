"""Pictures of control: returns against episodes, and what an agent knows of a plane of states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.agents import KernelMatrixRL
from matrixrl.envs import CONTROL
from matrixrl.lab.plots import require_matplotlib
from matrixrl.records import FloatArray
from matrixrl.simulate import ControlResult

__all__ = ["draw_control"]

_GRID = 61


def draw_control(result: ControlResult, agent: KernelMatrixRL, path: Path) -> None:
    """Draw the returns of every seed; for two coordinates also value, width and path of one agent."""
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
        axes.plot(episodes, row, color="#0072B2", alpha=0.35, linewidth=1.0)
    played = ~np.isnan(result.returns).all(axis=0)
    mean = np.nanmean(result.returns[:, played], axis=0)
    axes.plot(episodes[played], mean, color="#D55E00", linewidth=2.0, label="mean")
    axes.set_xlabel("episode")
    axes.set_ylabel("return")
    count = len(result.seeds)
    axes.set_title(f"{count} seed{'s' * (count > 1)}, nothing tuned to the task", fontsize=10)
    axes.grid(alpha=0.25, linewidth=0.6)
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
    """Return the plane to draw: the bounds of the space, or what was seen where it has none."""
    seen = agent.engine.model.data.obs
    low, high = agent.task.low, agent.task.high
    bounded = (np.abs(low) < 1e6) & (np.abs(high) < 1e6)
    return np.where(bounded, low, seen.min(axis=0)), np.where(bounded, high, seen.max(axis=0))
