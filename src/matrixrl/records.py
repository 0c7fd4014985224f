"""Frozen records that the layers of the library exchange, with the shape of every array."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matrixrl.display import Described, confidence, html_table, in_digits, printable
from matrixrl.errors import InvalidInput
from matrixrl.measurement import held

__all__ = [
    "BoolArray",
    "Bounds",
    "Certificate",
    "Comparison",
    "Episode",
    "FloatArray",
    "Guarantee",
    "History",
    "HistoryLog",
    "IntArray",
    "Plan",
    "RegretBound",
    "RegretCertificate",
    "Steps",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[Any]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Whether a statement is proven; the truth value is `holds`.

    ``first and second`` is therefore the first of two guarantees that does not hold, or the last one.

    Attributes:
        holds: Whether the statement is proven, under the assumptions of the object that makes it.
        reason: Why it is not proven; empty if it is.

    >>> found = Guarantee(True) and Guarantee(False, "exploration 0.5 is below 1")
    >>> bool(found), str(found)
    (False, 'not proven: exploration 0.5 is below 1')
    """

    holds: bool
    reason: str = ""

    def __post_init__(self) -> None:
        if type(self.holds) is not bool or not isinstance(self.reason, str) or self.holds == bool(self.reason):
            rule = "must have a reason exactly if it does not hold: Guarantee(True) or Guarantee(False, 'the reason')"
            raise InvalidInput(f"guarantee {rule}; got Guarantee({self.holds!r}, {self.reason!r})")

    @classmethod
    def unless(cls, *reasons: str | None) -> Guarantee:
        """Return a guarantee that holds unless a reason is given; the first one counts."""
        reason = next(filter(None, reasons), "")
        return cls(not reason, reason)

    @classmethod
    def of(cls, owner: object) -> Guarantee:
        """Return `owner.guarantee`; any other object than a guarantee would be true without being one.

        Raises:
            InvalidInput: A user's own class declares something else.
        """
        found = owner.guarantee  # type: ignore[attr-defined]
        if not isinstance(found, cls):
            raise InvalidInput(
                f"{type(owner).__name__}.guarantee must be a matrixrl.Guarantee; got {found!r}. "
                "Write Guarantee(True) or Guarantee(False, 'the reason')."
            )
        return found

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return "proven" if self.holds else f"not proven: {self.reason}"

    def as_dict(self) -> dict[str, Any]:
        """Return both entries by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Steps:
    """Up to k steps of one episode in each of B replicas.

    Attributes:
        states: (B, k, …) States before each step: numbers or vectors.
        actions: (B, k) Actions, counted from 0.
        rewards: (B, k) Rewards in the environment's unit; 0 for a step that was not taken.
        next_states: (B, k, …) States after each step.
        ended: (B, k) Whether the environment terminated the episode with this step.
        taken: (B, k) Whether the step was taken; False after the end of an episode.
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
        """Return steps of arrays in the types of `Steps`; by default, all were taken and none ended the episode."""
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
        """Weights (B, k) of the steps: 1 if the step was taken, else 0."""
        return self.taken.astype(np.float64)

    def cut(self, length: int) -> Steps:
        """Return the first `length` steps."""
        return Steps(*(array[:, :length] for array in self._arrays()))

    def padded(self, length: int, *, before: bool = False) -> Steps:
        """Return `length` steps, with some that were not taken after these, or before them."""
        missing = length - self.actions.shape[1]
        if missing <= 0:
            return self

        def pad(array: NDArray[Any]) -> NDArray[Any]:
            nothing = np.zeros((array.shape[0], missing, *array.shape[2:]), dtype=array.dtype)
            return np.concatenate([nothing, array] if before else [array, nothing], axis=1)

        return Steps(*(pad(array) for array in self._arrays()))

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return self.states, self.actions, self.rewards, self.next_states, self.ended, self.taken


