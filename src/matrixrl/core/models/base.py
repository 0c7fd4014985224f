"""What every model has: data of B replicas, and the bounds on Q that follow from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.core.backup import ValueBounds
from matrixrl.core.confidence import Clock, Level
from matrixrl.features import AllowedPart, Features
from matrixrl.problems import OutcomeTables, Structure
from matrixrl.problems.reward_bounds import RewardBounds
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["Model", "ModelContext"]


@dataclass(frozen=True)
class ModelContext:
    """What a model knows of its problem and of the agent.

    Attributes:
        features: Features φ and ψ.
        unit_reward: (A, S) Rewards mapped to [0, 1]; used only if they are known.
        horizon: Number of steps H of an episode.
        n_replicas: Number of replicas B.
        delta: Probability δ with which any of the bounds may fail.
        exploration: Factor of √β of the bounds that plans use.
        known_reward: Whether rewards are known.
        switch_growth: κ: data have grown if their size is 1 + κ times what it was.
        part: φ of the allowed pairs.
        allowed: (A, S) Allowed actions; None if all are.
        end_state: State whose law is known, or None.
        choices: (H, 2) Actions that each stage has, as in `Frame`.
        dynamics: Known dynamics, with rewards mapped to [0, 1]; None if next states are drawn from unknown laws.
        structure: What is declared of the unknown laws; None if nothing is.
        reward_bounds: (S, A) Smallest and largest unit reward of each pair; None if one range is declared for all.
    """

    features: Features
    unit_reward: FloatArray
    horizon: int
    n_replicas: int
    delta: float
    exploration: float
    known_reward: bool
    switch_growth: float
    part: AllowedPart
    allowed: BoolArray | None
    end_state: int | None
    choices: IntArray
    dynamics: OutcomeTables | None = None
    structure: Structure | None = None
    reward_bounds: RewardBounds | None = None

    @cached_property
    def learned_part(self) -> tuple[FloatArray, FloatArray] | None:
        """Smallest unit rewards and the widths of what is learned of them, (A, S) each; None if all is learned.

        A unit reward is the smallest one plus the width times a learned part in [0, 1].
        """
        if self.reward_bounds is None or self.known_reward:
            return None
        low, high = (np.ascontiguousarray(side.T) for side in self.reward_bounds)
        return low, high - low


def steps_at_once(numbers_per_step: int) -> int:
    """Return how many steps, of each of which so many numbers are made, take at most 128 MB."""
    return max(1, (1 << 24) // numbers_per_step)


class Model(ABC):
    """Data of B replicas and what they say about Q.

    Attributes:
        context: What it knows of the problem and of the agent.
        revision: Number that is raised whenever the data change.
        stage_cost: Time of a stage of a plan with NumPy, in units of one with balls: it decides when compiled loops
            pay off.
    """

    stage_cost: ClassVar[float] = 1.0
    _confidence: Any = None

    def __init__(self, context: ModelContext) -> None:
        self.context = context
        self.revision = 0

    @property
    @abstractmethod
    def confidence(self) -> Any:
        """Set, radius and shares of δ, for the actions that are allowed."""

    @abstractmethod
    def forget(self) -> None:
        """Start without data (Algorithm 1, line 4)."""

    @abstractmethod
    def update(self, pairs: IntArray, next_states: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Learn from steps, each (B, T) (Algorithm 1, lines 11 and 12).

        Args:
            pairs: Numbers a·S + s of the visited pairs.
            next_states: Next states.
            rewards: Unit rewards, or the learned parts of them in [0, 1].
            weights: 1 for a step that was taken, else 0.
        """

    @abstractmethod
    def bounds(self, clock: Clock, *levels: Level) -> list[ValueBounds]:
        """Return bounds on Q from the data at hand, at each of some choices of the radius."""

    @abstractmethod
    def size(self) -> FloatArray:
        """Return how much data there is: (B,) ln det(A_n / λ), or (B, m) numbers of which the growth of any counts."""

    def logdets(self) -> FloatArray:
        """Return ln det(A_n / λ) of every replica: (B,)."""
        return self.size()

    @abstractmethod
    def widths(self) -> FloatArray:
        """Return the width w of every pair, the norm of its φ in the inverse of A_n: (B, A, S)."""

    @abstractmethod
    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the data as named arrays, for saving."""

    @abstractmethod
    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned."""

    @abstractmethod
    def has_grown(self, sizes: FloatArray, kept: FloatArray) -> BoolArray:
        """Return which sizes grew by 1 + κ since the last plan, at which they were `kept`."""

    @property
    def steps_at_once(self) -> int:
        """Number of steps that `update` may be given together, so that what it makes of them takes little memory."""
        return steps_at_once(16)

    def grew(self, kept: FloatArray) -> BoolArray:
        """Return in which replicas some size of the data grew by 1 + κ since the last plan: (B,)."""
        n = self.context.n_replicas
        grown: BoolArray = np.any(self.has_grown(self.size().reshape(n, -1), kept.reshape(n, -1)), axis=1)
        return grown

    def use_masks(self, part: AllowedPart, allowed: BoolArray | None) -> None:
        """Use other allowed actions; constants of their features follow when they are needed."""
        self.context = replace(self.context, part=part, allowed=allowed)
        self._confidence = None

    @property
    def is_refuted(self) -> BoolArray:
        """Whether data refuted the structure that was declared: (B,)."""
        return np.zeros(self.context.n_replicas, dtype=np.bool_)

    def rounding_words(self, *, regret: bool) -> str | None:
        """Return, in words, that rounding errors may matter to certificates, or to the regret bound; None if not."""
        del regret
        return None
