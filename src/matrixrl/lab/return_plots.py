"""The figure of runs without a known optimal value: returns, and value and width over two coordinates."""

from __future__ import annotations

from pathlib import Path

from matrixrl.agents import Agent
from matrixrl.algorithms import Algorithm
from matrixrl.plots import returns
from matrixrl.plots.drawing import require_matplotlib
from matrixrl.plots.plane import draw_plane, on_plane
from matrixrl.simulate import RunResult

__all__ = ["draw_returns"]


def draw_returns(result: RunResult, algorithm: Algorithm, path: Path) -> None:
    """Draw the returns of every seed and, for vectors with two coordinates, value and width of one seed.

    Args:
        result: Returns of all seeds.
        algorithm: Algorithm of one seed, whose value function is drawn.
        path: PNG file to write.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib.figure import Figure  # slow to import, and optional

    is_plane = on_plane(algorithm) is not None
    figure = Figure(figsize=(6.2 + 9.0 * is_plane, 4.4), layout="constrained")
    first, *others = figure.subplots(1, 3 if is_plane else 1, squeeze=False)[0]
    returns(result, ax=first)
    if is_plane:
        agent = Agent.around(algorithm)
        draw_plane(others[0], agent, "value")
        draw_plane(others[1], agent, "width")
    figure.suptitle(f"{result.agent} on {result.env}", fontsize=12)
    figure.savefig(path, dpi=130, format="png")
