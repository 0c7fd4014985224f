"""The loop of a learner, in whichever process: follow the log, plan, publish, write checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from matrixrl.errors import CheckpointError
from matrixrl_serve.errors import Deposed
from matrixrl_serve.learner.publication import Publication
from matrixrl_serve.learner.restore import CheckpointStore, Follower, news_of, restored_learner
from matrixrl_serve.log import Draft, Event, EventLog
from matrixrl_serve.log.events import FIRST_DIGEST, canonical
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
        follower: A follower that has taken some of the events, which saves time.
    """

    def __init__(
        self,
        log: EventLog,
        problem: ServedProblem,
        checkpoints: CheckpointStore,
        publish: Publish,
        *,
        every: int,
        follower: Follower | None = None,
    ) -> None:
        self._log, self._checkpoints, self._publish, self._every = log, checkpoints, publish, every
        self.learner = restored_learner(log, checkpoints, problem, follower)
        self._saved = max(checkpoints.numbers(), default=0)

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
            self._check_own(event)
            self.learner.feed(event)

    def _check_own(self, event: Event) -> None:
        """Refuse to go on after a plan of another learner."""
        if event.kind == "planned":
            own = self.learner.plans.get(event.body["plan"])
            if own is None or canonical(own.report) != event.text:
                raise Deposed(f"event {event.seq} is a plan of another learner")

    def save_if_due(self) -> None:
        """Write a checkpoint if there are enough events since the last one."""
        if self.seq - self._saved >= self._every:
            self.save()

    def save(self) -> None:
        """Write a checkpoint; one that cannot be written costs time at the next start, and nothing else."""
        rows = self._log.page(self.seq - 1, limit=1, until=self.seq)
        try:
            self._saved = self._checkpoints.save(self.learner, rows[0].digest if rows else FIRST_DIGEST)
        except CheckpointError as error:
            logger.warning("no checkpoint was written: %s", error)
