"""A learner in a thread of the process that answers, for tests, notebooks and small services."""

from __future__ import annotations

import logging
import threading

from matrixrl.threads import limited_threads
from matrixrl_serve.learning.loop import LearningLoop
from matrixrl_serve.log import Writer

__all__ = ["LearnerThread"]

logger = logging.getLogger("matrixrl_serve")
_IDLE = 0.5  # seconds after which it looks for news that nobody announced


class LearnerThread:
    """Follows a log in a thread; `LearnerProcess` does the same in a process of its own.

    Args:
        loop: What it does.
        writer: Writer of the log.
    """

    def __init__(self, loop: LearningLoop, writer: Writer) -> None:
        self.loop, self._writer = loop, writer
        self.failure: str | None = None
        """Why the learner stopped, in words."""
        self._news, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="matrixrl-learner", daemon=True)

    @property
    def seq(self) -> int:
        """Number of the last event that the learner has taken."""
        return self.loop.seq

    def start(self) -> None:
        """Begin to follow the log; without this `learn_now` lets the learner catch up."""
        self._thread.start()

    def learn_now(self) -> None:
        """Take the events so far, and plan if that is due."""
        last = self._writer.seq
        self._writer.settle()
        self.loop.learn(last)

    def announce(self) -> None:
        """Tell the learner that there are new events."""
        self._news.set()

    def close(self) -> None:
        """Take what is left, write a checkpoint, and stop."""
        self._closing.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join()
        if self.failure is None and self._writer.error is None:
            self._writer.latest.wait()
            self.loop.catch_up()
            self.loop.save()

    def _run(self) -> None:
        with limited_threads(1):
            while not self._closing.is_set():
                self._news.wait(_IDLE)
                self._news.clear()
                try:
                    self.learn_now()
                    self.loop.save_if_due()
                except Exception as error:  # a plan that fails must not take the answers with it
                    self.failure = f"the learner stopped: {error}"
                    logger.exception("the learner stopped")
                    return
