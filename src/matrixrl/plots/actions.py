"""Bounds on the values of the actions of one state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl.pages.colours import COLOURS
from matrixrl.plots.drawing import add_grid, axes_of
from matrixrl.plots.looks import REFERENCE
from matrixrl.plots.reading import action_names, checked_stage, finite_agent, tables_of
from matrixrl.problems import optimal_q

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["action_bounds"]


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
    one = finite_agent(agent)
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
    axes.set_title(f"bounds in state {one.problem.shown_state(s)}, {one.n_episodes:,} episodes", fontsize=10)
    add_grid(axes, "x")
    axes.legend(fontsize=8.5, loc="lower right", ncols=2, framealpha=0.9)
    return axes  # type: ignore[no-any-return]
