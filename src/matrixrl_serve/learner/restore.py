"""State after all events of a log: from the newest valid checkpoint on, with plans that are made again and compared."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from matrixrl.errors import CheckpointError, StoreError
from matrixrl_serve.learner.learner import Learner
from matrixrl_serve.log import LEARNER, Draft, Event, EventLog
from matrixrl_serve.log.events import canonical
from matrixrl_serve.problem import ServedProblem
from matrixrl_serve.projection import Projection

__all__ = [
    "CheckpointStore",
    "Follower",
    "OtherResult",
    "follower_of",
    "news_of",
    "restored_learner",
    "restored_projection",
]


class Follower:
    """Feeds a learner with a log, where each plan is made after the event that the log says.

    Args:
        learner: The learner, at some point of the log.

    Attributes:
        difference: The first difference between the log and what was computed again, in words; None if there is none.
        n_plans: Number of plans that were made again.
        seq: Number of the last event that was taken; the learner was fed those up to its last plan.
        digest: Its digest.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.seq, self.digest = learner.projection.seq, learner.projection.digest
        self.difference: str | None = None
        self.n_plans = 0
        self._pending: deque[Event] = deque()
        self._expected: list[Draft] = []  # what the last plan causes, besides itself

    def take(self, event: Event) -> None:
        """Take the next event of the log."""
        self._pending.append(event)
        self.seq, self.digest = event.seq, event.digest
        if event.kind == "planned":
            self._plan(event)
        elif event.actor == LEARNER:
            self._compare_caused(event)

    def finish(self) -> None:
        """Feed what is left."""
        self._feed(None)

    def _plan(self, event: Event) -> None:
        body = event.body
        if body["plan"] <= self.learner.version:
            return  # it was made before the learner was saved
        self._feed(body["learned"])
        made = self.learner.plan()
        if made is None:
            self._note(f"event {event.seq} is plan {body['plan']}, which is not due again")
            return
        drafts = made[1]
        self.n_plans += 1
        self._expected = drafts[1:]
        if canonical(drafts[0].body) != event.text:
            parts = [
                name
                for name, value in drafts[0].body.items()
                if canonical({"": value}) != canonical({"": body.get(name)})
            ]
            self._note(f"event {event.seq}, plan {body['plan']}, differs in {', '.join(parts)}")

    def _compare_caused(self, event: Event) -> None:
        """Compare an alarm or a change of mode with what the last plan causes."""
        if not self.n_plans:
            return  # caused by a plan before the learner was saved
        if not any(draft.kind == event.kind and canonical(draft.body) == event.text for draft in self._expected):
            self._note(f"event {event.seq} ({event.kind}) does not follow from the plan before it")

    def _feed(self, until: int | None) -> None:
        while self._pending and (until is None or self._pending[0].seq <= until):
            self.learner.feed(self._pending.popleft())

    def _note(self, words: str) -> None:
        self.difference = self.difference or words


logger = logging.getLogger("matrixrl_serve")
State = TypeVar("State")


class OtherResult(StoreError):
    """The plans of a log come out otherwise on this machine."""


class CheckpointStore(Protocol):
    """Where checkpoints are."""

    def numbers(self) -> list[int]:
        """Return the numbers of the events that checkpoints cover, in order."""

    def save(self, learner: Learner, digest: str) -> int:
        """Write a checkpoint, and return the number of the event that it covers."""

    def load(self, problem: ServedProblem, seq: int) -> tuple[Learner, str]:
        """Return the learner of a checkpoint, and the digest of the last event that it was fed."""

    def load_projection(self, problem: ServedProblem, seq: int) -> tuple[Projection, str]:
        """Return the projection of a checkpoint, and the digest of its last event."""


def follower_of(log: EventLog, checkpoints: CheckpointStore, problem: ServedProblem) -> Follower:
    """Return a follower that begins at the newest valid checkpoint, or at the first event."""
    return Follower(_newest(log, checkpoints, lambda seq: checkpoints.load(problem, seq)) or Learner(problem))


def restored_learner(
    log: EventLog, checkpoints: CheckpointStore, problem: ServedProblem, follower: Follower | None = None
) -> Learner:
    """Return the learner after all events of a log.

    Args:
        log: The log.
        checkpoints: Its checkpoints.
        problem: Its problem.
        follower: A follower that has taken some of the events, which saves time.

    Raises:
        OtherResult: A plan that is made again differs from that of the log.
        StoreError: The checkpoint is of another log.
    """
    follower = follower or follower_of(log, checkpoints, problem)
    for event in news_of(log, follower.seq, follower.digest):
        follower.take(event)
    follower.finish()
    if follower.difference is not None:
        raise OtherResult(
            f"the log in {log.data} gives another result on this machine: {follower.difference}; start with "
            "the versions of matrixrl and NumPy that wrote it, and stop them in order, which writes a checkpoint"
        )
    return follower.learner


def news_of(log: EventLog, seq: int, digest: str, *, until: int | None = None) -> Iterator[Event]:
    """Yield the events after one that was taken, of which there may be none yet; see `EventLog.news`."""
    return log.news((seq, digest), until=until) if seq else log.read(until=until)


def restored_projection(log: EventLog, checkpoints: CheckpointStore, problem: ServedProblem) -> Projection:
    """Return what all events of a log say."""
    projection = _newest(log, checkpoints, lambda seq: checkpoints.load_projection(problem, seq)) or Projection(
        problem.file.mode
    )
    for event in news_of(log, projection.seq, projection.digest):
        projection.apply(event)
    return projection


def _newest(log: EventLog, checkpoints: CheckpointStore, load: Callable[[int], tuple[State, str]]) -> State | None:
    """Return what the newest valid checkpoint holds; None without one."""
    for seq in reversed(checkpoints.numbers()):
        try:
            state, digest = load(seq)
        except CheckpointError as error:
            logger.warning("a checkpoint is left out: %s", error)
            continue
        rows = log.page(seq - 1, limit=1, until=seq)
        if not rows or rows[0].digest != digest:
            raise StoreError(f"the log in {log.data} is not the one of its checkpoint: event {seq} differs")
        return state
    return None
