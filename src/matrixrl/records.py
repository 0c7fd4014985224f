"""Plain data that passes between the layers: frozen, with every shape written down."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import index

__all__ = [
    "BoolArray",
    "Bounds",
    "Certificate",
    "Episode",
    "FloatArray",
    "History",
    "HistoryLog",
    "IntArray",
    "Plan",
    "Policy",
    "Steps",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[Any]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Steps:
    """Up to k steps of one episode in each of B replicas.

    Attributes:
        states: (B, k, …) states before each step: numbers, or vectors.
        actions: (B, k) actions, counted from 0.
        rewards: (B, k) rewards in the environment's unit; 0 for a step that was not taken.
        next_states: (B, k, …) states after each step.
        ended: (B, k) whether the environment terminated the episode with this step.
        taken: (B, k) whether the step was taken; False after the end of an episode.
    """

    states: NDArray[Any]
    actions: IntArray
    rewards: FloatArray
    next_states: NDArray[Any]
    ended: BoolArray
    taken: BoolArray

    @classmethod
    def of(
        cls,
        states: NDArray[Any],
        actions: NDArray[Any],
        rewards: NDArray[Any],
        next_states: NDArray[Any],
        ended: NDArray[Any] | None = None,
        taken: NDArray[Any] | None = None,
    ) -> Steps:
        """Return steps that were all taken, and of which none ended the episode, unless the arguments say otherwise."""
        actions = np.asarray(actions)
        no, yes = np.zeros(actions.shape, dtype=np.bool_), np.ones(actions.shape, dtype=np.bool_)
        return cls(
            np.asarray(states),
            actions,
            np.asarray(rewards, dtype=np.float64),
            np.asarray(next_states),
            no if ended is None else np.asarray(ended, dtype=np.bool_),
            yes if taken is None else np.asarray(taken, dtype=np.bool_),
        )

    @property
    def weights(self) -> FloatArray:
        """(B, k) 1 for a step that was taken, else 0."""
        return self.taken.astype(np.float64)

    def padded(self, length: int) -> Steps:
        """Return the same steps followed by steps that were not taken, up to `length`."""
        missing = length - self.actions.shape[1]
        if missing <= 0:
            return self

        def pad(array: NDArray[Any]) -> NDArray[Any]:
            shape = (array.shape[0], missing, *array.shape[2:])
            return np.concatenate([array, np.zeros(shape, dtype=array.dtype)], axis=1)

        parts = (self.states, self.actions, self.rewards, self.next_states, self.ended, self.taken)
        return Steps(*(pad(array) for array in parts))


class Bounds(NamedTuple):
    """Bounds of a certificate for B replicas, in the environment's unit.

    Attributes:
        upper: (B,) V*(s0) is at most this.
        lower: (B,) the value of the policy is at least this.
        empty: (B,) number of pairs that raise the misspecification alarm.
    """

    upper: FloatArray
    lower: FloatArray
    empty: IntArray


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

    def updated(self, fresh: Plan, due: BoolArray) -> Plan:
        """Return the plans of `fresh` where `due` (B,), and these elsewhere."""
        tables = due[:, None, None]
        return Plan(
            policy=np.where(tables, fresh.policy, self.policy),
            values=np.where(tables, fresh.values, self.values),
            empty=np.where(due, fresh.empty, self.empty),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the plan as named arrays, for saving."""
        return {"policy": self.policy, "values": self.values, "empty": self.empty}


@dataclass(frozen=True, slots=True)
class Policy:
    """A deterministic policy of a problem with numbered states.

    Attributes:
        table: (H, S) the action of each stage and state, counted from 0.
        description: Which policy it is.
        first_state: Number that the environment gives to its first state.
        first_action: Number that the environment gives to its first action.
    """

    table: IntArray
    description: str
    first_state: int = 0
    first_action: int = 0

    def action(self, state: int, stage: int) -> int:
        """Return the environment's action at one of its states."""
        horizon, n_states = self.table.shape
        h = index("stage", stage, size=horizon, remedy="Stages count from 0.")
        s = index("state", state, size=n_states, first=self.first_state, remedy="Give a state of observation_space.")
        return int(self.table[h, s - self.first_state]) + self.first_action

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> IntArray:
        """Return the table."""
        return np.array(self.table, dtype=dtype, copy=copy)


