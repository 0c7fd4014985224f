"""Pictures of regret."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.errors import MissingExtra
from matrixrl.simulate import RunResult

__all__ = ["draw_regret", "require_matplotlib"]

# Okabe and Ito's colours: told apart by colour-blind readers and in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", "-.", ":")
_POINTS = 400


def require_matplotlib() -> None:
    """Raise a clear error, before any work is done, if pictures cannot be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtra("pictures need matplotlib, which is not installed; pip install 'matrixrl[viz]'") from error


def draw_regret(results: Mapping[str, RunResult], path: Path, *, title: str) -> None:
    """Draw cumulative regret against episodes, mean and range over seeds, linear and log-log."""
    require_matplotlib()
    from matplotlib.figure import Figure  # slow to import, and optional

    certified = {label: r for label, r in results.items() if np.isfinite(r.certified).any()}
    figure = Figure(figsize=(10.5 + 4.5 * bool(certified), 4.6), layout="constrained")
    linear, logarithmic, *rest = figure.subplots(1, 2 + bool(certified))
    for axes in rest:
        _draw_certificates(axes, certified)
    longest = max(result.n_episodes for result in results.values())
    for i, (label, result) in enumerate(results.items()):
        if result.n_episodes == 0:
            continue
        curves = result.cumulative_regret
        n = curves.shape[1]
        points = np.unique(np.geomspace(1, n, min(n, _POINTS)).round().astype(int))
        points = np.union1d(points, np.linspace(1, n, min(n, _POINTS)).round().astype(int))
        shown = curves[:, points - 1]
        colour, style = _COLOURS[i % len(_COLOURS)], _STYLES[i % len(_STYLES)]
        proof = "" if result.guarantee is True else " (no proof)"
        name = f"{label}{proof}: {result.final_regret.mean():,.0f}"
        for axes in (linear, logarithmic):
            axes.plot(points, shown.mean(axis=0), style, color=colour, label=name, linewidth=1.8)
            axes.fill_between(points, shown.min(axis=0), shown.max(axis=0), color=colour, alpha=0.18, linewidth=0)
    reference = next(iter(results.values()))
    episodes = np.arange(1, longest + 1)
    for axes in (linear, logarithmic):
        if reference.earns_from_zero:  # only then is V* what a policy that earns nothing loses
            axes.plot(
                episodes,
                episodes * reference.optimal_value,
                color="#888888",
                linewidth=0.9,
                label="earning nothing: N·V*",
            )
        axes.set_xlabel("episode N")
        axes.grid(alpha=0.25, linewidth=0.6)
    linear.set_ylabel("cumulative regret")
    logarithmic.set_xscale("log")
    logarithmic.set_yscale("log")
    largest = max(float(r.cumulative_regret[:, -1].max()) for r in results.values() if r.n_episodes)
    bottom, top = logarithmic.get_ylim()
    logarithmic.set_ylim(max(bottom, 1e-5 * max(largest, 1e-3)), top)  # rounding is not regret
    logarithmic.set_title("the same, both axes logarithmic", fontsize=10)
    seeds = len(reference.seeds)
    linear.set_title(f"mean of {seeds} seed{'s' * (seeds > 1)}, band: all of them", fontsize=10)
    linear.legend(fontsize=8.5, loc="best", framealpha=0.9)
    figure.suptitle(f"{title} — V*(s0) = {reference.optimal_value:.3f}", fontsize=12)
    figure.savefig(path, dpi=130, format="png")


def _draw_certificates(axes: Any, results: Mapping[str, RunResult]) -> None:
    """Draw the certified band around the truth, V*(s0) and the value of what is played: the mean of all seeds.

    The lightest band reaches from the lowest lower bound of a seed to the highest upper one.
    """
    for i, (label, result) in enumerate(results.items()):
        colour = _COLOURS[i % len(_COLOURS)]
        episodes = np.arange(1, result.n_episodes + 1)
        lower, upper = result.certified[:, :, 0], result.certified[:, :, 1]
        widest = (lower.min(axis=0), upper.max(axis=0))
        axes.fill_between(episodes, *widest, color=colour, alpha=0.12, linewidth=0)
        means = (lower.mean(axis=0), upper.mean(axis=0))
        axes.fill_between(episodes, *means, color=colour, alpha=0.2, linewidth=0, label=f"{label}: certified")
        played = (result.optimal_value - result.regret).mean(axis=0)
        axes.plot(episodes, played, color=colour, linewidth=0.9, label="played")
        axes.axhline(result.optimal_value, color="#000000", linewidth=0.9, linestyle=":")
    axes.set_xscale("log")
    axes.set_xlabel("episode N")
    axes.set_ylabel("value of the start")
    axes.set_title("certificates, mean and range of seeds; dotted: V*(s0)", fontsize=10)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.legend(fontsize=8.5)
