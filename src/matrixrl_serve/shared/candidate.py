"""A candidate for the office of the learner: waits for the lock, and learns while it has it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from matrixrl.errors import CheckpointError, StoreError
from matrixrl.threads import limited_threads
from matrixrl_serve.errors import WentBack
from matrixrl_serve.learner import Learner
from matrixrl_serve.learner.restore import Follower, OtherResult, follower_of, news_of, restored_learner
from matrixrl_serve.log import Event, EventLog
from matrixrl_serve.log.events import FIRST_DIGEST, canonical
from matrixrl_serve.log.postgres import make_engine
from matrixrl_serve.problem import ServedProblem
from matrixrl_serve.shared.leadership import Deposed, Leadership, publish
from matrixrl_serve.shared.storage import StoredCheckpoints

__all__ = ["Candidate"]

logger = logging.getLogger("matrixrl_serve")
_WAIT = 0.25  # seconds between two attempts to get the lock, and between two looks at the log
_PAUSE = 0.75  # seconds more after an error


class Candidate:
    """Learns from a log if no other process does.

    A learner that fails in any way gives up the lock and what it knows, and begins again from the log.

    Args:
        address: Address of the database.
        log: Its log.
        problem: Its problem.
        checkpoint_every: Number of events after which a checkpoint is written.
        follows: Whether to make all plans again while another process learns, so as to take over at once.
        on_lead: Function that is called with the number of the last event when the process begins to learn.
    """

    def __init__(
        self,
        address: str,
        log: EventLog,
        problem: ServedProblem,
        *,
        checkpoint_every: int,
        follows: bool = False,
        on_lead: Callable[[int], object] | None = None,
    ) -> None:
        self._engine = make_engine(address, pooled=False)
        self._log, self._problem = log, problem
        self._checkpoints, self._every = StoredCheckpoints(log), checkpoint_every
        self._on_lead = on_lead
        self._closing, self._news = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._last_checkpoint, self._is_warm, self._follows = 0, False, follows
        self._standby: Follower | None = None
        self.learner: Learner | None = None
        """The learner while this process has the lock; else None."""
        self.failure: str | None = None
        """Why this process does not stand any more, in words."""

    def start(self) -> None:
        """Stand in a thread."""
        self._thread = threading.Thread(target=self.run, name="matrixrl-learner", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write a checkpoint if this process learns, and give up the lock."""
        self._closing.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join()
        self._engine.dispose()

    def run(self) -> None:
        """Stand until `close`."""
        with limited_threads(1):
            while not self._closing.is_set():
                try:
                    self._stand()
                except Exception as error:  # a plan that fails must not take the answers with it
                    if not isinstance(error, StoreError) or isinstance(error, OtherResult | WentBack):
                        self.failure = f"the learner stopped: {error}"
                        logger.exception("the learner stopped")
                        return
                    logger.warning("the learner begins again: %s", error)  # the database was away
                    self._standby = None  # the database may be another one when it is back
                    self._closing.wait(_PAUSE)
                self._closing.wait(_WAIT)

    def _stand(self) -> None:
        leadership = Leadership.attempt(self._engine, self._log.data)
        if leadership is None:
            self._prepare()
            return
        try:
            standby, self._standby = self._standby, None
            learner = restored_learner(self._log, self._checkpoints, self._problem, standby)
            self._last_checkpoint = max(self._checkpoints.numbers(), default=0)
            self.learner = learner
            if self._on_lead is not None:
                self._on_lead(learner.projection.seq)
            while not self._closing.is_set():
                self._learn(leadership, learner)
                if learner.projection.seq - self._last_checkpoint >= self._every:
                    self._save(leadership, learner)
                self._news.wait(_WAIT)
            self._read(learner)
            self._save(leadership, learner)
        finally:
            self.learner = None
            leadership.close()

    def _prepare(self) -> None:
        """Shorten the time that a take-over takes, while another process learns."""
        if not self._follows:
            if not self._is_warm:
                Learner(self._problem).plan()  # loads compiled functions
                self._is_warm = True
            return
        # Events after the last plan are not fed before the next one: if they are many, a checkpoint may be further on.
        standby = self._standby
        if standby is None or (
            standby.seq - standby.learner.projection.seq > self._every
            and max(self._checkpoints.numbers(), default=0) > standby.learner.projection.seq
        ):
            standby = self._standby = follower_of(self._log, self._checkpoints, self._problem)
        for event in news_of(self._log, standby.seq, standby.digest):
            standby.take(event)

    def _learn(self, leadership: Leadership, learner: Learner) -> None:
        """Take the events so far, and plan if that is due."""
        leadership.check()
        self._read(learner)
        if learner.is_due:
            made = learner.plan()
            if made is not None:
                publish(leadership, *made, self._problem, learner.projection)

    def _read(self, learner: Learner) -> None:
        for event in news_of(self._log, learner.projection.seq, learner.projection.digest, until=self._log.last()[0]):
            _check_own(event, learner)
            learner.feed(event)

    def _save(self, leadership: Leadership, learner: Learner) -> None:
        """Write a checkpoint; one that cannot be made costs time at the next start, and nothing else."""
        seq = learner.projection.seq
        rows = self._log.page(seq - 1, limit=1, until=seq)
        try:
            row = self._checkpoints.row(learner, rows[0].digest if rows else FIRST_DIGEST)
            with leadership.transaction() as connection:
                self._last_checkpoint = self._checkpoints.save(connection, row)
        except CheckpointError as error:
            logger.warning("no checkpoint was written: %s", error)


def _check_own(event: Event, learner: Learner) -> None:
    """Refuse to go on after a plan of another learner."""
    if event.kind != "planned":
        return
    own = learner.plans.get(event.body["plan"])
    if own is None or canonical(own.report) != event.text:
        raise Deposed(f"event {event.seq} is a plan of another learner")
