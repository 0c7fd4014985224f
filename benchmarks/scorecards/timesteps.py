"""The protocol of dm_env, as far as the scorecards use it, so that dm_env need not be installed."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail

__all__ = ["SteppedEnv", "TimeStep", "flat", "number_of_actions", "reward_of"]


class TimeStep(Protocol):
    """What an environment says after `reset` and after each step.

    Attributes:
        observation: Array of any shape.
        reward: Reward of the step; None after `reset`.
        discount: Weight of what follows; 0 where the episode terminated; None after `reset`.
    """

    observation: Any
    reward: Any
    discount: Any

    def last(self) -> bool:
        """Return whether the episode ended."""


class SteppedEnv(Protocol):
    """An environment of dm_env."""

    def reset(self) -> TimeStep:
        """Begin an episode."""

    def step(self, action: int) -> TimeStep:
        """Take an action."""

    def action_spec(self) -> Any:
        """Return the specification of actions; `num_values` is their number."""


def number_of_actions(env: SteppedEnv) -> int:
    """Return the number of actions, or refuse an environment whose actions are not discrete."""
    count = getattr(env.action_spec(), "num_values", None)
    if count is None:
        fail("env", "must have discrete actions", env.action_spec(), "Choose another experiment.")
    return int(count)


def flat(step: TimeStep) -> NDArray[np.float64]:
    """Return the observation as a vector."""
    return np.asarray(step.observation, dtype=np.float64).ravel()


def reward_of(step: TimeStep) -> float:
    """Return the reward of a step, or refuse a discount between 0 and 1, which sums of rewards would ignore."""
    if step.discount is not None and 0.0 < float(step.discount) < 1.0:
        fail("discount", "must be 1, or 0 at the end", step.discount, "Undiscounted episodes only.")
    return float(step.reward)
