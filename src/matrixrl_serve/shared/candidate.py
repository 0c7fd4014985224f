"""A candidate for the office of the learner: waits for the lock, and learns while it has it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from matrixrl.errors import StoreError
from matrixrl.threads import limited_threads
from matrixrl_serve.errors import WentBack
from matrixrl_serve.learner import Learner, Publication
from matrixrl_serve.learner.loop import LearnerLoop
from matrixrl_serve.learner.restore import Follower, OtherResult, follower_of, news_of
from matrixrl_serve.log import Draft, EventLog
from matrixrl_serve.log.postgres import make_engine
from matrixrl_serve.problem import ServedProblem
from matrixrl_serve.shared.leadership import Leadership, publish
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
        self._is_warm, self._follows = False, follows
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
            checkpoints = StoredCheckpoints(self._log, leadership)

            def publish_own(publication: Publication, drafts: Sequence[Draft]) -> int:
                return publish(leadership, publication, drafts, self._problem, loop.learner.projection)

            loop = LearnerLoop(self._log, self._problem, checkpoints, publish_own, every=self._every, follower=standby)
            self.learner = loop.learner
            if self._on_lead is not None:
                self._on_lead(loop.seq)
            while not self._closing.is_set():
                leadership.check()
                loop.learn(self._log.last()[0])
                loop.save_if_due()
                self._news.wait(_WAIT)
            loop.catch_up(self._log.last()[0])
            loop.save()
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
