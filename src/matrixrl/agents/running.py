"""The episode that is being played: its plan, and what was observed of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

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

    plan: Plan
    steps: list[tuple[int, int, int]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    off_plan: bool = False
    certificate: Certificate | None = None

    @property
    def stage(self) -> int:
        """How many steps were observed."""
        return len(self.steps)

    def planned_action(self, state: int) -> int:
        """Return the planned action at the current stage."""
        return int(self.plan.policy[0, self.stage, state])

    def add(self, state: int, action: int, reward: float, following: int, terminated: bool) -> None:
        """Append one step."""
        self.off_plan |= action != self.planned_action(state)
        self.steps.append((state, action, following))
        self.rewards.append(reward)
        self.terminated = terminated

    def columns(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return states, actions and next states, each (1, k)."""
        states, actions, following = np.array(self.steps, dtype=np.int64).T[:, None, :]
        return states, actions, following
