"""What a learner does all day: follow the log, plan, publish, write checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from matrixrl.errors import CheckpointError
from matrixrl_serve.learner.checkpoints import Checkpoints
from matrixrl_serve.learner.publication import Publication
from matrixrl_serve.learner.restore import news_of, restored_learner
from matrixrl_serve.log import Draft, EventLog
from matrixrl_serve.log.events import FIRST_DIGEST
from matrixrl_serve.problem import ServedProblem

__all__ = ["LearnerLoop", "Publish"]

logger = logging.getLogger("matrixrl_serve")
Publish = Callable[[Publication, Sequence[Draft]], int]
"""Appends the events of a plan, and returns the number of an event once it and all before it are durable."""


class LearnerLoop:
    """A learner with a log to follow; the learner is restored from the newest checkpoint.

    Args:
        log: The log.
        problem: Its problem.
        checkpoints: Its checkpoints.
        publish: Function that publishes a plan.
        every: Number of events after which a checkpoint is written.
    """

    def __init__(
        self, log: EventLog, problem: ServedProblem, checkpoints: Checkpoints, publish: Publish, *, every: int
    ) -> None:
        self._log, self._checkpoints, self._publish, self._every = log, checkpoints, publish, every
        self.learner = restored_learner(log, checkpoints, problem)

    @property
    def seq(self) -> int:
        """Number of the last event that the learner has taken."""
        return self.learner.projection.seq

    def learn(self, last: int) -> None:
        """Take the events up to a number, and plan if that is due.

        Events that come in meanwhile are left for the next time, or a busy log would keep it from planning.
        """
        self.catch_up(last)
        if self.learner.is_due:
            made = self.learner.plan()
            if made is not None:
                self.catch_up(self._publish(*made))

    def catch_up(self, last: int | None = None) -> None:
        """Take the events up to a number, or all of them."""
        if last is not None and last <= self.seq:
            return
        for event in news_of(self._log, self.seq, self.learner.projection.digest, until=last):
            self.learner.feed(event)

    def save_if_due(self) -> None:
        """Write a checkpoint if there are enough events since the last one."""
        if self.seq - max(self._checkpoints.numbers(), default=0) >= self._every:
            self.save()

    def save(self) -> None:
        """Write a checkpoint; one that cannot be written costs time at the next start, and nothing else."""
        rows = self._log.page(self.seq - 1, limit=1, until=self.seq)
        try:
            self._checkpoints.save(self.learner, rows[0].digest if rows else FIRST_DIGEST)
        except CheckpointError as error:
            logger.warning("no checkpoint was written: %s", error)
