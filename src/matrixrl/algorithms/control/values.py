"""Value functions of stage and state by kernel regression, and what returns are still possible from rewards seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.features.kernels import choose_pivots, matern_5_2
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["Backups", "Outlook", "ValueFunction", "backward", "outlook", "value_points"]

_LENGTH_SCALE = 2.0  # of a rough kernel, whose resolution follows the points rather than the length scale
_RIDGE = 10.0  # of the regression of values, in units of the tolerance of inducing points
_JITTER = 1e-9
_SAME = 1e-4  # rewards that differ by less than this share of their range are equal


@dataclass(frozen=True)
class ValueFunction:
    """V_h(x) = centre_h + k(x)ᵀθ_h, clipped to the range of returns that are still possible.

    Attributes:
        points: (m, p) inducing points, divided by the length scale.
        theta: (H, m) weights.
        centre: (H,) mean of the values at the states that were backed up.
        low: (H,) smallest return from each stage on.
        high: (H,) largest return from each stage on.
    """

    points: FloatArray
    theta: FloatArray
    centre: FloatArray
    low: FloatArray
    high: FloatArray

    def features(self, x: FloatArray) -> FloatArray:
        """Return k(x) of scaled states (n, p): (n, m)."""
        return matern_5_2(x / _LENGTH_SCALE, self.points)

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
    """Predicted outcomes of all actions at the states that are backed up.

    Attributes:
        states: (M, p) scaled states.
        pays: (MA,) rewards, with what an end pays and the bonus of new states.
        goes_on: (MA,) probability that the episode goes on.
        following: (MA, p) next states.
        n_actions: A.
    """

    states: FloatArray
    pays: FloatArray
    goes_on: FloatArray
    following: FloatArray
    n_actions: int


def value_points(states: FloatArray, budget: int, tolerance: float) -> tuple[FloatArray, IntArray]:
    """Return inducing points for a value function at scaled states (n, p), and which states were chosen."""
    scaled = states / _LENGTH_SCALE
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
    rows = matern_5_2(backups.states / _LENGTH_SCALE, points)
    regress = np.linalg.solve(rows.T @ rows + _RIDGE * tolerance * gram, rows.T)
    follow = matern_5_2(backups.following / _LENGTH_SCALE, points)
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
    """Ranges of returns, and how much new states attract.

    Attributes:
        low: (H,) smallest return from each stage on.
        high: (H,) largest return from each stage on.
        best: Largest return of an episode, without any bonus.
        bonus: Reward that is added for a state of which nothing is known.
        is_blind: Whether rewards and ends have said nothing about states yet.
    """

    low: FloatArray
    high: FloatArray
    best: float
    bonus: float
    is_blind: bool


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
