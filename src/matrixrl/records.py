"""Plain data that passes between the layers: frozen, with every shape written down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BoolArray", "Episode", "FloatArray", "History", "IntArray", "Plan"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[Any]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Plan:
    """What optimistic backward induction returns, for B replicas at once.

    Attributes:
        policy: (B, H, S) the action to play at each stage and state.
        values: (B, H+1, S) optimistic values in unit reward; `values[:, H]` is zero.
        empty: (B,) how many pairs had an empty confidence set (misspecification alarm).
    """

    policy: IntArray
    values: FloatArray
    empty: IntArray


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished episode, as callbacks see it.

    Attributes:
        index: 0 for the first episode of the agent's life.
        episode_return: the sum of rewards, in the environment's unit.
        length: the number of steps taken.
        regret: V*(s0) - V^pi(s0), or None where the MDP is not known.
        upper: the optimistic value of the start, an upper bound on V*(s0) while the guarantee holds.
        alarm: whether some pair's confidence set held no probability at this episode's plan.
    """

    index: int
    episode_return: float
    length: int
    regret: float | None
    upper: float
    alarm: bool


@dataclass(frozen=True, slots=True)
class History:
    """An agent's life so far, one entry an episode; all in the environment's own unit.

    Attributes:
        returns: (N,) realised sums of rewards.
        lengths: (N,) steps taken.
        upper: (N,) optimistic value of the start at each plan.
        alarms: (N,) whether the misspecification alarm was on.
        regret: (N,) exact regret of each episode, or None where the MDP is not known.
    """

    returns: FloatArray
    lengths: IntArray
    upper: FloatArray
    alarms: BoolArray
    regret: FloatArray | None = None

    @property
    def n_episodes(self) -> int:
        """How many episodes were finished."""
        return int(self.returns.shape[0])

    @property
    def cumulative_regret(self) -> FloatArray:
        """(N,) the running sum of `regret`; YW19 (1)."""
        if self.regret is None:
            raise AttributeError("cumulative_regret needs a known MDP; only returns were recorded")
        return np.cumsum(self.regret)


@dataclass(slots=True)
class HistoryLog:
    """The growing form of `History`."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    alarms: list[bool] = field(default_factory=list)
    regret: list[float] = field(default_factory=list)  # NaN where the MDP was not known

    def append(self, episode: Episode) -> None:
        """Add one finished episode."""
        self.returns.append(episode.episode_return)
        self.lengths.append(episode.length)
        self.upper.append(episode.upper)
        self.alarms.append(episode.alarm)
        self.regret.append(float("nan") if episode.regret is None else episode.regret)

    def freeze(self) -> History:
        """Return the arrays; `regret` only if every episode has it."""
        regret = np.array(self.regret, dtype=np.float64)
        return History(
            returns=np.array(self.returns, dtype=np.float64),
            lengths=np.array(self.lengths, dtype=np.int64),
            upper=np.array(self.upper, dtype=np.float64),
            alarms=np.array(self.alarms, dtype=np.bool_),
            regret=None if np.isnan(regret).any() else regret,
        )
