"""The figure of the regret of several agents that ``matrixrl run`` and ``matrixrl demo`` write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from matrixrl.play import RunResult
from matrixrl.plots import certificate_band, regret
from matrixrl.plots.style import require_matplotlib

__all__ = ["draw_regret"]


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
