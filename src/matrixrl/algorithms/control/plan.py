"""Actions as coordinates of a kernel, and plans: a world and a value function, and the best action one step ahead."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.control.model import Dynamics
from matrixrl.algorithms.control.world import END_GRID, Arrivals, ValueFunction, WorldModel
from matrixrl.core.greedy import best_action_at_random
from matrixrl.errors import InvalidInput
from matrixrl.features.kernels import ObservationScale
from matrixrl.records import FloatArray, IntArray
from matrixrl.spaces import BoxCodec, Codec

__all__ = ["PATIENCE", "ActionGrid", "ControlPlan", "checked", "value_from"]

PATIENCE = 8
"""Number of surprises after which a plan is made again during an episode, the first time."""

_MOST_INDICATORS = 32  # more actions than that are told apart by their numbers
_MOST_PLANNED = 64  # actions that are compared in a backup
_REFINEMENTS = 2
_SLACK = 1e-9  # share of the size of Q within which actions count as equal
_UNUSUAL = 3.0  # errors of a step beyond this many usual ones are surprising, and
_SURPRISING = 0.03  # error of a predicted state, in scaled coordinates
_SURPRISING_REWARD = 0.05  # error of a predicted reward, as a share of the range of rewards


@dataclass(frozen=True)
class ActionGrid:
    """Coordinates of actions, and the actions that backups compare."""

    codec: Codec  # numbers of the actions
    numbers: IntArray  # (A,) actions that backups compare
    planned: FloatArray  # (A, q) their coordinates
    is_box: bool  # whether the actions between them can be played too

    @classmethod
    def of(cls, codec: Codec, points: int) -> ActionGrid:
        """Return the grid of a space of actions."""
        if isinstance(codec, BoxCodec):
            per_axis = min(points, codec.levels, max(2, int(_MOST_PLANNED ** (1.0 / codec.n_entries) + 1e-9)))
            axis = np.linspace(-1.0, 1.0, per_axis)
            if per_axis**codec.n_entries <= _MOST_PLANNED:
                rows = np.array(list(itertools.product(axis, repeat=codec.n_entries)))
            else:  # too many corners: rest, and both ends of each coordinate
                ends = np.eye(codec.n_entries)
                rows = np.concatenate([np.zeros((1, codec.n_entries)), ends, -ends])
            numbers = codec.nearest(rows)
            return cls(codec, numbers, codec.scaled(numbers), is_box=True)
        every = np.arange(codec.size, dtype=np.int64)
        if codec.size <= _MOST_INDICATORS:
            return cls(codec, every, np.eye(codec.size), is_box=False)
        return cls(codec, every, codec.coordinates(), is_box=False)

    @property
    def groups(self) -> IntArray:
        """(q,) coordinates that share a length scale: all indicators do, and numbers have their own."""
        q = self.planned.shape[1]
        indicators = not self.is_box and q == len(self.planned)
        return np.zeros(q, dtype=np.int64) if indicators else np.arange(q)

    def coordinates(self, actions: IntArray) -> FloatArray:
        """Return the coordinates of actions (n,): (n, q)."""
        found: FloatArray = self.codec.scaled(actions) if isinstance(self.codec, BoxCodec) else self.planned[actions]
        return found

    def number(self, row: FloatArray) -> int:
        """Return the number of the continuous action nearest to coordinates (q,)."""
        assert isinstance(self.codec, BoxCodec)
        return int(self.codec.nearest(row[None])[0])

    def around(self, row: FloatArray, width: float) -> FloatArray:
        """Return continuous actions around one (q,) at distances up to a width in each coordinate: (n, q)."""
        q = len(row)
        if q == 1:
            steps = np.linspace(-width, width, 9)[:, None]
        else:
            shifts = np.concatenate([np.eye(q), -np.eye(q), 0.5 * np.eye(q), -0.5 * np.eye(q)])
            steps = width * np.concatenate([np.zeros((1, q)), shifts])
        found: FloatArray = np.clip(row + steps, -1.0, 1.0)
        return found

    @property
    def spacing(self) -> float:
        """Distance of neighbours among the planned actions, in scaled coordinates."""
        axis = np.unique(self.planned[:, 0])
        return float(np.diff(axis).max()) if len(axis) > 1 else 0.0


@dataclass(frozen=True)
class ControlPlan:
    """Q of a stage and a state: what the next step pays, and the value of where it leads."""

    world: WorldModel | None  # predictions; None before any data
    value: ValueFunction | None  # value function; None before any data
    scale: ObservationScale  # scale of observations
    grid: ActionGrid  # actions
    surprises: int = 0  # steps of the episode that the model did not predict, since the plan was made
    patience: int = PATIENCE  # number of surprises after which the plan is made again

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
        return self.world.lookahead(actions)(states).q(stage, self.value)

    def q_at(self, stage: int, obs: FloatArray) -> FloatArray:
        """Return Q_h of observations (n, p) and the planned actions: (n, A)."""
        return self.q(stage, self.scale(obs), self.grid.planned)

    def value_at(self, stage: int, obs: FloatArray) -> FloatArray:
        """Return values of observations (n, p), NaN before any data: (n,)."""
        return np.full(len(obs), np.nan) if self.value is None else self.value.at(stage, self.scale(obs))

    def width_at(self, obs: FloatArray) -> FloatArray:
        """Return the novelty of observations (n, p): (n,)."""
        return np.ones(len(obs)) if self.world is None else self.world.arrivals.novelty(self.scale(obs))

    def action(self, stage: int, obs: FloatArray, rng: np.random.Generator | None) -> int:
        """Return the best action at an observation (p,); ties at random, or to the lowest action without `rng`."""
        grid, state = self.grid, self.scale(obs)
        if self.value is None and grid.is_box and rng is not None:
            return int(rng.integers(grid.codec.size))
        q = self.q(stage, state[None], grid.planned)[0]
        chosen = best_action_at_random(q, _SLACK * max(1.0, float(np.abs(q).max())), rng)
        if self.value is None or not grid.is_box:
            return int(grid.numbers[chosen])
        return grid.number(self.refined(stage, state, grid.planned[chosen]))

    def table(self, points: FloatArray, horizon: int) -> IntArray:
        """Return the best planned actions of all stages at observations (n, p): (H, n)."""
        if self.world is None or self.value is None:
            return np.zeros((horizon, len(points)), dtype=np.int64)
        ahead = self.world.lookahead(self.grid.planned)(self.scale(points))
        return np.stack([self.grid.numbers[ahead.q(h, self.value).argmax(axis=1)] for h in range(horizon)])

    def refined(self, stage: int, state: FloatArray, row: FloatArray) -> FloatArray:
        """Return a better continuous action near one (q,) at a scaled state (p,): (q,)."""
        width = self.grid.spacing
        for _ in range(_REFINEMENTS):
            near = self.grid.around(row, width)
            row = near[int(self.q(stage, state[None], near)[0].argmax())]
            width /= 4.0
        return row

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the plan as named arrays; the scale as the largest observations seen."""
        found: dict[str, NDArray[Any]] = {"seen": self.scale.seen}
        found["patience"] = np.array([self.surprises, self.patience], dtype=np.float64)
        if self.world is not None and self.value is not None:
            found["bonus"] = np.array([self.world.bonus])
            for part in (self.world.dynamics, self.world.arrivals, self.value):
                prefix = type(part).__name__.lower()
                found |= {f"{prefix}_{one.name}": getattr(part, one.name) for one in fields(part)}
        return found

    @classmethod
    def of_state(
        cls, arrays: Mapping[str, NDArray[Any]], scale: ObservationScale, grid: ActionGrid, horizon: int
    ) -> ControlPlan:
        """Return the plan that `state_dict` wrote.

        Raises:
            InvalidInput: The arrays are not those of a plan.
        """
        p = scale.size
        checked(arrays, {"seen": (p,), "patience": (2,)})
        scale = copy(scale)
        scale.restore(arrays["seen"].copy())
        numbers = [int(number) for number in arrays["patience"]]
        if set(arrays) == {"seen", "patience"}:
            return cls(None, None, scale, grid, *numbers)
        d = p + grid.planned.shape[1]
        m, k, e = (len(arrays[f"{name}points"]) for name in ("dynamics_", "arrivals_", "arrivals_end_"))
        of_dynamics: dict[str, tuple[int, ...]] = {"length_scales": (d,), "points": (m, d), "trend": (1 + d, p + 1)}
        of_dynamics |= {"weights": (m, p + 1), "limits": (2, p + 1), "errors": (p + 1,)}
        of_arrivals: dict[str, tuple[int, ...]] = {"points": (k, p), "known": (k, k), "end_points": (e, p)}
        of_arrivals |= {"end_weights": (e, 2), "end_range": (2, p), "end_parts": (p, END_GRID, 2), "end_pay": (1,)}
        dynamics = Dynamics(**checked(arrays, of_dynamics, "dynamics_"))
        arrivals = Arrivals(**checked(arrays, of_arrivals, "arrivals_"))
        bonus = float(checked(arrays, {"bonus": (1,)})["bonus"][0])
        value = value_from(arrays, "valuefunction_", horizon, p)
        return cls(WorldModel(dynamics, arrivals, bonus), value, scale, grid, *numbers)


def value_from(arrays: Mapping[str, NDArray[Any]], prefix: str, horizon: int, n_coordinates: int) -> ValueFunction:
    """Return the value function whose fields were saved under names with a prefix."""
    m = len(arrays[f"{prefix}points"])
    shapes: dict[str, tuple[int, ...]] = {"points": (m, n_coordinates), "theta": (horizon, m)}
    return ValueFunction(**checked(arrays, shapes | dict.fromkeys(("centre", "low", "high"), (horizon,)), prefix))


def checked(
    arrays: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]], prefix: str = ""
) -> dict[str, FloatArray]:
    """Return copies of finite numbers that a file has under names with a prefix, without it, or refuse other shapes."""
    for name, shape in shapes.items():
        array = arrays.get(prefix + name)
        if array is None or array.dtype != np.float64 or array.shape != shape or not np.isfinite(array).all():
            raise InvalidInput(f"{prefix}{name} must be finite numbers of shape {shape}")
    return {name: arrays[prefix + name].copy() for name in shapes}
