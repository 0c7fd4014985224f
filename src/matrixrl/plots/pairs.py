"""State-action pairs: bounds on Q*, visits and widths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl.agents import Agent
from matrixrl.agents.explanation import Explanation
from matrixrl.algorithms import UCMatrixRL
from matrixrl.checks import fail, shown
from matrixrl.colours import COLOURS, REFERENCE
from matrixrl.display import in_digits, printable
from matrixrl.errors import ProtocolError
from matrixrl.plots.inputs import action_names, checked_agent, checked_stage, state_names, tables_of
from matrixrl.plots.style import add_grid, axes_of, draw_heat
from matrixrl.plots.vectors import draw_agent
from matrixrl.problems import optimal_q
from matrixrl.records import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["action_bounds", "explanation", "visits", "widths"]

_MOST_NAMES = 40  # states whose names fit below the axis
_MOST_PAIRS = 12  # pairs that are drawn
_LONGEST = 6  # characters of a name that is written horizontally


def action_bounds(agent: Any, state: Any, stage: int = 0, *, ax: Axes | None = None) -> Axes:
    """Draw the proven bounds on Q* of every action in a state, and Q* itself where P is known.

    The action that the agent would take is blue. The dotted line is the largest lower bound: an action whose interval
    ends before it is proven not to be the best one. Actions that are not allowed are left out.

    Args:
        agent: A MatrixRL agent on numbered states.
        state: The state, as it is observed.
        stage: Stage h, counted from 0.
        ax: Axes to draw on; those of a new figure by default.

    Raises:
        InvalidInput: The state or the stage is none of the problem.
        ProtocolError: The algorithm has no bounds of single actions.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", seed=0)
    >>> _ = agent.learn(n_episodes=20)
    >>> [text.get_text() for text in action_bounds(agent, state=0).get_yticklabels()]
    ['0', '1']
    """
    one = checked_agent(agent)
    h = checked_stage(one, stage)
    s = int(one.problem.state("state", state))
    tables = tables_of(one)
    lower, upper = tables.lower[h, s], tables.upper[h, s]
    allowed = np.flatnonzero(np.isfinite(lower))
    axes = axes_of(ax, (6.0, 1.7 + 0.34 * min(len(allowed), 30)))
    colours = [COLOURS[0] if a == tables.policy[h, s] else REFERENCE for a in allowed]
    rows = np.arange(len(allowed))
    axes.barh(rows, (upper - lower)[allowed], left=lower[allowed], height=0.45, color=colours, alpha=0.55)
    axes.axvline(lower[allowed].max(), color="black", linewidth=0.9, linestyle=":", label="largest lower bound")
    if one.problem.mdp is not None:
        truth = optimal_q(one.problem.mdp)[h, s, allowed]
        style: dict[str, Any] = {"linestyle": "", "marker": "|", "markersize": 14, "markeredgewidth": 2.0}
        axes.plot(truth, rows, color=COLOURS[1], label="Q*", **style)
    names = action_names(one)
    axes.set_yticks(rows, [names[a] for a in allowed])
    axes.use_sticky_edges = False  # bars end inside the axes
    axes.margins(x=0.04)
    axes.set_ylim(len(allowed) + 0.2, -0.5)  # the first action at the top, and room for the legend below
    axes.set_ylabel("action")
    axes.set_xlabel(f"value from stage {h} on")
    axes.set_title(f"bounds in state {state_names(one)[s]}, {one.n_episodes:,} episodes", fontsize=10)
    add_grid(axes, "x")
    axes.legend(fontsize=8.5, loc="lower right", ncols=2, framealpha=0.9)
    return axes  # type: ignore[no-any-return]


def explanation(found: Any, *, ax: Axes | None = None) -> Axes:
    """Draw which unknown pairs the upper bound of a state hangs on, the largest at the top.

    Bars are the widths of `Explanation.pairs`: what is not known about a pair, times how often the optimistic policy is
    expected to meet it. All of them add up to what the title says.

    Args:
        found: What `agent.explain` returned.
        ax: Axes to draw on; those of a new figure by default.

    Raises:
        InvalidInput: It is no `Explanation`, or one of a model without counts.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", seed=0)
    >>> _ = agent.learn(n_episodes=20)
    >>> explanation(agent.explain(0)).get_xlabel()
    'unknown, times how often it is met'
    """
    if not isinstance(found, Explanation) or found.pairs is None or found.estimate is None:
        fail("found", "must be an explanation with pairs", shown(found), "Such as agent.explain(state).")
    pairs = found.pairs[:_MOST_PAIRS]
    axes, rows = axes_of(ax, (6.0, 1.7 + 0.34 * max(len(pairs), 1))), np.arange(len(pairs))
    axes.barh(rows, [one.width for one in pairs], height=0.6, color=COLOURS[0], alpha=0.55)
    for row, one in zip(rows, pairs, strict=True):
        tried = "" if one.visits is None else f", tried {one.visits:,}"
        axes.annotate(f" {100.0 * one.share:.2g} %{tried}", (one.width, row), va="center", fontsize=8.5)
    names = [f"{printable(one.action)} in {printable(one.state)}" for one in pairs]
    axes.set_yticks(rows, names)
    axes.use_sticky_edges = False
    axes.margins(x=0.25)
    axes.set_xlim(left=0.0)
    axes.set_ylim(max(len(pairs), 1) - 0.4, -0.6)
    axes.set_ylabel("action in state")
    axes.set_xlabel("unknown, times how often it is met")
    above = in_digits(found.upper - found.estimate)
    title = f"upper bound {in_digits(found.upper)}, {above} above the estimate"
    axes.set_title(f"state {printable(found.state)}, stage {found.stage}: {title}", fontsize=10)
    add_grid(axes, "x")
    return axes  # type: ignore[no-any-return]


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
    one = checked_agent(agent)
    table = one.visits.T.astype(np.float64)
    table[table == 0.0] = np.nan
    axes = axes_of(ax, _size(one))
    from matplotlib.colors import LogNorm  # optional

    most = np.nanmax(table, initial=2.0)
    draw_heat(axes, table, label="visits", norm=LogNorm(1.0, max(most, 2.0)), numbers="{:,.0f}")
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
    one = checked_agent(agent, finite=False)
    h = None if stage is None else checked_stage(one, stage)
    if one.problem.kind == "continuous":
        return draw_agent(axes_of(ax), one, "width", h or 0, coordinates)  # type: ignore[no-any-return]
    checked_agent(one)
    tables = None if h is None else tables_of(one)
    table = _widths(one) if tables is None else (tables.upper[h] - tables.lower[h]).T
    axes = axes_of(ax, _size(one))
    draw_heat(axes, table, label="width w" if h is None else "distance", numbers="{:.2g}")
    words = "widths" if h is None else f"distance of the bounds on Q* at stage {h}"
    _name_axes(axes, one, f"{words} after {one.n_episodes:,} episodes")
    return axes  # type: ignore[no-any-return]


def _widths(agent: Agent) -> FloatArray:
    """Return the widths (A, S) at the first stage; NaN for actions that are not allowed."""
    algorithm = agent.algorithm
    if not isinstance(algorithm, UCMatrixRL):
        raise ProtocolError(f"{agent.name} has no widths; matrix-rl on numbered states has")
    table = algorithm.model.widths()[0].copy()
    allowed = agent.problem.allowed_by_action
    if allowed is not None:
        table[~allowed] = np.nan
    chosen: FloatArray = table[slice(*agent.problem.task.choices[0])]
    return chosen


def _size(agent: Agent) -> tuple[float, float]:
    n_states, n_actions = agent.problem.finite_task.n_states, agent.problem.actions.size
    return float(np.clip(2.4 + 0.55 * n_states, 4.5, 11.0)), float(np.clip(1.4 + 0.4 * n_actions, 2.2, 7.0))


def _name_axes(axes: Any, agent: Agent, title: str) -> None:
    if agent.problem.finite_task.n_states <= _MOST_NAMES:
        names = state_names(agent)
        turned = 90 if max(len(name) for name in names) > _LONGEST else 0
        axes.set_xticks(np.arange(len(names)), names, rotation=turned)
    if agent.problem.actions.size <= _MOST_NAMES:
        actions = action_names(agent)
        axes.set_yticks(np.arange(len(actions)), actions)
    axes.set_xlabel("state")
    axes.set_ylabel("action")
    axes.set_title(title, fontsize=10)