class Bounds(NamedTuple):
    """Bounds of a certificate for B replicas, in the environment's unit.

    Attributes:
        upper: (B,) Upper bound on V*(s0).
        lower: (B,) Lower bound on the value V^π(s0) of the policy.
        empty: (B,) Number of pairs that raise the misspecification alarm.
        optimal_lower: (B,) Lower bound on V*(s0), which may exceed V^π(s0); None if none but `lower` is known.
    """

    upper: FloatArray
    lower: FloatArray
    empty: IntArray
    optimal_lower: FloatArray | None = None

    def certificate(self, replica: int, delta: float, guarantee: Guarantee, start: str) -> Certificate:
        """Return the certificate of one replica."""
        optimal = None if self.optimal_lower is None else float(self.optimal_lower[replica])
        upper, lower = float(self.upper[replica]), float(self.lower[replica])
        return Certificate(upper, lower, delta, guarantee, optimal, start)


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of optimistic backward induction for B replicas.

    Attributes:
        policy: (B, H, S) Action to play at each stage and state.
        values: (B, H+1, S) Optimistic values in unit reward; `values[:, H]` is zero.
        empty: (B,) Number of pairs with an empty confidence set (misspecification alarm).
    """

    policy: IntArray
    values: FloatArray
    empty: IntArray

    def updated(self, fresh: Plan, due: BoolArray) -> Plan:
        """Return a plan with the replicas of `fresh` where `due` (B,) is True, and of this plan elsewhere."""
        tables = due[:, None, None]
        policy, values = np.where(tables, fresh.policy, self.policy), np.where(tables, fresh.values, self.values)
        return Plan(policy, values, np.where(due, fresh.empty, self.empty))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the plan by name, for saving."""
        return {"policy": self.policy, "values": self.values, "empty": self.empty}


@dataclass(frozen=True, slots=True)
class Certificate:
    """Bounds on V*(s0) and on the value of a policy, computed without a simulator (docs/proofs.md, section 6).

    s0 is the start that `start` names: values are means over it if first states are random.

    Attributes:
        upper: Upper bound on V*(s0), in the environment's unit.
        lower: Lower bound on V^π(s0) of the policy, in the environment's unit.
        delta: Probability δ with which the bounds may fail; otherwise both hold for all episodes at once.
        guarantee: Whether the bounds are proven.
        optimal_lower: Lower bound on V*(s0), in the environment's unit, from a set that bounds V* on both sides; it may
            exceed V^π(s0). None if no bound but `lower` is known.
        start: Start that the bounds are about, in words: the declared one, the distribution of first states as it was
            estimated, or a state that was named. Empty if it is not known.
    """

    upper: float
    lower: float
    delta: float
    guarantee: Guarantee
    optimal_lower: float | None = None
    start: str = ""

    @property
    def gap(self) -> float:
        """Upper bound on V*(s0) − V^π(s0), in the environment's unit."""
        return self.upper - self.lower

    @property
    def optimal_interval(self) -> tuple[float, float]:
        """Interval that contains V*(s0); V^π(s0) may be below it. V* is at least V^π, so `lower` bounds it too."""
        known = self.lower if self.optimal_lower is None else max(self.lower, self.optimal_lower)
        return known, self.upper

    def __str__(self) -> str:
        bounds = f"the policy earns at least {self.lower:.4g}, and no policy more than {self.upper:.4g}"
        bounds += f" (start: {self.start})" if self.start else ""
        if self.guarantee:
            return f"with probability {confidence(self.delta)} {bounds}"
        return f"not proven ({self.guarantee.reason}): {bounds}"

    def _repr_html_(self) -> str:
        """Return the certificate as a table, as notebooks show it."""
        low, high = self.optimal_interval
        rows = {
            "value of the policy": f"at least {self.lower:.4g}",
            "value of the best policy V*(s0)": f"{low:.4g} to {high:.4g}",
            "distance from optimal": f"at most {self.gap:.4g}",
            "start": self.start or "not known",
            **_claim(self.delta, self.guarantee),
        }
        return html_table("Certificate", rows)

    def as_dict(self) -> dict[str, Any]:
        """Return upper, lower, gap, the interval of V*, delta, guarantee and start by name."""
        return {
            "upper": self.upper,
            "lower": self.lower,
            "gap": self.gap,
            "optimal_interval": list(self.optimal_interval),
            "delta": self.delta,
            "guarantee": self.guarantee.as_dict(),
            "start": self.start,
        }