@dataclass(frozen=True, slots=True)
class Certificate:
    """How far from optimal a policy can still be, without a simulator (docs/proofs.md, section 6).

    Attributes:
        upper: V*(s0) is at most this.
        lower: the policy's own value is at least this.
        delta: both hold, at all times at once, with probability 1 − δ.
        guarantee: True, or why the statement does not hold.
    """

    upper: float
    lower: float
    delta: float
    guarantee: Literal[True] | str

    @property
    def gap(self) -> float:
        """The policy is within this of the optimum."""
        return self.upper - self.lower

    def as_dict(self) -> dict[str, Any]:
        """Return upper, lower, gap, delta and guarantee as plain data."""
        return {
            "upper": self.upper,
            "lower": self.lower,
            "gap": self.gap,
            "delta": self.delta,
            "guarantee": self.guarantee,
        }


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
        certificate: of the policy that was played, if it was asked for.
    """

    index: int
    episode_return: float
    length: int
    regret: float | None
    upper: float
    alarm: bool
    certificate: Certificate | None = None


@dataclass(frozen=True, slots=True)
class History:
    """An agent's life so far, one entry an episode; all in the environment's own unit.

    Attributes:
        returns: (N,) realised sums of rewards.
        lengths: (N,) steps taken.
        upper: (N,) optimistic value of the start at each plan.
        alarms: (N,) whether the misspecification alarm was on.
        regret: (N,) exact regret of each episode, NaN for one in which somebody acted otherwise than advised; None
            where the MDP is not known.
        certified: (N, 2) lower and upper bound of each episode's certificate; NaN where none was asked for.
    """

    returns: FloatArray
    lengths: IntArray
    upper: FloatArray
    alarms: BoolArray
    regret: FloatArray | None
    certified: FloatArray

    @property
    def n_episodes(self) -> int:
        """How many episodes were finished."""
        return int(self.returns.shape[0])

    @property
    def cumulative_regret(self) -> FloatArray:
        """(N,) the running sum of `regret`; YW19 (1)."""
        if self.regret is None:
            raise AttributeError(
                "cumulative_regret needs a known MDP and measure_regret=True; only returns were recorded"
            )
        return np.cumsum(self.regret)


@dataclass(slots=True)
class HistoryLog:
    """The growing form of `History`."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    alarms: list[bool] = field(default_factory=list)
    regret: list[float] = field(default_factory=list)  # NaN where the MDP was not known
    certified_lower: list[float] = field(default_factory=list)  # NaN where it was not asked for
    certified_upper: list[float] = field(default_factory=list)

    def append(self, episode: Episode) -> None:
        """Add one finished episode."""
        self.returns.append(episode.episode_return)
        self.lengths.append(episode.length)
        self.upper.append(episode.upper)
        self.alarms.append(episode.alarm)
        self.regret.append(math.nan if episode.regret is None else episode.regret)
        shown = episode.certificate
        self.certified_lower.append(math.nan if shown is None else shown.lower)
        self.certified_upper.append(math.nan if shown is None else shown.upper)

    def freeze(self) -> History:
        """Return the arrays; `regret` only if every episode has it."""
        regret = np.array(self.regret, dtype=np.float64)
        return History(
            returns=np.array(self.returns, dtype=np.float64),
            lengths=np.array(self.lengths, dtype=np.int64),
            upper=np.array(self.upper, dtype=np.float64),
            alarms=np.array(self.alarms, dtype=np.bool_),
            regret=None if np.isnan(regret).all() else regret,
            certified=np.array([self.certified_lower, self.certified_upper], dtype=np.float64).T,
        )
