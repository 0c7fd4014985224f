"""How well a model of the dynamics predicts steps that it does not know, and what to do if it does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.algorithms.control.dynamics import Dynamics, Observed
from matrixrl.records import FloatArray, IntArray

__all__ = ["Skill", "skill_of"]

_CONSTANT = 1e-12  # variance below which a coordinate counts as constant
_UNPREDICTED = 0.1  # a coordinate of which a smaller share is explained is hardly predicted
_TOO_MANY = 0.5  # share of coordinates that are not predicted beyond which a model is of no use


@dataclass(frozen=True)
class Skill:
    """Shares of what was observed that a model explains at steps that are left out of it.

    Attributes:
        explained: (p + 1,) for each coordinate of the next state, and for the reward: 1 minus the mean squared error
            over that of the better of two simple predictions, that nothing changes and the mean; below 0 if they are
            better.
        is_full: Whether there are as many inducing points as settings allow.
    """

    explained: FloatArray
    is_full: bool

    @property
    def unpredicted(self) -> IntArray:
        """Coordinates of the state that are hardly predicted."""
        return np.flatnonzero(self.explained[:-1] < _UNPREDICTED)

    def words(self) -> str | None:
        """Return why plans in this model are of little use, and what to do; None if there is no sign of it."""
        count, p = len(self.unpredicted), len(self.explained) - 1
        if count <= _TOO_MANY * p:
            return None
        which = ", ".join(str(i) for i in self.unpredicted[:12]) + (", …" if count > 12 else "")
        full = " allow more model_points than it has used up," if self.is_full else ""
        return (
            f"the kernel model hardly predicts {count} of {p} coordinates of the next state ({which}), so plans in it "
            "are of little use. Kernels need neighbours, and steps that decide what comes next: leave out coordinates "
            f"that do not matter, add those that are missing,{full} or average noisy ones over several steps. If all "
            "of many coordinates matter, use deep RL."
        )


def skill_of(observed: Observed, dynamics: Dynamics, budget: int) -> Skill:
    """Return how well a model predicts.

    Args:
        observed: Steps that it was fitted to, or some of them.
        dynamics: Model.
        budget: Largest number of inducing points.
    """
    before = observed.x[:, : observed.change.shape[1]]
    spread = np.minimum(observed.change.var(axis=0), (before + observed.change).var(axis=0))
    on = observed.rewards[~observed.ended]
    spread = np.append(spread, on.var() if len(on) else 0.0)
    square = dynamics.errors**2
    explained = np.where(square > 0.0, 1.0 - square / np.maximum(spread, np.finfo(np.float64).tiny), 1.0)
    return Skill(np.where(spread > _CONSTANT, explained, 1.0), len(dynamics.points) >= budget)
