"""The laws of one pair that are still possible, among those that lead to three given states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from matrixrl.agents import Agent
from matrixrl.algorithms import FiniteAlgorithm
from matrixrl.checks import fail, indices, shown
from matrixrl.core import Belief
from matrixrl.core.likelihood import LikelihoodBelief
from matrixrl.core.sandwich import SandwichBelief
from matrixrl.core.sets import NormalisedBall
from matrixrl.features import OneHotPsi
from matrixrl.plots.reading import checked_stage, finite_agent
from matrixrl.records import FloatArray, IntArray

__all__ = ["PLANE", "Region", "region_of"]

PLANE = np.array([[1.0, -1.0, 0.0], [-1.0, -1.0, 2.0]]) / np.sqrt([[2.0], [6.0]])
"""Two orthonormal directions (2, 3) in which the sum of three probabilities does not change."""
_RAYS = 720
_HALVINGS = 60
_REMEDY = "Use MatrixRL with one-hot features, or with set='normalised'."


@dataclass(frozen=True)
class Region:
    """The confidence set of one pair, cut to the laws on three next states.

    Attributes:
        next_states: (3,) The next states.
        boundary: (m, 3) Laws on the boundary, in order; each sums to one.
        estimate: (3,) The estimate of the agent, or None if the pair was never tried.
        truth: (3,) The true law, or None if P is not known.
        visits: Number of visits that the set is made of; None if features are shared between pairs.
        set_name: Name of the set.
    """

    next_states: IntArray
    boundary: FloatArray
    estimate: FloatArray | None
    truth: FloatArray | None
    visits: int | None
    set_name: str


@dataclass(frozen=True)
class _Constraint:
    """A convex set of laws on three states: those with `excess` <= 0; `inside` is one of them."""

    excess: Callable[[FloatArray], FloatArray]  # (m, 3) → (m,)
    inside: FloatArray
    estimate: FloatArray | None
    visits: int | None
    name: str


def region_of(agent: Any, state: Any, action: Any, *, next_states: Any = None, stage: int = 0) -> Region:
    """Return the laws of a pair that are possible at the proven radius, among those on three next states.

    Args:
        agent: A MatrixRL agent on numbered states with one-hot ψ.
        state: The state, as it is observed.
        action: The action, as the environment takes it.
        next_states: Three different numbers of states; by default those that P leads to, or those that were seen.
        stage: Stage h, counted from 0, if laws depend on it.

    Raises:
        InvalidInput: The pair has more than three next states, its set contains no law on them, or the agent has no
            confidence set that can be drawn.
    """
    one = finite_agent(agent)
    h = checked_stage(one, stage)
    s = int(one.problem.state("state", state))
    a = int(one.problem.inner_number(one.problem.action("action", action), h))
    allowed = one.problem.allowed_by_action
    if allowed is not None and not allowed[a, s]:
        fail("action", f"must be allowed in state {one.problem.shown_state(s)}", shown(action), "Choose another one.")
    algorithm = one.algorithm
    if not isinstance(algorithm, FiniteAlgorithm) or not hasattr(algorithm, "beliefs"):
        fail("agent", "must have a confidence set", shown(agent), _REMEDY)
    [belief] = algorithm.beliefs("proven")
    law = None if one.problem.mdp is None else _true_law(one, s, a)
    seen = _seen(belief, s, a) if isinstance(belief, LikelihoodBelief) else np.zeros(0, dtype=np.int64)
    three = _three(one, next_states, np.union1d(seen, np.zeros(0) if law is None else np.flatnonzero(law)))
    constraint = _constraint(agent, belief, s, a, three)
    truth = None if law is None else law[three]
    return Region(three, _boundary(constraint), constraint.estimate, truth, constraint.visits, constraint.name)


def _constraint(agent: Agent, belief: Any, s: int, a: int, three: IntArray) -> _Constraint:
    if isinstance(belief, LikelihoodBelief):
        return _likelihood(belief, s, a, three)
    ball = belief.ball if isinstance(belief, SandwichBelief) else belief
    members = ball.confidence_set.members if isinstance(ball, Belief) else ()
    places = [i for i, member in enumerate(members) if type(member) is NormalisedBall]
    if not places or not isinstance(ball.psi, OneHotPsi):
        rule = "must have a likelihood set, or the normalised ball with one-hot ψ"
        fail("agent", rule, shown(agent), _REMEDY)
    return _ball(ball, places[0], s, a, three)


def _likelihood(belief: LikelihoodBelief, s: int, a: int, three: IntArray) -> _Constraint:
    """Return {q : KL(p̂‖q) <= β_D/n}, which holds for all functions of the next state (docs/proofs.md, 9.3)."""
    place = np.searchsorted(belief.seen.ids, belief.groups[a, s])
    if place == len(belief.seen.ids) or belief.seen.ids[place] != belief.groups[a, s]:
        return _Constraint(lambda q: np.full(len(q), -1.0), np.full(3, 1.0 / 3.0), None, 0, "likelihood set")
    entries = belief.seen.places == place
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
    return _Constraint(excess, inside, estimate, round(float(belief.seen.totals[place])), "likelihood set")


def _ball(belief: Belief, place: int, s: int, a: int, three: IntArray) -> _Constraint:
    """Return {q : ‖q − φᵀM_n‖² <= βw², Σq = 1} (docs/proofs.md, section 2), cut to three states."""
    assert belief.slack is not None
    reach, pair = belief.reaches[place], belief.phi.pairs(np.array([s]), np.array([a]))
    if reach.empty is not None and reach.empty[0, pair[0]]:
        fail("agent", "must have a confidence set with a law in it", "a misspecification alarm", "Change the features.")
    law = belief.phi.rows(pair)[0] @ belief.core_matrix[0]
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

    return _Constraint(excess, centre, centre, None, "normalised ball")


def _boundary(constraint: _Constraint) -> FloatArray:
    """Return laws on the boundary: the last ones of the set on rays from a law inside, before the simplex ends."""
    inside = constraint.inside
    corners = (np.eye(3) - inside) @ PLANE.T
    to_corners = np.arctan2(corners[:, 1], corners[:, 0]) % (2.0 * np.pi)
    angles = np.union1d(np.linspace(0.0, 2.0 * np.pi, _RAYS, endpoint=False), to_corners)
    ways = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ PLANE
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.where(ways < -1e-15, -inside / ways, np.inf).min(axis=1)
    low, high = np.zeros(len(ways)), ends
    is_whole = constraint.excess(np.maximum(inside + ends[:, None] * ways, 0.0)) <= 0.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        fits = constraint.excess(np.maximum(inside + middle[:, None] * ways, 0.0)) <= 0.0
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    reached = np.where(is_whole, ends, low)
    laws: FloatArray = np.maximum(inside + reached[:, None] * ways, 0.0)
    return laws


def _true_law(agent: Agent, s: int, a: int) -> FloatArray:
    assert agent.problem.mdp is not None
    law: FloatArray = agent.problem.mdp.transitions.rows(np.array([s]), np.array([a]))[0]
    return law


def _seen(belief: LikelihoodBelief, s: int, a: int) -> IntArray:
    """Return the next states that were seen after a pair, or after others of its group."""
    places = np.flatnonzero(belief.seen.ids == belief.groups[a, s])
    found: IntArray = belief.seen.outcomes[np.isin(belief.seen.places, places)]
    return found


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
    if n_states == 3 or not len(needed):
        return np.arange(3)
    nearest = np.argsort(np.abs(np.arange(n_states) - needed.mean()), kind="stable")
    rest = [s for s in nearest if s not in needed][: 3 - len(needed)]
    return np.sort(np.concatenate([needed, np.array(rest, dtype=np.int64)]))
