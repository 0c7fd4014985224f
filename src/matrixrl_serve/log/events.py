"""Events: what happened, in one order, each with a digest that covers all events before it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["FIRST_DIGEST", "KINDS", "LEARNER", "Draft", "Event", "Kind", "canonical", "chained"]

Kind = Literal[
    "created", "opened", "asked", "told", "ended", "abandoned", "timed_out", "planned", "mode", "alarm", "token"
]
KINDS: tuple[Kind, ...] = (
    "created",
    "opened",
    "asked",
    "told",
    "ended",
    "abandoned",
    "timed_out",
    "planned",
    "mode",
    "alarm",
    "token",
)
"""Everything that can happen: docs of the log describe the body of each kind."""

LEARNER = "learner"
"""Actor of the events that the learner appends."""

_in_order = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode
_as_given = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode

FIRST_DIGEST = "0" * 64
"""Digest before the first event."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that has no place in the log yet.

    Attributes:
        kind: What happened.
        actor: Who did it: the name of a token, "local" or "learner".
        body: Plain data.
        episode: Episode that it is about.
        step: Number of the step, counted from 0, of asked and told.
        key: Idempotency key of the request.
    """

    kind: Kind
    actor: str
    body: dict[str, Any]
    episode: str | None = None
    step: int | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the log.

    Attributes:
        seq: Its number, counted from 1 in the order of commits.
        at: Time in seconds since 1970, UTC.
        kind: As in `Draft`, like the attributes that follow.
        actor: Who did it.
        episode: Episode that it is about.
        step: Number of the step.
        key: Idempotency key of the request.
        text: Body as canonical JSON.
        digest: SHA-256 of the digest of the event before and of everything above, as hexadecimal digits.
    """

    seq: int
    at: float
    kind: Kind
    actor: str
    episode: str | None
    step: int | None
    key: str | None
    text: str
    digest: str

    @property
    def body(self) -> dict[str, Any]:
        """The body as plain data."""
        found: dict[str, Any] = json.loads(self.text)
        return found

    def digest_after(self, before: str) -> str:
        """Return the digest that the event must have after another one with a digest."""
        return _digest(before, self.seq, self.at, self.kind, self.actor, self.episode, self.step, self.key, self.text)

    def follows(self, before: str) -> bool:
        """Say whether the event has the digest that it must have after another one, and its parts their types."""
        try:
            return self.digest == self.digest_after(before)
        except (TypeError, ValueError):  # bytes, or NaN, where there was text or a number
            return False

    def row(self) -> dict[str, Any]:
        """Return the event as a row of the table."""
        return {
            "seq": self.seq,
            "at": self.at,
            "kind": self.kind,
            "actor": self.actor,
            "episode": self.episode,
            "step": self.step,
            "key": self.key,
            "body": self.text,
            "digest": self.digest,
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the event as plain data, for reading."""
        return self.row() | {"body": self.body}


def chained(draft: Draft, seq: int, at: float, before: str) -> Event:
    """Return a draft as the event with a number after an event with a digest.

    >>> event = chained(Draft("opened", "local", {"plan": 1}, episode="a"), 1, 0.5, FIRST_DIGEST)
    >>> event.digest == event.digest_after(FIRST_DIGEST), event.text
    (True, '{"plan":1}')
    """
    text = canonical(draft.body)
    digest = _digest(before, seq, at, draft.kind, draft.actor, draft.episode, draft.step, draft.key, text)
    return Event(seq, at, draft.kind, draft.actor, draft.episode, draft.step, draft.key, text, digest)


def canonical(body: dict[str, Any]) -> str:
    """Return plain data as the one JSON text that stands for it."""
    return _in_order(body)


def _digest(before: str, *parts: Any) -> str:
    """Return the digest of an event; JSON separates its parts."""
    return hashlib.sha256(_as_given([before, *parts]).encode()).hexdigest()
