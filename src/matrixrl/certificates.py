"""What is proven, as users read it: certificates, bounds on the regret, and comparisons of two policies."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from matrixrl.checks import file_path
from matrixrl.display import confidence, html_table, in_digits, printable
from matrixrl.errors import ProtocolError
from matrixrl.records import Bounds, Guarantee

__all__ = ["Certificate", "Comparison", "Forecast", "LossBound", "PolicyCertificate"]
__all__ += ["RegretBound", "RegretCertificate"]


_STATIONARY = "assumes that nothing changes"


class _Estimated:
    """Bounds with an estimate beside them, and with what is possible without data; fields are those of subclasses."""

    __slots__ = ()
    lower: float
    upper: float
    delta: float
    guarantee: Guarantee
    start: str
    estimate: float | None
    trivial: tuple[float, float] | None
    about: str

    @property
    def share_left(self) -> float | None:
        """Share of what is possible without data that is left; None if that is not known."""
        if self.trivial is None or not self.trivial[1] > self.trivial[0]:
            return None
        return (self.upper - self.lower) / (self.trivial[1] - self.trivial[0])

    def save(self, path: str | os.PathLike[str]) -> tuple[float, float]:
        """Write what proves the bounds to a JSON file that ``python -m matrixrl.check`` reads, and return them.

        The checker needs neither matrixrl nor NumPy, and solves nothing: it recomputes every bound from the counts, the
        parts of δ and the numbers ν of the file. The bounds of the file are those that the model had when the
        certificate was made. They are wider than those of the certificate if its bounds come from returns, or from
        earlier data.

        Args:
            path: The file; it is written completely or not at all.

        Returns:
            The lower and the upper bound that the file proves, rounded outwards.

        Raises:
            ProtocolError: Nothing is proven, or the bounds are no sums over counts: only those of likelihood sets for
                policies without chance can be saved.
            CheckpointError: The file cannot be written.

        >>> import matrixrl, tempfile, pathlib
        >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
        >>> _ = agent.learn(n_episodes=20)
        >>> found = agent.certificate()
        >>> lower, upper = found.save(pathlib.Path(tempfile.mkdtemp()) / "certificate.json")
        >>> bool(lower <= found.lower and found.upper <= upper)
        True
        """
        target, witness = file_path("path", path), getattr(self, "witness", None)
        if not self.guarantee:
            raise ProtocolError(f"a certificate that is not proven cannot be saved: {self.guarantee.reason}")
        if getattr(self, "basis", "model") == "returns":
            raise ProtocolError("this certificate cannot be saved: its bounds come from returns, not from counts")
        if witness is None or isinstance(witness, str):
            reason = witness or "it was loaded, or was not made by an agent on numbered states"
            if isinstance(self, Comparison):
                reason = "the file is about one policy; save agent.certify(policy) of each"
            raise ProtocolError(f"this {type(self).__name__} cannot be saved with what proves it: {reason}")
        upper_of = "best" if isinstance(self, Certificate) else "policy"
        found: tuple[float, float] = witness.write(target, about=self.about, start=self.start, upper_of=upper_of)
        return found

    def _said(self, bounds: str) -> str:
        """Return bounds in words, with everything else that is known."""
        bounds += f" (start: {self.start})" if self.start else ""
        bounds += "" if self.share_left is None else f", {100.0 * self.share_left:.3g} % of what is possible"
        bounds += "" if self.estimate is None else f"; estimated {in_digits(self.estimate)}"
        if self.guarantee:
            return f"with probability {confidence(self.delta)} {bounds}; {_STATIONARY}"
        return f"not proven ({self.guarantee.reason}): {bounds}"

    def _rows(self) -> dict[str, object]:
        """Return everything besides bounds, as rows of a table."""
        rows: dict[str, object] = {}
        if self.estimate is not None:
            rows["estimate, which is no bound"] = in_digits(self.estimate)
        if self.trivial is not None:
            left = "" if self.share_left is None else f"; {100.0 * self.share_left:.3g} % of that is left"
            rows["possible without data"] = f"{_range(self.trivial)}{left}"
        rows |= {"about": self.about} if self.about else {}
        rows["assumes"] = "that nothing changes"
        return rows | {"start": self.start or "not known", **_claim(self.delta, self.guarantee)}

    def _entries(self) -> dict[str, Any]:
        """Return what is estimated by name, as plain data."""
        trivial = None if self.trivial is None else list(self.trivial)
        return {"estimate": self.estimate, "trivial": trivial, "share_left": self.share_left, "about": self.about}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {printable(self)}>"


@dataclass(frozen=True, slots=True, repr=False)
class Certificate(_Estimated):
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
        estimate: What the policy is estimated to earn, which is no bound; None if it is not known.
        trivial: Smallest value of the policy and largest of any that are possible without data; None if not known.
        about: Policy that is meant, and the data, in words; empty if it is not known.
        witness: What `save` writes, or why it cannot; None if nothing is known.
    """

    upper: float
    lower: float
    delta: float
    guarantee: Guarantee
    optimal_lower: float | None = None
    start: str = ""
    estimate: float | None = None
    trivial: tuple[float, float] | None = None
    about: str = ""
    witness: Any = field(default=None, compare=False)

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
        bounds = f"the policy earns at least {in_digits(self.lower)}, and no policy more than {in_digits(self.upper)}"
        return self._said(bounds)

    def _repr_html_(self) -> str:
        rows = {
            "value of the policy": f"at least {in_digits(self.lower)}",
            "value of the best policy V*(s0)": _range(self.optimal_interval),
            "distance from optimal": f"at most {in_digits(self.gap)}",
            **self._rows(),
        }
        return html_table("Certificate", rows)

    def as_dict(self) -> dict[str, Any]:
        """Return upper, lower, gap, the interval of V*, delta, guarantee, start and what is estimated by name."""
        return {
            "upper": self.upper,
            "lower": self.lower,
            "gap": self.gap,
            "optimal_interval": list(self.optimal_interval),
            "delta": self.delta,
            "guarantee": self.guarantee.as_dict(),
            "start": self.start,
            **self._entries(),
        }


