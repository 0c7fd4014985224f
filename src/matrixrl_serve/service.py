"""A service that runs: its log, its decisions, and its learner."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from matrixrl import __version__
from matrixrl.errors import StoreError
from matrixrl.folder_lock import FolderLock
from matrixrl.threads import limited_threads
from matrixrl_serve.access import Access
from matrixrl_serve.decisions import Decisions
from matrixrl_serve.errors import WentBack
from matrixrl_serve.learner import Learner, Publication
from matrixrl_serve.learner.checkpoints import Checkpoints
from matrixrl_serve.learner.loop import LearnerLoop
from matrixrl_serve.learner.process import LearnerProcess
from matrixrl_serve.learner.restore import CheckpointStore, restored_projection
from matrixrl_serve.log import Draft, Event, EventLog, Head, Writer
from matrixrl_serve.log.database import FILE
from matrixrl_serve.problem import ProblemFile, ServedProblem

__all__ = ["VERIFIED", "Service", "agreed", "problem_of"]

Answer = TypeVar("Answer")
_LOCK = "owner.db"
_PATIENCE = 10.0  # seconds that a request that changes nothing waits for the log
_PAUSE = 0.2  # seconds between two attempts to publish a plan
VERIFIED = 20_000
"""Number of events at the end of a log whose digests every start verifies."""


class Service:
    """Decisions about one problem, from one directory.

    Use it as a context, or call `close`. Only one process can run the service of a directory. Requests are decided in
    transactions: call `decisions` by `run` or `carry_out`.

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
    ...     episode = service.run(lambda: service.decisions.open("local")).episode
    ...     answer = service.run(lambda: service.decisions.ask("local", episode, state=0))
    >>> answer.action in ("wait", "order"), answer.step
    (True, 0)
    """

    _process: LearnerProcess | None = None

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
        if not (folder / FILE).is_file():
            _check_new(problem, folder)  # before anything is created
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot create {folder}: {error.strerror}") from error
        self._lock = FolderLock(folder, _LOCK, "only one process can serve it")
        self._closing = threading.Event()
        with ExitStack() as undo:  # whatever was opened, if something goes wrong
            undo.callback(self._lock.release)
            self.log = EventLog(folder)
            undo.callback(self.log.close)
            self.problem = ServedProblem(agreed(problem, self.log))
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
            self._begin(checkpoints, {}, clock=clock, timer=timer)  # the process reads the log meanwhile
            undo.callback(self.writer.close)
            undo.callback(self._closing.set)
            if self._process is not None:
                self.decisions.plans.update({plan.version: plan for plan in self._process.await_plans()})
            else:
                with limited_threads(1):
                    self.loop = LearnerLoop(self.log, self.problem, checkpoints, self._publish, every=checkpoint_every)
                    self.decisions.plans.update(self.loop.learner.plans)
                    if not self.loop.learner.version:
                        self.learn_now()
            undo.pop_all()

    def _begin(
        self,
        checkpoints: CheckpointStore,
        plans: MutableMapping[int, Publication],
        *,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the log, and start the thread that decides requests."""
        self._checkpoints = checkpoints
        self.log.check(VERIFIED)
        projection = restored_projection(self.log, checkpoints, self.problem)
        head = projection.seq, projection.digest
        self.writer = Writer(self.log, head, clock=clock, on_commit=self._announce)
        self.decisions = Decisions(self.problem, projection, plans, self.log, self.writer, timer=timer)
        self.writer.start(self)

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
    def n_behind(self) -> float:
        """Number of events that the learner has not seen yet."""
        return self.writer.seq - (self.loop.seq if self._process is None else self._process.seq)

    def run(self, work: Callable[[], Answer]) -> Answer:
        """Answer a request once it is durable; see `carry_out`."""
        answer: Answer = self.writer.run(work)
        return answer

    async def carry_out(self, work: Callable[[], Answer]) -> Answer:
        """Answer a request once it is durable.

        Args:
            work: Function that calls `decisions`, in a transaction, and returns the answer.
        """
        answer: Answer = await asyncio.wrap_future(self.writer.submit(work))
        return answer

    def settle(self, patience: float = _PATIENCE) -> None:
        """Return once everything that memory shows is durable; what was read before may then be shown.

        Args:
            patience: Seconds to wait at most.

        Raises:
            StoreError: The log cannot be written at present.
        """
        try:
            self.writer.latest.result(patience)
        except TimeoutError:
            raise StoreError("the log did not take an event in time") from None

    def maintain(self, access: Access) -> None:
        """Let overdue episodes time out, and take notice of new and revoked tokens."""
        try:
            access.refresh()  # first: a token that was revoked ends, whatever becomes of the log
        finally:
            self.run(lambda: self._maintain(access))  # which notes an error of the log for /health

    def _maintain(self, access: Access) -> None:
        self.decisions.sweep()
        if access.unnoted():
            access.refresh()  # another process may have noted them meanwhile
            self.decisions.note(access.unnoted())
            access.note_in(self.writer.connection)

    def follow(self, events: Sequence[Event]) -> None:
        """Take events that another process appended."""
        self.decisions.follow(events)

    def start_again(self) -> Head:
        """Forget everything, read the log again, and return number and digest of the last event."""
        projection = restored_projection(self.log, self._checkpoints, self.problem)
        self.decisions.start_again(projection)
        return projection.seq, projection.digest

    def learn_now(self) -> None:
        """Let a learner in this process take the events so far, and plan if that is due."""
        self.loop.learn(self.writer.durable)

    def close(self) -> None:
        """Write what was taken and a checkpoint, and stop."""
        self._closing.set()  # the learner must not wait for a log that takes nothing
        try:
            if self._process is not None:
                self._process.close()
            elif self.writer.error is None:
                self.loop.catch_up()
                self.loop.save()
        finally:
            self.writer.close()
            self.log.close()
            self._lock.release()

    def _publish(self, publication: Publication, drafts: Sequence[Draft]) -> int:
        """Publish a plan, which waits until the log can be written."""
        while True:
            try:
                self.run(lambda: self.decisions.publish(publication, drafts))
            except WentBack:
                raise
            except StoreError:
                if self._closing.wait(_PAUSE):
                    raise
            else:
                return self.writer.durable

    def _announce(self) -> None:
        if self._process is not None:
            self._process.announce()


