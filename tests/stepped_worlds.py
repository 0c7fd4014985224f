"""Small environments that speak the protocol of dm_env: observations, rewards, discounts and ends in time steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Told(NamedTuple):
    """A time step; the discount is 0 after the last step, as dm_env's `termination` has it."""

    observation: Any
    reward: float | None = None
    discount: float | None = None
    is_last: bool = False

    def last(self) -> bool:
        return self.is_last


class Actions(NamedTuple):
    num_values: int


class Sea:
    """A deep sea of boards: action (row + column) % 2 goes right, which costs; the treasure is in the corner."""

    def __init__(self, size: int, scale: float = 1.0) -> None:
        self.size, self.scale = size, scale

    def action_spec(self) -> Actions:
        return Actions(2)

    def _board(self) -> np.ndarray:
        board = np.zeros((self.size, self.size), dtype=np.float32)
        if self.row < self.size:
            board[self.row, self.column] = 1.0
        return board

    def reset(self) -> Told:
        self.row = self.column = 0
        return Told(self._board())

    def step(self, action: int) -> Told:
        right = action == (self.row + self.column) % 2
        found = right and self.column == self.size - 1
        reward = self.scale * ((1.0 if found else 0.0) - (0.25 / self.size if right else 0.0))
        self.column = min(self.column + 1, self.size - 1) if right else max(self.column - 1, 0)
        self.row += 1
        is_last = self.row == self.size
        return Told(self._board(), reward, 0.0 if is_last else 1.0, is_last)


class Longer:
    """Episodes of 1, 2, 3, … steps, up to a longest one, with the time as the observation; every step pays 1."""

    def __init__(self, longest: int) -> None:
        self.longest, self.length, self.time = longest, 0, 0

    def action_spec(self) -> Actions:
        return Actions(2)

    def reset(self) -> Told:
        self.length, self.time = min(self.length + 1, self.longest), 0
        return Told(np.array([0.0]))

    def step(self, action: int) -> Told:
        self.time += 1
        is_last = self.time == self.length
        return Told(np.array([float(self.time)]), 1.0, 0.0 if is_last else 1.0, is_last)


class Drift:
    """A point on a line that starts anywhere and is pushed left or right for some steps; a step pays −x²."""

    def __init__(self, n_steps: int, n_more: int = 0) -> None:
        self.n_steps, self.n_more, self.rng = n_steps, n_more, np.random.default_rng(5)

    def action_spec(self) -> Actions:
        return Actions(2)

    def _told(self, **rest: Any) -> Told:
        return Told(np.array([[self.x, *self.rng.random(self.n_more)]], dtype=np.float32), **rest)

    def reset(self) -> Told:
        self.x, self.time = self.rng.uniform(-1.0, 1.0), 0
        return self._told()

    def step(self, action: int) -> Told:
        self.x += 0.2 * (2 * action - 1)
        self.time += 1
        is_last = self.time == self.n_steps
        return self._told(reward=-(self.x**2), discount=0.0 if is_last else 1.0, is_last=is_last)


class Errand:
    """A parcel that is wanted or not is taken or left at the first step; the last step pays for the right choice.

    Observations are whether it is wanted, whether it is carried, the time that is left, and coin flips. Other steps pay
    a coin flip.
    """

    def __init__(self, n_steps: int, n_coins: int) -> None:
        self.n_steps, self.n_coins, self.rng = n_steps, n_coins, np.random.default_rng(11)

    def action_spec(self) -> Actions:
        return Actions(2)

    def _told(self, **rest: Any) -> Told:
        coins = self.rng.integers(0, 2, size=self.n_coins)
        left = 1.0 - self.time / self.n_steps
        return Told(np.array([[self.wanted, self.carried, left, *coins]], dtype=np.float32), **rest)

    def reset(self) -> Told:
        self.time, self.wanted, self.carried = 0, *self.rng.integers(0, 2, size=2)
        return self._told()

    def step(self, action: int) -> Told:
        self.carried = action if self.time == 0 else self.carried
        self.time += 1
        is_last = self.time == self.n_steps
        right = self.carried == self.wanted if is_last else self.rng.integers(0, 2) == 1
        return self._told(reward=1.0 if right else -1.0, discount=0.0 if is_last else 1.0, is_last=is_last)