@dataclass(frozen=True, slots=True)
class RegretCertificate:
    """An upper bound on the regret of all episodes so far, from realised returns (docs/proofs.md, section 11).

    Attributes:
        upper: Upper bound on Σ V*(s0) − V^π(s0) over the episodes, in the environment's unit.
        n_episodes: Number of episodes N.
        earned: Sum of the returns, in the environment's unit.
        deviation: What chance along the played steps may have added to the sum of returns.
        delta: Probability with which the bound may fail: δ for V*, and δ for chance along the played steps.
        guarantee: Whether the bound is proven.
        start: Start s0 that the bound is about, in words.
    """

    upper: float
    n_episodes: int
    earned: float
    deviation: float
    delta: float
    guarantee: Guarantee
    start: str = ""

    @property
    def per_episode(self) -> float:
        """Upper bound on the mean regret of an episode, in the environment's unit."""
        return self.upper / max(self.n_episodes, 1)

    def _repr_html_(self) -> str:
        """Return the certificate as a table, as notebooks show it."""
        rows = {
            "regret": f"at most {in_digits(self.upper)} in {self.n_episodes:,} episodes",
            "of an episode": f"at most {self.per_episode:.4g}",
            "earned": self.earned,
            "start": self.start or "not known",
            **_claim(self.delta, self.guarantee),
        }
        return html_table("RegretCertificate", rows)


@dataclass(frozen=True, slots=True)
class RegretBound:
    """What the regret of the episodes so far is proven not to exceed (docs/proofs.md, sections 7, 7.1 and 9.5).

    Attributes:
        total: R(N) + Γ, or the largest possible regret if that is less, in the environment's unit; None if nothing is
            proven.
        a_priori: R(N), which is known before any data, in the environment's unit; it may exceed the largest possible
            regret. None if nothing is proven.
        gaps: Γ, by how much what was played fell short of the optimistic values of the agent's plans, in the
            environment's unit; 0 if all actions were the agent's own.
        n_episodes: Number of episodes N.
        delta: Probability with which the bound may fail: δ for the radii, and δ for chance along the played steps.
        guarantee: Whether the bound is proven.
    """

    total: float | None
    a_priori: float | None
    gaps: float
    n_episodes: int
    delta: float
    guarantee: Guarantee

    @property
    def probability(self) -> float:
        """Probability with which the bound holds, at a number N that is not chosen by what the episodes show."""
        return 1.0 - self.delta

    @property
    def about(self) -> str:
        """Definition of the regret that is bounded, in words."""
        return (
            "the sum over the episodes of V*(s0) − E(return | what came before), where s0 is the first state of the "
            "episode, or the declared start if first states are drawn from it; steps that were not played count with "
            "the smallest reward"
        )

    def __str__(self) -> str:
        if self.total is None:
            return f"no regret bound is proven ({self.guarantee.reason})"
        return (
            f"with probability {self.probability:g} the regret of {self.n_episodes:,} episodes is at most "
            f"{in_digits(self.total)}: {in_digits(self.a_priori or 0.0)} and gaps of {in_digits(self.gaps)}"
        )

    def _repr_html_(self) -> str:
        """Return the bound as a table, as notebooks show it."""
        total, before = ("no bound" if one is None else in_digits(one) for one in (self.total, self.a_priori))
        rows: dict[str, object] = {
            f"regret of {self.n_episodes:,} episodes is at most": total,
            "known before any data": before,
            "gaps of what was played": in_digits(self.gaps),
            "regret is": self.about,
            **_claim(self.delta, self.guarantee),
        }
        return html_table("RegretBound", rows)

    def as_dict(self) -> dict[str, Any]:
        """Return all entries by name."""
        return asdict(self) | {"about": self.about}


