"""What every agent of `control_rivals.py` is measured by: episodes as they were played, counted in the environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from first_solved import first_at

WINDOW = 5  # episodes whose mean return decides whether a task is solved
UPRIGHT, HELD = 0.95, 50  # cos θ that counts as up, and the steps for which an episode must stay so until its end


class Record:
    """Returns of all episodes in the order in which they end, and when their pole was up for good.

    Several copies of an environment may share a record; a step of any of them counts.

    Args:
        bar: Mean return that counts as solved.
        cap: Steps after which the run is over.
        after: Episodes that are played after the task is solved.
    """

    def __init__(self, bar: float, cap: int, after: int = WINDOW) -> None:
        self.bar, self.cap, self.after = bar, cap, after
        self.n_steps = 0
        self.returns: list[float] = []
        self.ends: list[int] = []
        self.up_since: list[int | None] = []
        self._solved: int | None = None

    def end(self, episode_return: float, first_up: int | None) -> None:
        """Add an episode that ends at the current step."""
        self.returns.append(episode_return)
        self.ends.append(self.n_steps)
        self.up_since.append(first_up)
        if self._solved is None:
            self._solved = first_at(np.array(self.returns), self.bar, WINDOW)

    @property
    def is_over(self) -> bool:
        """Whether the cap is reached, or enough episodes were played after the task was solved."""
        has_seen_enough = self._solved is not None and len(self.returns) >= self._solved + self.after
        return self.n_steps >= self.cap or has_seen_enough

    def summary(self) -> dict[str, Any]:
        """Return everything as plain numbers."""
        return {"returns": self.returns, "ends": self.ends, "up_since": self.up_since, "n_steps": self.n_steps}


class Recorded(gym.Wrapper):
    """Report the episodes of an environment to a record.

    Args:
        env: The environment.
        record: Where its episodes are kept.
        cosine: Number of the coordinate that is the cosine of the angle from upright.
    """

    def __init__(self, env: gym.Env, record: Record, cosine: int) -> None:
        super().__init__(env)
        self._record, self._cosine = record, cosine
        self._return, self._held = 0.0, 0
        self._first_up: int | None = None

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self._return, self._held, self._first_up = 0.0, 0, None
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._record.n_steps += 1
        self._return += float(reward)
        if obs[self._cosine] < UPRIGHT:
            self._held, self._first_up = 0, None
        else:
            self._held += 1
            self._first_up = self._record.n_steps if self._first_up is None else self._first_up
        if terminated or truncated:
            self._record.end(self._return, self._first_up if self._held >= HELD else None)
        return obs, reward, terminated, truncated, info
