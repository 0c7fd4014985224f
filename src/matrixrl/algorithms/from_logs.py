"""How an algorithm learns from episodes that others recorded."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from matrixrl.errors import InvalidInput
from matrixrl.logs import StepLog
from matrixrl.problems import Problem
from matrixrl.records import Steps

__all__ = ["LOGGED", "FromLogs"]

LOGGED = "logged"
"""Name of the array that counts logged episodes and steps in a saved state."""


class FromLogs:
    """The part of an algorithm that learns from logs, through `update`.

    Attributes:
        logged_episodes: Number of episodes that were learned from and not played.
        logged_steps: Number of their steps.
    """

    name: ClassVar[str]
    problem: Problem
    logged_episodes: int
    logged_steps: int

    @abstractmethod
    def update(self, steps: Steps, plan: Any = None, *, n_episodes: int = 1) -> None:
        """Learn from steps; see `Algorithm.update`."""

    @abstractmethod
    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take back a state; see `Algorithm.restore`."""

    def forget_logs(self) -> None:
        """Start without logs."""
        self.logged_episodes = self.logged_steps = 0

    @property
    def steps_at_once(self) -> int:
        """Number of steps of several episodes that `learn` may be given in a row; 1 if it needs each episode alone.

        An algorithm may take many steps at once if it adds them up, whatever their stages and whatever was planned.
        """
        return 1

    def update_from_log(self, log: StepLog) -> None:
        """Learn from the episodes of a log, in their order; for one replica.

        An interrupt comes between two calls of `update`; `undo` then goes back to the state before.
        """
        for part in log.parts(self.steps_at_once):
            if part.n_episodes == 1:
                self.update(part.steps(), self.plan_for_log())
            else:
                self.update(part.steps(), self.plan_for_log(), n_episodes=part.n_episodes)
            self.logged_episodes += part.n_episodes
            self.logged_steps += part.n_steps

    def plan_for_log(self) -> Any:
        """Return the plan to take note of before logged steps are learned from; None if steps alone are used."""
        return None

    def check_log(self) -> None:
        """Refuse to learn from logs where the settings would forget them; most algorithms never forget."""

    @property
    def log_guarantee(self) -> Literal[True] | str:
        """True if the regret bound also holds for episodes that are played after a log; else why not."""
        return f"the proof is about what {self.name} played, and {self.logged_episodes:,} logged episodes were added"

    def undo(self, state: Mapping[str, NDArray[Any]], problem: Problem) -> None:
        """Go back to what `state` returned, on the problem as it was then."""
        if self.problem is not problem:  # the range of rewards was widened
            self.problem = problem
            self.use_task()
        self.restore(state)

    def use_task(self) -> None:
        """Compute again what follows from the range of rewards of the task; nothing for most algorithms."""

    def logged_arrays(self) -> dict[str, NDArray[Any]]:
        """Return how many episodes and steps came from logs, for saving; nothing if none did."""
        if not self.logged_episodes:
            return {}
        return {LOGGED: np.array([self.logged_episodes, self.logged_steps], dtype=np.int64)}

    def restore_logged(self, array: NDArray[Any] | None, episode: int) -> None:
        """Take back what `logged_arrays` returned after so many episodes, or None.

        Raises:
            InvalidInput: So many episodes cannot have had so many logged ones.
        """
        if array is None:
            self.forget_logs()
            return
        if array.shape != (2,) or array.dtype != np.int64:
            raise InvalidInput(f"{LOGGED} must be two counts")
        episodes, steps = (int(count) for count in array)
        if not 1 <= episodes <= episode or not episodes <= steps <= episodes * self.problem.task.horizon:
            raise InvalidInput(f"{LOGGED} must count episodes that were learned from, and their steps")
        self.logged_episodes, self.logged_steps = episodes, steps
