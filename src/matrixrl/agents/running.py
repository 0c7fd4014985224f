"""The episode that is being played: its plan, and what was observed of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.matrix_rl.sampled import ColumnPlan
from matrixrl.records import Certificate, IntArray, Plan

__all__ = ["RunningEpisode"]


@dataclass(slots=True)
class RunningEpisode:
    """One episode between `begin_episode` and `end_episode`.

    Attributes:
        plan: what is being played.
        steps: (state, action, next state) so far; termination is a step to the end state.
        rewards: what each step earned.
        terminated: whether the environment ended the episode.
        off_plan: whether some action was not the planned one.
        certificate: of the plan's policy, if it was asked for.
    """

    plan: Plan | ColumnPlan
    steps: list[tuple[Any, int, Any]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    off_plan: bool = False
    certificate: Certificate | None = None
    _asked: tuple[int, bytes, int] | None = None

    @property
    def stage(self) -> int:
        """How many steps were observed."""
        return len(self.steps)

    def planned_action(self, state: Any) -> int:
        """Return the planned action at the current stage; the last answer is kept, for `add` asks again."""
        key = np.asarray(state).tobytes()
        if self._asked is None or self._asked[:2] != (self.stage, key):
            self._asked = (self.stage, key, self.plan.action(self.stage, state))
        return self._asked[2]

    def add(self, state: Any, action: int, reward: float, following: Any, terminated: bool) -> None:
        """Append one step."""
        self.off_plan |= action != self.planned_action(state)
        self.steps.append((state, action, following))
        self.rewards.append(reward)
        self.terminated = terminated

    def columns(self) -> tuple[NDArray[Any], IntArray, NDArray[Any]]:
        """Return states, actions and next states: (1, k, …), (1, k), (1, k, …)."""
        states, actions, following = (np.array(column) for column in zip(*self.steps, strict=True))
        return states[None], actions[None], following[None]
