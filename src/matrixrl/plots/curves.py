"""Regret, returns and certificates over episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl.checks import fail, flag, integer
from matrixrl.colours import COLOURS, REFERENCE, look
from matrixrl.display import in_digits
from matrixrl.plots.inputs import Run, read_runs
from matrixrl.plots.style import add_grid, axes_of, draw_curve, shown_episodes
from matrixrl.records import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["certificate_band", "draw_band", "regret", "returns"]


def regret(runs: Any, *, log: bool = False, ax: Axes | None = None) -> Axes:
    """Draw cumulative regret over episodes: the mean of the seeds, and a band over all of them.

    The number in the legend is the mean regret of all episodes. Where rewards are never negative, a grey line shows the
    regret of earning nothing.

    Args:
        runs: An agent, its history, a result of `run_seeds`, or a dictionary of them by name.
        log: Use logarithmic axes.
        ax: Axes to draw on; those of a new figure by default.

    Raises:
        InvalidInput: Regret was not measured, or an argument is something else.

    >>> import matrixrl
    >>> result = matrixrl.run_seeds("river-swim", n_episodes=20, seeds=3)
    >>> ax = regret({"MatrixRL": result})
    >>> bool(ax.lines[0].get_ydata()[-1] == result.final_regret.mean())
    True
    """
    flag("log", log)
    played = read_runs(runs)
    axes = axes_of(ax)
    for i, run in enumerate(played):
        if run.regret is None:
            rule = "must have measured the regret of every episode"
            fail("runs", rule, f"{run.label!r}, which has returns only", "Use plots.returns, or an MDP with known P.")
        total, episodes = np.cumsum(run.regret, axis=1), shown_episodes(run.n_episodes)  # YW19 (1)
        some = total[:, episodes - 1]
        proof = "" if run.guarantee is None or run.guarantee else " (no proof)"
        label = f"{run.label}{proof}: {in_digits(total[:, -1].mean())}"
        band = some.min(axis=0), some.max(axis=0)
        draw_curve(axes, episodes, some.mean(axis=0), band, look(i), label=label, line_width=1.8)
    optima = {run.optimum if run.earns_from_zero else None for run in played}
    if len(optima) == 1 and None not in optima:
        episodes = np.arange(1, max(run.n_episodes for run in played) + 1)
        lost = episodes * float(optima.pop() or 0.0)
        axes.plot(episodes, lost, color=REFERENCE, linewidth=0.9, label="earning nothing: N·V*")
    axes.set_ylabel("cumulative regret")
    if log:
        axes.set_xscale("log")
        axes.set_yscale("log")
        largest = max(float(line.get_ydata()[-1]) for line in axes.lines)
        bottom, top = axes.get_ylim()
        axes.set_ylim(max(bottom, 1e-5 * max(largest, 1e-3)), top)  # smaller values are rounding errors
    _finish(axes, played)
    return axes  # type: ignore[no-any-return]


def returns(runs: Any, *, smooth: int = 1, ax: Axes | None = None) -> Axes:
    """Draw the return of every episode: a thin line for each seed, and their mean; of several runs the means alone.

    Args:
        runs: An agent, its history, a result of `run_seeds`, or a dictionary of them by name.
        smooth: Number of latest episodes over which the mean is taken.
        ax: Axes to draw on; those of a new figure by default.

    >>> import matrixrl
    >>> result = matrixrl.run_seeds("river-swim", n_episodes=20, seeds=3)
    >>> len(returns(result).lines)
    4
    """
    window = integer("smooth", smooth, low=1, remedy="Give a number of episodes.")
    played = read_runs(runs)
    axes = axes_of(ax)
    for i, run in enumerate(played):
        episodes = np.arange(1, run.n_episodes + 1)
        were = ~np.isnan(run.returns).all(axis=0)
        mean = _trailing(np.nanmean(run.returns[:, were], axis=0), window)
        if len(played) > 1:
            axes.plot(episodes[were], mean, color=look(i).colour, linestyle=look(i).line_style, label=run.label)
            continue
        for row in run.returns:
            axes.plot(episodes, row, color=COLOURS[0], alpha=0.35 if run.n_seeds < 10 else 0.15, linewidth=1.0)
        label = "mean" if window == 1 else f"mean of the last {window}"
        axes.plot(episodes[were], mean, color=COLOURS[1], linewidth=2.0, label=label)
    axes.set_ylabel("return")
    _finish(axes, played)
    if len(played) > 1:
        over = "" if window == 1 else f", of the last {window} episodes"
        axes.set_title(f"mean of {_seeds(played)}{over}", fontsize=10)
    return axes  # type: ignore[no-any-return]


def certificate_band(runs: Any, *, log: bool = True, ax: Axes | None = None) -> Axes:
    """Draw the certified bounds over episodes, around V*(s0) and the value of the played policy where P is known.

    The lower edge bounds the value of the policy of an episode from below, the upper edge bounds V*(s0) from above.
    With several seeds the darker band is the mean, and the lighter one reaches from the least lower bound to the
    greatest upper bound.

    Args:
        runs: An agent, its history, a result of `run_seeds`, or a dictionary of them by name, played with
            ``certify=True``.
        log: Use a logarithmic axis of episodes.
        ax: Axes to draw on; those of a new figure by default.

    Raises:
        InvalidInput: No episode was certified, or an argument is something else.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> _ = agent.learn(n_episodes=20, certify=True)
    >>> certificate_band(agent).get_ylabel()
    'value of the start'
    """
    flag("log", log)
    played = read_runs(runs)
    axes = axes_of(ax)
    for i, run in enumerate(played):
        known = np.isfinite(run.certified).all(axis=(0, 2))
        if not known.any():
            remedy = "Pass certify=True to agent.learn or run_seeds."
            fail("runs", "must have certificates", f"{run.label!r}, which has none", remedy)
        episodes = np.arange(1, run.n_episodes + 1)
        lower, upper = run.certified[:, known, 0], run.certified[:, known, 1]
        draw_band(axes, episodes[known], lower, upper, look(i).colour, f"{run.label}: certified")
        if run.optimum is not None and run.regret is not None:
            value = (run.optimum - run.regret).mean(axis=0)
            axes.plot(episodes, value, color=look(i).colour, linewidth=0.9, label="played")
        if run.optimum is not None:
            is_first = not any(other.optimum == run.optimum for other in played[:i])
            label = "V*(s0)" if is_first else None
            axes.axhline(run.optimum, color="black", linewidth=0.9, linestyle=":", label=label)
    if log:
        axes.set_xscale("log")
    axes.set_ylabel("value of the start")
    _finish(axes, played, words="certificates: ")
    return axes  # type: ignore[no-any-return]


def draw_band(
    axes: Any, episodes: Any, lower: FloatArray, upper: FloatArray, colour: str, label: str | None = None
) -> None:
    """Draw the certified band of bounds (K, m) of seeds: their mean, and lighter the range of all."""
    if len(lower) > 1:
        widest = lower.min(axis=0), upper.max(axis=0)
        axes.fill_between(episodes, *widest, color=colour, alpha=0.12, linewidth=0)
    means = lower.mean(axis=0), upper.mean(axis=0)
    axes.fill_between(episodes, *means, color=colour, alpha=0.2, linewidth=0, label=label)
    for edge in means:
        axes.plot(episodes, edge, color=colour, linewidth=0.7, alpha=0.7)


def _finish(axes: Any, runs: list[Run], *, words: str = "") -> None:
    """Add what all charts over episodes share; the title says how many seeds there are."""
    axes.set_xlabel("episode N")
    if any(run.n_seeds > 1 for run in runs):
        axes.set_title(f"{words}mean and range of {_seeds(runs)}", fontsize=10)
    add_grid(axes)
    axes.legend(fontsize=8.5, loc="best", framealpha=0.9)


def _seeds(runs: list[Run]) -> str:
    """Return the number of seeds in words."""
    counts = [run.n_seeds for run in runs]
    count = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return f"{count} seed{'s' * (max(counts) > 1)}"


def _trailing(mean: FloatArray, window: int) -> FloatArray:
    """Return the mean of the last `window` entries up to each one; of fewer at the beginning."""
    sums = np.concatenate([[0.0], np.cumsum(mean)])
    first = np.maximum(np.arange(1, len(mean) + 1) - window, 0)
    return (sums[1:] - sums[first]) / (np.arange(1, len(mean) + 1) - first) if window > 1 else mean
