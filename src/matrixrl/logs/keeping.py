"""Everything that an agent saw, kept in few bytes a step so that it can be exported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.errors import InvalidInput
from matrixrl.logs.step_log import NAMES, StepLog
from matrixrl.problems import FunctionalTask, Problem
from matrixrl.records import BoolArray, Steps

__all__ = ["SeenLog"]

_TOGETHER = 1024  # played episodes that are joined, so that a step does not cost an array
_LOGGED = "logged"


class SeenLog:
    """The steps of all episodes that an agent played or learned from, in the order in which it learned from them.

    States and actions are kept in the smallest integers that hold them: 14 bytes a step for fewer than 256 states.

    Args:
        problem: The problem of the agent.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._blocks: list[StepLog] = []
        self._are_logged: list[BoolArray] = []
        self._pending: list[Steps] = []

    def add_played(self, steps: Steps) -> None:
        """Add a played episode (1, k) of k steps."""
        self._pending.append(steps)
        if len(self._pending) == _TOGETHER:
            self._join_pending()

    def add_logged(self, log: StepLog) -> None:
        """Add episodes of a log."""
        self._join_pending()
        self._add(log, logged=True)

    def _join_pending(self) -> None:
        played = self._pending
        if not played:
            return
        lengths = np.array([steps.actions.shape[1] for steps in played], dtype=np.int64)
        names = ("states", "actions", "rewards", "next_states", "ended")
        arrays = {name: np.concatenate([getattr(steps, name)[0] for steps in played]) for name in names}
        self._add(StepLog(**arrays, firsts=np.zeros_like(lengths), lengths=lengths), logged=False)
        self._pending = []

    def _add(self, log: StepLog, *, logged: bool) -> None:
        types = self._types()
        self._blocks.append(StepLog(*(getattr(log, name).astype(types[name]) for name in NAMES)))
        self._are_logged.append(np.full(log.n_episodes, logged))

    def _types(self) -> dict[str, np.dtype[Any]]:
        """Return the type of each array."""
        task, kind = self._problem.task, self._problem.kind
        state = np.dtype(np.float64)
        if kind == "finite":
            state = np.min_scalar_type(self._problem.finite_task.n_states - 1)
        elif isinstance(task, FunctionalTask):
            state = task.state_dtype
        stage = np.min_scalar_type(task.horizon)
        return {
            "states": state,
            "actions": np.min_scalar_type(task.n_actions - 1),
            "rewards": np.dtype(np.float64),
            "next_states": state,
            "ended": np.dtype(np.bool_),
            "firsts": stage,
            "lengths": stage,
        }

    @property
    def n_episodes(self) -> int:
        """Number of episodes."""
        return sum(block.n_episodes for block in self._blocks) + len(self._pending)

    def all(self) -> tuple[StepLog, BoolArray]:
        """Return all steps, and which episodes (m,) were logged, not played; there must be an episode."""
        self._join_pending()
        if len(self._blocks) > 1:
            self._blocks = [StepLog.joined(self._blocks)]
            self._are_logged = [np.concatenate(self._are_logged)]
        return self._blocks[0], self._are_logged[0]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays, for saving; none before the first episode."""
        if not self.n_episodes:
            return {}
        seen, logged = self.all()
        return {name: getattr(seen, name) for name in NAMES} | {_LOGGED: logged}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned.

        Raises:
            InvalidInput: No episodes of the problem have such steps.
        """
        if not arrays:
            return
        if set(arrays) != {*NAMES, _LOGGED}:
            raise InvalidInput(f"the steps that were seen must have the arrays {sorted((*NAMES, _LOGGED))}")
        seen, logged, types = StepLog(*(arrays[name] for name in NAMES)), arrays[_LOGGED], self._types()
        if any(arrays[name].dtype != types[name] for name in NAMES) or logged.dtype != np.bool_:
            raise InvalidInput("the steps that were seen must have the types of the problem")
        self._check_shapes(seen, logged)
        self._check_values(seen, logged)
        self._blocks, self._are_logged = [seen], [logged]

    def _check_shapes(self, seen: StepLog, logged: BoolArray) -> None:
        n, m, horizon = len(seen.rewards), len(seen.lengths), self._problem.task.horizon
        fits = (
            seen.rewards.shape == seen.actions.shape == seen.ended.shape == (n,)
            and seen.firsts.shape == seen.lengths.shape == logged.shape == (m,)
            and len(seen.states) == len(seen.next_states) == n
            and seen.states.shape == seen.next_states.shape
            and seen.states.shape[1:] == self._problem.state_shape
            and m > 0
            and int(seen.lengths.min()) >= 1
            and int(seen.lengths.sum(dtype=np.int64)) == n
            and int((seen.firsts.astype(np.int64) + seen.lengths).max()) <= horizon
        )
        if not fits:
            raise InvalidInput("the steps that were seen do not fit the problem")

    def _check_values(self, seen: StepLog, logged: BoolArray) -> None:
        problem, task = self._problem, self._problem.task
        finite = problem.kind == "finite"
        if finite and max(int(seen.states.max()), int(seen.next_states.max())) >= problem.finite_task.n_states:
            raise InvalidInput("the states that were seen must be states of the problem")
        if not finite and not (np.isfinite(seen.states).all() and np.isfinite(seen.next_states).all()):
            raise InvalidInput("the states that were seen must be finite")
        if int(seen.actions.max()) >= task.n_actions:
            raise InvalidInput("the actions that were seen must be actions of the problem")
        if (problem.inner_number(problem.own_number(seen.actions), seen.stages) != seen.actions).any():
            raise InvalidInput("the actions that were seen must be those of their stages")
        if not np.isfinite(seen.rewards).all():
            raise InvalidInput("the rewards that were seen must be finite")
        problem.rewards(seen.rewards)
        last = np.zeros(seen.n_steps, dtype=np.bool_)
        last[seen.offsets[1:] - 1] = True
        if (seen.ended & ~last).any() or (seen.firsts[~logged] > 0).any():
            raise InvalidInput("the episodes that were seen must begin and end as episodes do")
