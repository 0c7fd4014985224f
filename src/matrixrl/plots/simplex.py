"""The confidence set of one pair in the triangle of laws on three next states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl.pages.colours import COLOURS
from matrixrl.plots.drawing import axes_of
from matrixrl.plots.looks import REFERENCE
from matrixrl.plots.reading import state_names
from matrixrl.plots.regions import Region, region_of
from matrixrl.records import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["confidence_region", "draw_region", "in_triangle"]

_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3.0) / 2.0]])


def confidence_region(
    agent: Any,
    state: Any,
    action: Any,
    *,
    next_states: Any = None,
    stage: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the laws of a pair that are still possible, as a part of the triangle of laws on three next states.

    Each corner is the law that surely leads to one state; the nearer to a corner, the more probable is its state. The
    region is the set at the proven radius, on which certificates rest: the likelihood set {q : KL(p̂‖q) <= β_D/n}, or
    the normalised ball cut to probabilities. Laws that also lead to other states are not drawn. The estimate is a dot,
    and the true law, where P is known, a cross.

    Args:
        agent: A MatrixRL agent on numbered states, with one-hot features or ``set="normalised"`` and one-hot ψ.
        state: The state, as it is observed.
        action: The action, as the environment takes it.
        next_states: Three different numbers of states; by default those that P leads to, or those that were seen.
        stage: Stage h, counted from 0, if laws depend on it.
        ax: Axes to draw on; those of a new figure by default.

    Raises:
        InvalidInput: The pair has more than three next states, or the agent has no set that can be drawn.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> _ = agent.learn(n_episodes=50)
    >>> ax = confidence_region(agent, state=1, action=1)
    >>> [patch.get_label() for patch in ax.patches]
    ['likelihood set']
    """
    region = region_of(agent, state, action, next_states=next_states, stage=stage)
    axes = axes_of(ax, (4.6, 4.2))
    names = state_names(agent)
    draw_region(axes, region, [names[s] for s in region.next_states])
    tried = "" if region.visits is None else f", tried {region.visits:,} times"
    shown_state = names[int(agent.problem.state("state", state))]
    axes.set_title(f"state {shown_state}, action {action}{tried}", fontsize=10)
    axes.legend(fontsize=8.5, loc="upper right")
    return axes  # type: ignore[no-any-return]


def in_triangle(laws: FloatArray) -> FloatArray:
    """Return the points (m, 2) of laws (m, 3) in the triangle.

    >>> in_triangle(np.array([[0.0, 1.0, 0.0]]))
    array([[1., 0.]])
    """
    points: FloatArray = laws @ _CORNERS
    return points


def draw_region(axes: Any, region: Region, names: list[str]) -> None:
    """Draw a region with the triangle around it.

    Args:
        axes: Axes of matplotlib.
        region: The region.
        names: Names of the three next states.
    """
    outline = np.vstack([_CORNERS, _CORNERS[:1]])
    axes.plot(outline[:, 0], outline[:, 1], color=REFERENCE, linewidth=1.0)
    points = in_triangle(region.boundary)
    style: dict[str, Any] = {"facecolor": (*_rgb(COLOURS[0]), 0.3), "edgecolor": COLOURS[0], "linewidth": 1.4}
    axes.fill(points[:, 0], points[:, 1], label=region.set_name, **style)
    if region.estimate is not None:
        at = in_triangle(region.estimate[None])[0]
        axes.plot(*at, linestyle="", marker="o", color=COLOURS[0], markersize=6, label="estimate", zorder=3)
    if region.truth is not None:
        at = in_triangle(region.truth[None])[0]
        mark: dict[str, Any] = {"marker": "X", "markersize": 8, "markeredgecolor": "white", "zorder": 4}
        axes.plot(*at, linestyle="", color=COLOURS[1], label="true law", **mark)
    for corner, name, (ha, va) in zip(
        _CORNERS, names, (("right", "top"), ("left", "top"), ("center", "bottom")), strict=True
    ):
        away = 0.03 * (corner - _CORNERS.mean(axis=0))
        axes.text(*(corner + away), f"state {name}", ha=ha, va=va, fontsize=9)
    axes.set_aspect("equal")
    axes.set_xlim(-0.18, 1.18)
    axes.set_ylim(-0.12, 1.02)
    axes.axis("off")


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