def problem_of(log: EventLog) -> ProblemFile | None:
    """Return the problem of a log; None if the log is empty."""
    rows = log.page(limit=1)
    if not rows:
        return None
    try:
        if rows[0].kind == "created":
            return ProblemFile.model_validate(rows[0].body["problem"])
    except (LookupError, TypeError, ValueError, RecursionError):
        pass
    raise StoreError(f"the log in {log.data} is damaged: it does not begin with its problem")


def _check_new(given: ProblemFile | None, place: str | os.PathLike[str]) -> ProblemFile:
    """Return the problem of a new service, or refuse it before anything is written."""
    if given is None:
        raise StoreError(f"{place} holds no service; give a problem file")
    ServedProblem(given).agent()
    return given


def agreed(given: ProblemFile | None, log: EventLog) -> ProblemFile:
    """Return the problem of the log; one of the processes that start at the same time writes it into an empty one.

    Raises:
        StoreError: There is none, or the log has another one.
    """
    known = problem_of(log)
    if known is None:
        given = _check_new(given, log.data)
        body: dict[str, Any] = {"problem": given.model_dump(), "digest": given.digest, "library": __version__}
        log.begin(Draft("created", "local", body))
        known = problem_of(log)
        assert known is not None
    if given is not None and given.digest != known.digest:
        mine, other = given.model_dump(), known.model_dump()
        keys = ", ".join(key for key in mine if mine[key] != other[key])
        raise StoreError(
            f"{log.data} holds the service of another problem, which differs in {keys}; use a new directory"
        )
    return known