@dataclass(frozen=True, slots=True, repr=False)
class PolicyCertificate(_Estimated):
    """Bounds on the value of one given policy, from both sides (docs/proofs.md, sections 11.5 and 12).

    Attributes:
        lower: Lower bound on V^π(s0), in the environment's unit.
        upper: Upper bound on V^π(s0).
        delta: Probability δ with which the bounds may fail, after any number of episodes.
        guarantee: Whether the bounds are proven.
        basis: What they come from: `model` (the confidence set), `returns` (what episodes of the policy earned), or
            `model and returns`, the tighter one on each side.
        estimate: What the policy is estimated to earn, which is no bound: its mean return, or its value in the
            estimated model; None if neither is known.
        trivial: What V^π(s0) is between without data.
        n_episodes: Number of episodes that count for the policy.
        about: Policy that is meant, and the data, in words.
        start: Start s0 that the bounds are about, in words, as in `Certificate`.
        digest: SHA-256 of the actions of the policy, as hexadecimal digits.
        witness: As in `Certificate`.

    >>> PolicyCertificate(6640.0, 6765.0, 0.05, Guarantee(True), "returns", 6702.1, (-1087.0, 18601.0), 1200)
    <PolicyCertificate: with probability 0.95 it earns 6,640 to 6,765, 0.635 % of what is possible; ...>
    """

    lower: float
    upper: float
    delta: float
    guarantee: Guarantee
    basis: str
    estimate: float | None
    trivial: tuple[float, float]
    n_episodes: int
    about: str = ""
    start: str = ""
    digest: str = ""
    witness: Any = field(default=None, compare=False)

    @property
    def width(self) -> float:
        """Upper less lower bound, in the environment's unit."""
        return self.upper - self.lower

    def as_dict(self) -> dict[str, Any]:
        """Return all entries by name, and the width and the share that is left."""
        entries = asdict(replace(self, witness=None)) | {"width": self.width} | self._entries()
        return {name: entry for name, entry in entries.items() if name != "witness"}

    def __str__(self) -> str:
        words = f"{self.about}: " * bool(self.about)
        return self._said(f"{words}it earns {_range((self.lower, self.upper))}")

    def _repr_html_(self) -> str:
        rows = {"value of the policy": _range((self.lower, self.upper)), "from": self.basis, **self._rows()}
        return html_table("PolicyCertificate", rows)


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
            "of an episode": f"at most {in_digits(self.per_episode)}",
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


