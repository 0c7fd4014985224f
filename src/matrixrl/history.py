"""What an agent has played: the record of each episode, and the history of all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from matrixrl.certificates import Certificate
from matrixrl.display import Described, in_digits
from matrixrl.measurement import held
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["Episode", "History", "HistoryLog"]


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished episode, the argument of callbacks.

    Attributes:
        index: Number of the episode, counted from 0 since the agent was created.
        episode_return: Sum of the rewards, in the environment's unit.
        length: Number of steps taken.
        regret: V*(s0) − V^π(s0) in the environment's unit, or None if it was not measured.
        upper: Optimistic value of the declared start, or of the episode's own first state if none is declared; an upper
            bound on V* there if the guarantee holds.
        alarm: Whether the plan of this episode found a pair whose confidence set contains no probability distribution.
        certificate: Certificate of the policy that was played, or None if none was requested.
    """

    index: int
    episode_return: float
    length: int
    regret: float | None
    upper: float
    alarm: bool
    certificate: Certificate | None = None


@dataclass(frozen=True, slots=True, repr=False)
class History(Described):
    """All finished episodes of an agent, one entry per episode, in the environment's unit.

    Attributes:
        returns: (N,) Sum of the rewards of each episode.
        lengths: (N,) Number of steps of each episode.
        upper: (N,) Optimistic value of the start in the plan of each episode.
        alarms: (N,) Whether the misspecification alarm was raised.
        regret: (N,) Exact regret of each episode; NaN for an episode that was not measured or whose actions were not
            those of the agent's policy. None if regret is known for no episode.
        certified: (N, 2) Lower and upper bound of each episode's certificate; NaN if none was requested.
        logged_returns: (M,) Sum of the rewards of each logged episode, which the agent learned from and did not play.
        logged_lengths: (M,) Number of steps of each logged episode that were learned from.
        regret_every: Number k of episodes from one whose regret is measured to the next; the first one is measured.
    """

    returns: FloatArray
    lengths: IntArray
    upper: FloatArray
    alarms: BoolArray
    regret: FloatArray | None
    certified: FloatArray
    logged_returns: FloatArray = field(default_factory=lambda: np.zeros(0))
    logged_lengths: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    regret_every: int = 1

    @property
    def n_episodes(self) -> int:
        """Number of finished episodes N that were played."""
        return int(self.returns.shape[0])

    def _words(self) -> str:
        words = f"History: {self.n_episodes:,} episodes"
        if self.n_logged_episodes:
            words += f" and {self.n_logged_episodes:,} logged ones"
        if self.n_episodes:
            words += f", mean return {in_digits(self.returns.mean())}"
        total = self._total_regret()
        return words if total is None else f"{words}, regret {in_digits(total)}"

    def _total_regret(self) -> float | None:
        """Return the regret of all episodes, or None if it is not known of all."""
        known = self.regret is not None and bool(self.n_episodes)
        total = float(self.cumulative_regret[-1]) if known else math.nan
        return None if math.isnan(total) else total

    def _facts(self) -> dict[str, object]:
        n = self.n_episodes
        facts: dict[str, object] = {"episodes": f"{n:,}", "steps": f"{int(self.lengths.sum()):,}"}
        if n:
            half = self.returns[n // 2 :]
            facts |= {"mean return": float(self.returns.mean()), "of the second half": float(half.mean())}
        total = self._total_regret()
        if total is not None:
            facts["cumulative regret"] = total
        certified = self.certified[np.isfinite(self.certified).all(axis=1)]
        if len(certified):
            facts["last certificate"] = f"{in_digits(certified[-1, 0])} to {in_digits(certified[-1, 1])}"
        if self.alarms.any():
            facts["misspecification alarm"] = f"in episode {int(np.argmax(self.alarms)) + 1:,}"
        return facts

    @property
    def n_logged_episodes(self) -> int:
        """Number of logged episodes M."""
        return int(self.logged_returns.shape[0])

    @property
    def cumulative_regret(self) -> FloatArray:
        """Cumulative sum (N,) of `regret`; YW19 (1).

        Where only every k-th episode is measured, those in between count with the last measured regret.
        """
        if self.regret is None:
            raise AttributeError(
                "cumulative_regret needs a known MDP and measure_regret=True; only returns were recorded"
            )
        return np.cumsum(held(self.regret, self.regret_every))


@dataclass(slots=True)
class HistoryLog:
    """Lists of the entries of `History`, to which finished episodes are appended."""

    regret_every: int = 1
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    alarms: list[bool] = field(default_factory=list)
    regret: list[float] = field(default_factory=list)  # NaN if it is not known
    certified_lower: list[float] = field(default_factory=list)  # NaN if no certificate was requested
    certified_upper: list[float] = field(default_factory=list)
    logged_returns: FloatArray = field(default_factory=lambda: np.zeros(0))
    logged_lengths: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def append(self, episode: Episode) -> None:
        """Append one finished episode."""
        self.returns.append(episode.episode_return)
        self.lengths.append(episode.length)
        self.upper.append(episode.upper)
        self.alarms.append(episode.alarm)
        self.regret.append(math.nan if episode.regret is None else episode.regret)
        certificate = episode.certificate
        self.certified_lower.append(math.nan if certificate is None else certificate.lower)
        self.certified_upper.append(math.nan if certificate is None else certificate.upper)

    def add_logged(self, returns: FloatArray, lengths: IntArray) -> None:
        """Append the returns and lengths of logged episodes, (m,) each."""
        self.logged_returns = np.concatenate([self.logged_returns, returns])
        self.logged_lengths = np.concatenate([self.logged_lengths, lengths])

    def freeze(self) -> History:
        """Return the history as arrays; `regret` is None if it is known for no episode."""
        regret = np.array(self.regret, dtype=np.float64)
        return History(
            returns=np.array(self.returns, dtype=np.float64),
            lengths=np.array(self.lengths, dtype=np.int64),
            upper=np.array(self.upper, dtype=np.float64),
            alarms=np.array(self.alarms, dtype=np.bool_),
            regret=None if np.isnan(regret).all() else regret,
            certified=np.array([self.certified_lower, self.certified_upper], dtype=np.float64).T,
            logged_returns=self.logged_returns,
            logged_lengths=self.logged_lengths,
            regret_every=self.regret_every,
        )
