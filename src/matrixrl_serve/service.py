"""A service that runs: its log, its decisions, and its learner."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from matrixrl import __version__
from matrixrl.errors import MatrixRLError, StoreError
from matrixrl.folder_lock import FolderLock
from matrixrl.threads import limited_threads
from matrixrl_serve.access import Access
from matrixrl_serve.decisions import Decisions
from matrixrl_serve.learner import Learner, Publication
from matrixrl_serve.learner.checkpoints import Checkpoints
from matrixrl_serve.learner.loop import LearnerLoop
from matrixrl_serve.learner.process import LearnerProcess
from matrixrl_serve.learner.restore import restored_projection
from matrixrl_serve.log import Commit, Draft, EventLog, Writer
from matrixrl_serve.problem import ProblemFile, ServedProblem

__all__ = ["Service", "agreed", "created", "problem_of"]

Answer = TypeVar("Answer")
_LOCK = "owner.db"
_PATIENCE = 10.0  # seconds that a request that changes nothing waits for the log


class Service:
    """Decisions about one problem, from one directory.

    Use it as a context, or call `close`. Only one process can run the service of a directory.

    Args:
        problem: The problem; None takes that of the log.
        data: Directory of the log.
        checkpoint_every: Number of events after which the learner writes a checkpoint.
        learning: Whether the learner runs, in a process of its own, so that answers never wait for Python code that
            plans; if not, `learn_now` lets one in this process catch up. As for any process that Python starts, a
            script needs ``if __name__ == "__main__":``.
        clock: Function that returns the time in seconds since 1970.
        timer: Function that returns seconds of a clock that never jumps, by which episodes time out.

    Raises:
        StoreError: The directory is in use, damaged, or of another problem.

    >>> import tempfile
    >>> problem = ProblemFile(states=2, actions=["wait", "order"], horizon=2)
    >>> with Service(problem, tempfile.mkdtemp(), learning=False) as service:
    ...     episode = service.decisions.open("local").answer.episode
    ...     answer = service.decisions.ask("local", episode, state=0).answer
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
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        folder = Path(data)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot create {folder}: {error.strerror}") from error
        self._lock = FolderLock(folder, _LOCK, "only one process can serve it")
        self._process: LearnerProcess | None = None
        self._noting: tuple[list[Draft], int] | None = None  # events of tokens, and the number of the last one
        with ExitStack() as undo:  # whatever was opened, if something goes wrong
            undo.callback(self._lock.release)
            self.log = EventLog(folder)
            undo.callback(self.log.close)
            self.problem = ServedProblem(agreed(problem, self.log))
            self.writer = Writer(self.log, clock=clock, on_commit=self._announce)
            undo.callback(self.writer.close)
            checkpoints = Checkpoints(folder)
            if learning:
                self._process = LearnerProcess(
                    folder,
                    self.problem.file,
                    every=checkpoint_every,
                    publish=self._publish,
                    durable=lambda: self.writer.durable,
                )
                undo.callback(self._process.close)
            projection = restored_projection(self.log, checkpoints, self.problem)  # the process reads the log meanwhile
            self.decisions = Decisions(self.problem, projection, {}, self.log, self.writer, clock=clock, timer=timer)
            if self._process is not None:
                self.decisions.plans.update({plan.version: plan for plan in self._process.await_plans()})
            else:
                with limited_threads(1):
                    self.loop = LearnerLoop(self.log, self.problem, checkpoints, self._publish, every=checkpoint_every)
                    self.decisions.plans.update(self.loop.learner.plans)
                    if not self.loop.learner.version:
                        self.learn_now()
            undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def learner(self) -> Learner:
        """The learner, if it is in this process."""
        return self.loop.learner

    @property
    def failure(self) -> str | None:
        """Why the learner stopped, in words; answers go on from its last plan."""
        return None if self._process is None else self._process.failure

    @property
    def n_behind(self) -> int:
        """Number of events that the learner has not seen yet."""
        return self.writer.seq - (self.loop.seq if self._process is None else self._process.seq)

    async def carry_out(self, work: Callable[[], tuple[Answer, Commit | None]]) -> Answer:
        """Answer a request once it is durable.

        Args:
            work: Function that decides, and returns the answer with the transaction that holds it.
        """
        try:
            answer, commit = work()
        except StoreError:
            raise
        except MatrixRLError:
            await self.writer.latest.durable()  # what the request contradicts may still be on its way to the disk
            raise
        if commit is not None:
            await commit.durable()
        return answer

    def settle(self, patience: float = _PATIENCE) -> None:
        """Return once everything that memory shows is durable; what was read before may then be shown.

        Args:
            patience: Seconds to wait at most.

        Raises:
            StoreError: The log cannot be written at present.
        """
        self.writer.latest.wait(patience)

    def maintain(self, access: Access) -> None:
        """Let overdue episodes time out, and take notice of new and revoked tokens."""
        access.refresh()  # first: a token that was revoked ends, whatever becomes of the log
        self.decisions.sweep()
        if self._noting is None:
            drafts = access.unnoted()
            if not drafts:
                return
            self.decisions.note(drafts)
            self._noting = drafts, self.writer.seq
        drafts, seq = self._noting
        self.settle()
        if self.writer.durable >= seq:  # else at the next attempt: an event that was taken is not appended twice
            access.noted(drafts)
            self._noting = None

    def learn_now(self) -> None:
        """Let a learner in this process take the events so far, and plan if that is due."""
        last = self.writer.seq
        self.writer.settle()
        self.loop.learn(last)

    def close(self) -> None:
        """Write what was taken and a checkpoint, and stop."""
        self.writer.end_waiting()  # the learner must not wait for a log that takes nothing
        if self._process is not None:
            self._process.close()
        elif self.writer.error is None:
            self.writer.latest.wait()
            self.loop.catch_up()
            self.loop.save()
        self.writer.close()
        self.log.close()
        self._lock.release()

    def _publish(self, publication: Publication, drafts: Sequence[Draft]) -> int:
        while True:
            try:
                self.decisions.publish(publication, drafts)
                break
            except StoreError:
                self.writer.settle()  # a plan waits until the log can be written again
        self.writer.settle()
        return self.writer.durable

    def _announce(self) -> None:
        if self._process is not None:
            self._process.announce()


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
