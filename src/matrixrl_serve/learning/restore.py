"""State after all events of a log: from the newest valid checkpoint on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from matrixrl.errors import CheckpointError, StoreError
from matrixrl_serve.fold import Book
from matrixrl_serve.learning.follower import Follower
from matrixrl_serve.learning.learner import Learner
from matrixrl_serve.log import Event, EventLog
from matrixrl_serve.problem import ServedProblem

__all__ = ["OtherResult", "Source", "follower_of", "news_of", "restored_book", "restored_learner"]

logger = logging.getLogger("matrixrl_serve")
State = TypeVar("State")


class OtherResult(StoreError):
    """The plans of a log come out otherwise on this machine."""


class Source(Protocol):
    """Where checkpoints are."""

    def numbers(self) -> list[int]:
        """Return the numbers of the events that checkpoints cover, in order."""

    def load(self, problem: ServedProblem, seq: int) -> tuple[Learner, str]:
        """Return the learner of a checkpoint, and the digest of the last event that it was fed."""

    def load_book(self, problem: ServedProblem, seq: int) -> tuple[Book, str]:
        """Return the book of a checkpoint, and the digest of its last event."""


def follower_of(log: EventLog, checkpoints: Source, problem: ServedProblem) -> Follower:
    """Return a follower that begins at the newest valid checkpoint, or at the first event."""
    return Follower(_newest(log, checkpoints, lambda seq: checkpoints.load(problem, seq)) or Learner(problem))


def restored_learner(
    log: EventLog, checkpoints: Source, problem: ServedProblem, follower: Follower | None = None
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


def restored_book(log: EventLog, checkpoints: Source, problem: ServedProblem) -> Book:
    """Return what all events of a log say."""
    book = _newest(log, checkpoints, lambda seq: checkpoints.load_book(problem, seq)) or Book(problem.file.mode)
    for event in news_of(log, book.seq, book.digest):
        book.apply(event)
    return book


def _newest(log: EventLog, checkpoints: Source, load: Callable[[int], tuple[State, str]]) -> State | None:
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
