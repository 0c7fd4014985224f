"""Value and width of an agent on vectors with two coordinates, over the plane of states."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from matrixrl.agents import Agent
from matrixrl.algorithms import Algorithm, ContinuousControl, ContinuousMatrixRL
from matrixrl.checks import fail
from matrixrl.envs import CONTROL
from matrixrl.records import FloatArray

__all__ = ["draw_plane", "on_plane"]

_GRID = 61
_OnVectors = ContinuousMatrixRL | ContinuousControl
_TITLES = {"value": "planned value", "width": "width: uncertainty of the estimate"}


def on_plane(algorithm: Algorithm) -> _OnVectors | None:
    """Return the algorithm if its states are vectors with two coordinates and it has a value function, else None."""
    if isinstance(algorithm, (ContinuousMatrixRL, ContinuousControl)) and algorithm.task.n_coordinates == 2:
        return algorithm
    return None


def draw_plane(axes: Any, agent: Agent, of: Literal["value", "width"], stage: int = 0) -> None:
    """Draw the planned value or the width of the estimate over the plane, with the visited states.

    Args:
        axes: Axes of matplotlib.
        agent: An agent on vectors with two coordinates, after at least one episode.
        of: What to draw.
        stage: Stage h, counted from 0.
    """
    algorithm = on_plane(agent.algorithm)
    if algorithm is None:
        fail("agent", "must have numbered states, or vectors with two coordinates", agent, "Draw returns instead.")
    seen = algorithm.observations()
    if not len(seen):
        fail("agent", "must have episodes", "none", "Call learn(n_episodes=…) first.")
    low, high = _box(algorithm, seen)
    x, y = (np.linspace(low[i], high[i], _GRID) for i in range(2))
    points = np.stack([grid.ravel() for grid in np.meshgrid(x, y)], axis=1)
    value, width = algorithm.value(algorithm.advice(), stage, points)
    table = (value if of == "value" else width).reshape(_GRID, _GRID)
    mesh = axes.pcolormesh(x, y, table, cmap="viridis", shading="nearest")
    axes.scatter(seen[:, 0], seen[:, 1], s=0.4, color="white", alpha=0.25)
    axes.figure.colorbar(mesh, ax=axes)
    axes.set_title(f"{_TITLES[of]} at stage {stage}, {algorithm.episode} episodes", fontsize=10)
    entry = CONTROL.get(agent.problem.name)
    names = ("first coordinate", "second coordinate") if entry is None else entry.axes
    axes.set_xlabel(names[0])
    axes.set_ylabel(names[1])


def _box(algorithm: _OnVectors, seen: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the plane to draw: the bounds of the space, or of the visited states if unbounded."""
    task = algorithm.task
    bounded = (np.abs(task.low) < 1e6) & (np.abs(task.high) < 1e6)
    return np.where(bounded, task.low, seen.min(axis=0)), np.where(bounded, task.high, seen.max(axis=0))