def _claim(delta: float, guarantee: Guarantee) -> dict[str, object]:
    """Return what is claimed about bounds, as rows of a table."""
    return {"holds with probability": confidence(delta), "guarantee": guarantee}


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """An interval of V^policy(s0) − V^incumbent(s0), in the environment's unit (docs/proofs.md, section 12).

    Attributes:
        lower: Lower bound on the difference.
        upper: Upper bound on the difference.
        policy: Lower and upper bound on V^policy(s0).
        incumbent: Lower and upper bound on V^incumbent(s0).
        delta: Probability δ with which any of the bounds of the agent may fail, those of all its comparisons included.
        guarantee: Whether the bounds are proven.
        start: Start s0 that the bounds are about, in words, as in `Certificate`.

    >>> Comparison(0.5, 2.0, policy=(3.0, 4.0), incumbent=(1.5, 2.5), delta=0.05, guarantee=Guarantee(True))
    <Comparison: with probability 0.95 the policy earns 0.5 to 2 more than the incumbent in an episode: it is better>
    """

    lower: float
    upper: float
    policy: tuple[float, float]
    incumbent: tuple[float, float]
    delta: float
    guarantee: Guarantee
    start: str = ""

    @property
    def probably_better(self) -> bool:
        """Whether the policy is proven to earn more than the incumbent, with probability 1 − δ."""
        return self.guarantee.holds and self.lower > 0.0

    @property
    def probably_worse(self) -> bool:
        """Whether the policy is proven to earn less than the incumbent, with probability 1 − δ."""
        return self.guarantee.holds and self.upper < 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the bounds, delta, guarantee, the verdict and the start by name."""
        bounds = {"policy": list(self.policy), "incumbent": list(self.incumbent)}
        verdict = {"probably_better": self.probably_better, "probably_worse": self.probably_worse}
        return asdict(self) | bounds | verdict

    def __repr__(self) -> str:
        what = f"the policy earns {self._interval()} the incumbent in an episode"
        what += f" (start: {printable(self.start)})" if self.start else ""
        if not self.guarantee:
            return f"<Comparison: estimated, not proven: {what} ({printable(self.guarantee.reason)})>"
        verdict = "more data are needed to tell which one is better"
        if self.lower == self.upper == 0.0:
            verdict = "they have the same value"
        elif self.lower > 0.0:
            verdict = "it is better"
        elif self.upper < 0.0:
            verdict = "it is worse"
        return f"<Comparison: with probability {confidence(self.delta)} {what}: {verdict}>"

    def _repr_html_(self) -> str:
        """Return the comparison as a table, as notebooks show it."""
        rows = {
            "value of the policy": "{:.4g} to {:.4g}".format(*self.policy),
            "value of the incumbent": "{:.4g} to {:.4g}".format(*self.incumbent),
            "difference": f"{self.lower:.4g} to {self.upper:.4g}",
            "start": self.start or "not known",
            **_claim(self.delta, self.guarantee),
        }
        return html_table(repr(self)[1:-1], rows)

    def _interval(self) -> str:
        """Return the interval in words that go on with "the incumbent"."""
        low, high = f"{abs(self.lower):.4g}", f"{abs(self.upper):.4g}"
        if self.lower == self.upper == 0.0:
            return "as much as"
        if self.lower >= 0.0:
            return f"{low} to {high} more than"
        if self.upper <= 0.0:
            return f"{high} to {low} less than"
        return f"between {low} less and {high} more than"


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
            words += f", mean return {self.returns.mean():.4g}"
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
            facts["last certificate"] = f"{certified[-1, 0]:.4g} to {certified[-1, 1]:.4g}"
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
