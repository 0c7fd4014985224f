"""Transition probabilities of one pair that are still possible, in the triangle of those on three next states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl.agents import Agent
from matrixrl.algorithms import UCMatrixRL
from matrixrl.checks import fail, indices, shown
from matrixrl.colours import COLOURS, REFERENCE
from matrixrl.core import MatrixBounds, SandwichBounds
from matrixrl.core.likelihood.bounds import LikelihoodBounds
from matrixrl.core.sets import NormalisedBall
from matrixrl.features import OneHotPsi
from matrixrl.plots.inputs import checked_agent, checked_stage, state_names
from matrixrl.plots.style import axes_of
from matrixrl.records import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PLANE", "Region", "confidence_region", "draw_region", "region_of"]

PLANE = np.array([[1.0, -1.0, 0.0], [-1.0, -1.0, 2.0]]) / np.sqrt([[2.0], [6.0]])
"""Two orthonormal directions (2, 3) in which the sum of three probabilities does not change."""
_RAYS = 720
_HALVINGS = 60
_REMEDY = "Use MatrixRL with one-hot features, or with set='normalised'."

_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3.0) / 2.0]])  # of the triangle: a law is their mean


@dataclass(frozen=True)
class Region:
    """The confidence set of one pair, cut to the laws on three next states."""

    next_states: IntArray  # (3,) The next states
    boundary: FloatArray  # (m, 3) Laws on the boundary, in order; each sums to one
    estimate: FloatArray | None  # (3,) The estimate of the agent, or None if the pair was never tried
    truth: FloatArray | None  # (3,) The true law, or None if P is not known
    visits: int | None  # number of visits that the set is made of; None if features are shared between pairs
    set_name: str  # name of the set


def region_of(agent: Any, state: Any, action: Any, *, next_states: Any = None, stage: int = 0) -> Region:
    """Return the laws of a pair that are possible at the proven radius; arguments are those of `confidence_region`."""
    one = checked_agent(agent)
    h = checked_stage(one, stage)
    s = int(one.problem.state("state", state))
    a = one.problem.action("action", action, h)
    allowed = one.problem.allowed_by_action
    if allowed is not None and not allowed[a, s]:
        fail("action", f"must be allowed in state {one.problem.shown_state(s)}", shown(action), "Choose another one.")
    algorithm = one.algorithm
    if not isinstance(algorithm, UCMatrixRL):
        fail("agent", "must have a confidence set", shown(agent), _REMEDY)
    [belief] = algorithm.model.bounds(algorithm.clock, "proven")
    mdp, needed = one.problem.mdp, np.zeros(0, dtype=np.int64)
    if isinstance(belief, LikelihoodBounds):  # what was seen after the pair, or after others of its group
        entries = belief.seen.ids[belief.seen.places] == belief.groups[a, s]
        needed = belief.seen.outcomes[entries]
    law = None if mdp is None else mdp.transitions.rows(np.array([s]), np.array([a]))[0]
    three = _three(one, next_states, np.union1d(needed, np.zeros(0) if law is None else np.flatnonzero(law)))
    truth = None if law is None else law[three]
    if isinstance(belief, LikelihoodBounds):
        return _likelihood(belief, entries, three, truth)
    ball: Any = belief.ball if isinstance(belief, SandwichBounds) else belief
    members = ball.confidence_set.members if isinstance(ball, MatrixBounds) else ()
    balls = [i for i, member in enumerate(members) if type(member) is NormalisedBall]
    if not balls or not isinstance(ball.psi, OneHotPsi):
        rule = "must have a likelihood set, or the normalised ball with one-hot ψ"
        fail("agent", rule, shown(agent), _REMEDY)
    return _ball(ball, balls[0], s, a, three, truth)


def _likelihood(belief: LikelihoodBounds, entries: BoolArray, three: IntArray, truth: FloatArray | None) -> Region:
    """Return {q : KL(p̂‖q) <= β_D/n}, which holds for all functions of the next state (docs/proofs.md, 9.3)."""
    if not entries.any():
        return Region(three, np.eye(3), None, truth, 0, "likelihood set")  # every law is possible
    place = belief.seen.places[entries][0]
    law = np.zeros(belief.groups.shape[1])
    law[belief.seen.outcomes[entries]] = belief.seen.shares[entries]
    estimate, epsilon = law[three], float(belief.lower[place])

    def excess(q: FloatArray) -> FloatArray:
        seen = estimate > 0.0
        with np.errstate(divide="ignore"):
            ratio = np.log(estimate[seen]) - np.log(q[:, seen])
        divergence: FloatArray = (estimate[seen] * ratio).sum(axis=1)
        return divergence - epsilon

    mixed = -np.expm1(-epsilon / 2.0)  # KL(p̂‖(1 − m)p̂ + m/3) <= −ln(1 − m) = ε/2
    inside = (1.0 - mixed) * estimate + mixed / 3.0
    visits = round(float(belief.seen.totals[place]))
    return Region(three, _boundary(excess, inside), estimate, truth, visits, "likelihood set")


def _ball(belief: MatrixBounds, place: int, s: int, a: int, three: IntArray, truth: FloatArray | None) -> Region:
    """Return {q : ‖q − φᵀM_n‖² <= βw², Σq = 1} (docs/proofs.md, section 2), cut to three states."""
    assert belief.slack is not None
    reach, pair = belief.reaches[place], belief.phi.pairs(np.array([s]), np.array([a]))
    if reach.empty is not None and reach.empty[0, pair[0]]:
        fail("agent", "must have a confidence set with a law in it", "a misspecification alarm", "Change the features.")
    law = belief.phi.rows(pair)[0] @ np.asarray(belief.core_matrix)[0]
    law = law + belief.slack[0, pair[0]] / len(law)  # the nearest law, the centre of the disc
    others = np.delete(law, three)
    room = float(reach.half_width[0, pair[0]]) ** 2 - float(others @ others)
    centre = law[three] + (1.0 - law[three].sum()) / 3.0
    radius_sq = room - (1.0 - law[three].sum()) ** 2 / 3.0
    if radius_sq < 0.0:
        remedy = "Pass other next_states."
        fail("next_states", "must be states that the pair can lead to alone", shown(three.tolist()), remedy)

    def excess(q: FloatArray) -> FloatArray:
        off = q - centre
        return np.asarray(np.vecdot(off, off) - radius_sq)

    return Region(three, _boundary(excess, centre), centre, truth, None, "normalised ball")


def _boundary(excess: Callable[[FloatArray], FloatArray], inside: FloatArray) -> FloatArray:
    """Return laws on the boundary of {q : excess(q) <= 0}: the last ones on rays from a law inside, in the simplex."""
    corners = (np.eye(3) - inside) @ PLANE.T
    to_corners = np.arctan2(corners[:, 1], corners[:, 0]) % (2.0 * np.pi)
    angles = np.union1d(np.linspace(0.0, 2.0 * np.pi, _RAYS, endpoint=False), to_corners)
    ways = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ PLANE
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.where(ways < -1e-15, -inside / ways, np.inf).min(axis=1)
    low, high = np.zeros(len(ways)), ends
    is_whole = excess(np.maximum(inside + ends[:, None] * ways, 0.0)) <= 0.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        fits = excess(np.maximum(inside + middle[:, None] * ways, 0.0)) <= 0.0
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    reached = np.where(is_whole, ends, low)
    laws: FloatArray = np.maximum(inside + reached[:, None] * ways, 0.0)
    return laws


def _three(agent: Agent, given: Any, needed: Any) -> IntArray:
    """Return three next states that contain those that are needed."""
    n_states = agent.problem.finite_task.n_states
    if n_states < 3:
        fail("agent", "must have at least three states", f"{n_states}", "A law on two states is one number.")
    needed = needed.astype(np.int64)
    if given is not None:
        three = np.atleast_1d(indices("next_states", given, size=n_states, remedy="Such as (0, 1, 2)."))
        if three.shape != (3,) or len(np.unique(three)) < 3:
            fail("next_states", "must be three different states", shown(given), "Such as (0, 1, 2).")
        missing = np.setdiff1d(needed, three)
        if len(missing):
            rule = "must contain all states that the pair leads to or was seen to lead to"
            fail("next_states", rule, f"{three.tolist()} without {missing.tolist()}", "Choose another pair.")
        return three
    if len(needed) > 3:
        rule = "must lead to at most three states"
        fail("state and action", rule, f"{len(needed)} next states {needed.tolist()[:8]}", "Choose another pair.")
    middle = needed.mean() if len(needed) else 0.0
    nearest = np.argsort(np.abs(np.arange(n_states) - middle), kind="stable")
    rest = [s for s in nearest if s not in needed][: 3 - len(needed)]
    return np.sort(np.concatenate([needed, np.array(rest, dtype=np.int64)]))


def confidence_region(
    agent: Any, state: Any, action: Any, *, next_states: Any = None, stage: int = 0, ax: Axes | None = None
) -> Axes:
    """Draw the transition probabilities of a pair that are still possible, in the triangle of three next states.

    Each corner leads surely to one state; the nearer to a corner, the more probable is its state. The region is the set
    at the proven radius, on which certificates rest: the likelihood set {q : KL(p̂‖q) <= β_D/n}, or the normalised ball
    cut to probabilities. Probabilities that also lead to other states are not drawn. The estimate is a dot, and the
    truth, where P is known, a cross.

    Args:
        agent: A MatrixRL agent on numbered states, with one-hot features or ``set="normalised"`` and one-hot ψ.
        state: The state, as it is observed.
        action: The action, as the environment takes it.
        next_states: Three different numbers of states; by default those that P leads to, or those that were seen.
        stage: Stage h, counted from 0, if transition probabilities depend on it.
        ax: Axes to draw on; those of a new figure by default.

    Raises:
        InvalidInput: The pair has more than three next states, its set contains no distribution on them, or the agent
            has no confidence set that can be drawn.

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


