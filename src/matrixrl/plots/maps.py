"""Policies and values on problems that are laid out as a grid or a chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np

from matrixrl.agents import Agent
from matrixrl.algorithms import FiniteAlgorithm
from matrixrl.checks import choice, fail, index, shown
from matrixrl.plots.inputs import checked_agent, checked_stage, tables_of, texts_of
from matrixrl.plots.style import axes_of, draw_heat
from matrixrl.plots.vectors import draw_agent
from matrixrl.policies import Policy
from matrixrl.problems import FiniteMDP, Layout, Solution, Task, solve
from matrixrl.records import FloatArray, IntArray
from matrixrl.spaces import Codec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["policy", "value"]

_REMEDY = "Pass an agent, an environment of matrixrl, a FiniteMDP, what solve() returned, or a Policy."
_BOUNDS = ("plan", "lower", "upper")
_ARROW = 0.62  # length of an arrow, in cells


class _Pictured(NamedTuple):
    """What is drawn: one action and one value of each state, and a title."""

    actions: IntArray | None
    values: FloatArray | None
    title: str


def policy(given: Any, stage: int = 0, *, layout: Any = None, ax: Axes | None = None) -> Axes:
    """Draw the action of each state at a stage: arrows where actions are moves, else their names or numbers.

    It can be drawn over a heat map of `value`: ``policy(agent, ax=value(agent))``.

    Args:
        given: An agent (its `policy`), an environment or a `FiniteMDP` (an optimal policy), what
            `solve` returned, or a `Policy`.
        stage: Stage h, counted from 0.
        layout: Where states lie: a `Layout`, (rows, columns), or an environment that has one; that of the given
            environment, or of the agent's, by default.
        ax: Axes to draw on; those of a new figure by default.

    Raises:
        InvalidInput: States are not laid out as a grid or a chain, or an argument is something else.

    >>> import matrixrl
    >>> ax = policy(matrixrl.make("river-swim", n_states=4))
    >>> ax.collections[0].U.tolist()  # all arrows point to the right
    [0.62, 0.62, 0.62, 0.62]
    """
    where = _layout(given, layout)
    shown_policy = _read(given, stage, None)
    if shown_policy.actions is None:
        fail("policy", "must have numbered states", shown(given), _REMEDY)
    actions = _only_cells(shown_policy.actions, where)
    axes = axes_of(ax, _size(where))
    if ax is None:  # free cells are white and walls grey, without a scale
        free = np.isfinite(where.table(np.zeros(where.n_states)))
        axes.imshow(np.where(free, 0.94, 0.65), cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
        _name_cells(axes, where, _codecs(given)[0])
        axes.set_title(shown_policy.title.format("policy"), fontsize=10)
    rows, columns = where.cells.T
    if where.moves is not None and where.moves.shape[-2] <= actions.max():
        received = f"{where.moves.shape[-2]} moves and action {actions.max()}"
        fail("layout", "must have a move for each action", received, "Name the direction of each action.")
    moves = where.moves_of(actions)
    if moves is None:
        of_actions = _codecs(given)[1]
        words = None if of_actions is None else texts_of(of_actions)
        for row, column, action in zip(rows, columns, actions, strict=True):
            text = str(action) if words is None else words[action]
            axes.text(column, row, text, ha="center", va="center", fontsize=9)
        return axes  # type: ignore[no-any-return]
    length = np.linalg.norm(moves, axis=1, keepdims=True)
    steps = _ARROW * np.divide(moves, length, out=np.zeros_like(moves), where=length > 0.0)
    style: dict[str, Any] = {"pivot": "mid", "angles": "xy", "scale_units": "xy", "scale": 1.0, "minlength": 0.0}
    size = {"units": "xy", "width": 0.085, "headwidth": 3.6, "headlength": 3.4, "headaxislength": 3.0}
    axes.quiver(
        columns, rows, steps[:, 1], steps[:, 0], color="black", edgecolor="white", linewidth=0.7, **style, **size
    )
    return axes  # type: ignore[no-any-return]


def value(
    given: Any,
    stage: int = 0,
    *,
    bound: str = "plan",
    layout: Any = None,
    coordinates: tuple[int, int] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the value of each state at a stage as a heat map; walls are grey.

    Args:
        given: An agent, an environment or a `FiniteMDP` (V*), or what `solve` returned. The states of an agent may also
            be vectors.
        stage: Stage h, counted from 0.
        bound: For an agent: "plan" is the value that it plans with, "lower" and "upper" are the proven bounds on V*.
        layout: As in `policy`.
        coordinates: For vectors: the two coordinates to draw over, the others at their medians; by default those with
            the shortest fitted length scales, or the first two.
        ax: Axes to draw on; those of a new figure by default.

    Raises:
        InvalidInput: States are not laid out as a grid or a chain, or an argument is something else.

    >>> import matrixrl
    >>> env = matrixrl.make("grid-world", size=3)
    >>> table = value(env).images[0].get_array()
    >>> bool((table.ravel() == matrixrl.solve(env.unwrapped.mdp).values[0]).all())
    True
    """
    choice("bound", bound, _BOUNDS)
    if isinstance(given, Agent) and given.problem.kind == "continuous":
        h = checked_stage(given, stage)
        return draw_agent(axes_of(ax), given, "value", h, coordinates)  # type: ignore[no-any-return]
    where = _layout(given, layout)
    pictured = _read(given, stage, bound)
    if pictured.values is None:
        fail("value", "must have values, which a policy alone has not", shown(given), _REMEDY)
    table = where.table(_only_cells(pictured.values, where))
    axes = axes_of(ax, _size(where))
    draw_heat(axes, table, label="value", bar_below=where.shape[0] == 1)
    _name_cells(axes, where, _codecs(given)[0])
    axes.set_title(pictured.title.format("value"), fontsize=10)
    return axes  # type: ignore[no-any-return]


