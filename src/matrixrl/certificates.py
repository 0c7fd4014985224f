"""What is proven, as users read it: certificates, bounds on the regret, and comparisons of two policies."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from matrixrl.display import confidence, html_table, in_digits, printable
from matrixrl.records import Bounds, Guarantee

__all__ = ["Certificate", "Comparison", "RegretBound", "RegretCertificate"]


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

    @classmethod
    def of(cls, bounds: Bounds, replica: int, delta: float, guarantee: Guarantee, start: str) -> Certificate:
        """Return the certificate of one replica."""
        optimal = None if bounds.optimal_lower is None else float(bounds.optimal_lower[replica])
        return cls(float(bounds.upper[replica]), float(bounds.lower[replica]), delta, guarantee, optimal, start)

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
            environment's unit; 0 if all plans were optimistic and all actions the agent's own.
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
