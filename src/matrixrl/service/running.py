"""A service that runs: its log, its desk, and the thread of its learner."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from matrixrl import __version__
from matrixrl.errors import CheckpointError, StoreError
from matrixrl.locking import FolderLock
from matrixrl.service.desk import Desk
from matrixrl.service.fold import Book
from matrixrl.service.learning import Learner
from matrixrl.service.learning.checkpoints import Checkpoints
from matrixrl.service.learning.following import Follower
from matrixrl.service.log import Draft, EventLog, Writer
from matrixrl.service.log.events import FIRST_DIGEST
from matrixrl.service.problem import ProblemFile, ServedProblem
from matrixrl.threads import limited_threads

__all__ = ["Service", "problem_of"]

logger = logging.getLogger("matrixrl.service")
_LOCK = "owner.db"
_IDLE = 0.5  # seconds after which the learner looks for news that nobody announced


class Service:
    """Decisions about one problem, from one directory.

    Use it as a context, or call `close`. Only one process can run the service of a directory.

    Args:
        problem: The problem; None takes that of the log.
        data: Directory of the log.
        checkpoint_every: Number of events after which the learner writes a checkpoint.
        learning: Whether the learner runs in a thread; if not, `learn_now` lets it catch up.
        clock: Function that returns the time in seconds since 1970.

    Raises:
        StoreError: The directory is in use, damaged, or of another problem.

    >>> import tempfile
    >>> problem = ProblemFile(states=2, actions=["wait", "order"], horizon=2)
    >>> with Service(problem, tempfile.mkdtemp()) as service:
    ...     episode = service.desk.open("local").answer.episode
    ...     answer = service.desk.ask("local", episode, state=0).answer
    >>> answer.action in ("wait", "order"), answer.step
    (True, 0)
    """

    def __init__(
        self,
        problem: ProblemFile | None,
        data: str | os.PathLike[str],
        *,
        checkpoint_every: int = 20_000,
        learning: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        folder = Path(data)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot create {folder}: {error.strerror}") from error
        self._lock = FolderLock(folder, _LOCK, "only one process can serve it")
        self._news = threading.Event()
        with ExitStack() as undo:  # whatever was opened, if something goes wrong
            undo.callback(self._lock.release)
            self.log = EventLog(folder)
            undo.callback(self.log.close)
            self.problem = ServedProblem(_agreed(problem, self.log))
            self.writer = Writer(self.log, clock=clock, on_commit=self._news.set)
            undo.callback(self.writer.close)
            self._checkpoints, self._every = Checkpoints(folder), checkpoint_every
            with limited_threads(1):
                self.learner = self._restored()
                book = Book.from_plain(json.loads(json.dumps(self.learner.book.to_plain())))
                self.desk = Desk(self.problem, book, dict(self.learner.plans), self.log, self.writer, clock=clock)
                if not self.learner.version:
                    self.learn_now()
            undo.pop_all()
        self.failure: str | None = None
        """Why the learner stopped, in words; answers go on from its last plan."""
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        if learning:
            self._thread = threading.Thread(target=self._run, name="matrixrl-learner", daemon=True)
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def n_behind(self) -> int:
        """Number of events that the learner has not seen yet."""
        return self.writer.seq - self.learner.book.seq

    def learn_now(self) -> None:
        """Let the learner take the events so far, and plan if that is due.

        Events that come in meanwhile are left for the next time, or a busy log would keep it from planning.
        """
        last, commit = self.writer.seq, self.writer.latest
        commit.wait()
        self._catch_up(last)
        if self.learner.is_due:
            made = self.learner.plan()
            if made is not None:
                self.desk.publish(*made).wait()
                self._catch_up(self.writer.seq)

    def close(self) -> None:
        """Write what was taken and a checkpoint, and stop."""
        self._closing.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join()
        self.writer.close()
        if self.failure is None and self.writer.error is None:
            self._catch_up()
            self._save()
        self.log.close()
        self._lock.release()

    def _run(self) -> None:
        with limited_threads(1):
            while not self._closing.is_set():
                self._news.wait(_IDLE)
                self._news.clear()
                try:
                    self.learn_now()
                    self._save_if_due()
                except Exception as error:  # a plan that fails must not take the answers with it
                    self.failure = f"the learner stopped: {error}"
                    logger.exception("the learner stopped")
                    return

    def _catch_up(self, last: int | None = None) -> None:
        for event in self.log.read(self.learner.book.seq, until=last):
            self.learner.feed(event)

    def _save_if_due(self) -> None:
        last = max(self._checkpoints.numbers(), default=0)
        if self.learner.book.seq - last >= self._every:
            self._save()

    def _save(self) -> None:
        """Write a checkpoint; one that cannot be written costs time at the next start, and nothing else."""
        seq = self.learner.book.seq
        rows = self.log.page(seq - 1, limit=1, until=seq)
        try:
            self._checkpoints.save(self.learner, rows[0].digest if rows else FIRST_DIGEST)
        except CheckpointError as error:
            logger.warning("no checkpoint was written: %s", error)

    def _restored(self) -> Learner:
        """Return the learner after all events of the log, from the newest valid checkpoint on."""
        follower = Follower(self._newest_checkpoint() or Learner(self.problem))
        for event in self.log.read(follower.learner.book.seq):
            follower.take(event)
        follower.finish()
        if follower.difference is not None:
            raise StoreError(
                f"the log in {self.log.data} gives another result on this machine: {follower.difference}; start with "
                "the versions of matrixrl and NumPy that wrote it, and stop them in order, which writes a checkpoint"
            )
        return follower.learner

    def _newest_checkpoint(self) -> Learner | None:
        last, _ = self.log.last()
        for seq in reversed(self._checkpoints.numbers()):
            try:
                learner, digest = self._checkpoints.load(self.problem, seq)
            except CheckpointError as error:
                logger.warning("a checkpoint is left out: %s", error)
                continue
            rows = self.log.page(seq - 1, limit=1, until=seq) if seq <= last else []
            if not rows or rows[0].digest != digest:
                raise StoreError(f"the log in {self.log.data} is not the one of its checkpoint: event {seq} differs")
            return learner
        return None


def problem_of(log: EventLog) -> ProblemFile | None:
    """Return the problem of a log; None if the log is empty."""
    rows = log.page(limit=1)
    if not rows:
        return None
    if rows[0].kind != "created":
        raise StoreError(f"the log in {log.data} is damaged: it does not begin with its problem")
    return ProblemFile.model_validate(rows[0].body["problem"])


def _agreed(given: ProblemFile | None, log: EventLog) -> ProblemFile:
    """Return the problem of the log, which is written into an empty one."""
    known = problem_of(log)
    if known is None:
        if given is None:
            raise StoreError(f"{log.data} holds no service; give a problem file")
        ServedProblem(given).agent()  # refuse it before anything is written
        body: dict[str, Any] = {"problem": given.model_dump(), "digest": given.digest, "library": __version__}
        writer = Writer(log)
        try:
            writer.append([Draft("created", "local", body)])[1].wait()
        finally:
            writer.close()
        return given
    if given is not None and given.digest != known.digest:
        mine, other = given.model_dump(), known.model_dump()
        keys = ", ".join(key for key in mine if mine[key] != other[key])
        raise StoreError(
            f"{log.data} holds the service of another problem, which differs in {keys}; use a new directory"
        )
    return known
