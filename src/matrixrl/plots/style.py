"""Axes, curves with bands, and heat maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.checks import fail, shown
from matrixrl.colours import MISSING, Look
from matrixrl.extras import require_packages
from matrixrl.records import FloatArray, IntArray

__all__ = ["add_grid", "axes_of", "draw_curve", "draw_heat", "require_matplotlib", "shown_episodes"]

_POINTS = 400
_MOST_NUMBERS = 60  # cells of a heat map in which numbers are legible


def require_matplotlib() -> None:
    """Raise an error that names the extra to install if matplotlib is missing."""
    require_packages(["matplotlib"], extra="viz", purpose="a figure")


def axes_of(ax: Any, size: tuple[float, float] = (6.0, 4.0)) -> Any:
    """Return the axes to draw on: those that were given, or those of a new figure of a size in inches."""
    require_matplotlib()
    from matplotlib.axes import Axes  # slow to import, and optional

    if ax is None:
        from matplotlib import pyplot

        return pyplot.subplots(figsize=size, layout="constrained")[1]
    if not isinstance(ax, Axes):
        fail("ax", "must be axes of matplotlib", shown(ax), "Such as those of plt.subplots(), or leave it out.")
    return ax


def shown_episodes(n: int) -> IntArray:
    """Return the episodes 1 … n to draw: all if they are few, else some that are dense enough for both scales.

    >>> shown_episodes(3)
    array([1, 2, 3])
    """
    most = min(n, _POINTS)
    even, logarithmic = np.linspace(1, n, most), np.geomspace(1, n, most)
    found: IntArray = np.union1d(even.round().astype(int), logarithmic.round().astype(int))
    return found


def draw_curve(
    axes: Any,
    episode: FloatArray,
    mean: FloatArray,
    band: tuple[FloatArray, FloatArray],
    look: Look,
    *,
    label: str | None = None,
    line_width: float = 1.3,
    dashed: bool = True,
    markers: int = 0,
) -> Any:
    """Draw a curve (m,) of regret or returns over episodes with the band around it, and return the line.

    The lower and upper edge of the band, (m,) each, are not drawn if they are equal everywhere. The line is solid
    unless `dashed`, and has so many `markers`.
    """
    style: dict[str, Any] = {"linestyle": look.line_style if dashed else "-", "linewidth": line_width}
    if markers:
        at = np.searchsorted(episode, np.linspace(0.12, 0.95, markers) * episode[-1]).clip(max=len(episode) - 1)
        style |= {"marker": look.marker, "markersize": 2.8, "markeredgewidth": 0, "markevery": np.unique(at).tolist()}
    (line,) = axes.plot(episode, mean, color=look.colour, label=label, **style)
    low, high = band
    if (low < high).any():
        axes.fill_between(episode, low, high, color=look.colour, alpha=0.18, linewidth=0)
    return line


def add_grid(axes: Any, axis: str = "both") -> None:
    """Add a faint grid to axes of matplotlib."""
    axes.grid(alpha=0.25, linewidth=0.6, axis=axis)


def draw_heat(
    axes: Any, table: FloatArray, *, label: str, norm: Any = None, bar_below: bool = False, numbers: str | None = None
) -> None:
    """Draw a table (m, n) as a heat map with its scale, which has a label; row 0 is at the top, and NaN is grey.

    `norm` says how numbers become colours, and `numbers` is the format in which they are written into the cells of a
    small table.
    """
    axes.set_facecolor(MISSING)
    image = axes.imshow(np.ma.masked_invalid(table), cmap="viridis", norm=norm, aspect="auto", interpolation="nearest")
    if bar_below:
        axes.figure.colorbar(image, ax=axes, label=label, location="bottom")
    else:
        axes.figure.colorbar(image, cax=axes.inset_axes((1.03, 0.0, 0.04, 1.0)), label=label)
    if numbers is None or table.size > _MOST_NUMBERS:
        return
    for (row, column), number in np.ndenumerate(table):
        if np.isfinite(number):
            red, green, blue, _ = image.cmap(image.norm(number))
            ink = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"  # legible on the cell
            axes.text(column, row, numbers.format(number), ha="center", va="center", color=ink, fontsize=8)
