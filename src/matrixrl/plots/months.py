"""What policies of a shop earn in a month, learned ones beside the usual rule and the best one, and what is proven."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.colours import COLOURS
from matrixrl.plots.style import add_grid, require_matplotlib
from matrixrl.records import FloatArray, IntArray

__all__ = ["Months", "draw_months"]


@dataclass(frozen=True)
class Months:
    """What K agents of a shop know after some months, in euros in a month.

    Attributes:
        seeds: Seeds of the agents.
        months: (m,) Numbers of months.
        value: (K, m) Exact value of the greedy policy.
        estimate: (K, m) The agent's estimate of it.
        bounds: (K, m, 2) Proven lower bound of it, and upper bound of every policy.
        gain: (K, m, 3) Lower bound, estimate and upper bound of its gain over the usual rule; NaN where not compared.
        received: (K, n) What was received in each month.
        usual: Exact value of the usual rule.
        best: Exact value of the best policy.
        trivial: Least and most that are possible without data.
    """

    seeds: tuple[int, ...]
    months: IntArray
    value: FloatArray
    estimate: FloatArray
    bounds: FloatArray
    gain: FloatArray
    received: FloatArray
    usual: float
    best: float
    trivial: tuple[float, float]

    def as_dict(self) -> dict[str, Any]:
        """Return all entries by name, as plain data; None where nothing was compared."""
        gain = [[None if np.isnan(row).any() else row.tolist() for row in one] for one in self.gain]
        tables = {name: getattr(self, name).tolist() for name in ("months", "value", "estimate", "bounds", "received")}
        numbers = {"usual": self.usual, "best": self.best, "trivial": list(self.trivial)}
        return {"seeds": list(self.seeds), **numbers, **tables, "gain": gain}


def draw_months(found: Months, path: Path) -> None:
    """Draw what the learned policy earns, mean and range over seeds, and what is proven about it.

    Args:
        found: What agents know after some months.
        path: PNG file to write.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib.figure import Figure  # slow to import, and optional

    figure = Figure(figsize=(10.5, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    n, last, months = len(found.seeds), int(found.months[-1]), found.months
    seeds = f"mean and range of {n} seeds" if n > 1 else "one seed"
    left.fill_between(
        months, found.value.min(axis=0), found.value.max(axis=0), color=COLOURS[0], alpha=0.2, linewidth=0
    )
    left.plot(months, found.value.mean(axis=0), "o-", color=COLOURS[0], markersize=4)
    lines = (found.best, "best possible", COLOURS[2], 1), (found.usual, "usual rule", COLOURS[1], -1)
    for value, name, colour, side in lines:
        left.axhline(value, color=colour, linestyle="--", linewidth=1.5)
        words, place = f"{name}: {value:,.0f} euros", "bottom" if side > 0 else "top"
        left.annotate(
            words, (last, value), (0, 4 * side), textcoords="offset points", color=colour, ha="right", va=place
        )
    middle = found.value.mean(axis=0)
    left.annotate(
        f"learned: {middle[0]:,.0f} after {months[0]}, {middle[-1]:,.0f} after {last}",
        (last, found.value.min()),
        (0, -4),
        textcoords="offset points",
        color=COLOURS[0],
        ha="right",
        va="top",
    )
    low, high = min(found.usual, float(found.value.min())), max(found.best, float(found.value.max()))
    left.set_ylim(low - 0.25 * (high - low), high + 0.2 * (high - low))
    left.set_title(f"what the learned orders earn ({seeds})", fontsize=10)
    at, bounds = np.concatenate([[0], months]), found.bounds.mean(axis=0)
    edges = [np.concatenate([[edge], bounds[:, k]]) for k, edge in enumerate(found.trivial)]
    right.fill_between(at, *edges, color=COLOURS[0], alpha=0.15, linewidth=0, label="proven range, probability 0.95")
    for edge in edges:
        right.plot(at, edge, color=COLOURS[0], linewidth=0.9)
    right.plot(months, found.estimate.mean(axis=0), "o", color=COLOURS[0], markersize=4, label="estimated by the agent")
    for value, name, colour, _ in lines:
        right.axhline(value, color=colour, linestyle="--", linewidth=1.5, label=name)
    x, sayings = 0.35 * last, ("the learned orders earn at least this", "no orders earn more than this")
    for said, edge, side in zip(sayings, edges, (-1, 1), strict=True):
        point, place = (x, float(np.interp(x, at, edge))), "bottom" if side > 0 else "top"
        right.annotate(said, point, (0, 6 * side), textcoords="offset points", color=COLOURS[0], va=place, fontsize=9)
    right.set_title("what is known about them at the time (mean of the seeds)", fontsize=10)
    right.legend(fontsize=8.5, loc="upper right", framealpha=0.9)
    for axes in (left, right):
        axes.set_xlabel("months of learning")
        axes.set_ylabel("euros in a month")
        axes.yaxis.set_major_formatter(lambda euros, _: f"{euros:,.0f}")
        axes.xaxis.get_major_locator().set_params(integer=True)
        add_grid(axes)
    left.set_xlim(0, last + 0.2)
    figure.suptitle("A shop that learns how much to order", fontsize=12)
    figure.savefig(path, dpi=130, format="png")
