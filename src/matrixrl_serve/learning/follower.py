"""Follow a log that was written before: make its plans again at the same points, and compare."""

from __future__ import annotations

from collections import deque

from matrixrl_serve.learning.learner import Learner
from matrixrl_serve.log import LEARNER, Draft, Event
from matrixrl_serve.log.events import canonical

__all__ = ["Follower"]


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
        self.seq, self.digest = learner.book.seq, learner.book.digest
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
