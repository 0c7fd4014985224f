"""The first, random episodes in an environment, which say whether observations are states to number or vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scorecards.timesteps import SteppedEnv, number_of_actions, reward_of

__all__ = ["PROBE_EPISODES", "Seen", "observations_repeat", "play_at_random"]

PROBE_EPISODES = 10
LEAST_REPEATED = 0.02
"""Share of observations that an earlier episode must have had too, for observations to be numbered."""


@dataclass
class Seen:
    """One episode as it was seen.

    Attributes:
        observations: T + 1 observations, from the first to the last.
        actions: T actions.
        rewards: T rewards.
    """

    observations: list[Any]
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)


def play_at_random(env: SteppedEnv, rng: np.random.Generator) -> Seen:
    """Play one episode with actions that are equally likely."""
    n_actions = number_of_actions(env)
    step = env.reset()
    seen = Seen([np.array(step.observation)])
    while not step.last():
        seen.actions.append(int(rng.integers(n_actions)))
        step = env.step(seen.actions[-1])
        seen.rewards.append(reward_of(step))
        seen.observations.append(np.array(step.observation))
    return seen


def observations_repeat(episodes: Sequence[Seen]) -> bool:
    """Return whether observations come again in other episodes, so that numbering them is of use.

    Nothing else tells a grid from a pendulum: bsuite declares both as arrays of numbers without bounds.
    """
    known: set[bytes] = set()
    total = repeated = 0
    for episode in episodes:
        keys = {board.tobytes() for board in episode.observations}
        total, repeated = total + len(keys), repeated + len(keys & known)
        known |= keys
    return repeated >= LEAST_REPEATED * total
