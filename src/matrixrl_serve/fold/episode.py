"""An episode as the log has it: questions, answers and outcomes, in any order."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from matrixrl_serve.problem import Mode

__all__ = ["EPISODE_NAME", "Asked", "EpisodeState", "Follows", "Step", "Told"]

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

    def is_complete(self, horizon: int) -> bool:
        """Say whether nothing can follow: all outcomes are known, and the last one ends the episode."""
        if not self.steps or any(step.told is None for step in self.steps):
            return False
        last = self.steps[-1].told
        return len(self.steps) == horizon or (last is not None and last.terminated)

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
