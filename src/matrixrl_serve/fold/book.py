"""The fold of the log: open episodes, mode and counts follow from the events in order, and from nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matrixrl.errors import StoreError
from matrixrl_serve.fold.episode import Asked, EpisodeState, Step, Told
from matrixrl_serve.log import KINDS, LEARNER, Event
from matrixrl_serve.problem import Mode

__all__ = ["Book", "misfit"]


def misfit(event: Event) -> StoreError:
    """Return the refusal of a log with an event that cannot follow those before it."""
    about = "" if event.episode is None else f" about episode {event.episode}"
    words = f"event {event.seq} of the log ({event.kind}{about}) does not follow from the events before it"
    return StoreError(f"{words}: the log was changed, or parts of two logs were mixed. Restore a backup")


class Book:
    """What the events so far say.

    Attributes:
        seq: Number of the last event.
        digest: Its digest; empty before the first one.
        episodes: Open episodes by their names.
        n_opened: Number of episodes that were opened.
        mode: Mode of the episodes that are opened next.
        mode_by_request: Whether a request chose it, and not the learner.
        plan: Version of the newest plan; 0 before the first.
        alarm: Words of the alarm, if one was raised.
        counts: Number of events of each kind.
    """

    def __init__(self, mode: Mode) -> None:
        self.seq = 0
        self.digest = ""
        self.episodes: dict[str, EpisodeState] = {}
        self.n_opened = 0
        self.mode: Mode = mode
        self.mode_by_request = False
        self.plan = 0
        self.alarm: str | None = None
        self.counts: dict[str, int] = {kind: 0 for kind in KINDS}  # noqa: C420  # of type str

    @property
    def oldest(self) -> EpisodeState | None:
        """The open episode that was opened first; None if none is open."""
        return next(iter(list(self.episodes.values())), None)  # a copy: other threads open episodes

    @property
    def n_held_back(self) -> int:
        """Number of episodes that are over, and are learned from only when an older one that is open is over too."""
        oldest = self.oldest
        return 0 if oldest is None else self.n_opened - oldest.number - len(self.episodes)

    def apply(self, event: Event) -> EpisodeState | None:
        """Take the next event, and return the episode that it closes, if any.

        Raises:
            StoreError: It does not follow from the events before it, such as an answer in an episode that is not open.
        """
        if event.seq != self.seq + 1:
            raise StoreError(f"event {self.seq + 1} of the log is missing: {event.seq} came after {self.seq}")
        try:
            closed = self._apply(event)
        except (LookupError, TypeError, ValueError) as error:
            raise misfit(event) from error
        self.seq, self.digest = event.seq, event.digest
        return closed

    def _apply(self, event: Event) -> EpisodeState | None:
        self.counts[event.kind] += 1
        taken = _OF_EPISODES.get(event.kind)
        if taken is not None:
            return taken(self, event)
        body = event.body
        if event.kind == "opened":
            self._open(event, body)
        elif event.kind == "planned":
            self.plan = body["plan"]
        elif event.kind == "mode":
            self.mode = body["to"]
            self.mode_by_request = event.actor != LEARNER
        elif event.kind == "alarm":
            self.alarm = body["words"]
        return None

    def _open(self, event: Event, body: dict[str, Any]) -> None:
        assert event.episode is not None
        if event.episode in self.episodes:
            raise LookupError(event.episode)
        self.episodes[event.episode] = EpisodeState(
            id=event.episode,
            number=self.n_opened,
            actor=event.actor,
            at=event.at,
            plan=body["plan"],
            mode=body["mode"],
            follows=body["follows"],
            touched=event.at,
        )
        self.n_opened += 1

    def _ask(self, event: Event) -> None:
        body = event.body
        allowed = body.get("allowed")
        step = self._step(event)
        among = None if allowed is None else tuple(allowed)
        step.asked = Asked(body["state"], among, body["action"], body.get("advised"), event.at)

    def _tell(self, event: Event) -> None:
        body = event.body
        told = Told(body["state"], body["action"], body["reward"], body["next"], body["terminated"])
        self._step(event).told = told

    def _step(self, event: Event) -> Step:
        assert event.episode is not None
        assert event.step is not None
        episode = self.episodes[event.episode]
        episode.touched = event.at
        if event.key is not None:
            episode.keys[f"{event.kind}/{event.key}"] = event.step
        if event.step == len(episode.steps):
            episode.steps.append(Step())
        return episode.steps[event.step]

    def _close(self, event: Event) -> EpisodeState:
        assert event.episode is not None
        episode = self.episodes.pop(event.episode)
        episode.closed, episode.touched = event.kind, event.at
        return episode

    def to_plain(self) -> dict[str, Any]:
        """Return the book as plain data, for checkpoints."""
        return {
            "seq": self.seq,
            "digest": self.digest,
            "episodes": [episode.to_plain() for episode in self.episodes.values()],
            "n_opened": self.n_opened,
            "mode": self.mode,
            "mode_by_request": self.mode_by_request,
            "plan": self.plan,
            "alarm": self.alarm,
            "counts": self.counts,
        }

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> Book:
        """Return the book that `to_plain` wrote."""
        book = cls(data["mode"])
        for name in ("seq", "n_opened", "plan", "alarm", "mode_by_request"):
            setattr(book, name, data[name])
        book.digest = data.get("digest", "")
        book.counts = dict(data["counts"])
        for plain in data["episodes"]:
            episode = EpisodeState.from_plain(plain)
            book.episodes[episode.id] = episode
        return book


_OF_EPISODES: dict[str, Callable[[Book, Event], EpisodeState | None]] = {
    "asked": Book._ask,
    "told": Book._tell,
    "ended": Book._close,
    "abandoned": Book._close,
    "timed_out": Book._close,
}
