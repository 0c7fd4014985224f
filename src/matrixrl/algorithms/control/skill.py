"""How well a model of the dynamics predicts steps that it does not know, and what to do if it does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.algorithms.control.dynamics import Dynamics, Observed
from matrixrl.algorithms.control.values import ValueFunction
from matrixrl.features.kernels.stationary import matern_5_2
from matrixrl.records import FloatArray, IntArray

__all__ = ["Skill", "skill_of"]

_CONSTANT = 1e-12  # variance below which a coordinate counts as constant
_UNPREDICTED = 0.1  # a coordinate of which a smaller share is explained is hardly predicted
_TOO_SPARSE = 0.03  # share of the kernel of values that points may miss
_JITTER = 1e-9
_TOO_MANY = 0.5  # share of coordinates that are not predicted beyond which a model is of no use


@dataclass(frozen=True)
class Skill:
    """Shares of what was observed that a model explains at steps that are left out of it.

    Attributes:
        explained: (p + 1,) for each coordinate of the next state, and for the reward: 1 minus the squared error over
            that of the better of two simple predictions, that nothing changes and the mean; below 0 if they are
            better.
        missed: Mean share of the kernel of values that its inducing points miss at states seen, if no more points are
            allowed; else 0.
    """

    explained: FloatArray
    missed: float

    @property
    def unpredicted(self) -> IntArray:
        """Coordinates of the state that are hardly predicted."""
        return np.flatnonzero(self.explained[:-1] < _UNPREDICTED)

    def words(self) -> str | None:
        """Return why plans in this model are of little use, and what to do; None if there is no sign of it."""
        count, p = len(self.unpredicted), len(self.explained) - 1
        if count > _TOO_MANY * p:
            which = ", ".join(str(i) for i in self.unpredicted[:12]) + (", …" if count > 12 else "")
            return (
                f"the kernel model hardly predicts {count} of {p} coordinates of the next state ({which}), so plans in "
                "it are of little use. Leave out coordinates that do not matter, add those that are missing, or "
                "average noisy ones over several steps. If all of many coordinates matter, use deep RL."
            )
        if self.missed > _TOO_SPARSE:
            return (
                f"the inducing points of the value function, of which no more are allowed, miss {self.missed:.0%} of "
                f"its kernel at the states seen: {p} coordinates are many for a kernel, which needs neighbours, and "
                "plans may be of little use. Leave out coordinates that do not matter, allow more value_points and "
                "support, or use deep RL."
            )
        return None


def skill_of(observed: Observed, dynamics: Dynamics, value: ValueFunction, budget: int) -> Skill:
    """Return how well a model predicts, and how well the points of a value function cover the states.

    Args:
        observed: Steps that it was fitted to, or some of them.
        dynamics: Model.
        value: Value function.
        budget: Largest number of inducing points of the value function.
    """
    before = observed.x[:, : observed.change.shape[1]]
    spread = np.minimum(observed.change.var(axis=0), (before + observed.change).var(axis=0))
    on = observed.rewards[~observed.ended]
    spread = np.append(spread, on.var() if len(on) else 0.0)
    square = dynamics.errors**2
    explained = np.where(square > 0.0, 1.0 - square / np.maximum(spread, np.finfo(np.float64).tiny), 1.0)
    missed = _missed(value, before) if len(value.points) >= budget else 0.0
    return Skill(np.where(spread > _CONSTANT, explained, 1.0), missed)


def _missed(value: ValueFunction, states: FloatArray) -> float:
    """Return the mean share of k(x, x) that the points of a value function miss at scaled states (n, p)."""
    gram = matern_5_2(value.points, value.points)
    gram.flat[:: len(gram) + 1] += _JITTER
    k = value.features(states)
    return float(np.mean(1.0 - np.vecdot(k, np.linalg.solve(gram, k.T).T)))
