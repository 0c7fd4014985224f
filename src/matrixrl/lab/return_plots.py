"""Matplotlib figures of runs without a known optimal value: returns, and value and width over two coordinates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.algorithms import Algorithm, ContinuousControl, ContinuousMatrixRL
from matrixrl.envs import CONTROL
from matrixrl.lab.plots import add_grid, require_matplotlib
from matrixrl.pages.colours import COLOURS
from matrixrl.records import FloatArray
from matrixrl.simulate import RunResult

__all__ = ["draw_returns"]

_GRID = 61
_OnVectors = ContinuousMatrixRL | ContinuousControl


def draw_returns(result: RunResult, algorithm: Algorithm, path: Path) -> None:
    """Draw the returns of every seed and, for vectors with two coordinates, value and width of one seed.

    Args:
        result: Returns of all seeds.
        algorithm: Algorithm of one seed, whose value function is drawn.
        path: PNG file to write.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib.figure import Figure  # slow to import, and optional

    on_vectors = algorithm if isinstance(algorithm, (ContinuousMatrixRL, ContinuousControl)) else None
    plane = on_vectors if on_vectors is not None and on_vectors.task.n_coordinates == 2 else None
    figure = Figure(figsize=(6.2 + 9.0 * (plane is not None), 4.4), layout="constrained")
    axes = figure.subplots(1, 1 if plane is None else 3, squeeze=False)[0]
    _draw_curves(axes[0], result)
    if plane is not None:
        names = CONTROL[result.env].axes if result.env in CONTROL else ("first coordinate", "second coordinate")
        _draw_plane(figure, axes[1:], plane, names)
    figure.suptitle(f"{result.agent} on {result.env}", fontsize=12)
    figure.savefig(path, dpi=130, format="png")


def _draw_curves(axes: Any, result: RunResult) -> None:
    episodes = np.arange(1, result.returns.shape[1] + 1)
    for row in result.returns:
        axes.plot(episodes, row, color=COLOURS[0], alpha=0.35, linewidth=1.0)
    played = ~np.isnan(result.returns).all(axis=0)
    mean = np.nanmean(result.returns[:, played], axis=0)
    axes.plot(episodes[played], mean, color=COLOURS[1], linewidth=2.0, label="mean")
    axes.set_xlabel("episode")
    axes.set_ylabel("return")
    count = len(result.seeds)
    axes.set_title(f"{count} seed{'s' * (count > 1)}", fontsize=10)
    add_grid(axes)
    axes.legend(fontsize=8.5)


def _draw_plane(figure: Any, axes: Any, algorithm: _OnVectors, names: tuple[str, ...]) -> None:
    low, high = _box(algorithm)
    x, y = (np.linspace(low[i], high[i], _GRID) for i in range(2))
    points = np.stack([grid.ravel() for grid in np.meshgrid(x, y)], axis=1)
    value, width = algorithm.value(algorithm.advice(), 0, points)
    seen = algorithm.observations()
    panels = ((value, "planned value at the first step"), (width, "width: uncertainty of the estimate"))
    for panel, (shown, title) in zip(axes, panels, strict=True):
        mesh = panel.pcolormesh(x, y, shown.reshape(_GRID, _GRID), cmap="viridis", shading="nearest")
        panel.scatter(seen[:, 0], seen[:, 1], s=0.4, color="white", alpha=0.25)
        figure.colorbar(mesh, ax=panel)
        panel.set_title(f"{title}, {algorithm.episode} episodes", fontsize=10)
        panel.set_xlabel(names[0])
        panel.set_ylabel(names[1])


def _box(algorithm: _OnVectors) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the plane to draw: the bounds of the space, or of the visited states if unbounded."""
    seen, task = algorithm.observations(), algorithm.task
    bounded = (np.abs(task.low) < 1e6) & (np.abs(task.high) < 1e6)
    return np.where(bounded, task.low, seen.min(axis=0)), np.where(bounded, task.high, seen.max(axis=0))
