"""Value and width of an agent on vectors over any two coordinates of the observation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from matrixrl.agents import Agent
from matrixrl.algorithms import Algorithm, ContinuousControl, ContinuousMatrixRL
from matrixrl.checks import fail, index, shown
from matrixrl.pages.colours import COLOURS
from matrixrl.records import FloatArray
from matrixrl.simulate.coordinates import coordinate_names

__all__ = [
    "OnVectors",
    "Plane",
    "checked_coordinates",
    "default_coordinates",
    "draw_agent",
    "draw_plane",
    "last_path",
    "on_vectors",
    "plane_of",
    "width_name",
]

OnVectors = ContinuousMatrixRL | ContinuousControl
"""Algorithms whose states are vectors and which have values and widths of them."""

_GRID = 61
_MARGIN = 0.15  # of the range of the states seen, on either side of it
_FEW = 4  # fixed coordinates that a caption lists


def on_vectors(algorithm: Algorithm) -> OnVectors | None:
    """Return an algorithm if it has values of vectors, else None."""
    return algorithm if isinstance(algorithm, (ContinuousMatrixRL, ContinuousControl)) else None


@dataclass(frozen=True)
class Plane:
    """Value and width over two coordinates of the observation; the others are at their medians over the states seen.

    Attributes:
        coordinates: The two coordinates.
        x: (n,) values of the first one.
        y: (m,) values of the second one.
        value: (m, n) planned values.
        width: (m, n) novelty (KernelControl) or width of the estimate (KernelMatrixRL).
        seen: (k, 2) states seen.
        path: (l, 2) states of the last episode, in order.
        fixed: (p,) observation whose two coordinates vary.
    """

    coordinates: tuple[int, int]
    x: FloatArray
    y: FloatArray
    value: FloatArray
    width: FloatArray
    seen: FloatArray
    path: FloatArray
    fixed: FloatArray


def default_coordinates(algorithm: OnVectors) -> tuple[int, int]:
    """Return the two coordinates with the shortest fitted length scales, or the first two if none were fitted."""
    scales = np.ones(algorithm.task.n_coordinates)
    if isinstance(algorithm, ContinuousControl) and algorithm.length_scales().size:
        scales = algorithm.length_scales()[0, : len(scales)]
    first, second = sorted(int(i) for i in np.argsort(scales, kind="stable")[:2])  # the first ones if all are alike
    return first, second


def checked_coordinates(argument: str, given: Any, n_coordinates: int) -> tuple[int, int]:
    """Return two different coordinates of an observation, or refuse them.

    Args:
        argument: Name of the argument, for error messages.
        given: What was received.
        n_coordinates: Length p of an observation.
    """
    remedy = f"Give two different numbers from 0 to {n_coordinates - 1}."
    if n_coordinates < 2:
        rule = "must be left out for an observation of one coordinate, which has no plane"
        fail(argument, rule, shown(given), "Leave it out.")
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence) or len(given) != 2 or given[0] == given[1]:
        fail(argument, "must be two different coordinates", shown(given), remedy)
    first, second = (index(argument, one, size=n_coordinates, remedy=remedy) for one in given)
    return first, second


def last_path(algorithm: OnVectors) -> FloatArray:
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
    algorithm: OnVectors, coordinates: tuple[int, int] | None = None, *, stage: int = 0, grid: int = _GRID
) -> Plane:
    """Return value and width of the first replica over two coordinates.

    The range is that of the states seen with a margin, within the bounds of the observation.

    Args:
        algorithm: An algorithm that has seen at least one step.
        coordinates: Two coordinates; those of `default_coordinates` if None.
        stage: Stage h, counted from 0.
        grid: Number of points along each coordinate.
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


def draw_plane(
    axes: Any, plane: Plane, of: Literal["value", "width"], *, names: Sequence[str], title: str | None = None
) -> Any:
    """Draw value or width as a heat map, with the states seen as dots and the last episode as a line.

    Args:
        axes: Axes of matplotlib.
        plane: What `plane_of` returned.
        of: Which of the two.
        names: Names of all coordinates.
        title: First line of the title; the second one says where the other coordinates are.
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
    ends = {"o": plane.path[0], "X": plane.path[-1]}
    for marker, place in ends.items():
        label = "its start" if marker == "o" else "its end"
        look = {"color": COLOURS[1], "markeredgecolor": "white", "markersize": 8, "linestyle": "none"}
        axes.plot(*place, marker=marker, label=label, zorder=4, **look)
    axes.set_xlim(plane.x[0], plane.x[-1])
    axes.set_ylim(plane.y[0], plane.y[-1])
    axes.set_xlabel(names[i])
    axes.set_ylabel(names[j])
    first = title or ("planned value at the first step" if of == "value" else "width")
    axes.set_title(first + _fixed_words(plane), fontsize=10)
    return axes


def _fixed_words(plane: Plane) -> str:
    """Return the second line of a title: where the coordinates are that do not vary."""
    others = [k for k in range(len(plane.fixed)) if k not in plane.coordinates]
    if not others:
        return ""
    if len(others) > _FEW:
        return "\nother coordinates at their medians"
    return "\nat " + ", ".join(f"x{k} = {plane.fixed[k]:.2g}".replace("-", "−") for k in others)


def draw_agent(
    axes: Any, agent: Agent, of: Literal["value", "width"], stage: int, coordinates: tuple[int, int] | None
) -> None:
    """Draw value or width of an agent on vectors over two coordinates.

    Args:
        axes: Axes of matplotlib.
        agent: An agent after at least one episode.
        of: What to draw.
        stage: Stage h, counted from 0.
        coordinates: Two coordinates; those of `default_coordinates` if None.
    """
    algorithm = on_vectors(agent.algorithm)
    if algorithm is None or algorithm.task.n_coordinates < 2:
        fail("agent", "must have numbered states, or values of vectors in a plane", agent, "Draw returns instead.")
    plane = plane_of(algorithm, coordinates, stage=stage)
    names = coordinate_names(algorithm.task.n_coordinates, agent.problem.name)
    what = "planned value" if of == "value" else width_name(algorithm)
    draw_plane(axes, plane, of, names=names, title=f"{what} at stage {stage}, {algorithm.episode} episodes")


def width_name(algorithm: OnVectors) -> str:
    """Return what the widths of an algorithm are, in words."""
    return "novelty" if isinstance(algorithm, ContinuousControl) else "width: uncertainty of the estimate"
