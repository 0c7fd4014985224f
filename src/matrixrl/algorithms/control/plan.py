"""A plan: the model of the moment and a value function, and the best action by looking one step ahead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.control.actions import ActionGrid
from matrixrl.algorithms.control.arrivals import Arrivals
from matrixrl.algorithms.control.dynamics import Dynamics
from matrixrl.algorithms.control.values import Backups, ValueFunction
from matrixrl.features.kernels import ObservationScale
from matrixrl.features.kernels.stationary import rbf
from matrixrl.records import FloatArray

__all__ = ["PATIENCE", "ControlPlan", "World"]

PATIENCE = 8
"""Number of surprises after which a plan is made again during an episode, the first time."""

_REFINEMENTS = 2
_UNUSUAL = 3.0  # errors of a step beyond this many usual ones are surprising, and
_SURPRISING = 0.03  # error of a predicted state, in scaled coordinates
_SURPRISING_REWARD = 0.05  # error of a predicted reward, as a share of the range of rewards


@dataclass(frozen=True)
class World:
    """Everything that is predicted of a step, in scaled coordinates.

    Attributes:
        dynamics: Next states and rewards.
        arrivals: Ends and novelty.
        bonus: Reward that is added for a state of which nothing is known.
    """

    dynamics: Dynamics
    arrivals: Arrivals
    bonus: float

    def outcomes(self, states: FloatArray, actions: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return next states (n, p), what steps pay (n,), and the probabilities that they go on (n,).

        Args:
            states: (n, p) scaled states.
            actions: (n, q) coordinates of actions.
        """
        following, pays = self.dynamics.predict(np.concatenate([states, actions], axis=1))
        return self._arrived(following, pays)

    def _arrived(self, following: FloatArray, pays: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Add ends and novelty to predicted states (n, p) and rewards (n,)."""
        ends, extra = self.arrivals.ends(following)
        pays = pays + ends * extra
        if self.bonus > 0.0:
            pays += self.bonus * self.arrivals.novelty(following)
        return following, pays, 1.0 - ends

    def backups(self, states: FloatArray, actions: FloatArray) -> Backups:
        """Return the outcomes of all actions (A, q) at states (n, p)."""
        return self.lookahead(actions)(states)

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


@dataclass(frozen=True)
class ControlPlan:
    """Q of a stage and a state: what the next step pays, and the value of where it leads.

    Attributes:
        world: Predictions; None before any data.
        value: Value function; None before any data.
        scale: Scale of observations.
        grid: Actions.
        surprises: Steps of the episode that the model did not predict, since the plan was made.
        patience: Number of surprises after which the plan is made again.
    """

    world: World | None
    value: ValueFunction | None
    scale: ObservationScale
    grid: ActionGrid
    surprises: int = 0
    patience: int = PATIENCE

    def is_surprised(self, obs: FloatArray, action: int, reward: float, next_obs: FloatArray) -> bool:
        """Say whether the model did not predict where an action led from an observation (p,), or what it paid."""
        if self.world is None:
            return True
        x = np.concatenate([self.scale(obs), self.grid.coordinates(np.array([action]))[0]])
        following, pays = self.world.dynamics.predict(x[None])
        low, high = self.world.dynamics.limits[:, -1]
        usual = _UNUSUAL * self.world.dynamics.errors  # more than that is no noise
        is_elsewhere = (np.abs(following[0] - self.scale(next_obs)) > np.maximum(_SURPRISING, usual[:-1])).any()
        return bool(is_elsewhere or abs(pays[0] - reward) > max(_SURPRISING_REWARD * (high - low), usual[-1], 1e-12))

    def widened_by(self, reward: float) -> float:
        """Return by which factor a reward widens the range of rewards that the plan knows; 1 if it lies inside."""
        if self.world is None:
            return 1.0
        low, high = self.world.dynamics.limits[:, -1]
        now = max(high, reward) - min(low, reward)
        return 1.0 if now <= high - low else float(now / max(high - low, 1e-12))

    def q(self, stage: int, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Return Q_h of scaled states (n, p) and actions (A, q): (n, A)."""
        if self.world is None or self.value is None:
            return np.zeros((len(states), len(actions)))
        ahead = self.world.backups(states, actions)
        found = ahead.pays + ahead.goes_on * self.value.at(stage + 1, ahead.following)
        return found.reshape(len(states), len(actions))

    def refined(self, stage: int, state: FloatArray, row: FloatArray) -> FloatArray:
        """Return a better continuous action near one (q,) at a scaled state (p,): (q,)."""
        width = self.grid.spacing
        for _ in range(_REFINEMENTS):
            near = self.grid.around(row, width)
            row = near[int(self.q(stage, state[None], near)[0].argmax())]
            width /= 4.0
        return row

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the plan as named arrays; the scale as the largest observations seen."""
        found: dict[str, NDArray[np.float64]] = {"seen": self.scale.seen}
        found["patience"] = np.array([self.surprises, self.patience], dtype=np.float64)
        if self.world is not None and self.value is not None:
            found["bonus"] = np.array([self.world.bonus])
            for part in (self.world.dynamics, self.world.arrivals, self.value):
                prefix = type(part).__name__.lower()
                found |= {f"{prefix}_{one.name}": getattr(part, one.name) for one in fields(part)}
        return found
