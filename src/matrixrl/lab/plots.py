"""Matplotlib figures of regret, and the functions that all figures share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.errors import MissingExtra
from matrixrl.lab.palette import REFERENCE, Look, look
from matrixrl.records import FloatArray
from matrixrl.simulate import RunResult

__all__ = ["add_grid", "draw_curve", "draw_regret", "require_matplotlib"]

_POINTS = 400


def require_matplotlib() -> None:
    """Raise an error that names the extra to install if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtra("figures need matplotlib, which is not installed; pip install 'matrixrl[viz]'") from error


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
    """Draw a curve of regret or returns with the band around it.

    Args:
        axes: Axes of matplotlib.
        episode: Episode numbers, shape (m,).
        mean: Values of the line, shape (m,).
        band: Lower and upper edge of the band, shape (m,) each; not drawn if they are equal everywhere.
        look: Colour, dash and marker.
        label: Name in the legend.
        line_width: Width of the line in points.
        dashed: Use the dash of the look; otherwise the line is solid.
        markers: Number of markers on the line.

    Returns:
        The line, which can be passed to a legend.
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


def draw_regret(results: Mapping[str, RunResult], path: Path, *, title: str) -> None:
    """Draw cumulative regret against episodes, mean and range over seeds, with linear and logarithmic axes.

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
    figure = Figure(figsize=(10.5 + 4.5 * bool(certified), 4.6), layout="constrained")
    linear, logarithmic, *rest = figure.subplots(1, 2 + bool(certified))
    for axes in rest:
        _draw_certificates(axes, certified)
    for i, (label, result) in enumerate(results.items()):
        if result.n_episodes == 0:
            continue
        n = result.n_episodes
        points = np.unique(np.geomspace(1, n, min(n, _POINTS)).round().astype(int))
        points = np.union1d(points, np.linspace(1, n, min(n, _POINTS)).round().astype(int))
        shown = result.cumulative_regret[:, points - 1]
        band = (shown.min(axis=0), shown.max(axis=0))
        proof = "" if result.guarantee is True else " (no proof)"
        name = f"{label}{proof}: {result.final_regret.mean():,.0f}"
        for axes in (linear, logarithmic):
            draw_curve(axes, points, shown.mean(axis=0), band, look(i), label=name, line_width=1.8)
    reference = next(iter(results.values()))
    episodes = np.arange(1, max(result.n_episodes for result in results.values()) + 1)
    for axes in (linear, logarithmic):
        if reference.earns_from_zero:  # only then is V* the regret of an episode without reward
            lost = episodes * reference.known_optimum
            axes.plot(episodes, lost, color=REFERENCE, linewidth=0.9, label="earning nothing: N·V*")
        axes.set_xlabel("episode N")
        add_grid(axes)
    linear.set_ylabel("cumulative regret")
    logarithmic.set_xscale("log")
    logarithmic.set_yscale("log")
    largest = max(float(r.cumulative_regret[:, -1].max()) for r in results.values() if r.n_episodes)
    bottom, top = logarithmic.get_ylim()
    logarithmic.set_ylim(max(bottom, 1e-5 * max(largest, 1e-3)), top)  # smaller values are rounding errors
    logarithmic.set_title("the same, both axes logarithmic", fontsize=10)
    seeds = len(reference.seeds)
    linear.set_title(f"mean of {seeds} seed{'s' * (seeds > 1)}, band: all of them", fontsize=10)
    linear.legend(fontsize=8.5, loc="best", framealpha=0.9)
    figure.suptitle(f"{title} — V*(s0) = {reference.known_optimum:.3f}", fontsize=12)
    figure.savefig(path, dpi=130, format="png")


def _draw_certificates(axes: Any, results: Mapping[str, RunResult]) -> None:
    """Draw V*(s0), the value of the played policies and the certified band, as means over seeds.

    The lighter band reaches from the lowest lower bound of all seeds to the highest upper bound.
    """
    for i, (label, result) in enumerate(results.items()):
        colour = look(i).colour
        episodes = np.arange(1, result.n_episodes + 1)
        lower, upper = result.certified[:, :, 0], result.certified[:, :, 1]
        widest = (lower.min(axis=0), upper.max(axis=0))
        axes.fill_between(episodes, *widest, color=colour, alpha=0.12, linewidth=0)
        means = (lower.mean(axis=0), upper.mean(axis=0))
        axes.fill_between(episodes, *means, color=colour, alpha=0.2, linewidth=0, label=f"{label}: certified")
        played = (result.known_optimum - result.regret).mean(axis=0)
        measured = np.isfinite(played)
        axes.plot(episodes[measured], played[measured], color=colour, linewidth=0.9, label="played")
        axes.axhline(result.known_optimum, color="black", linewidth=0.9, linestyle=":")
    axes.set_xscale("log")
    axes.set_xlabel("episode N")
    axes.set_ylabel("value of the start")
    axes.set_title("certificates, mean and range of seeds; dotted: V*(s0)", fontsize=10)
    add_grid(axes)
    axes.legend(fontsize=8.5)
