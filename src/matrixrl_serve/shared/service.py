"""A service on a database, as one of any number of processes: answers, and a candidate for the learner."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Self, TypeVar

from matrixrl.errors import StoreError
from matrixrl_serve.access import Access
from matrixrl_serve.decisions import Decisions
from matrixrl_serve.learner.restore import restored_projection
from matrixrl_serve.log import Event, EventLog
from matrixrl_serve.log.database import failing
from matrixrl_serve.log.events import FIRST_DIGEST, chained
from matrixrl_serve.log.postgres import appending, events_from, insert
from matrixrl_serve.problem import ProblemFile, ServedProblem
from matrixrl_serve.service import agreed, created
from matrixrl_serve.shared.candidate import Candidate
from matrixrl_serve.shared.leadership import somebody_leads
from matrixrl_serve.shared.storage import StoredCheckpoints, StoredPlans
from matrixrl_serve.shared.writer import Head, SharedWriter

__all__ = ["SharedLearner", "SharedService"]

Answer = TypeVar("Answer")
_EVERY = 5_000  # events between two checkpoints: what a process that takes over must learn again
_PATIENCE = 60.0  # seconds until the first plan must be there
_PAUSE = 0.1


class SharedService:
    """Decisions about one problem, from a PostgreSQL database that other processes use as well.

    Use it as a context, or call `close`. Requests are decided in transactions: use `carry_out` to call `decisions`.

    Args:
        problem: The problem; None takes that of the log.
        address: Address of the database.
        checkpoint_every: Number of events after which the learner writes a checkpoint.
        learning: Whether this process may become the learner.

    Raises:
        StoreError: The database cannot be used, or holds the service of another problem.
    """

    def __init__(
        self,
        problem: ProblemFile | None,
        address: str,
        *,
        checkpoint_every: int = _EVERY,
        learning: bool = True,
    ) -> None:
        with ExitStack() as undo:  # whatever was opened, if something goes wrong
            self.log = EventLog(address)
            undo.callback(self.log.close)
            self.problem = ServedProblem(_agreed(problem, self.log))
            self._checkpoints = StoredCheckpoints(self.log)
            self._plans = StoredPlans(self.log)
            projection = restored_projection(self.log, self._checkpoints, self.problem)
            self.writer = SharedWriter(self.log, _head(self.log, projection.seq))
            self.decisions = Decisions(
                self.problem, projection, self._plans, self.log, self.writer, clock=self.writer.clock
            )
            self._plans.keep(projection)
            self.writer.start(self)
            undo.callback(self.writer.close)
            self._candidate = None
            if learning:
                self._candidate = Candidate(address, self.log, self.problem, checkpoint_every=checkpoint_every)
                self._candidate.start()
                undo.callback(self._candidate.close)
            self._has_learner = True
            self._await_plan()
            undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def failure(self) -> str | None:
        """Why nothing is learned, in words; answers go on from the last plan."""
        if self._candidate is not None and self._candidate.failure is not None:
            return self._candidate.failure
        return None if self._has_learner else "no process is the learner"

    @property
    def n_behind(self) -> float:
        """Number of events that the learner has not seen yet; NaN if another process is the learner."""
        learner = None if self._candidate is None else self._candidate.learner
        return float("nan") if learner is None else max(self.writer.seq - learner.projection.seq, 0)

    async def carry_out(self, work: Callable[[], tuple[Answer, Any]]) -> Answer:
        """Answer a request once it is durable.

        Args:
            work: Function that calls `decisions`, in a transaction; the first part of what it returns is the answer.
        """
        request = self.writer.submit(work)
        await request.commit.durable()
        answer: Answer = request.answer()
        return answer

    def settle(self, patience: float = _PATIENCE) -> None:
        """Return once everything that memory shows is durable; see `Service.settle`."""
        self.writer.latest.wait(patience)

    def maintain(self, access: Access) -> None:
        """Follow the log, let overdue episodes time out, and take notice of new and revoked tokens."""
        access.refresh()
        self.writer.run(lambda: self._maintain(access))
        with failing(self.log.data), self.log.engine.connect() as connection:
            self._has_learner = somebody_leads(connection)

    def _maintain(self, access: Access) -> None:
        self.decisions.sweep()
        if access.unnoted():
            access.refresh()  # another process may have noted them meanwhile
            self.decisions.note(access.unnoted())
            access.note_in(self.writer.connection)

    def follow(self, events: Sequence[Event]) -> None:
        """Take events that another process appended, and the tables of its plans."""
        self.decisions.follow(events)
        if any(event.kind == "planned" for event in events):
            self._plans.keep(self.decisions.projection)

    def start_again(self) -> Head:
        """Forget everything, read the log again, and return number and digest of the last event."""
        projection = restored_projection(self.log, self._checkpoints, self.problem)
        self._plans.keep(projection)
        self.decisions.start_again(projection)
        return _head(self.log, projection.seq)

    def close(self) -> None:
        """Write what was taken, and stop; another process becomes the learner if this one was."""
        if self._candidate is not None:
            self._candidate.close()
        self.writer.close()
        self.log.close()

    def _await_plan(self) -> None:
        """Return once a plan is published: nothing can be answered before."""
        deadline = time.monotonic() + _PATIENCE
        while not self.writer.run(lambda: self.decisions.projection.plan):
            if self.failure is not None or time.monotonic() > deadline:
                words = self.failure or f"no plan was published within {_PATIENCE:g} seconds"
                raise StoreError(f"{words}; start a process that learns: --role learner")
            time.sleep(_PAUSE)


class SharedLearner:
    """A process that only learns from the log of a database, or waits until it may.

    Args:
        problem: The problem; None takes that of the log.
        address: Address of the database.
        checkpoint_every: Number of events after which it writes a checkpoint.
        on_lead: Function that is called with the number of the last event when it begins to learn.
    """

    def __init__(
        self,
        problem: ProblemFile | None,
        address: str,
        *,
        checkpoint_every: int = _EVERY,
        on_lead: Callable[[int], object] | None = None,
    ) -> None:
        self.log = EventLog(address)
        try:
            self.problem = ServedProblem(_agreed(problem, self.log))
            self.candidate = Candidate(
                address, self.log, self.problem, checkpoint_every=checkpoint_every, follows=True, on_lead=on_lead
            )
        except BaseException:
            self.log.close()
            raise

    def run(self) -> None:
        """Learn until an interrupt.

        Raises:
            StoreError: The learner stopped by itself.
        """
        self.candidate.start()
        try:
            while self.candidate.failure is None:
                time.sleep(_PAUSE)
            raise StoreError(self.candidate.failure)
        finally:
            self.candidate.close()
            self.log.close()


def _agreed(given: ProblemFile | None, log: EventLog) -> ProblemFile:
    """Return the problem of the log; one of the processes that start at the same time writes it into an empty one."""
    if log.last()[0] == 0:
        first = created(given, log)
        with failing(log.data), log.engine.connect() as connection, appending(connection) as now:
            if not events_from(connection, 1):
                insert(connection, [chained(first, 1, now, FIRST_DIGEST)])
    return agreed(given, log)


def _head(log: EventLog, seq: int) -> Head:
    return seq, log.page(seq - 1, limit=1, until=seq)[0].digest
