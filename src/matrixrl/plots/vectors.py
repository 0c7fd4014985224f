"""Agents on vectors: value and width over two coordinates, and fitted length scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from matrixrl.agents import Agent
from matrixrl.algorithms import ContinuousControl
from matrixrl.algorithms.continuous.base import VectorAlgorithm
from matrixrl.checks import fail, index, shown
from matrixrl.colours import COLOURS, REFERENCE
from matrixrl.play.monitor import coordinate_names
from matrixrl.plots.style import add_grid
from matrixrl.records import FloatArray

__all__ = ["Plane", "checked_coordinates", "draw_agent", "draw_length_scales", "draw_plane", "plane_of", "width_name"]

_GRID = 61
_MARGIN = 0.15  # of the range of the states seen, on either side of it
_FEW = 4  # fixed coordinates that a caption lists
_MANY_NAMES = 16  # names of length scales from which on they are small


@dataclass(frozen=True)
class Plane:
    """Value and width over two coordinates of the observation; the others are at their medians over the states seen."""

    coordinates: tuple[int, int]  # the two coordinates
    x: FloatArray  # (n,) values of the first one
    y: FloatArray  # (m,) values of the second one
    value: FloatArray  # (m, n) planned values
    width: FloatArray  # (m, n) novelty (KernelControl) or width of the estimate (KernelMatrixRL)
    seen: FloatArray  # (k, 2) states seen
    path: FloatArray  # (l, 2) states of the last episode, in order
    fixed: FloatArray  # (p,) observation whose two coordinates vary


def default_coordinates(algorithm: VectorAlgorithm) -> tuple[int, int]:
    """Return the two coordinates with the shortest fitted length scales, or the first two if none were fitted."""
    scales = np.ones(algorithm.task.n_coordinates)
    if isinstance(algorithm, ContinuousControl) and algorithm.length_scales().size:
        scales = algorithm.length_scales()[0, : len(scales)]
    first, second = sorted(int(i) for i in np.argsort(scales, kind="stable")[:2])  # the first ones if all are alike
    return first, second


def checked_coordinates(argument: str, given: Any, n_coordinates: int) -> tuple[int, int]:
    """Return two different coordinates of an observation, or refuse them."""
    remedy = f"Give two different numbers from 0 to {n_coordinates - 1}."
    if n_coordinates < 2:
        rule = "must be left out for an observation of one coordinate, which has no plane"
        fail(argument, rule, shown(given), "Leave it out.")
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence) or len(given) != 2 or given[0] == given[1]:
        fail(argument, "must be two different coordinates", shown(given), remedy)
    first, second = (index(argument, one, size=n_coordinates, remedy=remedy) for one in given)
    return first, second


def last_path(algorithm: VectorAlgorithm) -> FloatArray:
    """Return the states of the last episode of the first replica, the one after its last step included: (l, p).

    Episodes are told apart by states that do not follow each other.
    """
    data = algorithm.experience()
    if not len(data.obs):
        return data.obs
    begins = data.terminated[:-1] | (data.obs[1:] != data.next_obs[:-1]).any(axis=1)
    start = int(np.flatnonzero(begins)[-1]) + 1 if begins.any() else 0
    return np.concatenate([data.obs[start:], data.next_obs[-1:]])


def plane_of(
    algorithm: VectorAlgorithm, coordinates: tuple[int, int] | None = None, *, stage: int = 0, grid: int = _GRID
) -> Plane:
    """Return value and width of the first replica over two coordinates.

    The range is that of the states seen with a margin, within the bounds of the observation, and has `grid` points
    along each coordinate. The coordinates are those of `default_coordinates` if None.
    """
    task = algorithm.task
    chosen = default_coordinates(algorithm) if coordinates is None else coordinates
    i, j = checked_coordinates("coordinates", chosen, task.n_coordinates)
    data = algorithm.experience()
    if not len(data.obs):
        fail("agent", "must have episodes", "none", "Call learn(n_episodes=…) first.")
    visited = np.concatenate([data.obs, data.next_obs[-1:]])
    low, high = visited.min(axis=0), visited.max(axis=0)
    extra = np.where(high > low, _MARGIN * (high - low), 0.5)
    low, high = np.maximum(low - extra, task.low), np.minimum(high + extra, task.high)
    x, y = (np.linspace(low[k], high[k], grid) for k in (i, j))
    fixed = np.median(visited, axis=0)
    points = np.tile(fixed, (grid * grid, 1))
    points[:, i], points[:, j] = (one.ravel() for one in np.meshgrid(x, y))
    value, width = (one.reshape(grid, grid) for one in algorithm.value(algorithm.advice(), stage, points))
    return Plane((i, j), x, y, value, width, visited[:, (i, j)], last_path(algorithm)[:, (i, j)], fixed)


def draw_plane(axes: Any, plane: Plane, of: Literal["value", "width"], *, names: Sequence[str], title: str) -> Any:
    """Draw value or width as a heat map, with the states seen as dots and the last episode as a line.

    `names` are those of all coordinates. A second line of the title says where the other coordinates are.
    """
    from matplotlib import colormaps  # slow to import, and optional
    from matplotlib.colors import ListedColormap
    from matplotlib.patheffects import Normal, Stroke

    i, j = plane.coordinates
    shown_values = plane.value if of == "value" else plane.width
    low, high = (0.0, 0.9) if of == "value" else (0.0, 0.8)  # without colours on which dots or lines are faint
    colours = ListedColormap(colormaps["viridis" if of == "value" else "Greys"](np.linspace(low, high, 256)))
    mesh = axes.pcolormesh(plane.x, plane.y, shown_values, cmap=colours, shading="nearest", rasterized=True)
    axes.figure.colorbar(mesh, ax=axes, label="return" if of == "value" else "")
    dots = {"color": "white" if of == "value" else COLOURS[0], "markersize": 1.6, "markeredgewidth": 0}
    axes.plot(*plane.seen.T, "o", alpha=0.5, label="states seen", **dots)
    casing = [Stroke(linewidth=2.4, foreground="white"), Normal()]
    axes.plot(*plane.path.T, color=COLOURS[1], linewidth=1.0, path_effects=casing, label="last episode")
    look = {"color": COLOURS[1], "markeredgecolor": "white", "markersize": 8, "linestyle": "none", "zorder": 4}
    axes.plot(*plane.path[0], marker="o", label="its start", **look)
    axes.plot(*plane.path[-1], marker="X", label="its end", **look)
    axes.set_xlim(plane.x[0], plane.x[-1])
    axes.set_ylim(plane.y[0], plane.y[-1])
    axes.set_xlabel(names[i])
    axes.set_ylabel(names[j])
    others = [k for k in range(len(plane.fixed)) if k not in plane.coordinates]
    if others:
        places = "at " + ", ".join(f"x{k} = {plane.fixed[k]:.2g}".replace("-", "−") for k in others)
        title += "\n" + (places if len(others) <= _FEW else "other coordinates at their medians")
    axes.set_title(title, fontsize=10)
    return axes


def draw_agent(
    axes: Any, agent: Agent, of: Literal["value", "width"], stage: int, coordinates: tuple[int, int] | None
) -> Any:
    """Draw value or width of an agent on vectors over two coordinates, after at least one episode."""
    algorithm = agent.algorithm
    if not isinstance(algorithm, VectorAlgorithm) or algorithm.task.n_coordinates < 2:
        fail("agent", "must have numbered states, or values of vectors in a plane", agent, "Draw returns instead.")
    plane = plane_of(algorithm, coordinates, stage=stage)
    names = coordinate_names(algorithm.task.n_coordinates, agent.problem.name)
    what = "planned value" if of == "value" else width_name(algorithm)
    return draw_plane(axes, plane, of, names=names, title=f"{what} at stage {stage}, {algorithm.episode} episodes")


def width_name(algorithm: VectorAlgorithm) -> str:
    """Return what the widths of an algorithm are, in words."""
    return "novelty" if isinstance(algorithm, ContinuousControl) else "width: uncertainty of the estimate"


def draw_length_scales(axes: Any, scales: FloatArray, names: Sequence[str], *, n_coordinates: int) -> Any:
    """Draw one bar for each fitted length scale, from 1 to the geometric mean over seeds, with a dot for each seed.

    A coordinate with a bar to the left matters in detail; along one with a long bar to the right the dynamics are
    nearly linear, or do not depend on it. Seeds that fitted none have a row of NaN in `scales` (K, g); the first
    `n_coordinates` of them belong to the state.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    fitted = scales[~np.isnan(scales).any(axis=1)]
    mean = np.exp(np.log(fitted).mean(axis=0))
    rows = np.arange(len(names))
    colours = [COLOURS[0] if k < n_coordinates else COLOURS[4] for k in rows]
    axes.barh(rows, mean - 1.0, left=1.0, color=colours, alpha=0.75, height=0.62)
    if len(fitted) > 1:
        for row in fitted:
            axes.plot(row, rows, "o", color="black", alpha=0.55, markersize=3.2, markeredgewidth=0)
    axes.axvline(1.0, color=REFERENCE, linewidth=0.9)
    axes.set_xscale("log")
    low, high = min(0.5, float(fitted.min()) / 1.3), max(2.0, 1.3 * float(fitted.max()))
    axes.set_xlim(low, high)
    between = (1.0, 2.0, 5.0) if np.log10(high / low) < 2.5 else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=between))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(rows, names, fontsize=9 if len(names) <= _MANY_NAMES else 6)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel("length scale, in units of half the range")
    count = len(fitted)
    axes.set_title(f"fitted length scales{f': mean and {count} seeds' if count > 1 else ''}", fontsize=10)
    add_grid(axes, "x")
    return axes