@dataclass(frozen=True, slots=True, repr=False)
class Forecast:
    """How many more episodes it is expected to take until something is proven; nothing about it is proven itself.

    Attributes:
        goal: What is waited for, in words.
        episodes: Expected number of further episodes; 0 if it is reached, None for never at this rate.
        fewest: Lower end of the spread; None for never.
        most: Upper end of the spread; None if it may never be reached.
        assumption: What the forecast assumes about the episodes to come, in words.
        helps: What may help, in words.

    >>> Forecast("a gap of at most 2.5", 1900, 1400, 2600, "episodes go on as so far", ())
    <Forecast: a gap of at most 2.5 is expected after 1,900 more episodes (1,400 to 2,600), if episodes go on as so far>
    """

    goal: str
    episodes: int | None
    fewest: int | None
    most: int | None
    assumption: str
    helps: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return all entries by name."""
        return asdict(self) | {"helps": list(self.helps)}

    def __str__(self) -> str:
        if self.episodes == 0:
            return f"{self.goal} is reached"
        most = "never" if self.most is None else f"{self.most:,}"
        spread = f"never to {most}" if self.fewest is None else f"{self.fewest:,} to {most}"
        if self.episodes is None:
            words = f"{self.goal} is never expected at this rate"
            words += "" if self.fewest is None else f", and after {self.fewest:,} more episodes at best"
        else:
            words = f"{self.goal} is expected after {self.episodes:,} more episodes ({spread})"
        words += f", if {self.assumption}"
        return words + (f"; what may help: {'; '.join(self.helps)}" if self.helps else "")

    def __repr__(self) -> str:
        return f"<Forecast: {printable(self)}>"

    def _repr_html_(self) -> str:
        def shown(count: int | None) -> str:
            return "never at this rate" if count is None else f"{count:,}"

        rows: dict[str, object] = {
            "further episodes": shown(self.episodes),
            "spread": f"{shown(self.fewest)} to {shown(self.most)}",
            "if": self.assumption,
        }
        return html_table(
            f"Forecast: {self.goal}", rows | ({"what may help": "; ".join(self.helps)} if self.helps else {})
        )


@dataclass(frozen=True, slots=True, repr=False)
class LossBound:
    """What the policies played may have earned less than an incumbent (docs/proofs.md, section 12.1).

    Attributes:
        upper: Upper bound on Σ (V^incumbent(s0) − V^policy(s0)) over all episodes that were begun and for whose policy
            the agent decided, in the environment's unit. A negative number is a gain.
        allowed: What these episodes may lose.
        n_incumbent: Number of episodes that played the incumbent, whose difference is exactly 0.
        n_part: Number of episodes that played the incumbent, and from some stage on the agent's own policy.
        n_own: Number of episodes that played the agent's own policy.
        delta: Probability with which the bound may ever fail, for all numbers of episodes together.
        guarantee: Whether the bound is proven.
    """

    upper: float
    allowed: float
    n_incumbent: int
    n_part: int
    n_own: int
    delta: float
    guarantee: Guarantee

    @property
    def n_episodes(self) -> int:
        """Number of episodes that the bound is about."""
        return self.n_incumbent + self.n_part + self.n_own

    def __repr__(self) -> str:
        what = (
            f"{self.n_episodes:,} episode{'s' * (self.n_episodes != 1)} {self._amount()} against the incumbent (the "
            f"budget is {in_digits(self.allowed)}); {self.n_incumbent:,} played the incumbent, {self.n_part:,} a part "
            f"of the agent's policy, {self.n_own:,} all of it"
        )
        if not self.guarantee:
            return f"<LossBound: not proven: {what} ({printable(self.guarantee.reason)})>"
        return f"<LossBound: with probability {confidence(self.delta)} {what}>"

    def _repr_html_(self) -> str:
        rows: dict[str, object] = {
            "against the incumbent": self._amount(),
            "budget": in_digits(self.allowed),
            "episodes of the incumbent": f"{self.n_incumbent:,}",
            "of a part of the agent's policy": f"{self.n_part:,}",
            "of all of it": f"{self.n_own:,}",
            **_claim(self.delta, self.guarantee),
        }
        return html_table("LossBound", rows)

    def _amount(self) -> str:
        """Return what was lost or gained, in words."""
        if self.upper == 0.0:
            return "lost nothing"
        return f"{'lost at most' if self.upper > 0.0 else 'gained at least'} {in_digits(abs(self.upper))}"

    def as_dict(self) -> dict[str, Any]:
        """Return all entries by name."""
        return asdict(self)


def _range(interval: tuple[float, float]) -> str:
    return f"{in_digits(interval[0])} to {in_digits(interval[1])}"


def _claim(delta: float, guarantee: Guarantee) -> dict[str, object]:
    """Return what is claimed about bounds, as rows of a table."""
    return {"holds with probability": confidence(delta), "guarantee": guarantee}


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(_Estimated):
    """An interval of V^policy(s0) − V^incumbent(s0), in the environment's unit (docs/proofs.md, section 12).

    Attributes:
        lower: Lower bound on the difference.
        upper: Upper bound on the difference.
        policy: Lower and upper bound on V^policy(s0).
        incumbent: Lower and upper bound on V^incumbent(s0).
        delta: Probability δ with which any of the bounds of the agent may fail, those of all its comparisons included.
        guarantee: Whether the bounds are proven.
        start: Start s0 that the bounds are about, in words, as in `Certificate`.
        estimate: Estimate of the difference, which is no bound; None if it is not known.
        trivial: What the difference is between without data; None if it is not known.
        about: Policies that are meant, and the data, in words; empty if it is not known.

    >>> Comparison(0.5, 2.0, policy=(3.0, 4.0), incumbent=(1.5, 2.5), delta=0.05, guarantee=Guarantee(True))
    <Comparison: with probability 0.95 the policy earns 0.5 to 2 more than the incumbent in an episode: ...>
    """

    lower: float
    upper: float
    policy: tuple[float, float]
    incumbent: tuple[float, float]
    delta: float
    guarantee: Guarantee
    start: str = ""
    estimate: float | None = None
    trivial: tuple[float, float] | None = None
    about: str = ""

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
        bounds = {"policy": list(self.policy), "incumbent": list(self.incumbent), **self._entries()}
        verdict = {"probably_better": self.probably_better, "probably_worse": self.probably_worse}
        return asdict(self) | bounds | verdict

    def __repr__(self) -> str:
        what = f"the policy earns {self._interval()} the incumbent in an episode"
        if self.estimate is not None:
            what += f", estimated {in_digits(abs(self.estimate))} {'less' if self.estimate < 0.0 else 'more'}"
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
        return f"<Comparison: with probability {confidence(self.delta)} {what}: {verdict}; {_STATIONARY}>"

    def _repr_html_(self) -> str:
        rows = {
            "value of the policy": _range(self.policy),
            "value of the incumbent": _range(self.incumbent),
            "difference": _range((self.lower, self.upper)),
            **self._rows(),
        }
        return html_table(repr(self)[1:-1], rows)

    def _interval(self) -> str:
        """Return the interval in words that go on with "the incumbent"."""
        low, high = in_digits(abs(self.lower)), in_digits(abs(self.upper))
        if self.lower == self.upper == 0.0:
            return "as much as"
        if self.lower >= 0.0:
            return f"{low} to {high} more than"
        if self.upper <= 0.0:
            return f"{high} to {low} less than"
        return f"between {low} less and {high} more than"
