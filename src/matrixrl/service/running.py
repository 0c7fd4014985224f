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
from typing import Any, Self, TypeVar

from matrixrl import __version__
from matrixrl.errors import CheckpointError, StoreError
from matrixrl.locking import FolderLock
from matrixrl.service.access import Access
from matrixrl.service.desk import Desk
from matrixrl.service.fold import Book
from matrixrl.service.learning.checkpoints import Checkpoints
from matrixrl.service.learning.restoring import restored_learner
from matrixrl.service.log import Commit, Draft, EventLog, Writer
from matrixrl.service.log.events import FIRST_DIGEST
from matrixrl.service.problem import ProblemFile, ServedProblem
from matrixrl.threads import limited_threads

__all__ = ["Service", "agreed", "created", "problem_of"]

logger = logging.getLogger("matrixrl.service")
Answer = TypeVar("Answer")
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
            self.problem = ServedProblem(agreed(problem, self.log))
            self.writer = Writer(self.log, clock=clock, on_commit=self._news.set)
            undo.callback(self.writer.close)
            self._checkpoints, self._every = Checkpoints(folder), checkpoint_every
            with limited_threads(1):
                self.learner = restored_learner(self.log, self._checkpoints, self.problem)
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

    async def carry_out(self, work: Callable[[], tuple[Answer, Commit | None]]) -> Answer:
        """Answer a request once it is durable.

        Args:
            work: Function that decides, and returns the answer with the transaction that holds it.
        """
        answer, commit = work()
        if commit is not None:
            await commit.durable()
        return answer

    def keep_house(self, access: Access) -> None:
        """Let overdue episodes time out, and take notice of new and revoked tokens."""
        self.desk.sweep()
        access.refresh()
        drafts = access.unnoted()
        if drafts:
            self.desk.note(drafts).wait()
            access.noted()

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


def problem_of(log: EventLog) -> ProblemFile | None:
    """Return the problem of a log; None if the log is empty."""
    rows = log.page(limit=1)
    if not rows:
        return None
    if rows[0].kind != "created":
        raise StoreError(f"the log in {log.data} is damaged: it does not begin with its problem")
    return ProblemFile.model_validate(rows[0].body["problem"])


def created(given: ProblemFile | None, log: EventLog) -> Draft:
    """Return the first event of an empty log, or refuse a problem that cannot be served."""
    if given is None:
        raise StoreError(f"{log.data} holds no service; give a problem file")
    ServedProblem(given).agent()  # refuse it before anything is written
    body: dict[str, Any] = {"problem": given.model_dump(), "digest": given.digest, "library": __version__}
    return Draft("created", "local", body)


def agreed(given: ProblemFile | None, log: EventLog) -> ProblemFile:
    """Return the problem of the log, which is written into an empty one."""
    known = problem_of(log)
    if known is None:
        first = created(given, log)
        writer = Writer(log)
        try:
            writer.append([first])[1].wait()
        finally:
            writer.close()
        assert given is not None
        return given
    if given is not None and given.digest != known.digest:
        mine, other = given.model_dump(), known.model_dump()
        keys = ", ".join(key for key in mine if mine[key] != other[key])
        raise StoreError(
            f"{log.data} holds the service of another problem, which differs in {keys}; use a new directory"
        )
    return known
