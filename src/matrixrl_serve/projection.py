"""The projection of the log: episodes, mode and counts follow from the events in their order, and from nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from matrixrl.errors import StoreError
from matrixrl_serve.log import KINDS, LEARNER, Event
from matrixrl_serve.problem import Mode

__all__ = ["EPISODE_NAME", "Asked", "EpisodeState", "Follows", "Projection", "Step", "Told", "misfit"]

EPISODE_NAME = re.compile(r"^[A-Za-z0-9._:-]{1,64}$")
"""Names that episodes may have."""
Follows = Literal["plan", "recommended", "incumbent"]
"""Whose actions the answers are: the optimistic plan's, the recommended policy's, or the incumbent's."""


class Asked(NamedTuple):
    """A question and its answer; states and actions count from 0.

    Attributes:
        state: State of the question.
        allowed: Actions that were allowed by the request; None for all.
        action: The answer; None if the incumbent decides and is not known.
        advised: In shadow mode, what the learner would have answered.
        at: Time of the question.
    """

    state: int
    allowed: tuple[int, ...] | None
    action: int | None
    advised: int | None
    at: float


class Told(NamedTuple):
    """The outcome of a step.

    Attributes:
        state: State before the step.
        action: Action that was played.
        reward: Reward.
        following: State after the step; None if the step terminated the episode.
        terminated: Whether it did.
    """

    state: int
    action: int
    reward: float
    following: int | None
    terminated: bool


@dataclass(slots=True)
class Step:
    """What is known of one step."""

    asked: Asked | None = None
    told: Told | None = None

    @property
    def state(self) -> int | None:
        """State before the step, as far as it is known."""
        if self.asked is not None:
            return self.asked.state
        return None if self.told is None else self.told.state


@dataclass(slots=True)
class EpisodeState:
    """An episode between its begin and its end.

    Attributes:
        id: Name of the episode.
        number: Its number, counted from 0 in the order in which episodes were opened.
        actor: Who opened it.
        at: Time at which it was opened.
        plan: Version of the plan that it was opened with, and keeps.
        mode: Mode in which it was opened.
        follows: Whose actions its answers are.
        touched: Time of the last event.
        steps: Its steps; those before the last were all asked or told.
        keys: Step of each idempotency key, by the kind of the request and the key.
        closed: Kind of the event that closed it; None while it is open.
    """

    id: str
    number: int
    actor: str
    at: float
    plan: int
    mode: Mode
    follows: Follows
    touched: float
    steps: list[Step] = field(default_factory=list)
    keys: dict[str, int] = field(default_factory=dict)
    closed: str | None = None

    @property
    def n_told(self) -> int:
        """Number of steps whose outcome is known."""
        return sum(step.told is not None for step in self.steps)

    @property
    def first_missing(self) -> int:
        """Number of the first step without an outcome; the number of steps if all have one."""
        for number, step in enumerate(self.steps):
            if step.told is None:
                return number
        return len(self.steps)

    @property
    def waits_for(self) -> tuple[int, ...]:
        """What comes next: the number of the first question without an outcome, else the steps that there are."""
        first = self.first_missing
        return (first,) if first < len(self.steps) else (first, self.n_told)

    def state_after(self, number: int) -> int | None:
        """Return the state after a step, as far as its outcome or the next question gives it."""
        told = self.steps[number].told
        if told is not None:
            return told.following
        return self.steps[number + 1].state if number + 1 < len(self.steps) else None

    def summary(self) -> dict[str, Any]:
        """Return what is to be said about the episode in one line, as plain data."""
        return {
            "episode": self.id,
            "actor": self.actor,
            "opened_at": self.at,
            "touched_at": self.touched,
            "plan": self.plan,
            "mode": self.mode,
            "steps": len(self.steps),
            "reported": self.n_told,
            "closed": self.closed,
        }

    def to_plain(self) -> dict[str, Any]:
        """Return the episode as plain data."""
        return asdict(self)

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> EpisodeState:
        """Return the episode that `to_plain` wrote."""
        steps = [
            Step(
                None if step["asked"] is None else _asked(step["asked"]),
                None if step["told"] is None else Told(*step["told"]),
            )
            for step in data["steps"]
        ]
        return cls(**{**data, "steps": steps})


def _asked(parts: list[Any]) -> Asked:
    state, allowed, action, advised, at = parts
    return Asked(state, None if allowed is None else tuple(allowed), action, advised, at)


def misfit(event: Event) -> StoreError:
    """Return the refusal of a log with an event that cannot follow those before it."""
    about = "" if event.episode is None else f" about episode {event.episode}"
    words = f"event {event.seq} of the log ({event.kind}{about}) does not follow from the events before it"
    return StoreError(f"{words}: the log was changed, or parts of two logs were mixed. Restore a backup")


class Projection:
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
        """Return the projection as plain data, for checkpoints."""
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
    def from_plain(cls, data: dict[str, Any]) -> Projection:
        """Return the projection that `to_plain` wrote."""
        projection = cls(data["mode"])
        projection.seq, projection.digest = data["seq"], data.get("digest", "")
        projection.n_opened, projection.plan, projection.alarm = data["n_opened"], data["plan"], data["alarm"]
        projection.mode_by_request = data["mode_by_request"]
        projection.counts = dict(data["counts"])
        for plain in data["episodes"]:
            episode = EpisodeState.from_plain(plain)
            projection.episodes[episode.id] = episode
        return projection


_OF_EPISODES: dict[str, Callable[[Projection, Event], EpisodeState | None]] = {
    "asked": Projection._ask,
    "told": Projection._tell,
    "ended": Projection._close,
    "abandoned": Projection._close,
    "timed_out": Projection._close,
}
