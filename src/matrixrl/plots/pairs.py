"""Heat maps over states and actions: visits and widths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl.agents import Agent
from matrixrl.plots.drawing import axes_of, draw_heat, write_numbers
from matrixrl.plots.planes import draw_agent
from matrixrl.plots.reading import action_names, checked_agent, checked_stage, finite_agent, state_names, tables_of
from matrixrl.records import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["visits", "widths"]

_MOST_NAMES = 40  # states whose names fit below the axis
_LONGEST = 6  # characters of a name that is written horizontally


def visits(agent: Any, *, ax: Axes | None = None) -> Axes:
    """Draw how often each action was taken in each state; grey cells were never visited.

    Args:
        agent: An agent on numbered states that keeps its log.
        ax: Axes to draw on; those of a new figure by default.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", seed=0)
    >>> _ = agent.learn(n_episodes=20)
    >>> bool((visits(agent).images[0].get_array().filled(0) == agent.visits.T).all())
    True
    """
    one = finite_agent(agent)
    table = one.visits.T.astype(np.float64)
    table[table == 0.0] = np.nan
    axes = axes_of(ax, _size(one))
    from matplotlib.colors import LogNorm  # optional

    most = np.nanmax(table, initial=2.0)
    image = draw_heat(axes, table, label="visits", norm=LogNorm(1.0, max(most, 2.0)))
    write_numbers(axes, image, table, "{:,.0f}")
    _name_axes(axes, one, f"visits in {one.n_episodes:,} episodes")
    return axes  # type: ignore[no-any-return]


def widths(
    agent: Any, stage: int | None = None, *, coordinates: tuple[int, int] | None = None, ax: Axes | None = None
) -> Axes:
    r"""Draw how little is known about each action in each state.

    Without a stage it is the width \(w = \|A_n^{-1/2}\varphi(s,a)\|\) of YW19, which is 1/√(1 + visits) for
    one-hot features at ridge 1. With a stage it is the distance between the proven bounds on Q* at that stage. For
    vectors it is the width of the estimate (KernelMatrixRL) or the novelty (KernelControl) over two coordinates. Cells
    of actions that are not allowed are grey.

    Args:
        agent: A MatrixRL agent on numbered states, or an agent on vectors.
        stage: Stage h, counted from 0, for the distance between bounds on Q*.
        coordinates: For vectors: the two coordinates to draw over, as in `value`.
        ax: Axes to draw on; those of a new figure by default.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", seed=0)
    >>> _ = agent.learn(n_episodes=20)
    >>> widths(agent).get_title()
    'widths after 20 episodes'
    """
    one = checked_agent(agent)
    h = None if stage is None else checked_stage(one, stage)
    if one.problem.kind == "continuous":
        axes = axes_of(ax)
        draw_agent(axes, one, "width", h or 0, coordinates)
        return axes  # type: ignore[no-any-return]
    finite_agent(one)
    table = _widths(one) if h is None else _distances(one, h)
    axes = axes_of(ax, _size(one))
    what = "width w" if h is None else "distance"
    image = draw_heat(axes, table, label=what)
    write_numbers(axes, image, table, "{:.2g}")
    words = "widths" if h is None else f"distance of the bounds on Q* at stage {h}"
    _name_axes(axes, one, f"{words} after {one.n_episodes:,} episodes")
    return axes  # type: ignore[no-any-return]


def _widths(agent: Agent) -> FloatArray:
    """Return the widths (A, S) at the first stage; NaN for actions that are not allowed."""
    table, stages = agent.algorithm.widths()[0].copy(), agent.problem.stages
    allowed = agent.problem.allowed_by_action
    if allowed is not None:
        table[~allowed] = np.nan
    chosen: FloatArray = table if stages is None else table[stages.block(0)]
    return chosen


def _distances(agent: Agent, stage: int) -> FloatArray:
    tables = tables_of(agent)
    distances: FloatArray = (tables.upper[stage] - tables.lower[stage]).T
    return distances


def _size(agent: Agent) -> tuple[float, float]:
    n_states, n_actions = agent.problem.finite_task.n_states, agent.problem.actions.size
    return float(np.clip(2.4 + 0.55 * n_states, 4.5, 11.0)), float(np.clip(1.4 + 0.4 * n_actions, 2.2, 7.0))


def _name_axes(axes: Any, agent: Agent, title: str) -> None:
    names = state_names(agent) if agent.problem.finite_task.n_states <= _MOST_NAMES else None
    if names is not None:
        turned = 90 if max(len(name) for name in names) > _LONGEST else 0
        axes.set_xticks(np.arange(len(names)), names, rotation=turned)
    if agent.problem.actions.size <= _MOST_NAMES:
        actions = action_names(agent)
        axes.set_yticks(np.arange(len(actions)), actions)
    axes.set_xlabel("state")
    axes.set_ylabel("action")
    axes.set_title(title, fontsize=10)
