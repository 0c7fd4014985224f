"""Fitted length scales of KernelControl as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from matrixrl.pages.colours import COLOURS
from matrixrl.plots.drawing import add_grid
from matrixrl.plots.looks import REFERENCE
from matrixrl.records import FloatArray

__all__ = ["draw_length_scales"]

_NAMES_PER_INCH = 8.0


def draw_length_scales(axes: Any, scales: FloatArray, names: Sequence[str], *, n_coordinates: int) -> Any:
    """Draw one bar for each fitted length scale, from 1 to the geometric mean over seeds, with a dot for each seed.

    A coordinate with a bar to the left matters in detail; along one with a long bar to the right the dynamics are
    nearly linear, or do not depend on it.

    Args:
        axes: Axes of matplotlib.
        scales: (K, g) length scales of all seeds; rows of NaN for seeds that fitted none.
        names: Names of the g length scales.
        n_coordinates: How many of them, from the first one on, belong to the state.
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
    axes.set_yticks(rows, names, fontsize=9 if len(names) <= _NAMES_PER_INCH * 2 else 6)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel("length scale, in units of half the range")
    count = len(fitted)
    axes.set_title(f"fitted length scales{f': mean and {count} seeds' if count > 1 else ''}", fontsize=10)
    add_grid(axes, "x")
    return axes