def draw_region(axes: Any, region: Region, names: list[str]) -> None:
    """Draw a region with the triangle around it, whose corners have the names of the three next states."""
    from matplotlib.colors import to_rgba  # optional

    outline = np.vstack([_CORNERS, _CORNERS[:1]])
    axes.plot(outline[:, 0], outline[:, 1], color=REFERENCE, linewidth=1.0)
    points = region.boundary @ _CORNERS
    style: dict[str, Any] = {"facecolor": to_rgba(COLOURS[0], 0.3), "edgecolor": COLOURS[0], "linewidth": 1.4}
    axes.fill(points[:, 0], points[:, 1], label=region.set_name, **style)
    if region.estimate is not None:
        dot: dict[str, Any] = {"marker": "o", "markersize": 6, "zorder": 3}
        axes.plot(*(region.estimate @ _CORNERS), linestyle="", color=COLOURS[0], label="estimate", **dot)
    if region.truth is not None:
        mark: dict[str, Any] = {"marker": "X", "markersize": 8, "markeredgecolor": "white", "zorder": 4}
        axes.plot(*(region.truth @ _CORNERS), linestyle="", color=COLOURS[1], label="true law", **mark)
    sides = ("right", "top"), ("left", "top"), ("center", "bottom")
    for corner, name, (ha, va) in zip(_CORNERS, names, sides, strict=True):
        away = 0.03 * (corner - _CORNERS.mean(axis=0))
        axes.text(*(corner + away), f"state {name}", ha=ha, va=va, fontsize=9)
    axes.set_aspect("equal")
    axes.set_xlim(-0.18, 1.18)
    axes.set_ylim(-0.12, 1.02)
    axes.axis("off")
