"""What a service answers, as typed records that JSON can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ActionBounds", "Answer", "Closed", "Opened", "Recorded"]


@dataclass(frozen=True, slots=True)
class Opened:
    """An episode was opened.

    Attributes:
        episode: Name of the episode.
        plan: Version of the plan that it keeps.
        mode: Mode in which it was opened.
        follows: Whose actions its answers are: plan, recommended or incumbent.
        horizon: Largest number of steps.
        repeated: Whether the same request had been answered before.
    """

    episode: str
    plan: int
    mode: str
    follows: str
    horizon: int
    repeated: bool = False


@dataclass(slots=True, unsafe_hash=True)  # a frozen one takes four times as long, and an answer has one for each action
class ActionBounds:
    """Bounds on what the rest of an episode earns after an action, if the best actions follow.

    Attributes:
        action: The action.
        lower: Lower bound.
        upper: Upper bound.
    """

    action: Any
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question.

    Attributes:
        episode: Name of the episode.
        step: Number of the step, counted from 0.
        action: What to do; None if the incumbent decides and its policy is not known to the service.
        plan: Version of the plan that was read.
        mode: Mode in which the episode was opened.
        propensity: Probability with which this action was chosen, given the plan.
        advised: In shadow mode, what the learner would do.
        why: Bounds of every allowed action; None if the plan is not at hand any more.
        repeated: Whether the same question had been answered before.
    """

    episode: str
    step: int
    action: Any
    plan: int
    mode: str
    propensity: float
    advised: Any = None
    why: tuple[ActionBounds, ...] | None = None
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """An outcome was recorded.

    Attributes:
        episode: Name of the episode.
        step: Number of the step, counted from 0.
        ended: Whether the episode is over.
        repeated: Whether the same outcome had been recorded before.
    """

    episode: str
    step: int
    ended: bool
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Closed:
    """An episode is over.

    Attributes:
        episode: Name of the episode.
        how: ended, abandoned or timed_out.
        steps: Number of steps whose outcome was reported.
        repeated: Whether it was over before.
    """

    episode: str
    how: str
    steps: int
    repeated: bool = False
