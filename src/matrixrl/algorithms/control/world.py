"""Everything that is predicted: outcomes of steps, values of states by kernel regression, and play in that world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from matrixrl.algorithms.control.model import Dynamics
from matrixrl.features.kernels import choose_pivots, matern_5_2, rbf
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = [
    "END_GRID",
    "Arrivals",
    "Backups",
    "Ends",
    "Outlook",
    "ValueFunction",
    "WorldModel",
    "backward",
    "end_kernel",
    "fit_arrivals",
    "outlook",
    "random_walks",
    "simulate",
    "value_points",
]

END_GRID = 201
"""Number of points at which the parts of ends that depend on one coordinate are stored."""

Ends = tuple[FloatArray, FloatArray, FloatArray]
"""Steps that ended an episode: scaled states before (k, p) and after them (k, p), rewards minus predicted ones (k,)."""

_VALUE_SCALE = 2.0  # length scale of a rough kernel, whose resolution follows the points rather than the length scale
_VALUE_RIDGE = 10.0  # of the regression of values, in units of the tolerance of inducing points
_SAME = 1e-4  # rewards that differ by less than this share of their range are equal
_NOVELTY_RIDGE = 1e-3
_END_RIDGE = 1e-3
_END_WEIGHT = 10.0  # of ends and of the states before them, which are few; ten times that if they are missed
_ROUNDS = 4
_JITTER = 1e-9
_POINTS = 120  # inducing points of novelty
_PLACES = 80  # of ends, states before them, and other states that tell where episodes end
_MOST = 3000  # states that inducing points are chosen from
_MARGIN = 0.2  # an indicator of 0.5 − margin is surely no end, one of 0.5 + margin surely is
_WALKERS, _WALK = 100, 20  # random walks and their steps
_TURN = 0.1  # probability of another action in a random walk
_MISTAKE = 0.1  # probability of a random action in a simulated episode, which rewards margins
_DISTURBED = 8  # most simulated episodes with random actions
_GONE = 0.05  # an episode that goes on with less probability than this is over


@dataclass(frozen=True)
class ValueFunction:
    """V_h(x) = centre_h + k(x)ᵀθ_h, clipped to the range of returns that are still possible."""

    points: FloatArray  # (m, p) inducing points, divided by the length scale
    theta: FloatArray  # (H, m) weights
    centre: FloatArray  # (H,) mean of the values at the states that were backed up
    low: FloatArray  # (H,) smallest return from each stage on
    high: FloatArray  # (H,) largest return from each stage on

    def features(self, x: FloatArray) -> FloatArray:
        """Return k(x) of scaled states (n, p): (n, m)."""
        return matern_5_2(x / _VALUE_SCALE, self.points)

    def at(self, stage: int, x: FloatArray) -> FloatArray:
        """Return V_h of scaled states (n, p); 0 after the last stage: (n,)."""
        if stage >= len(self.centre):
            return np.zeros(len(x))
        found = self.features(x) @ self.theta[stage]
        found += self.centre[stage]
        clipped: FloatArray = np.clip(found, self.low[stage], self.high[stage], out=found)
        return clipped


@dataclass(frozen=True)
class Backups:
    """Predicted outcomes of all actions at the states that are backed up."""

    states: FloatArray  # (M, p) scaled states
    pays: FloatArray  # (MA,) rewards, with what an end pays and the bonus of new states
    goes_on: FloatArray  # (MA,) probability that the episode goes on
    following: FloatArray  # (MA, p) next states
    n_actions: int  # A

    def q(self, stage: int, value: ValueFunction) -> FloatArray:
        """Return Q_h of all states and actions, by the values of the next stage: (M, A)."""
        return (self.pays + self.goes_on * value.at(stage + 1, self.following)).reshape(-1, self.n_actions)


def value_points(states: FloatArray, budget: int, tolerance: float) -> tuple[FloatArray, IntArray]:
    """Return inducing points for a value function at scaled states (n, p), and which states were chosen."""
    scaled = states / _VALUE_SCALE
    chosen = choose_pivots(scaled, matern_5_2, budget=budget, tolerance=tolerance)
    return scaled[chosen], chosen


def backward(
    points: FloatArray, backups: Backups, low: FloatArray, high: FloatArray, *, softness: float, tolerance: float
) -> ValueFunction:
    """Return the value function of backward induction on predicted outcomes.

    A backup is (1 − ε) max_a Q + ε mean_a Q: a plan that one random action ruins is worth less.
    """
    horizon, m = len(low), len(points)
    gram = matern_5_2(points, points)
    gram.flat[:: m + 1] += _JITTER
    rows = matern_5_2(backups.states / _VALUE_SCALE, points)
    regress = np.linalg.solve(rows.T @ rows + _VALUE_RIDGE * tolerance * gram, rows.T)
    follow = matern_5_2(backups.following / _VALUE_SCALE, points)
    theta, centre = np.empty((horizon, m)), np.empty(horizon)
    v = np.zeros(len(follow))
    for h in range(horizon - 1, -1, -1):
        v *= backups.goes_on
        v += backups.pays
        q = v.reshape(-1, backups.n_actions)
        best = (1.0 - softness) * q.max(axis=1) + softness * q.mean(axis=1)
        np.clip(best, low[h], high[h], out=best)
        centre[h] = best.mean()
        best -= centre[h]
        theta[h] = regress @ best
        v = follow @ theta[h]
        v += centre[h]
        np.clip(v, low[h], high[h], out=v)
    return ValueFunction(points, theta, centre, low, high)


@dataclass(frozen=True)
class Outlook:
    """Ranges of returns, and how much new states attract."""

    low: FloatArray  # (H,) smallest return from each stage on
    high: FloatArray  # (H,) largest return from each stage on
    best: float  # largest return of an episode, without any bonus
    bonus: float  # reward that is added for a state of which nothing is known
    is_blind: bool  # whether rewards and ends have said nothing about states yet


def outlook(rewards: FloatArray, actions: FloatArray, ended: BoolArray, horizon: int, exploration: float) -> Outlook:
    """Return the ranges of returns that follow from all steps seen.

    While rewards depend on nothing but the action and no end made a difference, nothing can be gained but knowledge:
    the bonus then exceeds what any episode can cost. Afterwards it only breaks ties.
    """
    spread, size = float(rewards.max() - rewards.min()), float(np.abs(rewards).max())
    rows = np.column_stack([np.ones(len(rewards)), actions, actions * actions])
    fit = rows @ np.linalg.lstsq(rows, rewards, rcond=None)[0]
    by_action = bool(np.abs(rewards - fit).max() <= _SAME * max(spread, 1e-6))
    is_blind = by_action and not (ended.any() and size > 0.0)
    bonus = max(1.0, horizon * spread) if is_blind else exploration * max(spread, size)
    left = np.arange(horizon, 0, -1.0)
    on = rewards[~ended] if (~ended).any() else rewards
    best = float(on.max())
    once = max(0.0, float(rewards[ended].max()) - best) if ended.any() else 0.0
    high = np.maximum(left * best, best) + once
    low = np.minimum(left * float(rewards.min()), min(0.0, float(rewards.min())))
    return Outlook(low, np.maximum(high, low) + left * bonus, float(high[0]), bonus, is_blind)


@dataclass(frozen=True)
class Arrivals:
    """Kernel regression on the states that steps led to."""

    points: FloatArray  # (k, p) inducing points of novelty
    known: FloatArray  # (k, k) C with novelty 1 − k(x)ᵀCk(x)
    end_points: FloatArray  # (e, p) inducing points of ends; none if no episode was ended by the environment
    end_weights: FloatArray  # (e, 2) weights of the indicator of an end, and of what it pays beyond the mean
    # (2, p) smallest and largest coordinates seen; beyond them, ends are predicted as at the border
    end_range: FloatArray
    # (p, G, 2) parts that depend on one coordinate, at G points from its smallest to its largest value
    end_parts: FloatArray
    end_pay: FloatArray  # (1,) mean of what an end pays more than a continuing step

    def novelty(self, x: FloatArray) -> FloatArray:
        """Return how unknown scaled states (n, p) are, from 0 to 1: (n,)."""
        k = rbf(x, self.points)
        found: FloatArray = np.clip(1.0 - np.vecdot(k @ self.known, k), 0.0, 1.0)
        return found

    def ends(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return probabilities that scaled states (n, p) end the episode, and what that pays: (n,) and (n,)."""
        if not len(self.end_points):
            return np.zeros(len(x)), np.zeros(len(x))
        low, high = self.end_range
        x = np.clip(x, low, high)
        found = (0.5 * rbf(x, self.end_points)) @ self.end_weights
        place = (x - low) * ((END_GRID - 1) / (high - low))
        left = np.minimum(place.astype(np.int64), END_GRID - 2)
        coordinates, share = np.arange(x.shape[1]), (place - left)[:, :, None]
        before, after = self.end_parts[coordinates, left], self.end_parts[coordinates, left + 1]
        found += (before + share * (after - before)).sum(axis=1)
        sure: FloatArray = np.clip((found[:, 0] - (0.5 - _MARGIN)) / (2.0 * _MARGIN), 0.0, 1.0)
        return sure, self.end_pay[0] + found[:, 1]


