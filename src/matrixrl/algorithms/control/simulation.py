"""Play in the model: greedy episodes, to compare value functions, and random walks, to find states worth a value."""

from __future__ import annotations

import numpy as np

from matrixrl.algorithms.control.actions import ActionGrid
from matrixrl.algorithms.control.plan import World
from matrixrl.algorithms.control.values import ValueFunction
from matrixrl.records import FloatArray

__all__ = ["random_walks", "simulate"]

_WALKERS, _WALK = 100, 20
_TURN = 0.1  # probability of another action in a random walk
_MISTAKE = 0.1  # probability of a random action in a simulated episode, which rewards margins
_DISTURBED = 8  # most simulated episodes with random actions
_GONE = 0.05  # an episode that goes on with less probability than this is over


def simulate(
    world: World, value: ValueFunction, grid: ActionGrid, first: FloatArray, noise: FloatArray
) -> tuple[float, FloatArray]:
    """Return the mean return of greedy episodes in the model, and all states that they visit (n, p).

    Some states start two episodes: one with some random actions, always the same ones, so that value functions are
    compared by the same luck, and one without, which shows whether the plan gets stuck where nothing disturbs it. All
    others start one of the second kind.

    Args:
        world: Predictions.
        value: Value function to be greedy for.
        grid: Actions.
        first: (k, p) scaled states that episodes start from.
        noise: (p,) standard deviations of next states around their predictions.
    """
    rng = np.random.default_rng(0)
    count, horizon, disturbed = len(grid.planned), len(value.centre), min(len(first), _DISTURBED)
    some = np.linspace(0, len(first) - 1, disturbed).astype(np.int64)
    mistakes = np.zeros((horizon, disturbed + len(first)), dtype=np.bool_)
    mistakes[:, :disturbed] = rng.random((horizon, disturbed)) < _MISTAKE
    drawn = rng.integers(count, size=mistakes.shape)
    shocks = noise * rng.standard_normal((*mistakes.shape, len(noise)))
    edges = world.dynamics.limits[:, :-1]
    states, visited = np.concatenate([first[some], first]), []
    earned, going, live = np.zeros(len(states)), np.ones(len(states)), np.arange(len(states))
    look = world.lookahead(grid.planned)
    for h in range(len(value.centre)):
        ahead = look(states)
        q = (ahead.pays + ahead.goes_on * value.at(h + 1, ahead.following)).reshape(-1, count)
        taken = np.where(mistakes[h, live], drawn[h, live], q.argmax(axis=1))
        taken += count * np.arange(len(states))
        earned[live] += going[live] * ahead.pays[taken]
        going[live] *= ahead.goes_on[taken]
        on = going[live] > _GONE
        live, states = live[on], ahead.following[taken[on]] + shocks[h, live[on]]
        np.clip(states, edges[0], edges[1], out=states)
        if not len(live):
            break
        visited.append(states)
    return float(earned.mean()), np.concatenate(visited) if visited else first[:0]


def random_walks(world: World, grid: ActionGrid, seen: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return states (n, p) that random walks in the model visit, from scaled states that were seen (n, p)."""
    states = seen[rng.permutation(len(seen))[:_WALKERS]]
    taken = rng.integers(len(grid.planned), size=len(states))
    visited = []
    for _ in range(_WALK):
        turning = rng.random(len(states)) < _TURN
        taken = np.where(turning, rng.integers(len(grid.planned), size=len(states)), taken)
        states, _, goes_on = world.outcomes(states, grid.planned[taken])
        on = goes_on > 0.5
        states, taken = states[on], taken[on]
        if not len(states):
            break
        visited.append(states)
    return np.concatenate(visited) if visited else seen[:0]
