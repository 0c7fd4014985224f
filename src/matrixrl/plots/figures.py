"""The figures that ``matrixrl run`` and ``matrixrl demo`` write: regret, or returns if V* is not known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.algorithms import Algorithm
from matrixrl.algorithms.continuous.base import VectorAlgorithm
from matrixrl.play import RunResult
from matrixrl.play.monitor import coordinate_names, length_scale_names
from matrixrl.plots.curves import certificate_band, regret, returns
from matrixrl.plots.style import require_matplotlib
from matrixrl.plots.vectors import draw_length_scales, draw_plane, plane_of, width_name
from matrixrl.spaces import BoxCodec

__all__ = ["draw_regret", "draw_returns"]


def draw_regret(results: Mapping[str, RunResult], path: Path, *, title: str) -> None:
    """Draw cumulative regret against episodes, mean and range over seeds, with linear and logarithmic axes.

    A third panel shows the certificates, if there are any.

    Args:
        results: Result of each agent by its label.
        path: PNG file to write.
        title: Title of the figure.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib.figure import Figure  # slow to import, and optional

    certified = {label: r for label, r in results.items() if np.isfinite(r.certified).any()}
    legend_rows = len(results) // 2 + 1  # of two columns, with a line for earning nothing
    size = (10.5 + 4.5 * bool(certified), 4.5 + 0.22 * legend_rows)
    figure = Figure(figsize=size, layout="constrained")
    linear, logarithmic, *rest = figure.subplots(1, 2 + bool(certified))
    regret(results, ax=linear)
    regret(results, log=True, ax=logarithmic)
    for axes in (linear, logarithmic):  # inside the panels it would hide curves
        axes.get_legend().remove()
    figure.legend(*linear.get_legend_handles_labels(), fontsize=9, loc="outside lower center", ncols=2)
    logarithmic.set_title("the same, both axes logarithmic", fontsize=10)
    for axes in rest:
        certificate_band(certified, ax=axes)
    reference = next(iter(results.values()))
    figure.suptitle(f"{title} — V*(s0) = {reference.known_optimum:.3f}", fontsize=12)
    figure.savefig(path, dpi=130, format="png")


def draw_returns(
    result: RunResult, algorithm: Algorithm, path: Path, *, coordinates: tuple[int, int] | None = None
) -> None:
    """Draw the returns of every seed and, for vectors, value and width of one seed and the fitted length scales of all.

    Args:
        result: Returns and length scales of all seeds.
        algorithm: Algorithm of one seed, whose value function is drawn.
        path: PNG file to write.
        coordinates: Two coordinates of the observation over which value and width are drawn; by default those with the
            shortest fitted length scales, or the first two.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib.figure import Figure  # slow to import, and optional

    vectors = algorithm if isinstance(algorithm, VectorAlgorithm) else None
    has_plane = vectors is not None and vectors.task.n_coordinates > 1 and vectors.episode > 0
    has_scales = result.length_scales is not None
    across = 1 + has_plane
    down = 1 + has_scales
    if has_plane and not has_scales:
        across, down = 3, 1
    figure = Figure(figsize=(5.6 * across, 4.3 * down), layout="constrained")
    panels = iter(figure.subplots(down, across, squeeze=False).T.ravel())
    curves = returns(result, ax=next(panels))
    if len(result.seeds) == 1:
        curves.set_title(f"seed {result.seeds[0]}", fontsize=10)
    if vectors is not None and result.length_scales is not None:
        sizes = (vectors.task.n_coordinates, result.length_scales.shape[1])
        names = length_scale_names(*sizes, is_box=isinstance(vectors.problem.actions, BoxCodec), env=result.env)
        draw_length_scales(next(panels), result.length_scales, names, n_coordinates=sizes[0])
    if vectors is not None and has_plane:
        _draw_planes((next(panels), next(panels)), vectors, coordinates, result)
    figure.suptitle(f"{result.agent} on {result.env}", fontsize=12)
    figure.savefig(path, dpi=130, format="png")


def _draw_planes(
    axes: tuple[Any, Any], algorithm: VectorAlgorithm, coordinates: tuple[int, int] | None, result: RunResult
) -> None:
    """Draw value and width of one seed side by side."""
    plane = plane_of(algorithm, coordinates)
    names = coordinate_names(algorithm.task.n_coordinates, result.env)
    many = f", seed {algorithm.seeds[0]}" if len(result.seeds) > 1 else ""
    draw_plane(axes[0], plane, "value", names=names, title=f"planned value at the first step{many}")
    draw_plane(axes[1], plane, "width", names=names, title=f"{width_name(algorithm)}{many}")
    legend = axes[1].legend(fontsize=8, loc="best", framealpha=0.85)
    legend.legend_handles[0].set(markersize=4.0, alpha=1.0)  # dots too small to be seen in a legend
