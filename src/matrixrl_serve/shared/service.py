"""A service on a database, as one of any number of processes: answers, and a candidate for the learner."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from matrixrl.errors import StoreError
from matrixrl_serve.access import Access
from matrixrl_serve.log import Event, EventLog, Head
from matrixrl_serve.log.database import failing
from matrixrl_serve.problem import ProblemFile, ServedProblem
from matrixrl_serve.service import VERIFIED, Service, agreed
from matrixrl_serve.shared.candidate import Candidate
from matrixrl_serve.shared.leadership import somebody_leads
from matrixrl_serve.shared.storage import StoredCheckpoints, StoredPlans

__all__ = ["SharedLearner", "SharedService"]

_EVERY = 5_000  # events between two checkpoints: what a process that takes over must learn again
_PATIENCE = 60.0  # seconds until the first plan must be there
_PAUSE = 0.1


class SharedService(Service):
    """Decisions about one problem, from a PostgreSQL database that other processes use as well.

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
            self.problem = ServedProblem(agreed(problem, self.log))
            self._plans = StoredPlans(self.log)
            self._begin(StoredCheckpoints(self.log), self._plans)
            undo.callback(self.writer.close)
            self._plans.keep(self.decisions.projection)
            self._candidate = None
            if learning:
                self._candidate = Candidate(address, self.log, self.problem, checkpoint_every=checkpoint_every)
                self._candidate.start()
                undo.callback(self._candidate.close)
            self._has_learner = True
            self._await_plan()
            undo.pop_all()

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

    def maintain(self, access: Access) -> None:
        """Follow the log, let overdue episodes time out, and take notice of new and revoked tokens."""
        super().maintain(access)
        with failing(self.log.data), self.log.engine.connect() as connection:
            self._has_learner = somebody_leads(connection)

    def follow(self, events: Sequence[Event]) -> None:
        """Take events that another process appended, and the tables of its plans."""
        super().follow(events)
        if any(event.kind == "planned" for event in events):
            self._plans.keep(self.decisions.projection)

    def start_again(self) -> Head:
        """Forget everything, read the log again, and return number and digest of the last event."""
        head = super().start_again()
        self._plans.keep(self.decisions.projection)
        return head

    def close(self) -> None:
        """Write what was taken, and stop; another process becomes the learner if this one was."""
        if self._candidate is not None:
            self._candidate.close()
        self.writer.close()
        self.log.close()

    def _await_plan(self) -> None:
        """Return once a plan is published: nothing can be answered before."""
        deadline = time.monotonic() + _PATIENCE
        while not self.run(lambda: self.decisions.projection.plan):
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
            self.problem = ServedProblem(agreed(problem, self.log))
            self.log.check(VERIFIED)
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