def _read(given: Any, stage: Any, bound: str | None) -> _Pictured:
    """Return actions and values of a stage, and the title; the value of an agent is that of `bound`, if it is asked."""
    if isinstance(given, Agent):
        return _of_agent(checked_agent(given), checked_stage(given, stage), bound)
    if isinstance(given, Policy):
        h = index("stage", stage, size=given.horizon, remedy="Stages count from 0.")
        return _Pictured(given.table[h], None, f"{{}} at stage {h}")
    mdp = getattr(given.unwrapped, "mdp", None) if isinstance(given, gym.Env) else given
    found = solve(mdp) if isinstance(mdp, FiniteMDP) else given
    if not isinstance(found, Solution):
        fail("given", "must be something with a policy or values", shown(given), _REMEDY)
    h = index("stage", stage, size=len(found.policy), remedy="Stages count from 0.")
    return _Pictured(found.policy[h], found.values[h], f"optimal {{}} at stage {h}")


def _of_agent(agent: Agent, stage: int, bound: str | None) -> _Pictured:
    title = f"{agent.name}: {{}} at stage {stage} after {agent.n_episodes:,} episodes"
    if bound is None:
        return _Pictured(agent.policy.table[stage], None, title)
    if bound != "plan":
        values: FloatArray = np.nanmax(getattr(tables_of(agent), bound)[stage], axis=1)
        return _Pictured(None, values, title.replace("{}", f"{bound} bound on V*"))
    algorithm = agent.algorithm
    if not isinstance(algorithm, FiniteAlgorithm):
        fail("agent", "must plan with a table of values", shown(agent), "Use MatrixRL without columns.")
    task, left = algorithm.task, algorithm.frame.lefts()[stage]
    planned = algorithm.advice().values[0, stage]
    return _Pictured(None, task.unit * planned + left * task.reward_range[0], title.replace("{}", "planned value"))


def _layout(given: Any, layout: Any) -> Layout:
    """Return where states lie, from what was given or from what is drawn."""
    if isinstance(layout, Layout):
        return layout
    if isinstance(layout, (tuple, list)) and len(layout) == 2:
        return Layout.grid(*layout)
    env = layout if layout is not None else given.problem.env if isinstance(given, Agent) else given
    found = getattr(env.unwrapped, "layout", None) if isinstance(env, gym.Env) else None
    if not isinstance(found, Layout):
        rule = "must be given for states that are not known to lie on a grid or a chain"
        fail("layout", rule, shown(layout), "Such as layout=(4, 4), or Layout.grid(4, 4, moves=('up', …)).")
    return found


def _only_cells(numbers: Any, layout: Layout) -> Any:
    """Return the numbers of states that have a cell: all, or all but an end state that comes last."""
    extra = len(numbers) - layout.n_states
    if extra not in (0, 1):
        remedy = "The end state may be left out if it is the last one."
        fail("layout", f"must have a cell for each of {len(numbers)} states", f"{layout.n_states} cells", remedy)
    return numbers[: layout.n_states]


def _codecs(given: Any) -> tuple[Codec | None, Codec | None]:
    """Return the codecs of the states and actions of what is drawn, if it has names."""
    if isinstance(given, Policy):
        return given.states, given.actions
    mdp = getattr(given.unwrapped, "mdp", None) if isinstance(given, gym.Env) else given
    task = given.problem.task if isinstance(given, Agent) else getattr(mdp, "task", None)
    return (task.states, task.actions) if isinstance(task, Task) else (None, None)


def _name_cells(axes: Any, layout: Layout, states: Codec | None) -> None:
    """Draw lines between cells, and name or number the states of a chain."""
    rows, columns = layout.shape
    axes.set_aspect("equal")
    axes.tick_params(length=0)
    axes.set_xticks(np.arange(columns) if rows == 1 and columns <= 40 else [])
    if states is not None and rows == 1 and columns <= 40:
        names = dict(zip(layout.cells[:, 1].tolist(), texts_of(states), strict=False))  # an end state has no cell
        axes.set_xticks(np.arange(columns), [names.get(c, "") for c in range(columns)])
    axes.set_yticks([])
    if rows == 1:
        axes.set_xlabel("state")
    if rows * columns <= 2500:
        axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=0.8)
        axes.tick_params(which="minor", length=0)


def _size(layout: Layout) -> tuple[float, float]:
    rows, columns = layout.shape
    scale = min(0.6, 8.0 / columns, 6.0 / rows)
    return max(3.6, scale * columns + 1.0), max(1.8, scale * rows + 1.0)
