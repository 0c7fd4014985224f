"""Measures of how hard an episodic MDP is, by the definitions of Conserva & Rauber (2022)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from matrixrl.problems import FiniteMDP, solve
from matrixrl.problems.solution import q_values
from matrixrl.records import FloatArray

__all__ = ["Hardness", "diameter", "hardness", "reaching_times"]

REGULARISATION = 0.1
"""Added to every gap before its reciprocal is taken, as Colosseum does."""
_MOST_ROUNDS = 100
_SAME = 1e-12  # relative decrease of an expected time below which the policy is the best one


@dataclass(frozen=True)
class Hardness:
    """Measures of how hard an episodic MDP is.

    Attributes:
        diameter: See `diameter`.
        value_norm: Largest standard deviation of the optimal value of the next state, over stages, states and actions.
        gaps: Sum of 1 / (V*_h(s) − Q*_h(s, a) + 0.1) over actions, and stages and states that can be reached.
    """

    diameter: float
    value_norm: float
    gaps: float


def hardness(mdp: FiniteMDP) -> Hardness:
    """Return the hardness of an MDP, with values of every stage."""
    values = solve(mdp).values
    norm = total = 0.0
    reachable = mdp.task.start > 0.0
    law = _law(mdp)
    rows = sum(
        (law[a :: mdp.n_actions] for a in range(mdp.n_actions)), start=sparse.csr_array((mdp.n_states, mdp.n_states))
    )
    for h in range(mdp.horizon):
        mean, square = law @ values[h + 1], law @ values[h + 1] ** 2
        norm = max(norm, float(np.sqrt(np.clip(square - mean**2, 0.0, None)).max()))
        gaps: FloatArray = values[h][:, None] - q_values(mdp, values[h + 1], h)
        total += float((1.0 / (gaps[reachable] + REGULARISATION)).sum())
        reachable = (rows.T @ reachable.astype(np.float64)) > 0.0
    return Hardness(diameter(mdp), norm, total)


def diameter(mdp: FiniteMDP) -> float:
    r"""Return the largest, over pairs of states, of the smallest expected number of steps from one to the other.

    States have the stage of the episode, and the last stage of an episode leads to the first state of the next one. A
    state is reached at any stage, and the time from a state is that of its best stage. The largest time to a state is
    the one from the last stage, where a step leads to the start: :math:`D = 1 + \max_{s'} E_{s \sim start}[T(s, s')]`.
    Infinite if an episode cannot reach some state.
    """
    return 1.0 + float(reaching_times(mdp).max())


def reaching_times(mdp: FiniteMDP) -> FloatArray:
    r"""Return the smallest expected number of steps from the start to each state, over as many episodes as it takes.

    A policy that takes a steps on average in an episode until the state is reached or the episode ends, and reaches it
    with probability c, takes a / c steps. The best one is found by policy iteration: the policy of the next round
    minimises a − c x, where x is the time of the present one.
    """
    law, n_actions = _law(mdp), mdp.n_actions
    times = np.full(mdp.n_states, 1e6 * mdp.horizon)  # a first policy that misses seldom
    for _ in range(_MOST_ROUNDS):
        steps, reached = _episode(law, n_actions, mdp.task.start, mdp.horizon, times)
        found = np.full(mdp.n_states, np.inf)
        np.divide(steps, reached, out=found, where=reached > 0.0)
        if np.isinf(found).any() or not (found < times * (1.0 - _SAME)).any():
            return found
        times = found
    raise AssertionError("policy iteration ends after finitely many rounds")


def _episode(
    law: sparse.csr_array, n_actions: int, start: FloatArray, horizon: int, times: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return steps in an episode and the chance to reach, (S,) for each goal, of the policy that minimises a − c x."""
    n_states = start.size
    goals = np.arange(n_states)
    steps, reached = 1.0 - np.eye(n_states), np.eye(n_states)  # (from, goal), at the last stage
    for _ in range(horizon - 1):
        all_steps = (law @ steps).reshape(n_states, n_actions, n_states)
        all_reached = (law @ reached).reshape(n_states, n_actions, n_states)
        best = (all_steps - all_reached * times).argmin(axis=1)[:, None]
        steps = 1.0 + np.take_along_axis(all_steps, best, axis=1)[:, 0]
        reached = np.take_along_axis(all_reached, best, axis=1)[:, 0]
        steps[goals, goals], reached[goals, goals] = 0.0, 1.0
    return start @ steps, start @ reached


def _law(mdp: FiniteMDP) -> sparse.csr_array:
    """Return P as a matrix whose row s·A + a is the law of a pair."""
    states, actions = np.divmod(np.arange(mdp.n_states * mdp.n_actions), mdp.n_actions)
    return sparse.csr_array(mdp.transitions.rows(states, actions))