def fit_arrivals(states: FloatArray, ends: Ends, rng: np.random.Generator) -> Arrivals:
    """Return what is known of arrivals: scaled states (n, p) that steps led to without an end, or that were first."""
    everything = np.concatenate([states, ends[1]])
    chosen = everything if len(everything) <= _MOST else everything[np.sort(rng.permutation(len(everything))[:_MOST])]
    points = chosen[choose_pivots(chosen, rbf, budget=_POINTS, tolerance=1e-5)]
    gram = rbf(points, points)
    gram.flat[:: len(gram) + 1] += _JITTER
    k = rbf(everything, points)
    inner = np.linalg.inv(gram)
    known = inner - np.linalg.inv(gram + (k.T @ k) / _NOVELTY_RIDGE)
    p = states.shape[1]
    if not len(ends[1]):
        none, parts = np.empty((0, p)), np.zeros((p, END_GRID, 2))
        return Arrivals(points, known, none, np.empty((0, 2)), np.stack([-np.ones(p), np.ones(p)]), parts, np.zeros(1))
    return Arrivals(points, known, *_fit_ends(states, ends, points))


def end_kernel(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the mean of an RBF kernel of states (n, p) and (m, p) and of exponential kernels of their coordinates.

    Most ends are thresholds of one coordinate. The exponential kernels find them from a few ends, and the RBF kernel
    finds other ends.
    """
    found = rbf(x, y)
    p = x.shape[1]
    for j in range(p):
        found += _of_coordinate(x[:, j], y[:, j]) / p
    found *= 0.5
    return found


def _of_coordinate(x: FloatArray, y: FloatArray) -> FloatArray:
    found: FloatArray = np.exp(-np.abs(x[:, None] - y))
    return found


def _fit_ends(states: FloatArray, ends: Ends, others: FloatArray) -> tuple[FloatArray, ...]:
    """Return points, weights, range, parts and mean pay of ends: the last ones and what preceded them count."""
    before, after, extra = (part[-_PLACES:] for part in ends)
    pay = extra.mean()
    points = np.concatenate([after, before, others[:_PLACES]])
    everything = np.concatenate([after, before, states])
    rows = end_kernel(everything, points)
    count = len(after)
    near, targets = rows[: 2 * count], np.zeros((2 * count, 2))
    targets[:count] = np.column_stack([np.ones(count), extra - pay])
    others = rows[2 * count :].T @ rows[2 * count :] + _END_RIDGE * end_kernel(points, points)
    others.flat[:: len(others) + 1] += _JITTER
    importance = np.full(2 * count, _END_WEIGHT)
    for _ in range(_ROUNDS):
        weighted = near * importance[:, None]
        weights = np.linalg.solve(others + weighted.T @ near, weighted.T @ targets)
        missed = ((near @ weights)[:, 0] > 0.5) != (targets[:, 0] > 0.5)
        if not missed.any():
            break
        importance[missed] *= 10.0
    low = everything.min(axis=0)
    high = np.maximum(everything.max(axis=0), low + 1e-9)
    p = states.shape[1]
    grid = np.linspace(low, high, END_GRID)
    parts = np.stack([_of_coordinate(grid[:, j], points[:, j]) @ weights for j in range(p)]) * (0.5 / p)
    return points, weights, np.stack([low, high]), parts, np.array([pay])


@dataclass(frozen=True)
class WorldModel:
    """Everything that is predicted of a step, in scaled coordinates."""

    dynamics: Dynamics  # next states and rewards
    arrivals: Arrivals  # ends and novelty
    bonus: float  # reward that is added for a state of which nothing is known

    def outcomes(self, states: FloatArray, actions: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return next states (n, p), what steps pay (n,), and the probabilities that they go on (n,)."""
        return self._arrived(*self.dynamics.predict(np.concatenate([states, actions], axis=1)))

    def _arrived(self, following: FloatArray, pays: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Add ends and novelty to predicted states (n, p) and rewards (n,)."""
        ends, extra = self.arrivals.ends(following)
        pays = pays + ends * extra
        if self.bonus > 0.0:
            pays += self.bonus * self.arrivals.novelty(following)
        return following, pays, 1.0 - ends

    def lookahead(self, actions: FloatArray) -> Callable[[FloatArray], Backups]:
        """Return the function from states (n, p) to the outcomes of all actions (A, q).

        The kernel of pairs is the product of those of states and of actions, so that the kernel of states is computed
        once for all actions.
        """
        model, count = self.dynamics, len(actions)
        p = model.weights.shape[1] - 1
        scales, points = model.length_scales[:p], model.points[:, :p]
        shared = rbf(actions / model.length_scales[p:], model.points[:, p:])
        weights = (shared.T[:, :, None] * model.weights[:, None]).reshape(len(points), -1)
        constant = model.trend[0] + actions @ model.trend[1 + p :]
        slope = model.trend[1 : 1 + p] + np.eye(p, p + 1)

        def of(states: FloatArray) -> Backups:
            found = (rbf(states / scales, points) @ weights).reshape(len(states), count, p + 1)
            found += (states @ slope)[:, None] + constant
            np.clip(found, model.limits[0], model.limits[1], out=found)
            flat = found.reshape(-1, p + 1)
            following, pays, goes_on = self._arrived(flat[:, :p], flat[:, p])
            return Backups(states, pays, goes_on, following, count)

        return of


def simulate(
    world: WorldModel, value: ValueFunction, actions: FloatArray, first: FloatArray, noise: FloatArray
) -> tuple[float, FloatArray]:
    """Return the mean return of greedy episodes in the model, and all states that they visit (n, p).

    Some states start two episodes: one with some random actions, always the same ones, so that value functions are
    compared by the same luck, and one without, which shows whether the plan gets stuck where nothing disturbs it. All
    others start one of the second kind.

    Actions are coordinates (A, q), `first` are scaled states (k, p), and `noise` (p,) has the standard deviations of
    next states around their predictions.
    """
    rng = np.random.default_rng(0)
    count, horizon, disturbed = len(actions), len(value.centre), min(len(first), _DISTURBED)
    some = np.linspace(0, len(first) - 1, disturbed).astype(np.int64)
    mistakes = np.zeros((horizon, disturbed + len(first)), dtype=np.bool_)
    mistakes[:, :disturbed] = rng.random((horizon, disturbed)) < _MISTAKE
    drawn = rng.integers(count, size=mistakes.shape)
    shocks = noise * rng.standard_normal((*mistakes.shape, len(noise)))
    edges = world.dynamics.limits[:, :-1]
    states, visited = np.concatenate([first[some], first]), []
    earned, going, live = np.zeros(len(states)), np.ones(len(states)), np.arange(len(states))
    look = world.lookahead(actions)
    for h in range(horizon):
        ahead = look(states)
        taken = np.where(mistakes[h, live], drawn[h, live], ahead.q(h, value).argmax(axis=1))
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


def random_walks(world: WorldModel, actions: FloatArray, seen: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return states (n, p) that random walks in the model visit, from scaled states that were seen (n, p)."""
    states = seen[rng.permutation(len(seen))[:_WALKERS]]
    taken = rng.integers(len(actions), size=len(states))
    visited = []
    for _ in range(_WALK):
        turning = rng.random(len(states)) < _TURN
        taken = np.where(turning, rng.integers(len(actions), size=len(states)), taken)
        states, _, goes_on = world.outcomes(states, actions[taken])
        on = goes_on > 0.5
        states, taken = states[on], taken[on]
        if not len(states):
            break
        visited.append(states)
    return np.concatenate(visited) if visited else seen[:0]
